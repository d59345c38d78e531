"""The launch sequence of a program as data: kernels with launch dimensions and arguments, copies,
library calls, host loops and conditionals.

`print(launches)` shows it as a list, a loop's body indented below the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xlanb.gpu.occupancy import Occupancy, occupancy
from xlanb.gpu.ptx import PtxasOutput, assemble, compile_ptx, find_ptxas
from xlanb.gpu.target import GpuTarget
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Bytes `offset` to `offset + size` of a program's memory of a number (see GpuProgram.memories)."""

    memory: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"m{self.memory}[{self.offset}:{self.offset + self.size}]"


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """A pointer that a kernel takes: where it points, and whether the kernel writes there."""

    name: str
    place: MemoryRange
    is_written: bool

    def __str__(self) -> str:
        return f"{self.name}={self.place}{' (out)' if self.is_written else ''}"


@dataclass(frozen=True)
class LaunchedCode:
    """A kernel's code: its function's name and the LLVM IR of its module. `shared` are the bytes of a block's shared memory, `waits` says whether its threads wait for each other (barriers, shuffles)."""

    function: str
    ir: str
    shared: int
    waits: bool


@dataclass(frozen=True)
class KernelLaunch:
    """A launch of a kernel: `grid` blocks of `block` threads each."""

    name: str
    instruction: HloInstruction = field(repr=False)
    emitter: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[KernelArgument, ...]
    code: LaunchedCode = field(repr=False)
    target: GpuTarget = field(repr=False, compare=False)

    @cached_property
    def ptx(self) -> str:
        """The kernel's PTX.

        Raises:
            CompilationError: LLVM refuses its IR.
        """
        return compile_ptx(self.code.ir, self.target)

    @cached_property
    def assembled(self) -> PtxasOutput | None:
        """Machine code, and what a thread takes; None where there is no ptxas.

        Raises:
            CompilationError: ptxas refuses the PTX.
        """
        return assemble(self.ptx) if find_ptxas() else None

    @property
    def registers(self) -> int | None:
        """Registers of a thread, by ptxas; None where there is none."""
        return self.assembled.registers if self.assembled is not None else None

    @property
    def occupancy(self) -> Occupancy | None:
        """Blocks and warps that a multiprocessor of the device holds at once; where registers are not known they limit nothing."""
        return occupancy(self.target.device, self.threads, self.registers or 0, self.shared_bytes, self.blocks)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self.code.shared

    def __str__(self) -> str:
        shared = f", {self.shared_bytes} bytes of shared memory" if self.shared_bytes else ""
        given = ", ".join(map(str, self.arguments))
        return f"kernel {self.name}<<<{self.blocks}, {self.threads}>>>({given}){shared}"


@dataclass(frozen=True)
class CopyLaunch:
    """Copy bytes from one place of device memory to another."""

    target: MemoryRange
    source: MemoryRange

    def __str__(self) -> str:
        return f"copy {self.source} to {self.target}"


@dataclass(frozen=True)
class Fill:
    """Set all bytes of a place to one value."""

    target: MemoryRange
    byte: int

    def __str__(self) -> str:
        return f"fill {self.target} with {self.byte}"


@dataclass(frozen=True)
class LibraryCall:
    """An instruction that no kernel of ours computes: a call of a library by name, with the places of operands and results, leaf after leaf (None: a token)."""

    library: str
    instruction: HloInstruction = field(repr=False)
    operands: tuple[MemoryRange | None, ...]
    results: tuple[MemoryRange | None, ...]

    def __str__(self) -> str:
        given = ", ".join(str(p) for p in self.operands if p is not None)
        made = ", ".join(str(p) for p in self.results if p is not None)
        return f"call {self.library}({given}) -> {made}"


@dataclass(frozen=True)
class While:
    """A loop: `condition` runs and leaves a pred at `predicate`; as long as it is true, `body` runs."""

    instruction: HloInstruction = field(repr=False)
    condition: tuple[Launch, ...]
    predicate: MemoryRange
    body: tuple[Launch, ...]

    def __str__(self) -> str:
        return f"while {self.instruction.name}: {self.predicate}"


@dataclass(frozen=True)
class Conditional:
    """A choice by the number at `index` (a pred: true is the first branch); a number out of range takes the last branch."""

    instruction: HloInstruction = field(repr=False)
    index: MemoryRange
    type: PrimitiveType
    branches: tuple[tuple[Launch, ...], ...]

    def __str__(self) -> str:
        return f"conditional {self.instruction.name}: {self.index}"


Launch = KernelLaunch | CopyLaunch | Fill | LibraryCall | While | Conditional


class Launches(tuple[Launch, ...]):
    """A launch sequence."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self, 0))


def kernels(sequence: Sequence[Launch]) -> Iterator[KernelLaunch]:
    """The kernels of a sequence, those of loops and branches too, in program order."""
    for launch in sequence:
        if isinstance(launch, KernelLaunch):
            yield launch
        for inner in _inner(launch):
            yield from kernels(inner)


def _inner(launch: Launch) -> Sequence[tuple[Launch, ...]]:
    if isinstance(launch, While):
        return launch.condition, launch.body
    return launch.branches if isinstance(launch, Conditional) else ()


def _lines(sequence: Sequence[Launch], depth: int) -> Iterator[str]:
    for launch in sequence:
        yield "  " * depth + str(launch)
        for number, inner in enumerate(_inner(launch)):
            if isinstance(launch, Conditional):
                yield "  " * (depth + 1) + f"branch {number}:"
            elif number == 1:
                yield "  " * (depth + 1) + "do:"
            yield from _lines(inner, depth + 2)
