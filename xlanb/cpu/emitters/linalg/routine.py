"""Kernels of linear algebra: LAPACK custom-calls, and the opcodes cholesky, triangular-solve.

CUSTOM_CALLS and OPCODES list the strategies for an instruction, the preferred one first. The
first whose routine fits is used. A strategy computes one matrix of a batch, or as many small ones
as a vector has lanes, inside a loop over the batch that threads may share. If none fits, the
runtime is called (xlanb.codegen.host_call).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import memory, part
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import IrArray, same_order
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.plan import time_text
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I8, Type
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import HAS_KERNEL, IN_PLACE, ROUNDS, SCRATCH_EACH, Kernel, emitter
from xlanb.errors import CompilationError
from xlanb.evaluator.lapack import lapack_name
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout, PrimitiveType

T = PrimitiveType
TYPES = {"s": T.F32, "d": T.F64, "c": T.C64, "z": T.C128}
"""Element types by LAPACK's letters."""
LINE = 64
"""Bytes of a cache line."""

# -- LAPACK's routines as data ---------------------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """An argument that is an array.

    kind: "operand" or "result" (by `number`), "copy" (operand `number` in scratch memory, as the
    routine overwrites it), "scratch" (memory of `number` bytes) or "work": two arguments, the
    workspace and its size, found by a workspace query
    """

    kind: str
    number: int = 0


OPERAND, RESULT, COPY, SCRATCH = (partial(Array, kind) for kind in ("operand", "result", "copy", "scratch"))
WORK = Array("work")
Argument = int | float | str | Array | None
"""Integers, numbers of the element type, letters and arrays; None is a null pointer."""
Arguments = tuple[Argument, ...]
Spec = tuple[PrimitiveType, tuple[int, ...]]
"""Element type and dimensions of one matrix (2), vector (1) or number (0) of a batch."""


@dataclass(frozen=True)
class Routine:
    """A LAPACK routine that computes an instruction, one matrix at a time.

    operands:  spec of each operand for one matrix
    results:   spec of each result; None allows any dimensions
    name:      without the type letter
    arguments: in order
    flops:     estimated floating-point operations
    finite:    for iterations, the part of operand 0 that must be finite: all ("A") or a triangle
               ("L", "U")
    failing:   results set to NaN if an iteration fails, as its last result (info) says
    zeros:     results that the routine does not compute
    """

    operands: Sequence[Spec]
    results: Sequence[Spec | None]
    name: str
    arguments: Arguments
    flops: float
    finite: str = ""
    failing: Sequence[int] = ()
    zeros: Sequence[int] = ()


Fit = Callable[[HloInstruction], Routine | None]
"""Returns the routine that an instruction is; None if its options or shapes do not fit."""


@dataclass(frozen=True)
class RoutineCall:
    """One call: addresses of operands and results by leaf, and of this thread's scratch memory.

    Computes `count` matrices, more than one only side by side. `alone` means that the batch is a
    single matrix, so that threads may share the work on it.
    """

    f: Function
    instruction: HloInstruction
    routine: Routine
    operands: list[Value]
    results: list[Value]
    scratch: Value | None
    alone: bool
    count: Ix

    @property
    def type(self) -> PrimitiveType:
        """The element type."""
        return element_type(self.instruction)

    def room(self, offset: int = 0) -> Value:
        """The address of the scratch memory plus an offset in bytes.

        Raises:
            CompilationError: The strategy requested no scratch memory.
        """
        if self.scratch is None:
            raise CompilationError(f"a linear algebra kernel has no scratch memory:\n  {self.instruction}")
        return Pointer(self.scratch, I8).address(offset)

    def numbers(self, address: Value) -> Pointer:
        """A pointer to the numbers at an address."""
        return Pointer(address, number(self.type))

    def step(self, name: str, write: Callable[..., None], *given: object) -> None:
        """Call a function that all programs of a process share.

        `write(f, type, *given)` emits its body; the values in `given` become its parameters (see
        codegen.routines).
        """
        shared(f"linalg.{name}")(write)(self.f, self.type, *given)


@dataclass(frozen=True)
class RoutineWay:
    """One strategy to compute an instruction.

    how:          a description for the kernel's plan
    fit:          the routine that computes the instruction; None if the strategy does not fit it
    emit:         emits the code of one call
    nanoseconds:  estimated time of one call
    scratch:      bytes of scratch memory per thread
    in_place:     operands that may share memory with the result of the same number
    together:     the least batch for small matrices side by side, one per lane; if None, operands
    in
                  place are copied to the result before `emit`, which works on the copy
    """

    how: str
    fit: Fit
    emit: Callable[[RoutineCall], None]
    nanoseconds: Callable[[HloInstruction, Routine], float]
    scratch: Callable[[HloInstruction, Routine], int]
    in_place: tuple[int, ...] = (0,)
    together: Callable[[HloInstruction, Routine], int] | None = None

    def each(self, i: HloInstruction) -> int:
        """The number of matrices that one call computes."""
        return 1 if self.together is None else LINE // part(element_type(i)).byte_size

    def calls(self, i: HloInstruction) -> int:
        """The number of calls for a batch."""
        return -(-batch_of(i) // self.each(i))


WAYS: dict[str | Op, list[RoutineWay]] = {}
"""Strategies by LAPACK's name without the type letter, or by opcode, the preferred one first."""
OPCODES = (Op.CHOLESKY, Op.TRIANGULAR_SOLVE)
"""Opcodes in WAYS; their matrices may also be row-major."""


