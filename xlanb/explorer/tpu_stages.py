"""What XLA:TPU writes in addition to HLO, as stages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial

from xlanb.dump.reader import DumpFile, ModuleFiles
from xlanb.dump.tpu.analysis import parse_deduplication
from xlanb.dump.tpu.chips import TpuChip, chip_of_target
from xlanb.dump.tpu.memory_space import MemorySpaceRecord, parse_memory_space
from xlanb.dump.tpu.names import ALLOC_INFO, BUFFER_INFO, DEDUPLICATION, HLO, SCHEDULE_INFO, TOP_LEVEL, VMEM_REPORT
from xlanb.dump.tpu.program import LloStage, ProgramFiles, TpuProgram, llo_trace, programs_of, read_program
from xlanb.dump.tpu.schedule import CodeFacts, TpuScheduleRecord, schedule_of
from xlanb.dump.tpu.vmem import parse_vmem_report
from xlanb.errors import XlanbError
from xlanb.explorer.stage import Artifact, Deferred, Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.wording import counted

_PREFETCHED = re.compile(r"copy-start\((?:[^()]*[ %])?([^()%,\s]{1,400})\), cross_program_prefetch_index=")

PIPELINE = "LLO"
"""The group name of the programs' stages."""


def tpu_stages(module: ModuleFiles, cost: Mapping[str, float]) -> Iterator[Stage]:
    """Return the stages of a module's LLO dumps: memory space assignment, schedule, each program.

    Nothing is read yet; [] without such dumps. `cost` is XLA's cost_analysis of the module, if
    known.
    """
    files = module.llo
    if not files:
        return
    reader = _TpuDumps(module, files, cost)
    makers: list[tuple[str, str, tuple[str, ...], Callable[[], Artifact], int]] = []
    if all(reader.find(label) is not None for label in (BUFFER_INFO, ALLOC_INFO, SCHEDULE_INFO)):
        makers.append(("memory_space_assignment", "memory_space_assignment", (), reader.memory_space, 0))
    if reader.find(HLO) is not None and reader.programs:
        makers.append(("tpu_schedule", "schedule", (), reader.schedule, reader.schedule_size))
    makers += [("llo", p.name, (PIPELINE,), reader.maker(p), p.size) for p in reader.programs]
    for kind, name, pipeline, make, size in makers:
        yield Stage(kind, name, None, Deferred(_readable(make, name), size), pipeline)


def _readable(make: Callable[[], Artifact], name: str) -> Callable[[], Artifact]:
    """Wrap a loader to return a text with the reason if it fails."""

    def load() -> Artifact:
        try:
            return make()
        except XlanbError as error:
            return TextRecord(name, str(error), "text", str(error))

    return load


class _TpuDumps:
    """The LLO dumps of one module."""

    def __init__(self, module: ModuleFiles, files: list[DumpFile], cost: Mapping[str, float]) -> None:
        self.module = module
        self.cost = cost
        self.files = files
        self.programs = programs_of(files)

    def find(self, label: str) -> DumpFile | None:
        """Return a dump of the top level program."""
        return next((f for f in self.files if f.name.kernel == TOP_LEVEL and f.name.label == label), None)

    @property
    def schedule_size(self) -> int:
        """The bytes that the schedule is read from."""
        hlo = self.find(HLO)
        return (hlo.content_size if hlo is not None else 0) + sum(p.size for p in self.programs) // 8

    @cached_property
    def chip(self) -> TpuChip | None:
        """The chip that was compiled for, or None if the dump does not say."""
        found = self.module.fixed("target_arguments")
        return chip_of_target(found[0].read_text()) if found else None

    @cached_property
    def served(self) -> dict[str, tuple[str, ...]]:
        """HLO instructions by the program that computes several."""
        return parse_deduplication(self._text(DEDUPLICATION))

    def _text(self, label: str) -> str:
        file = self.find(label)
        return file.read_text() if file is not None else ""

    def memory_space(self) -> MemorySpaceRecord:
        """Read what memory space assignment decided."""
        texts = (self._text(BUFFER_INFO), self._text(ALLOC_INFO), self._text(SCHEDULE_INFO))
        prefetched = tuple(_PREFETCHED.findall(self._text(HLO)))
        space = "CMEM" if self.chip is not None and self.chip.name == "v4" else "VMEM"
        capacity = self.chip.vmem_bytes if self.chip is not None and space == "VMEM" else 0
        return parse_memory_space(self.module.name, texts, space=space, capacity=capacity, prefetched=prefetched)

    def schedule(self) -> TpuScheduleRecord:
        """Read the scheduled HLO with the cost of each instruction."""
        file = self.find(HLO)
        if file is None:  # the stage exists only with the file
            raise XlanbError(f"no scheduled HLO of {self.module.name} was dumped")
        facts, calls = {}, {}
        for program in self.programs:
            analysis, use = program.analysis(), program.utilization()
            if analysis is not None:
                facts[program.name] = CodeFacts(analysis.total, analysis.empty, use.shares if use is not None else {})
                if program.name == TOP_LEVEL:
                    calls = dict(analysis.by_instruction)
        report = self._text(VMEM_REPORT)
        scoped = parse_vmem_report(report) if report else None
        own = {name: program for program, names in self.served.items() for name in names}
        found = schedule_of(file.read_hlo(), facts, own, calls, self.chip, scoped)
        return replace(found, cost_analysis=self.cost)

    def maker(self, program: ProgramFiles) -> Callable[[], TpuProgram]:
        """Return a function that reads a program."""
        return lambda: read_program(program, self.served.get(program.name, ()), self.chip)


@llo_trace.implement
def _llo_trace(program: TpuProgram) -> Trace:
    """Return a program's LLO stages; each is compared with the one before it of the same form."""
    made: list[Stage] = []
    latest: dict[str, Deferred] = {}
    for stage, changed in zip(program.stages, program.changed, strict=True):
        before = latest.get(stage.form)
        if before is None or changed:
            after = Deferred(partial(_stage_text, stage), stage.file.content_size // 10)
        else:
            after = before
        count = counted(stage.fingerprint.instructions, "instruction") if stage.fingerprint is not None else ""
        made.append(
            Stage(
                "llo_stage",
                stage.label,
                before,
                after,
                (stage.form,),
                summary=count if changed else "",
                index=len(made),
            )
        )
        latest[stage.form] = after
    return Trace(f"LLO of {program.name}", made)


def _stage_text(stage: LloStage) -> TextRecord:
    return TextRecord(stage.label, stage.text, "llo")


def hlo_of_llo(module: ModuleFiles) -> DumpFile | None:
    """Return the HLO that the LLO was made from, for a directory without other HLO."""
    return next((f for f in module.llo if f.name.kernel == TOP_LEVEL and f.name.label == HLO), None)


__all__ = ["PIPELINE", "hlo_of_llo", "tpu_stages"]
