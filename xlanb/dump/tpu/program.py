"""One LLO program: its stages, final bundles and unit usage, read from several files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from xlanb.display import Displayable
from xlanb.dump.tpu.analysis import (
    Fingerprint,
    ScheduleAnalysis,
    parse_fingerprints,
    parse_schedule_analysis,
)
from xlanb.dump.tpu.bundles import MAX_CHARACTERS, BundleProgram, parse_bundles
from xlanb.dump.tpu.chips import TpuChip
from xlanb.dump.tpu.names import (
    FINAL_BUNDLES,
    FINGERPRINTS,
    SCHEDULE_ANALYSIS,
    TOP_LEVEL,
    UTILIZATION,
    is_llo_stage,
)
from xlanb.dump.tpu.utilization import Utilization, matrix_share, parse_utilization
from xlanb.errors import DumpError
from xlanb.hooks import Hook
from xlanb.stage import size_text
from xlanb.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.dump.reader import DumpFile

llo_trace: Final[Hook[[Any], Any]] = Hook("dump.llo_trace")
"""Returns the LLO stages of a `TpuProgram` as a Trace."""


@dataclass(frozen=True)
class LloStage:
    """A program after one stage of the LLO compiler.

    `fingerprint` has its counts if it was dumped with the stage; the text is read on demand.
    """

    label: str
    file: DumpFile
    fingerprint: Fingerprint | None = None

    @property
    def form(self) -> str:
        """Its form: "bundles", "DGO" (of the dependency graph optimizer) or "llo".

        Stages of one form can be compared line by line.
        """
        if "bundles" in self.label:
            return "bundles"
        return "DGO" if self.label.startswith("DGO-") else "llo"

    @property
    def text(self) -> str:
        """The program at this stage.

        Raises:
            DumpError: the file cannot be read, or is too long.
        """
        if self.file.content_size > MAX_CHARACTERS:
            raise DumpError(
                f"{self.file.path}: the file has {self.file.content_size:,} bytes, more "
                f"than the limit of {MAX_CHARACTERS:,}"
            )
        return self.file.read_text()

    def equals(self, other: LloStage) -> bool:
        """Whether both programs are equal, by checksums if both have one, else by files."""
        if self.fingerprint is not None and other.fingerprint is not None:
            return self.fingerprint.checksum == other.fingerprint.checksum
        return self.file.content_size == other.file.content_size and self.file.digest == other.file.digest


@dataclass(frozen=True, repr=False)
class TpuProgram(Displayable):
    """One program: the code of HLO instruction `name`, or of the top level ("TLP").

    `final` are its VLIW bundles, `utilization` the busy units of each, and `analysis` its bundles
    by HLO instruction (both None if not dumped). `stages` are the LLO stages in order, and `serves`
    all HLO instructions that it computes.
    """

    name: str
    final: BundleProgram
    utilization: Utilization | None = None
    analysis: ScheduleAnalysis | None = None
    stages: tuple[LloStage, ...] = ()
    serves: tuple[str, ...] = ()
    chip: TpuChip | None = None

    @property
    def is_top_level(self) -> bool:
        """Whether it calls the others."""
        return self.name == TOP_LEVEL

    @property
    def seconds(self) -> float | None:
        """The time of its bundles, each issued once, without waiting for memory.

        None if the chip is unknown.
        """
        return self.chip.seconds(len(self.final)) if self.chip is not None else None

    @property
    def mxu_share(self) -> float:
        """Share of the matrix units' capacity that its bundles use, 0 to 1; 0 if not dumped."""
        return matrix_share(self.utilization.shares) if self.utilization is not None else 0.0

    @cached_property
    def changed(self) -> tuple[bool, ...]:
        """For each stage, whether it changed the program since the last stage of its form."""
        before: dict[str, LloStage] = {}
        out = []
        for stage in self.stages:
            earlier = before.get(stage.form)
            out.append(earlier is None or not stage.equals(earlier))
            before[stage.form] = stage
        return tuple(out)

    @property
    def trace(self) -> Any:
        """Its LLO stages as a Trace of texts, each comparable with the one before."""
        return llo_trace(self)

    @property
    def text(self) -> str:
        """Its bundles, one per line."""
        return str(self.final)

    def frame(self) -> pd.DataFrame:
        """Return one row per bundle: address, loops, instructions by unit, use of units."""
        import pandas as pd

        used = self.utilization
        rows = []
        for k, b in enumerate(self.final.bundles):
            row: dict[str, Any] = {
                "address": b.address,
                "label": b.label,
                "loops": b.loops,
                "instructions": len(b.operations),
            }
            row |= {u: sum(o.unit == u for o in b.operations) for u in self.final.counts}
            if used is not None and k < len(used.rows):
                row |= {f"use {u}": n for u, n in zip(used.units, used.rows[k], strict=True)}
            rows.append(row)
        return pd.DataFrame(rows)

    def stage_frame(self) -> pd.DataFrame:
        """Return one row per LLO stage.

        Columns: label, form, instructions (if a fingerprint was dumped), whether it changed
        anything, bytes of its dump.
        """
        import pandas as pd

        rows = [
            {
                "stage": s.label,
                "form": s.form,
                "instructions": s.fingerprint.instructions if s.fingerprint is not None else None,
                "changed": changed,
                "bytes": s.file.content_size,
            }
            for s, changed in zip(self.stages, self.changed, strict=True)
        ]
        return pd.DataFrame(rows, columns=["stage", "form", "instructions", "changed", "bytes"]).convert_dtypes()

    def headline(self) -> str:
        """Return one line: bundles, empty ones, loops, time of one pass, busiest unit."""
        parts = [counted(len(self.final), "bundle"), f"{self.final.empty:,} empty"]
        if self.final.loops:
            parts.append(counted(len(self.final.loops), "loop"))
        if self.seconds is not None:
            parts.append(f"{self.seconds * 1e6:.3g} us if each runs once")
        if self.utilization is not None and self.utilization.busiest:
            unit = self.utilization.busiest
            parts.append(f"busiest {unit} {100 * self.utilization.shares[unit]:.0f}%")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<TpuProgram {self.name}: {self.headline()}>"


