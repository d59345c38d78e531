"""custom-call of a LAPACK routine as a kernel: the table of routines, and the loop over a batch of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import IrArray, same_order
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.kernel import Kernel, special
from xlanb.cpu.codegen.matmul import shared
from xlanb.cpu.codegen.matmul.shared import moved
from xlanb.cpu.codegen.parallel import parallel, parts
from xlanb.cpu.codegen.types import part
from xlanb.cpu.emitters import linalg as lapack
from xlanb.cpu.emitters.kernel import IN_PLACE, ROUNDS, SCRATCH_EACH
from xlanb.errors import CompilationError
from xlanb.evaluator.lapack import lapack_name, lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, Layout, PrimitiveType

T = PrimitiveType
_TYPES = {"s": T.F32, "d": T.F64, "c": T.C64, "z": T.C128}
_COMPLEX = {T.F32: T.C64, T.F64: T.C128}


@dataclass(frozen=True)
class Call:
    """A routine called for one matrix of a batch.

    `operands` and `results` are addresses, leaf after leaf; `scratch` that of as many bytes as the routine asked for, aligned to a cache line; `type` is the element type.
    """

    e: Elemental
    instruction: HloInstruction
    type: PrimitiveType
    operands: Sequence[str]
    results: Sequence[str]
    scratch: str
    alone: bool
    """Whether it is the only matrix, so that threads may share what is done with it."""
    count: Ix = 1
    """How many matrices it is for: more than one for `Together`."""

    @property
    def f(self) -> Function:
        """The function that is being written."""
        return self.e.f

    def size(self, operand: int) -> tuple[int, int]:
        """Rows and columns of an operand."""
        rows, columns = array_of(self.instruction.operands[operand]).dimensions[-2:]
        return rows, columns

    @property
    def options(self) -> Mapping[str, int]:
        """Those of the custom-call."""
        return lapack_options(self.instruction)

    @contextmanager
    def parts(self, count: int, *, nanoseconds: float) -> Iterator[tuple[Ix, Ix]]:
        """Bounds low < high of a part of 0..count, which threads may share (see codegen.parallel); of a matrix by itself `operands`, `results` and `scratch` are known within."""
        if not self.alone:
            yield 0, count
            return
        with parts(self.e, count, nanoseconds=nanoseconds) as bounds:
            yield bounds

    def address(self, pointer: str, elements: int) -> str:
        """An address so many elements further."""
        return moved(self.f, pointer, str(elements * self.type.byte_size)) if elements else pointer

    def routine(
        self, name: str, emit: Callable[[Function], None], parameters: Sequence[str], *arguments: Ix, key: object = ()
    ) -> None:
        """Call a routine `xlanb.NAME.TYPE` that all programs share: `emit` writes its body, which depends on the name, `key` and the element type alone.

        Parameters are as LLVM has them ("ptr %a", "i64 %n"), arguments in their order.
        """
        kind = shared.types_text(self.type)
        called = shared.routine(self.f.module, (name, self.type, key), f"{name}.{kind}", emit, parameters)
        given = (f"{p.split()[0]} {a}" for p, a in zip(parameters, arguments, strict=True))
        self.f.do(f"call void @{called}({', '.join(given)})")


def _always(i: HloInstruction) -> bool:
    return True


def _none(i: HloInstruction) -> int:
    return 0


@dataclass(frozen=True)
class Together:
    """How small matrices of a batch are done side by side, as many as a cache line has elements: `emit(call)` for `call.count` of them, from the operands to the results.

    `matrices` is how many a batch must have for that to pay (0: it never does); `scratch` bytes and `nanoseconds` are those of one call.
    """

    emit: Callable[[Call], None]
    matrices: Callable[[HloInstruction], int]
    scratch: Callable[[HloInstruction], int]
    nanoseconds: Callable[[HloInstruction], float]


@dataclass(frozen=True)
class Native:
    """What makes a kernel of a LAPACK routine (see the package); `operands` and `results` tell of each array whether it is a number (0), a vector (1) or a matrix (2)."""

    emit: Callable[[Call], None]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    nanoseconds: Callable[[HloInstruction], float]
    fits: Callable[[HloInstruction], bool] = _always
    overwrites: tuple[int, ...] = ()
    scratch: Callable[[HloInstruction], int] = _none
    together: Together | None = None
    complex_results: tuple[int, ...] = ()
    """The results for complex numbers, where each matrix of those is done by itself too; a result may be complex then where the operand is real."""


NATIVE: dict[str, Native] = {}
"""Routines that have kernels, by LAPACK's name without the letter of the type."""
OPCODES: dict[Op, Native] = {}
"""Opcodes that have kernels of the same kind; their matrices may lie by rows too."""


