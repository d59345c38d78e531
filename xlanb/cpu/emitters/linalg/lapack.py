"""Calls of LAPACK and BLAS routines by SciPy, checks for numbers that are not finite, and how failures are told.

An iteration on a matrix with inf or NaN may not end, so such a matrix is not handed to one: its results are NaN and
its info is -4, as LAPACK's newer routines give it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.codegen import polling
from xlanb.codegen.function import Function
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.routine import (
    LINE,
    TYPES,
    Argument,
    Call,
    Copied,
    Fit,
    Operand,
    Result,
    Routine,
    Scratch,
    Way,
    Workspace,
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
_SERIAL, _SERIAL_ITERATION = 5e8, 1e10
"""Operations of a single matrix, by a factorization or by an iteration, up to which one thread computes it: OpenBLAS's wait for one another too often to be of use."""
NOT_FINITE = -4
"""The info of a matrix with numbers that are not finite."""


def _placed(i: HloInstruction, routine: Routine) -> list[Argument]:
    """The arguments with a workspace of known size."""
    made, t = list(routine.arguments), element_type(i)
    if Workspace() in made:
        at = made.index(Workspace())
        made[at : at + 1] = [Scratch(0), 0]
        asked = tuple(a if isinstance(a, (int, str)) else None for a in made)
        size = workspace(_LETTERS[t] + routine.name, asked, at, t.dtype.str)
        made[at : at + 2] = [Scratch(size * t.byte_size), size]
    return made


def _scratch_bytes(i: HloInstruction, a: Argument) -> int:
    """Bytes of scratch memory that an argument takes, whole cache lines."""
    size = a.bytes if isinstance(a, Scratch) else matrix_bytes(i, a.number) if isinstance(a, Copied) else 0
    return -(-size // LINE) * LINE


def emit_call(call: Call, *, serial: bool) -> list[Value]:
    """Write a call, on one thread or on OpenBLAS's. Gives the addresses of the arguments, a workspace and its size being two."""
    f, i, addresses, offset = call.f, call.instruction, list[Value](), 0
    for a in _placed(i, call.routine):
        if isinstance(a, (Scratch, Copied)):
            addresses.append(call.room(offset))
            if isinstance(a, Copied):
                f.move(addresses[-1], call.operands[a.number], matrix_bytes(i, a.number))
            offset += _scratch_bytes(i, a)
        elif isinstance(a, (Operand, Result)):
            addresses.append((call.operands if isinstance(a, Operand) else call.results)[a.number])
        else:
            addresses.append(_constant(f, call.type, a))
    f.call(VOID, f"{SERIAL if serial else PREFIX}{_LETTERS[call.type]}{call.routine.name}", *addresses)
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

    part: Callable[[Routine], str]
    info: int
    failing: Callable[[Routine], Sequence[int]]


def lapack_way(
    fit: Fit,
    *,
    finish: Finish = lambda _call, _arguments: None,
    iteration: Iteration | None = None,
    in_place: tuple[int, ...] = (0,),
) -> Way:
    """The way to compute an instruction by one LAPACK routine; `finish` writes what follows a call, given its arguments."""
    limit = _SERIAL_ITERATION if iteration else _SERIAL

    def emit(call: Call) -> None:
        finish(call, emit_call(call, serial=not call.alone or call.routine.flops < limit))

    return Way(
        fit,
        emit if iteration is None else checked(emit, iteration, in_place),
        lambda _, routine: 500 + routine.flops / 4,
        lambda i, routine: sum(_scratch_bytes(i, a) for a in _placed(i, routine)) or (LINE if iteration else 0),
        in_place,
    )


def checked(
    emit: Callable[[Call], None], iteration: Iteration, in_place: tuple[int, ...] = (0,)
) -> Callable[[Call], None]:
    """An iteration that is not begun on a matrix that is not finite; it and those that fail have results of NaN."""

    def guarded(call: Call) -> None:
        f, info, sizes = call.f, Pointer(call.results[iteration.info], I32), result_bytes(call.instruction)
        source = call.results[0] if 0 in in_place else call.operands[0]
        ok = emit_is_finite(call, source, iteration.part(call.routine))
        with f.when(ok):
            emit(call)
        with f.when(~ok):
            info[0] = f.const(I32, NOT_FINITE)
        with f.when(info[0].differs(0)):
            for k in iteration.failing(call.routine):
                f.fill(call.results[k], 0xFF, sizes[k])

    return guarded


def emit_is_finite(call: Call, source: Value, which: str) -> Value:
    """An i1: whether operand 0, which stands at `source`, is finite: all of it ("A") or a triangle ("L", "U"). It takes a number of scratch memory."""
    rows, columns = size_of(call.instruction)
    parts, total = 2 if call.type.is_complex else 1, call.room()
    call.step("is.finite", _write_finite, source, rows * parts, columns, which, total)
    return Pointer(total, number(call.type))[0].equals(0.0)


def _write_finite(
    f: Function, t: PrimitiveType, a: Value, rows: Value, columns: Value, which: str, total: Value
) -> None:
    """Set a sum to 0 if all numbers are finite, to NaN otherwise."""
    kind, parts = number(t), 2 if t.is_complex else 1
    width = f.target.vector_bits // kind.bits
    with f.carried(columns, [f.zero(kind.times(width))], guarded=True) as column:
        j = f.value(column.index)
        first = j * parts if which == "L" else f.const(I64, 0)
        count = (((j + 1) * parts).smin(rows) if which == "U" else rows) - first
        p = Pointer(a, kind).by(j * rows + first)
        with f.carried((count + (width - 1)).sdiv(width), column.values, guarded=True) as each:
            at = f.value(each.index) * width
            x = p.load(at, width, Mask.first(f, width, count - at))
            each.next = [each.values[0] + x * 0.0]
        column.next = each.values
    Pointer(total, kind)[0] = f.reduce("fadd", column.values[0], "reassoc")