@size_text.register
def _program_size(program: TpuProgram) -> str:
    return program.headline()


@dataclass(frozen=True)
class ProgramFiles:
    """The dumps of one program, by label, not yet read."""

    name: str
    files: tuple[DumpFile, ...]

    def find(self, label: str) -> DumpFile | None:
        """Return the last dump with a label, or None."""
        return next((f for f in reversed(self.files) if f.name.label == label), None)

    @property
    def size(self) -> int:
        """The bytes that `read_program` reads."""
        found = [self.find(label) for label in (FINAL_BUNDLES, UTILIZATION, SCHEDULE_ANALYSIS, FINGERPRINTS)]
        return sum(f.content_size for f in found if f is not None)

    def stages(self) -> tuple[LloStage, ...]:
        """Return the LLO stages in order, each with the fingerprint of its label.

        A repeated label has a fingerprint each time.
        """
        report = self.find(FINGERPRINTS)
        waiting: dict[str, list[Fingerprint]] = {}
        for fingerprint in parse_fingerprints(report.read_text()) if report is not None else ():
            waiting.setdefault(fingerprint.label, []).append(fingerprint)
        found = []
        for f in self.files:
            if is_llo_stage(f.name.label):
                own = waiting.get(f.name.label)
                found.append(LloStage(f.name.label, f, own.pop(0) if own else None))
        return tuple(found)

    def utilization(self) -> Utilization | None:
        """Read the use of units; None if not dumped."""
        file = self.find(UTILIZATION)
        return parse_utilization(file.read_text()) if file is not None else None

    def analysis(self) -> ScheduleAnalysis | None:
        """Read the bundles by HLO instruction; None if not dumped."""
        file = self.find(SCHEDULE_ANALYSIS)
        return parse_schedule_analysis(file.read_text()) if file is not None and file.content_size else None


def programs_of(files: Sequence[DumpFile]) -> list[ProgramFiles]:
    """Return the programs of one compilation that have bundles.

    The top level is first, then the others in compilation order.
    """
    by_name: dict[str, list[DumpFile]] = {}
    for f in sorted(files, key=lambda f: (f.name.timestamp or 0, f.name.sequence or -1)):
        by_name.setdefault(f.name.kernel, []).append(f)
    found = [ProgramFiles(name, tuple(listed)) for name, listed in by_name.items()]
    return sorted(
        (p for p in found if p.find(FINAL_BUNDLES) is not None),
        key=lambda p: (p.name != TOP_LEVEL, p.name.startswith("<")),
    )


def read_program(files: ProgramFiles, serves: tuple[str, ...] = (), chip: TpuChip | None = None) -> TpuProgram:
    """Read the record of a program.

    Raises:
        DumpError: it has no final bundles, or an unexpected report.
    """
    bundles = files.find(FINAL_BUNDLES)
    if bundles is None:
        raise DumpError(f"no {FINAL_BUNDLES} of program {files.name} was dumped")
    return TpuProgram(
        files.name,
        parse_bundles(bundles.read_text()),
        files.utilization(),
        files.analysis(),
        files.stages(),
        serves or ((files.name,) if files.name != TOP_LEVEL else ()),
        chip,
    )
