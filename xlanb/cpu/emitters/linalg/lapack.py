"""Calls of LAPACK and BLAS routines by SciPy: their arguments as data, checks for numbers that are not finite, and how failures are told.

An iteration on a matrix with inf or NaN may not end, so such a matrix is not handed to one: its results are NaN and
its info is -4, as LAPACK's newer routines give it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xlanb.codegen import polling
from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.routine import (
    LINE,
    TYPES,
    Call,
    Signature,
    Way,
    element_type,
    matrix_bytes,
    number,
    result_bytes,
    size_of,
)
from xlanb.cpu.lapack import PREFIX, SERIAL, workspace
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_LETTERS = {t: letter for letter, t in TYPES.items()}
NOT_FINITE = -4
"""The info of a matrix with numbers that are not finite."""


@dataclass(frozen=True)
class Operand:
    """An argument that is operand `number`."""

    number: int


@dataclass(frozen=True)
class Result:
    """An argument that is result `number`."""

    number: int


@dataclass(frozen=True)
class Scratch:
    """An argument that is scratch memory of so many bytes."""

    bytes: int


@dataclass(frozen=True)
class Copied:
    """An argument that is a copy of operand `number` in scratch memory: the routine overwrites it."""

    number: int


@dataclass(frozen=True)
class Workspace:
    """Two arguments: the workspace, of the size that the routine itself asks for, and that size."""


ONE = 1.0
_SERIAL, _SERIAL_ITERATION = 5e8, 1e10
"""Operations of a single matrix, by a factorization or by an iteration, up to which one thread computes it: OpenBLAS's wait for one another too often to be of use."""
WORK = Workspace()
INFO = Scratch(4)
"""An info that is no result."""
Argument = int | float | str | Operand | Result | Scratch | Copied | Workspace | None
"""Integers, numbers of the element type, letters and arrays; None is a null pointer."""


@dataclass(frozen=True)
class LapackCall:
    """A routine without the letter of its type, and its arguments in order; whether it runs on one thread."""

    routine: str
    arguments: tuple[Argument, ...]
    serial: bool = True

    def placed(self, i: HloInstruction) -> tuple[list[Argument], int]:
        """(The arguments with a workspace of known size, all bytes of scratch memory that they take.)"""
        made: list[Argument] = list(self.arguments)
        if WORK in made:
            at, t = made.index(WORK), element_type(i)
            made[at : at + 1] = [Scratch(0), 0]
            asked = tuple(a if isinstance(a, (int, str)) else None for a in made)
            size = workspace(_LETTERS[t] + self.routine, asked, at, t.dtype.str)
            made[at : at + 2] = [Scratch(size * t.byte_size), size]
        return made, sum(_scratch_bytes(i, a) for a in made)


def _scratch_bytes(i: HloInstruction, a: Argument) -> int:
    size = a.bytes if isinstance(a, Scratch) else matrix_bytes(i, a.number) if isinstance(a, Copied) else 0
    return _lines(size)


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE


def emit_call(call: Call, planned: LapackCall, offset: int = 0) -> list[Value]:
    """Write a call; scratch memory from byte `offset` on is its own. Gives the addresses of the arguments, a workspace and its size being two."""
    f, addresses, i = call.f, list[Value](), call.instruction
    made, _ = planned.placed(i)
    for a in made:
        if isinstance(a, (Scratch, Copied)):
            addresses.append(call.room(offset))
            if isinstance(a, Copied):
                f.move(addresses[-1], call.operands[a.number], matrix_bytes(i, a.number))
            offset += _scratch_bytes(i, a)
        elif isinstance(a, Operand):
            addresses.append(call.operands[a.number])
        elif isinstance(a, Result):
            addresses.append(call.results[a.number])
        else:
            addresses.append(_constant(f, call.type, a))
    f.call(VOID, f"{SERIAL if planned.serial else PREFIX}{_LETTERS[call.type]}{planned.routine}", *addresses)
    f.regions[-1].work += polling.CALL
    return addresses


def _constant(f: Function, t: PrimitiveType, value: Argument) -> Value:
    """The address of a constant; a null pointer for None."""
    if isinstance(value, str):
        return f.table(f"fortran.letter.{value}", I8, [ord(value)])
    if isinstance(value, int):
        return f.table(f"fortran.int.{value}", I32, [value])
    if isinstance(value, float):
        kind = number(t)
        return f.table(f"fortran.{kind.mangled}.{value:g}", kind, [value, 0.0])
    return f.zero(PTR)