def has_kernel(i: HloInstruction) -> bool:
    """Whether an instruction is a linear algebra routine that has a kernel."""
    return way(i) is not None


def way(i: HloInstruction) -> tuple[RoutineWay, Routine] | None:
    """The preferred strategy for an instruction and its routine; None to call the runtime."""
    return next(_fitting(i), None)


def _fitting(i: HloInstruction) -> Iterator[tuple[RoutineWay, Routine]]:
    """Yield all strategies that fit, the preferred one first."""
    found = lapack_name(str(i.get("custom_call_target"))) if i.opcode is Op.CUSTOM_CALL else None
    ways = WAYS.get(found[1] if found else i.opcode, [])
    if not ways or not _has_matrices(i, found[0] if found else ""):
        return
    for w in ways:
        routine = w.fit(i)
        if routine is not None and _fits(i, w, routine):
            yield w, routine


# -- properties of the instruction -----------------------------------------------------------------


def element_type(i: HloInstruction) -> PrimitiveType:
    """The element type of the first operand."""
    return array_of(i.operands[0]).element_type


def size_of(i: HloInstruction, operand: int = 0) -> tuple[int, int]:
    """Rows and columns of an operand."""
    rows, columns = array_of(i.operands[operand]).dimensions[-2:]
    return rows, columns


def batch_of(i: HloInstruction) -> int:
    """The number of matrices in the batch."""
    return math.prod(array_of(i.operands[0]).dimensions[:-2])


def is_by_rows(i: HloInstruction, operand: int) -> bool:
    """Whether an operand is row-major; matrices of one row or column are also column-major."""
    shape = array_of(i.operands[operand])
    return not shape.is_dynamic and same_order(shape, ArrayShape(shape.element_type, shape.dimensions))


def is_used(i: HloInstruction, result: int) -> bool:
    """Whether a result of a tuple is used."""
    return i.is_root or any(u.opcode is not Op.GET_TUPLE_ELEMENT or u.tuple_index == result for u in i.users)


def results_of(i: HloInstruction) -> list[ArrayShape]:
    """The shapes of all results."""
    return [s.as_array() for _, s in i.shape.leaves() if not s.is_token]


def _has_matrices(i: HloInstruction, letter: str) -> bool:
    """Whether all operands are non-empty arrays and the first is a batch of matrices.

    Its type must be one of LAPACK's, or that of `letter` if given.
    """
    if not i.operands or not all(o.shape.is_array for o in i.operands):
        return False
    given = [array_of(o) for o in i.operands]
    types = [TYPES[letter]] if letter else TYPES.values()
    return given[0].element_type in types and given[0].rank >= 2 and all(s.element_count for s in given)


def _fits(i: HloInstruction, w: RoutineWay, routine: Routine) -> bool:
    given, made = [array_of(o) for o in i.operands], results_of(i)
    if (len(given), len(made)) != (len(routine.operands), len(routine.results)):
        return False
    batch, wanted = given[0].dimensions[:-2], (*routine.operands, *routine.results)
    if not all(_is(i, s, batch, spec) for s, spec in zip((*given, *made), wanted, strict=True)):
        return False
    if not all(same_order(made[n if i.shape.is_tuple else 0], given[n]) for n in w.in_place):
        return False
    least = w.together(i, routine) if w.together is not None else 1
    return least > 0 and batch_of(i) >= least