def native(i: HloInstruction) -> Native | None:
    """What makes a kernel of an instruction; None where the runtime has to compute it."""
    found, t = OPCODES.get(i.opcode), None
    if found is not None:
        t = array_of(i.operands[0]).element_type if i.operands else None
    elif i.opcode is Op.CUSTOM_CALL:
        letter, name = lapack_name(str(i.get("custom_call_target"))) or ("", "")
        found, t = NATIVE.get(name), _TYPES.get(letter)
    if found is None or t is None or not _is_plain(i, found, t) or not found.fits(i):
        return None
    # Complex numbers are done side by side, or by a routine that takes them, or not at all.
    by_itself = not t.is_complex or bool(found.complex_results)
    return found if by_itself or (i.opcode not in OPCODES and _together(i, found) is not None) else None


def _is_plain(i: HloInstruction, routine: Native, t: PrimitiveType) -> bool:
    """Whether there is something to do, and all arrays are of one batch, of the type (or 32-bit integers) and as LAPACK has them."""
    if t not in _TYPES.values() or not all(o.shape.is_array for o in i.operands):
        return False
    given, made = [array_of(o) for o in i.operands], [s.as_array() for _, s in i.shape.leaves() if not s.is_token]
    results = routine.complex_results if t.is_complex and routine.complex_results else routine.results
    if (len(given), len(made)) != (len(routine.operands), len(results)):
        return False
    types = (t, T.S32, _COMPLEX.get(t, t)) if routine.complex_results else (t, T.S32)
    batch = given[0].dimensions[: given[0].rank - routine.operands[0]]
    return (
        given[0].element_type is t
        and all(s.element_count for s in given)
        and all(s.element_type in types for s in (*given, *made))
        and all(
            s.rank == len(batch) + rank
            and s.dimensions[: len(batch)] == batch
            and (_is_lapacks(s, len(batch)) or (i.opcode in OPCODES and is_by_rows(s)))
            for s, rank in zip((*given, *made), (*routine.operands, *results), strict=True)
        )
        and all(same_order(made[n if i.shape.is_tuple else 0], given[n]) for n in routine.overwrites)
    )


def _is_lapacks(shape: ArrayShape, batch: int) -> bool:
    """Whether an array of a batch lies as LAPACK has it: number after number, vector after vector, or matrix after matrix, each by columns."""
    slowest = [*range(batch), *reversed(range(batch, shape.rank))]
    wanted = ArrayShape(shape.element_type, shape.dimensions, layout=Layout(tuple(reversed(slowest))))
    return not shape.is_dynamic and same_order(shape, wanted)


def is_by_rows(shape: ArrayShape) -> bool:
    """Whether an array lies row after row."""
    return not shape.is_dynamic and same_order(shape, ArrayShape(shape.element_type, shape.dimensions))


def _batch(i: HloInstruction, routine: Native) -> int:
    shape = array_of(i.operands[0])
    return math.prod(shape.dimensions[: shape.rank - routine.operands[0]])


def side_by_side(t: PrimitiveType) -> int:
    """How many matrices `Together` takes at once."""
    return 64 // part(t).byte_size


