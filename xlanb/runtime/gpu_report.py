"""The result of xlanb's GPU compiler, in the records of a dump of XLA:GPU.

All views thus show both. The report contains the code of all kernels as one text in each form, each
line with its HLO instruction; and the program: kernels with registers, occupancy and estimated
time, and the launches of a run in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from xlanb.codegen.deep import deep
from xlanb.cpu.lines import line_numbers, llvm_record
from xlanb.cpu.records import CodeRecord
from xlanb.dump.gpu.backend import KernelBackend
from xlanb.dump.gpu.ptx import parse_ptx
from xlanb.dump.gpu.ptxas import KernelResources
from xlanb.dump.gpu.thunks import Thunk
from xlanb.errors import CompilationError
from xlanb.gpu import ptx
from xlanb.gpu.executable import GpuExecutable
from xlanb.gpu.kernel_cost import KernelCost, kernel_cost
from xlanb.gpu.launches import Conditional, CopyLaunch, Fill, KernelLaunch, Launch, LibraryCall, While
from xlanb.gpu.occupancy import occupancy
from xlanb.gpu.program import LaunchProgram as Compiled
from xlanb.gpu.program import emit_program
from xlanb.gpu.roofline import Estimate, estimate
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.text.printer import computation_text
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.gpu_program import GpuKernel, GpuProgram, KernelCode
from xlanb.runtime.gpu_program import Launch as TimedLaunch
from xlanb.wording import counted

_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_INSTRUCTION = re.compile(r"^\s+(?:@!?%\w+\s+)?[a-z]")
_STREAM = "stream 0"
_MOST_TIMES = 1 << 40
_KINDS: Mapping[type, str] = {
    KernelLaunch: "kKernel", CopyLaunch: "kCopy", LibraryCall: "kCustomCall", While: "kWhile",
    Conditional: "kConditional",
}  # fmt: skip


class GpuReport:
    """The records of an executable, each created on first use."""

    def __init__(self, exe: GpuExecutable) -> None:
        self._exe = exe
        self.device = exe.device

    @cached_property
    def _lines(self) -> dict[str, int]:
        return line_numbers(self._exe.hlo_module.record())

    @cached_property
    def _traced(self) -> dict[str, KernelLaunch]:
        """The kernels by name, with debug locations that give the line of the HLO instruction."""
        exe = self._exe
        program: Compiled = deep(lambda: emit_program(exe.buffer_assignment, exe.program.target, self._lines))
        return {k.name: k for k in program.kernels}

    @cached_property
    def _ptx(self) -> dict[str, str]:
        target = self._exe.program.target
        return {name: ptx.compile_ptx(k.code.ir, target) for name, k in self._traced.items()}

    @cached_property
    def _optimized(self) -> dict[str, str]:
        target = self._exe.program.target
        return {name: ptx.optimized_ir(k.code.ir, target) for name, k in self._traced.items()}

    # -- code --------------------------------------------------------------------------------------

    @property
    def llvm(self) -> CodeRecord:
        """The LLVM IR of all kernels, as it was emitted."""
        return self._llvm({name: k.code.ir for name, k in self._traced.items()})

    @property
    def llvm_optimized(self) -> CodeRecord:
        """The LLVM IR of all kernels, as emitted."""
        return self._llvm(self._optimized)

    def _llvm(self, texts: Mapping[str, str]) -> CodeRecord:
        parts = [
            llvm_record(t, {self._traced[n].code.function: self._instruction(n)}, self._lines) for n, t in texts.items()
        ]
        return _concatenate("llvm", ";", list(texts), parts)

    @property
    def ptx(self) -> CodeRecord:
        """The PTX of all kernels."""
        return _concatenate("ptx", "//", list(self._ptx), [self._ptx_record(name) for name in self._ptx])

    def _ptx_record(self, name: str) -> CodeRecord:
        text = self._ptx[name]
        instruction_at = {number: i for i, number in self._lines.items()}
        lines: dict[int, str] = {}
        current = ""
        for number, line in enumerate(text.splitlines(), 1):
            loc = _LOC.match(line)
            if loc:
                current = instruction_at.get(int(loc[1]), "")
            elif current and _INSTRUCTION.match(line):
                lines[number] = current
        functions = tuple(k.name for k in parse_ptx(text))
        return CodeRecord("ptx", text, functions, dict.fromkeys(functions, self._instruction(name)), lines)

    def _instruction(self, name: str) -> str:
        return self._traced[name].instruction.name

    # -- the program -------------------------------------------------------------------------------

    @cached_property
    def program(self) -> GpuProgram:
        """Kernels, and launches in the order of a run, with roofline times."""
        walk = _LaunchWalk(self)
        walk.take(self._exe.launches, _LaunchPlace())
        device = self._exe.device
        return GpuProgram(
            self._exe.hlo_module.name,
            device.name,
            device,
            tuple(walk.kernels.values()),
            tuple(walk.launches),
            "" if ptx.find_ptxas() else "No ptxas is installed: registers are unknown (pip install 'xlanb[gpu]').",
        )

    def kernel(self, k: KernelLaunch) -> GpuKernel:
        """One kernel, without counts of its launches."""
        i, device = k.instruction, self._exe.device
        used, refusal = self._resources(k)
        held = occupancy(device, k.threads, used.registers if used is not None else 0, k.shared_bytes, k.blocks)
        work = kernel_cost(i)
        time = estimate(device, work, k.blocks, k.threads, held)
        return GpuKernel(
            k.name, (i.name,), KernelBackend(k.emitter), k.grid, k.block, k.shared_bytes, 0, used, held, work, time,
            op_name=i.metadata.op_name, source=place_text(*i.metadata.python_line), refusal=refusal, code=self._code(k),
        )  # fmt: skip

    def _resources(self, k: KernelLaunch) -> tuple[KernelResources | None, str]:
        """The resources of a kernel's threads, or why they are unknown."""
        try:
            made = k.assembled  # without debug locations, as it would be loaded
        except CompilationError as error:
            return None, str(error)
        if made is None:
            return None, ""
        target = self._exe.device.architecture.name
        return KernelResources(
            k.name, target, made.registers, stack_bytes=made.stack_bytes, spill_stores=made.spill_stores,
            spill_loads=made.spill_loads,
        ), ""  # fmt: skip

    def _code(self, k: KernelLaunch) -> KernelCode:
        called = [computation_text(c.record()) for c in k.instruction.called_computations]
        hlo = "\n\n".join([str(k.instruction), *called])
        return KernelCode(
            hlo, self._traced[k.name].code.ir, self._optimized[k.name], self._ptx[k.name],
        )  # fmt: skip