def _is(i: HloInstruction, shape: ArrayShape, batch: tuple[int, ...], spec: Spec | None) -> bool:
    """Whether an array holds `spec` for each matrix of a batch, in a layout that LAPACK accepts."""
    rank = len(batch)
    by_rows = i.opcode in OPCODES and not shape.is_dynamic and same_order(shape, _with_layout(shape, shape.rank))
    if shape.dimensions[:rank] != batch or not (by_rows or same_order(shape, _with_layout(shape, rank))):
        return False
    return spec is None or (shape.element_type, shape.dimensions[rank:]) == spec


def _with_layout(shape: ArrayShape, batch: int) -> ArrayShape:
    """The shape with the batch dimensions slowest, in order, and the others column-major."""
    slowest = [*range(batch), *reversed(range(batch, shape.rank))]
    return ArrayShape(shape.element_type, shape.dimensions, layout=Layout(tuple(reversed(slowest))))


# -- the kernel ------------------------------------------------------------------------------------


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch memory per thread."""
    found = way(i)
    return found[0].scratch(i, found[1]) if found else 0


def rounds(i: HloInstruction) -> tuple[int, float]:
    """The number of calls that threads may share, and the nanoseconds of each."""
    found = way(i)
    return (found[0].calls(i), found[0].nanoseconds(i, found[1])) if found else (0, 0.0)


def is_in_place(i: HloInstruction, operand: int) -> bool:
    """Whether a result may overwrite the operand with the same number."""
    found = way(i)
    return found is not None and operand in found[0].in_place


_KINDS = (Op.CUSTOM_CALL, *OPCODES)
for _op in _KINDS:
    SCRATCH_EACH[_op], ROUNDS[_op], IN_PLACE[_op] = scratch_bytes, rounds, is_in_place
    HAS_KERNEL[_op] = has_kernel


@emitter(*_KINDS)
def _emit(k: Kernel) -> bool:
    i, f, found = k.root, k.f, way(k.root)
    if found is None:
        return False
    w, routine = found
    batch, each = batch_of(i), w.each(i)
    results = [k.outputs[leaf] for leaf, _ in i.shape.leaves()]
    operands = [k.memory(o) for o in i.operands]
    with parallel(f, w.calls(i), nanoseconds=w.nanoseconds(i, routine)) as b:
        first = f.mul(b, each)
        given, made = ([_matrix(a, batch, first) for a in arrays] for arrays in (operands, results))
        scratch = None
        if w.scratch(i, routine):
            # Threads that share the work on a single matrix share its scratch memory too.
            scratch = k.scratch if batch == 1 else k.own_scratch()
        for n in w.in_place if w.together is None else ():
            at = n if i.shape.is_tuple else 0
            if operands[n].pointer != results[at].pointer:
                f.move(made[at], given[n], matrix_bytes(i, n))
        for n in routine.zeros:
            if is_used(i, n):
                f.fill(made[n], 0, result_bytes(i)[n])
        w.emit(RoutineCall(f, i, routine, given, made, scratch, batch == 1, _count(f, first, each, batch)))
    f.ready = f.calls_only = True  # most time is spent in routines
    _note_choice(f, i)
    return True


def _note_choice(f: Function, i: HloInstruction) -> None:
    """Add the strategies that fit, with estimated times on one thread, to the kernel's plan."""
    ways = list(_fitting(i))
    routine = ways[0][1]
    first, *others = [(w.how, time_text(w.calls(i) * w.nanoseconds(i, r))) for w, r in ways]
    rows, columns = size_of(i)
    f.decided(f"{routine.name} of {batch_of(i)} x [{rows},{columns}]", *first, others)


def _count(f: Function, first: Ix, each: int, batch: int) -> Ix:
    """The number of matrices in a call."""
    left = f.sub(batch, first)
    return min(left, each) if isinstance(left, int) else left.umin(each) if each > 1 else 1


def _matrix(a: IrArray, batch: int, number: Ix) -> Value:
    """The address of an array's data for one matrix of the batch."""
    return Pointer(a.pointer, I8).address(a.pointer.function.mul(number, a.shape.byte_size // batch))


def matrix_bytes(i: HloInstruction, operand: int) -> int:
    """Bytes of an operand for one matrix of the batch."""
    return array_of(i.operands[operand]).byte_size // batch_of(i)


def result_bytes(i: HloInstruction) -> list[int]:
    """Bytes of each result for one matrix."""
    return [s.byte_size // batch_of(i) for s in results_of(i)]


def number(t: PrimitiveType) -> Type:
    """The LLVM type of a real number, or of one part of a complex number."""
    return memory(part(t))
