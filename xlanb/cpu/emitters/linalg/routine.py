"""Kernels of linear algebra: custom-calls of LAPACK routines, and the opcodes cholesky and triangular-solve.

CUSTOM_CALLS and OPCODES list the ways to compute an instruction, the preferred one first; the first whose signature
fits is taken. A way computes one matrix of a batch, or as many small ones as a vector has lanes; the loop over the
batch, which threads may share, is written around it. What no way fits is a call of the runtime (xlanb.cpu.host_call).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlanb.codegen import routines
from xlanb.codegen.elemental import Elemental, array_of
from xlanb.codegen.elements import memory, part
from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.indexing import IrArray, same_order
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import I8, I32, Type
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import IN_PLACE, MEMORY_ONLY, ROUNDS, SCRATCH_EACH, Kernel, emitter
from xlanb.errors import CompilationError
from xlanb.evaluator.lapack import lapack_name, lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, Layout, PrimitiveType

T = PrimitiveType
TYPES = {"s": T.F32, "d": T.F64, "c": T.C64, "z": T.C128}
"""Element types by LAPACK's letters."""
COMPLEX = {T.F32: T.C64, T.F64: T.C128, T.C64: T.C64, T.C128: T.C128}
"""The complex type of the same precision."""
LINE = 64
"""Bytes of a cache line."""

Spec = tuple[PrimitiveType, tuple[int, ...]]
"""Element type and dimensions of one matrix, vector (one dimension) or number (none) of a batch."""


@dataclass(frozen=True)
class Signature:
    """The operands and results that a way of computing takes; a result of None may have any dimensions."""

    operands: tuple[Spec, ...]
    results: tuple[Spec | None, ...]


@dataclass(frozen=True)
class Call:
    """One call: the addresses of operands and results by leaf, and of this thread's scratch memory.

    `count` matrices are computed, more than one only side by side. `alone` says that the batch is a single matrix, so
    that threads may share the work on it.
    """

    f: Function
    instruction: HloInstruction
    type: PrimitiveType
    operands: Sequence[Value]
    results: Sequence[Value]
    scratch: Value | None
    alone: bool
    count: Ix = 1

    @property
    def options(self) -> Mapping[str, int]:
        """Those of the custom-call."""
        return lapack_options(self.instruction)

    def room(self, offset: int = 0) -> Value:
        """The address of the scratch memory, so many bytes further.

        Raises:
            CompilationError: the way of computing asked for none.
        """
        if self.scratch is None:
            raise CompilationError(f"a kernel of linear algebra without scratch memory:\n  {self.instruction}")
        return Pointer(self.scratch, I8).address(offset)

    def at(self, pointer: Value, elements: Ix) -> Value:
        """An address so many elements further."""
        return Pointer(pointer, memory(part(self.type)), 2 if self.type.is_complex else 1).address(elements)

    def routine(
        self, name: str, write: Callable[[Function], None], parameters: Sequence[Parameter], *arguments: Ix
    ) -> None:
        """Call a routine that all programs of a process share; `write` writes its body, which the name and the element type determine."""
        f = self.f
        key = ("linalg", name, self.type)
        called = routines.routine(f.module, key, f"{name}.{str(self.type).lower()}", write, parameters)
        f.call_own(called, *(f.value(a) for a in arguments))