def _concatenate(language: str, comment: str, names: Sequence[str], parts: Sequence[CodeRecord]) -> CodeRecord:
    """Concatenate texts, each under its kernel's name."""
    texts: list[str] = []
    functions: list[str] = []
    kernels: dict[str, str] = {}
    lines: dict[int, str] = {}
    first = 1
    for name, part in zip(names, parts, strict=True):
        text = f"{comment} {name}\n{part.text.rstrip()}\n\n"
        lines |= {number + first: i for number, i in part.lines.items()}
        functions += part.functions
        kernels |= part.kernels
        texts.append(text)
        first += text.count("\n")
    return CodeRecord(language, "".join(texts), tuple(functions), kernels, lines)


@dataclass(frozen=True)
class _LaunchPlace:
    """The position of a launch: its parent, the parent's branch, depth, and executions per run."""

    parent: int = -1
    branch: str = ""
    depth: int = 0
    times: int = 1


@dataclass
class _LaunchWalk:
    """Traverses a launch sequence in the order of a run."""

    report: GpuReport
    kernels: dict[str, GpuKernel] = field(default_factory=dict)
    launches: list[TimedLaunch] = field(default_factory=list)
    _clock: float = 0.0

    def take(self, sequence: Sequence[Launch], place: _LaunchPlace) -> None:
        """Add the launches at one position."""
        for launch in sequence:
            number = len(self.launches)
            thunk = self._thunk(launch, number, place)
            start = self._clock
            trips = _trips(launch)
            if isinstance(launch, While | Conditional):
                self.launches.append(TimedLaunch(thunk, times=place.times))
                for name, inner in _parts(launch):
                    times = min(place.times * (trips or 1), _MOST_TIMES)
                    self.take(inner, _LaunchPlace(number, name, place.depth + 1, times))
                detail = "" if trips is None else counted(trips, "iteration")
                is_unknown = isinstance(launch, While) and trips is None
                self.launches[number] = TimedLaunch(
                    thunk, start=start, seconds=self._clock - start, times=place.times, detail=detail,
                    is_unknown_loop=is_unknown,
                )  # fmt: skip
                continue
            time = self._time(launch, place.times)
            seconds = time.seconds * place.times if time is not None else 0.0
            bound = time.bound if time is not None else ""
            self.launches.append(TimedLaunch(thunk, _STREAM, start, seconds, place.times, bound))
            self._clock += seconds

    def _thunk(self, launch: Launch, number: int, place: _LaunchPlace) -> Thunk:
        kind = (
            "kMemzero"
            if isinstance(launch, Fill) and not launch.byte
            else _KINDS.get(type(launch), "kMemset32BitValue")
        )
        name = launch.name if isinstance(launch, KernelLaunch) else ""
        instruction = getattr(launch, "instruction", None)
        detail = (
            launch.library
            if isinstance(launch, LibraryCall)
            else str(launch)
            if isinstance(launch, CopyLaunch | Fill)
            else ""
        )
        dims = (
            (launch.grid, launch.block, launch.shared_bytes)
            if isinstance(launch, KernelLaunch)
            else ((0, 0, 0), (0, 0, 0), 0)
        )
        return Thunk(
            number, kind, name, instruction.name if instruction is not None else "", *dims, detail, place.depth,
            place.parent, place.branch,
        )  # fmt: skip

    def _time(self, launch: Launch, times: int) -> Estimate | None:
        device = self.report.device
        if isinstance(launch, KernelLaunch):
            seen = self.kernels.get(launch.name)
            kernel = self.report.kernel(launch) if seen is None else seen
            self.kernels[launch.name] = replace(kernel, launches=kernel.launches + times)
            return kernel.estimate
        if isinstance(launch, CopyLaunch | Fill):
            size = launch.target.size
            return estimate(device, KernelCost(0.0, size if isinstance(launch, CopyLaunch) else 0.0, size))
        return estimate(device, kernel_cost(launch.instruction)) if isinstance(launch, LibraryCall) else None


def _parts(launch: While | Conditional) -> Iterator[tuple[str, Sequence[Launch]]]:
    if isinstance(launch, While):
        yield "condition", launch.condition
        yield "body", launch.body
    else:
        for number, branch in enumerate(launch.branches):
            yield f"branch_{number}", branch


def _trips(launch: Launch) -> int | None:
    """The trip count of a loop; 1 for other instructions, None if unknown."""
    if not isinstance(launch, While):
        return 1
    return _known_trip_count(launch.instruction)


def _known_trip_count(i: HloInstruction) -> int | None:
    found = re.search(r'"known_trip_count":\{"n":"(\d{1,9})"', i.backend_config or "")
    return int(found[1]) if found else None
