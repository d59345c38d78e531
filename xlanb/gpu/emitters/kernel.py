"""Write one kernel: the LLVM function that each thread runs.

Provides thread numbers, shared memory, barriers and shuffles, and the lowering of an instruction to
one or several kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from xlanb.codegen import elementwise as _elementwise  # noqa: F401 - registers its rules
from xlanb.codegen import movement as _movement  # noqa: F401 - registers its rules
from xlanb.codegen.elemental import Elemental, Leaf, array_of
from xlanb.codegen.elements import Element, memory
from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.indexing import IrArray
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import DOUBLE, FLOAT, I32, I64, PTR, Type, integer
from xlanb.codegen.values import Ix, Value
from xlanb.errors import CompilationError
from xlanb.gpu.emitters.elements import RULES
from xlanb.gpu.launches import CopyLaunch, Fill, KernelArgument, KernelLaunch, Launch, LaunchedCode, MemoryRange
from xlanb.gpu.target import GpuTarget
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

WARP = 32
MOST_THREADS = 1024
"""The maximum number of threads of a block."""
MOST_BLOCKS = (1 << 31) - 1
"""The maximum number of blocks of a grid, in its first dimension."""
EXTERNAL_BYTES = 1024
"""Larger constants are program memory; smaller ones are in the kernel's module."""


class Memories(Protocol):
    """What a lowering needs of its program."""

    target: GpuTarget
    line_of: dict[str, int] | None

    def place(self, i: HloInstruction, leaf: Leaf = ()) -> MemoryRange:
        """Return the memory of the array at a leaf of an instruction's result."""

    def scratch(self, i: HloInstruction) -> MemoryRange | None:
        """Return an instruction's scratch memory."""

    def constant(self, i: HloInstruction) -> MemoryRange:
        """Return the program memory of a large constant."""

    def unique(self, name: str) -> str:
        """Return a kernel name that is unique in the program."""

    def launch(self, launch: Launch) -> None:
        """Append to the launch sequence."""