# -- ways of computing ----------------------------------------------------------------------------------------------

Finish = Callable[[Call, Sequence[Value]], None]


@dataclass(frozen=True)
class Iteration:
    """What an iteration needs to end: a finite operand 0, all of it ("A") or a triangle of it ("L", "U").

    `info` is the result that tells of failures; the results `failing` are NaN then.
    """

    part: Callable[[HloInstruction], str]
    info: int
    failing: Callable[[HloInstruction], Sequence[int]]


def nothing(call: Call, arguments: Sequence[Value]) -> None:
    """The routine leaves all results in their places."""
    del call, arguments


def lapack_way(
    signature: Callable[[HloInstruction], Signature | None],
    plan: Callable[[HloInstruction], LapackCall],
    flops: Callable[[HloInstruction], float],
    *,
    finish: Finish = nothing,
    iteration: Iteration | None = None,
    in_place: tuple[int, ...] = (0,),
) -> Way:
    """The way to compute an instruction by one LAPACK routine; `flops` are those of a matrix, roughly, and `finish` writes what follows a call."""

    def emit(call: Call) -> None:
        limit = _SERIAL_ITERATION if iteration else _SERIAL
        planned = replace(plan(call.instruction), serial=not call.alone or flops(call.instruction) < limit)
        if iteration is None:
            finish(call, emit_call(call, planned))
        else:
            _emit_iteration(call, planned, finish, iteration, in_place)

    return Way(
        signature,
        emit,
        lambda i: 500 + flops(i) / 4,
        lambda i: plan(i).placed(i)[1] + (LINE if iteration else 0),
        in_place,
    )


def _emit_iteration(
    call: Call, planned: LapackCall, finish: Finish, iteration: Iteration, in_place: tuple[int, ...]
) -> None:
    f, i, info = call.f, call.instruction, Pointer(call.results[iteration.info], I32)
    source = call.results[0] if 0 in in_place else call.operands[0]
    ok = emit_is_finite(call, source, iteration.part(i))
    with f.when(ok):
        finish(call, emit_call(call, planned, LINE))
    with f.when(~ok):
        info[0] = f.const(I32, NOT_FINITE)
    with f.when(info[0].differs(0)):
        sizes = result_bytes(i)
        for k in iteration.failing(i):
            f.fill(call.results[k], 0xFF, sizes[k])


# -- numbers that are not finite ------------------------------------------------------------------------------------

_FINITE = tuple(
    Parameter(kind, name)
    for kind, name in ((PTR, "a"), (I64, "rows"), (I64, "columns"), (I64, "below"), (I64, "above"), (PTR, "sum"))
)


def emit_is_finite(call: Call, source: Value, which: str) -> Value:
    """An i1: whether operand 0, which stands at `source`, is finite: all of it ("A") or a triangle ("L", "U"). It takes a number of scratch memory."""
    rows, columns = size_of(call.instruction)
    parts = 2 if call.type.is_complex else 1
    below, above = int(which == "L"), int(which == "U")
    total = call.room()
    given = (source, rows * parts, columns, below * parts, above * parts, total)
    call.routine("is.finite", lambda f: _write_finite(f, call.type), _FINITE, *given)
    return Pointer(total, number(call.type))[0].equals(0.0)


def _write_finite(f: Function, t: PrimitiveType) -> None:
    """Set a sum to 0 if all numbers are finite, to NaN otherwise. Column j has the rows from j * below on, before (j + 1) * above if that is not 0."""
    a, rows, columns, below, above, total = (f.argument(p) for p in _FINITE)
    kind = number(t)
    width = f.target.vector_bits // kind.bits
    with f.carried(columns, [f.zero(kind.times(width))], guarded=True) as column:
        j = f.value(column.index)
        first = j * below
        count = above.equals(0).select(rows, ((j + 1) * above).smin(rows)) - first
        p = Pointer(a, kind).by(j * rows + first)
        with f.carried((count + (width - 1)).sdiv(f.const(I64, width)), column.values, guarded=True) as each:
            at = f.value(each.index) * width
            x = p.load(at, width, Mask.first(f, width, count - at))
            each.next = [each.values[0] + x * 0.0]
        column.next = each.values
    Pointer(total, kind)[0] = f.reduce("fadd", column.values[0], "reassoc")