def _together(i: HloInstruction, routine: Native) -> Together | None:
    """How matrices are done side by side, where that pays."""
    found = routine.together
    if found is None:
        return None
    least = found.matrices(i)
    return found if least and _batch(i, routine) >= least else None


def _scratch(i: HloInstruction) -> int:
    found = native(i)
    return (_together(i, found) or found).scratch(i) if found is not None else lapack.scratch_bytes(i)


def _rounds(i: HloInstruction) -> tuple[int, float]:
    found = native(i)
    if found is None:
        return lapack.rounds(i)
    together, batch = _together(i, found), _batch(i, found)
    if together is None:
        return batch, found.nanoseconds(i)
    return -(-batch // side_by_side(array_of(i.operands[0]).element_type)), together.nanoseconds(i)


def _in_place(i: HloInstruction, operand: int) -> bool:
    found = native(i)
    return operand in found.overwrites if found is not None else lapack.is_in_place(i, operand)


_KINDS = (Op.CUSTOM_CALL, Op.CHOLESKY, Op.TRIANGULAR_SOLVE)
for _op in _KINDS:
    SCRATCH_EACH[_op] = _scratch
    ROUNDS[_op] = _rounds
    IN_PLACE[_op] = _in_place


@special(*_KINDS, memory_only=True)
def _custom_call(k: Kernel) -> bool:
    i, e = k.root, k.e
    found = native(i)
    if found is None:
        return False
    together, scratch = _together(i, found), _scratch(i)
    t = array_of(i.operands[0]).element_type
    results = [k.outputs[leaf] for leaf, _ in i.shape.leaves()]
    operands = [_array(e, o) for o in i.operands]
    rank, batch = array_of(i.operands[0]).rank - found.operands[0], _batch(i, found)
    each = side_by_side(t) if together is not None else 1
    rounds, cost = _rounds(i)
    with parallel(e, rounds, nanoseconds=cost) as b:
        given, made = ([_matrix(e.f, a, rank, e.f.mul(b, each)) for a in arrays] for arrays in (operands, results))
        # Of a matrix by itself threads may share the work: they all know the kernel's parameters.
        room = (k.scratch if batch == 1 else k.own_scratch()) if scratch else ""
        call = Call(e, i, t, given, made, room, batch == 1, _count(e.f, b, each, batch))
        if together is not None:
            together.emit(call)
        else:
            for n in found.overwrites:
                at = n if i.shape.is_tuple else 0
                if operands[n].pointer != results[at].pointer:
                    _copy(e.f, made[at], given[n], _bytes(operands[n].shape, rank))
            found.emit(call)
    e.f.ready = e.f.calls_only = True  # what takes time is in routines
    return True


def _count(f: Function, b: Ix, each: int, batch: int) -> Ix:
    """The matrices of call b."""
    if each == 1:
        return 1
    left = f.sub(batch, f.mul(b, each))
    return (
        min(left, each) if isinstance(left, int) else f.call("i64", "llvm.umin.i64", ("i64", left), ("i64", str(each)))
    )


def _array(e: Elemental, i: HloInstruction) -> IrArray:
    """An operand in memory."""
    source = e.bindings[i][()] if i in e.bindings else e.constants(i)
    if not isinstance(source, IrArray):
        raise CompilationError(f"an operand of LAPACK's is not in memory:\n  {i}")
    return source


def _bytes(shape: ArrayShape, batch: int) -> int:
    """Of one matrix of a batch of so many dimensions."""
    return math.prod(shape.dimensions[batch:]) * shape.element_type.byte_size


def _matrix(f: Function, a: IrArray, batch: int, b: Ix) -> str:
    """The address of matrix b."""
    offset = f.mul(b, _bytes(a.shape, batch))
    return a.pointer if offset == 0 else moved(f, a.pointer, str(offset))


def _copy(f: Function, target: str, source: str, size: int) -> None:
    f.module.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