class GpuKernelFunction:
    """A kernel's function being written.

    `f` writes it, `e` computes its elements. `thread` and `block` are this thread's number in its
    block and the block's number in the grid, as indices. All blocks have `threads` threads in one
    dimension.
    """

    def __init__(self, lowering: Lowering, name: str, blocks: int, threads: int) -> None:
        if threads % WARP or threads > MOST_THREADS:
            raise AssertionError(f"a block cannot have {threads} threads")
        program = lowering.program
        self.lowering, self.name, self.blocks, self.threads = lowering, name, blocks, threads
        self.module = ModuleBuilder(name, program.target, program.line_of)
        self.f: Function = self.module.function(name, [], "", lowering.instruction.name, linkage="ptx_kernel")
        self.shared_bytes = 0
        self.waits = False
        self._shared_arrays = 0
        self._places: dict[MemoryRange, str] = {}
        self._written: set[MemoryRange] = set()
        self._constants: dict[object, IrArray] = {}
        self.thread: Ix = self._number("tid", threads)
        self.block: Ix = self._number("ctaid", blocks)
        self.e = Elemental(self.f, lowering.bindings(self), self.constant, rules=RULES)

    def _number(self, register_: str, count: int) -> Ix:
        """Read a special register as an index below `count`."""
        if count == 1:
            return 0
        name = f"llvm.nvvm.read.ptx.sreg.{register_}.x"
        self.f.module.declare("i32", name, "")
        self.f.symbols.add(name)
        return self.f.let(I32, f"call i32 @{name}()").cast("zext nneg", I64)

    @property
    def index(self) -> Ix:
        """This thread's number in the grid."""
        return self.f.add(self.f.mul(self.block, self.threads), self.thread)

    # -- memory ------------------------------------------------------------------------------------

    def pointer(self, place: MemoryRange, *, written: bool = False) -> Value:
        """Return a pointer parameter for a memory range.

        A result that reuses an operand's memory shares its parameter.
        """
        if written:
            self._written.add(place)
        return Value(self.f, PTR, f"%{self._places.setdefault(place, f'p{len(self._places)}')}")

    def array(self, i: HloInstruction, leaf: Leaf = (), *, written: bool = False) -> IrArray:
        """Return the array at a leaf of an instruction's result."""
        return IrArray(self.pointer(self.lowering.program.place(i, leaf), written=written), array_of(i, leaf))

    def output(self, leaf: Leaf = ()) -> IrArray:
        """Return the array to write for a leaf of the result."""
        return self.array(self.lowering.instruction, leaf, written=True)

    def outputs(self) -> dict[Leaf, IrArray]:
        """Return all result arrays."""
        return {leaf: self.output(leaf) for leaf in self.lowering.leaves}

    def constant(self, i: HloInstruction) -> IrArray:
        """Return a constant's array: a global of the module, or program memory if it is large."""
        known = self._constants.get(i.literal)
        if known is None:
            known = self._constants[i.literal] = IrArray(self._constant_pointer(i), array_of(i))
        return known

    def _constant_pointer(self, i: HloInstruction) -> Value:
        size = i.shape.byte_size
        if size > EXTERNAL_BYTES:
            return self.pointer(self.lowering.program.constant(i))
        name = self.module.unique(f"constant_{i.name.replace('.', '_').replace('-', '_')}")
        data = constant_bytes(i).hex("\\").upper()
        text = f"\\{data}" if data else ""
        self.module.globals[name] = f'@{name} = private constant [{size} x i8] c"{text}", align 16'
        return self.f.symbol(name)

    def shared(self, type_: Type, count: int) -> Value:
        """Allocate uninitialized shared memory of the block, and return its address."""
        name = f"shared{self._shared_arrays}"
        self._shared_arrays += 1
        at = -(-self.shared_bytes // 16) * 16
        self.shared_bytes = at + count * type_.bytes * max(1, type_.lanes)
        self.module.globals[name] = f"@{name} = internal addrspace(3) global [{count} x {type_.text}] poison, align 16"
        self.f.allocas.append(f"  %{name} = addrspacecast ptr addrspace(3) @{name} to ptr")
        self.f.symbols.add(name)
        return Value(self.f, PTR, f"%{name}")

    def shared_array(self, t: PrimitiveType, count: int) -> Value:
        """Allocate shared memory for elements in their memory form (see codegen.elements)."""
        return self.shared(memory(t), count * (2 if t.is_complex else 1))

    # -- shared by threads -------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait for all threads of the block; earlier writes are then visible."""
        self.waits = True
        self._call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", "i32 0")

    def warp_barrier(self) -> None:
        """Wait for the threads of the warp; earlier writes are then visible."""
        self.waits = True
        self._call("void", "llvm.nvvm.bar.warp.sync", "i32 -1")

    def _call(self, result: str, name: str, given: str) -> None:
        parameters = ", ".join(part.split(" ")[0] for part in given.split(", "))
        self.module.declare(result, name, parameters)
        self.f.symbols.add(name)
        self.f.write(f"call {result} @{name}({given})")

    def shuffle(self, how: str, value: Value, lane: Value | int) -> Value:
        """Return the value of another lane of the warp; all lanes must arrive.

        `how` is "bfly" (lane xor), "down" (lane plus), "up" (lane minus) or "idx" (that lane).
        Beyond the warp's ends "down" and "up" return the lane's own value.
        """
        self.waits = True
        f, type_ = self.f, value.type
        if type_ is DOUBLE or type_.bits == 64:
            bits = value.bits_as(I64)
            low, high = bits.trunc(I32), bits.lshr(32).trunc(I32)
            low, high = self.shuffle(how, low, lane), self.shuffle(how, high, lane)
            return (low.zext(I64) | (high.zext(I64) << 32)).bits_as(type_)
        if type_.bits < 32:
            return (
                self.shuffle(how, value.bits_as(integer(type_.bits)).zext(I32), lane)
                .trunc(integer(type_.bits))
                .bits_as(type_)
            )
        kind = "f32" if type_ is FLOAT else "i32"
        name = f"llvm.nvvm.shfl.sync.{how}.{kind}"
        at = lane if isinstance(lane, Value) else f.const(I32, lane)
        self.module.declare(type_.text, name, f"i32, {type_.text}, i32, i32")
        f.symbols.add(name)
        return f.let(type_, f"call {type_.text} @{name}(i32 -1, {value!r}, {at!r}, i32 {0 if how == 'up' else 31})")

    @property
    def lane(self) -> Ix:
        """This thread's number in its warp."""
        return self.f.rem(self.thread, WARP)

    @property
    def warp(self) -> Ix:
        """The number of this thread's warp in its block."""
        return self.f.div(self.thread, WARP)

    # -- control flow ------------------------------------------------------------------------------

    @contextmanager
    def below(self, index: Ix, bound: int, most: int) -> Iterator[None]:
        """Run the block only if an index below `most` is below a bound."""
        if most <= bound:
            yield
            return
        with self.f.when(self.f.within(index, 0, bound)):
            yield

    def each(self, count: int, body: Callable[[Ix], None]) -> None:
        """Call `body(q)` for q in [0, count), distributed over all threads of the grid."""
        total = self.blocks * self.threads
        rounds = -(-count // total)
        if rounds <= 1:
            with self.below(self.index, count, total):
                body(self.index)
            return
        with self.f.loop(rounds) as k:
            q = self.f.add(self.f.mul(k, total), self.index)
            with self.below(q, count, rounds * total):
                body(q)

    def finish(self) -> tuple[LaunchedCode, tuple[KernelArgument, ...]]:
        """Return the finished kernel's code and arguments."""
        parameters = [
            Parameter(PTR, name, self._promise(place, place in self._written)) for place, name in self._places.items()
        ]
        self.f.sign(parameters, f'nounwind "nvvm.reqntid"="{self.threads}"')
        given = tuple(KernelArgument(name, place, place in self._written) for place, name in self._places.items())
        return LaunchedCode(self.name, self.module.text(), self.shared_bytes, self.waits), given

    @staticmethod
    def _promise(place: MemoryRange, is_written: bool) -> str:
        """Return a parameter's attributes.

        Program memory is aligned to 64 bytes, and ranges within it to 16.
        """
        access = "" if is_written else " readonly"
        size = f" dereferenceable({place.size})" if place.size else ""
        return f"noalias{access} noundef align 16{size}"


class Lowering:
    """The lowering of one instruction or fusion to kernels and copies.

    `root` is the instruction, or the fusion's root.
    """

    def __init__(self, program: Memories, instruction: HloInstruction, emitter: str) -> None:
        self.program, self.instruction, self.emitter = program, instruction, emitter
        self.is_fusion = instruction.opcode is Op.FUSION
        self.root = instruction.fused_computation.root if self.is_fusion else instruction
        self._unused: dict[str, str] = {}

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves with non-empty arrays."""
        return [leaf for leaf, s in self.instruction.shape.leaves() if not s.is_token and s.as_array().element_count]

    def bindings(self, k: GpuKernelFunction) -> dict[HloInstruction, Mapping[Leaf, Any]]:
        """Return the operands' arrays by the instruction that the code uses for each.

        That is the fusion's parameter, or the operand.
        """
        i = self.instruction
        targets = i.fused_computation.parameters if self.is_fusion else i.operands
        return {
            target: _Arrays(k, operand)
            for target, operand in zip(targets, i.operands, strict=True)
            if self.is_fusion or operand.opcode is not Op.CONSTANT
        }

    def operand_place(self, target: HloInstruction) -> MemoryRange | None:
        """Return the memory of an operand of the root, or None if the fusion computes it."""
        i = self.instruction
        if not self.is_fusion:
            return self.program.place(target)
        if target.opcode is not Op.PARAMETER:
            return None
        return self.program.place(i.operands[target.parameter_number])

    def scratch(self) -> MemoryRange | None:
        """Return the instruction's scratch memory (see policy.GpuPolicy.scratch_bytes)."""
        return self.program.scratch(self.instruction)

    @contextmanager
    def kernel(self, blocks: int, threads: int, suffix: str = "") -> Iterator[GpuKernelFunction]:
        """Write a kernel and launch it.

        Raises:
            CompilationError: it needs more blocks than a grid can have.
        """
        if blocks > MOST_BLOCKS:
            raise CompilationError(
                f"{self.instruction.name} needs a grid of {blocks} blocks, more than the limit of {MOST_BLOCKS}"
            )
        wanted = self.instruction.name + (f"_{suffix}" if suffix else "")
        name = self._unused.pop(wanted, None) or self.program.unique(wanted)
        k = GpuKernelFunction(self, name, blocks, threads)
        self._unused[wanted] = name  # reusable if this attempt fails
        yield k
        del self._unused[wanted]
        code, given = k.finish()
        self.program.launch(
            KernelLaunch(
                name, self.instruction, self.emitter, (blocks, 1, 1), (threads, 1, 1), given, code, self.program.target
            )
        )

    def copy(self, target: MemoryRange, source: MemoryRange) -> None:
        """Copy between two memory ranges, unless they are the same."""
        if target != source and source.size:
            self.program.launch(CopyLaunch(target, source))

    def fill(self, target: MemoryRange, byte: int) -> None:
        """Set all bytes of a memory range."""
        if target.size:
            self.program.launch(Fill(target, byte))


class _Arrays(dict[Leaf, Any]):
    """An operand's arrays by leaf; each becomes a kernel parameter when first read."""

    def __init__(self, k: GpuKernelFunction, operand: HloInstruction) -> None:
        super().__init__()
        self.k, self.operand = k, operand

    def __missing__(self, leaf: Leaf) -> Any:
        made: Any
        if self.operand.opcode is Op.CONSTANT:
            outside = Elemental(self.k.f, {}, self.k.constant, rules=RULES)
            made = partial(RULES[Op.CONSTANT], outside, self.operand)
        else:
            made = self.k.array(self.operand, leaf)
        self[leaf] = made
        return made

    def get(self, leaf: Leaf, default: Any = None) -> Any:
        return self[leaf]


def constant_bytes(i: HloInstruction) -> bytes:
    """Return a constant's bytes in its layout; zeros if the text elided its values."""
    if i.literal.is_elided:
        return bytes(i.shape.byte_size)
    value = i.literal.array.transpose(tuple(reversed(array_of(i).minor_to_major)))
    return value.tobytes()


__all__ = ["Element", "GpuKernelFunction", "Lowering", "Memories", "constant_bytes"]