@dataclass(frozen=True)
class Way:
    """One way to compute an instruction.

    signature:    operands and results for one matrix, None if the way does not fit the instruction and its options
    emit:         write the code for one call
    nanoseconds:  estimated time of one call
    scratch:      bytes of scratch memory for each thread
    in_place:     operands that may share memory with the result of the same number
    copied:       whether those are copied to the result before `emit`, which works on the result
    together:     small matrices of a batch side by side, one in each lane: how many a batch needs for that to pay
    """

    signature: Callable[[HloInstruction], Signature | None]
    emit: Callable[[Call], None]
    nanoseconds: Callable[[HloInstruction], float]
    scratch: Callable[[HloInstruction], int] = lambda _: 0
    in_place: tuple[int, ...] = ()
    copied: bool = True
    together: Callable[[HloInstruction], int] | None = None

    def each(self, i: HloInstruction) -> int:
        """How many matrices one call computes."""
        return 1 if self.together is None else LINE // part(element_type(i)).byte_size

    def calls(self, i: HloInstruction) -> int:
        """How many calls a batch takes."""
        return -(-batch_of(i) // self.each(i))


CUSTOM_CALLS: dict[str, list[Way]] = {}
"""Ways by LAPACK's name without the letter of the type, the preferred one first."""
OPCODES: dict[Op, list[Way]] = {Op.CHOLESKY: [], Op.TRIANGULAR_SOLVE: []}
"""Ways by opcode; matrices may lie row after row too."""


def ways(i: HloInstruction) -> list[Way]:
    """The ways there are for an instruction, whether they fit or not."""
    if i.opcode is not Op.CUSTOM_CALL:
        return OPCODES.get(i.opcode, [])
    return CUSTOM_CALLS.get(routine_name(i), [])


def way(i: HloInstruction) -> Way | None:
    """The preferred way that fits an instruction; None if the runtime has to compute it."""
    found = ways(i)
    if not found or not i.operands or not _has_matrices(i):
        return None
    return next((w for w in found if _fits(i, w)), None)


_SMALL = 160
"""Rows or columns, the fewer of both, of small matrices: beyond, LAPACK's blocks pay."""


def small(signature: Callable[[HloInstruction], Signature | None]) -> Callable[[HloInstruction], Signature | None]:
    """The signature for small matrices of real numbers alone."""

    def fits(i: HloInstruction) -> Signature | None:
        return signature(i) if min(size_of(i)) <= _SMALL and not element_type(i).is_complex else None

    return fits


def has_kernel(i: HloInstruction) -> bool:
    """Whether an instruction is a routine of linear algebra that has a kernel."""
    return way(i) is not None


# -- what the instruction says -------------------------------------------------------------------------------------


def routine_name(i: HloInstruction) -> str:
    """LAPACK's name without the letter of the type; empty if the instruction calls something else."""
    found = lapack_name(str(i.get("custom_call_target"))) if i.opcode is Op.CUSTOM_CALL else None
    return found[1] if found else ""


def element_type(i: HloInstruction) -> PrimitiveType:
    """That of the first operand."""
    return array_of(i.operands[0]).element_type


def size_of(i: HloInstruction, operand: int = 0) -> tuple[int, int]:
    """Rows and columns of an operand."""
    rows, columns = array_of(i.operands[operand]).dimensions[-2:]
    return rows, columns


def batch_of(i: HloInstruction) -> int:
    """How many matrices there are."""
    return math.prod(array_of(i.operands[0]).dimensions[: _batch_rank(i)])


def is_by_rows(i: HloInstruction, operand: int) -> bool:
    """Whether an operand lies row after row; a matrix of one row or column may do so and not."""
    shape = array_of(i.operands[operand])
    return not shape.is_dynamic and same_order(shape, ArrayShape(shape.element_type, shape.dimensions))


def is_used(i: HloInstruction, result: int) -> bool:
    """Whether a result of a tuple is used."""
    return i.is_root or any(u.opcode is not Op.GET_TUPLE_ELEMENT or u.tuple_index == result for u in i.users)


def _results(i: HloInstruction) -> list[ArrayShape]:
    return [s.as_array() for _, s in i.shape.leaves() if not s.is_token]


def _batch_rank(i: HloInstruction) -> int:
    return array_of(i.operands[0]).rank - 2


def _has_matrices(i: HloInstruction) -> bool:
    """Whether all operands are arrays of LAPACK's types with something in them, the first of them of matrices."""
    if not all(o.shape.is_array for o in i.operands):
        return False
    given = [array_of(o) for o in i.operands]
    t, letter = given[0].element_type, lapack_name(str(i.get("custom_call_target")))
    return (
        t in TYPES.values()
        and (letter is None or TYPES[letter[0]] is t)
        and given[0].rank >= 2
        and all(s.element_count for s in given)
    )


def _fits(i: HloInstruction, w: Way) -> bool:
    signature = w.signature(i)
    if signature is None:
        return False
    given, made, rank = [array_of(o) for o in i.operands], _results(i), _batch_rank(i)
    wanted = (*signature.operands, *signature.results)
    if (len(given), len(made)) != (len(signature.operands), len(signature.results)):
        return False
    batch = given[0].dimensions[:rank]
    if not all(_is(i, s, batch, spec) for s, spec in zip((*given, *made), wanted, strict=True)):
        return False
    if not all(same_order(made[n if i.shape.is_tuple else 0], given[n]) for n in w.in_place):
        return False
    least = w.together(i) if w.together is not None else 1
    return least > 0 and batch_of(i) >= least


def _is(i: HloInstruction, shape: ArrayShape, batch: tuple[int, ...], spec: Spec | None) -> bool:
    """Whether an array holds what a spec says for each matrix of a batch, in the order of memory that LAPACK wants."""
    rank = len(batch)
    by_rows = i.opcode in OPCODES and not shape.is_dynamic and same_order(shape, _with_layout(shape, shape.rank))
    if shape.dimensions[:rank] != batch or not (by_rows or same_order(shape, _with_layout(shape, rank))):
        return False
    return spec is None or (shape.element_type, shape.dimensions[rank:]) == spec


def _with_layout(shape: ArrayShape, batch: int) -> ArrayShape:
    """The shape with the batch's dimensions slowest, in order, and the others by columns."""
    slowest = [*range(batch), *reversed(range(batch, shape.rank))]
    return ArrayShape(shape.element_type, shape.dimensions, layout=Layout(tuple(reversed(slowest))))


# -- the kernel -----------------------------------------------------------------------------------------------------


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch memory that each thread needs."""
    found = way(i)
    return found.scratch(i) if found is not None else 0


def rounds(i: HloInstruction) -> tuple[int, float]:
    """(Calls that threads may share, nanoseconds of each.)"""
    found = way(i)
    return (found.calls(i), found.nanoseconds(i)) if found is not None else (0, 0.0)


def is_in_place(i: HloInstruction, operand: int) -> bool:
    """Whether the result of the same number may overwrite an operand."""
    found = way(i)
    return found is not None and operand in found.in_place


_KINDS = (Op.CUSTOM_CALL, *OPCODES)
for _op in _KINDS:
    SCRATCH_EACH[_op], ROUNDS[_op], IN_PLACE[_op] = scratch_bytes, rounds, is_in_place
    MEMORY_ONLY.add(_op)


@emitter(*_KINDS)
def _emit(k: Kernel) -> bool:
    i, f = k.root, k.f
    found = way(i)
    if found is None:
        return False
    rank, batch, each = _batch_rank(i), batch_of(i), found.each(i)
    results = [k.outputs[leaf] for leaf, _ in i.shape.leaves()]
    operands = [_in_memory(k.e, o) for o in i.operands]
    with parallel(f, found.calls(i), nanoseconds=found.nanoseconds(i)) as b:
        first = f.mul(b, each)
        given, made = ([_matrix(a, rank, first) for a in arrays] for arrays in (operands, results))
        scratch = None
        if found.scratch(i):
            # Threads that share the work on a single matrix share its scratch memory too.
            scratch = k.scratch if batch == 1 else k.own_scratch()
        if found.copied:
            for n in found.in_place:
                at = n if i.shape.is_tuple else 0
                if operands[n].pointer != results[at].pointer:
                    f.move(made[at], given[n], _bytes(operands[n].shape, rank))
        call = Call(f, i, element_type(i), given, made, scratch, batch == 1, _count(f, first, each, batch))
        found.emit(call)
    f.ready = f.calls_only = True  # the time is spent in routines
    return True


def _count(f: Function, first: Ix, each: int, batch: int) -> Ix:
    """The matrices of a call."""
    left = f.sub(batch, first)
    return min(left, each) if isinstance(left, int) else left.umin(each) if each > 1 else 1


def _in_memory(e: Elemental, i: HloInstruction) -> IrArray:
    source = e.bindings[i][()] if i in e.bindings else e.constants(i)
    if not isinstance(source, IrArray):
        raise CompilationError(f"an operand of a LAPACK routine is not in memory:\n  {i}")
    return source


def _bytes(shape: ArrayShape, batch: int) -> int:
    """Of one matrix."""
    return math.prod(shape.dimensions[batch:]) * shape.element_type.byte_size


def _matrix(a: IrArray, batch: int, number: Ix) -> Value:
    f = a.pointer.function
    return Pointer(a.pointer, I8).address(f.mul(number, _bytes(a.shape, batch)))


def matrix_bytes(i: HloInstruction, operand: int) -> int:
    """Bytes of an operand for one matrix of the batch."""
    return _bytes(array_of(i.operands[operand]), _batch_rank(i))


def result_bytes(i: HloInstruction) -> list[int]:
    """Bytes of each result for one matrix."""
    return [_bytes(s, _batch_rank(i)) for s in _results(i)]


def number(t: PrimitiveType) -> Type:
    """LLVM's type of a real number, or of a part of a complex one."""
    return I32 if t is T.S32 else memory(part(t))
