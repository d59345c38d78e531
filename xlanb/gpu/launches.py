"""The launch sequence of a program as data.

It has kernels with launch dimensions and arguments, copies, library calls, host loops and
conditionals.
`print(launches)` shows it as a list, with loop bodies indented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property

from xlanb.gpu.occupancy import Occupancy, occupancy
from xlanb.gpu.ptx import PtxasOutput, assemble, compile_ptx, find_ptxas
from xlanb.gpu.target import GpuTarget
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Bytes [offset, offset + size) of a numbered program memory (see GpuProgram.memories)."""

    memory: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"m{self.memory}[{self.offset}:{self.offset + self.size}]"


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """A pointer argument of a kernel: its target, and whether the kernel writes there."""

    name: str
    place: MemoryRange
    is_written: bool

    def __str__(self) -> str:
        return f"{self.name}={self.place}{' (out)' if self.is_written else ''}"


@dataclass(frozen=True)
class LaunchedCode:
    """A kernel's code: its function's name and the LLVM IR of its module.

    `shared` is a block's shared memory in bytes; `waits` whether its threads synchronize (barriers,
    shuffles).
    """

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
            CompilationError: LLVM rejects its IR.
        """
        return compile_ptx(self.code.ir, self.target)

    @cached_property
    def assembled(self) -> PtxasOutput | None:
        """Machine code and resource use by ptxas, or None without ptxas.

        Raises:
            CompilationError: ptxas rejects the PTX.
        """
        return assemble(self.ptx) if find_ptxas() else None

    @property
    def registers(self) -> int | None:
        """Registers per thread by ptxas, or None without ptxas."""
        return self.assembled.registers if self.assembled is not None else None

    @property
    def occupancy(self) -> Occupancy | None:
        """Return how many blocks and warps a multiprocessor holds at once.

        Unknown register counts impose no limit.
        """
        return occupancy(self.target.device, self.threads, self.registers or 0, self.shared_bytes, self.blocks)

    @property
    def threads(self) -> int:
        """Threads per block."""
        x, y, z = self.block
        return x * y * z

    @property
    def blocks(self) -> int:
        """Blocks per grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return self.code.shared

    def __str__(self) -> str:
        shared = f", {self.shared_bytes} bytes of shared memory" if self.shared_bytes else ""
        given = ", ".join(map(str, self.arguments))
        return f"kernel {self.name}<<<{self.blocks}, {self.threads}>>>({given}){shared}"


@dataclass(frozen=True)
class CopyLaunch:
    """Copy bytes within device memory."""

    target: MemoryRange
    source: MemoryRange

    def __str__(self) -> str:
        return f"copy {self.source} to {self.target}"


@dataclass(frozen=True)
class Fill:
    """Set all bytes of a memory range to one value."""

    target: MemoryRange
    byte: int

    def __str__(self) -> str:
        return f"fill {self.target} with {self.byte}"


@dataclass(frozen=True)
class LibraryCall:
    """A library call for an instruction that no kernel computes.

    `operands` and `results` are memory ranges by leaf; None for a token.
    """

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
    """A loop: `condition` writes a pred to `predicate`; `body` runs while it is true."""

    instruction: HloInstruction = field(repr=False)
    condition: tuple[Launch, ...]
    predicate: MemoryRange
    body: tuple[Launch, ...]

    def __str__(self) -> str:
        return f"while {self.instruction.name}: {self.predicate}"


@dataclass(frozen=True)
class Conditional:
    """A branch selected by the number at `index`.

    For a pred, true is the first branch. A number out of range selects the last branch.
    """

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
    """Yield the kernels of a sequence, including loops and branches, in program order."""
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
