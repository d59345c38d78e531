"""Call LAPACK and BLAS routines of SciPy; check for non-finite numbers; report failures.

An iteration on a matrix with inf or NaN may not terminate, so it is skipped: its results are NaN
and its info is -4, as in LAPACK's newer routines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen import costs, polling
from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8, I32, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, step
from xlanb.cpu.emitters.linalg.routine import (
    LINE,
    SCRATCH,
    TYPES,
    WORK,
    Argument,
    Array,
    Fit,
    Routine,
    RoutineCall,
    RoutineWay,
    element_type,
    matrix_bytes,
    number,
    result_bytes,
    results_of,
    size_of,
)
from xlanb.cpu.lapack import PREFIX, SERIAL, workspace
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_LETTERS = {t: letter for letter, t in TYPES.items()}
NOT_FINITE = -4
"""The info of a matrix with non-finite numbers."""


def _placed(i: HloInstruction, routine: Routine) -> list[Argument]:
    """The arguments, with workspaces of known size."""
    made, t = list(routine.arguments), element_type(i)
    if WORK in made:
        at = made.index(WORK)
        made[at : at + 1] = [SCRATCH(0), 0]
        asked = tuple(a if isinstance(a, (int, str)) else None for a in made)
        size = workspace(_LETTERS[t] + routine.name, asked, at, t.dtype.str)
        made[at : at + 2] = [SCRATCH(size * t.byte_size), size]
    return made


def _scratch_bytes(i: HloInstruction, a: Argument) -> int:
    """Bytes of scratch memory of an argument, in whole cache lines."""
    if not isinstance(a, Array):
        return 0
    if _is_apart(i, a):
        return -(-result_bytes(i)[a.number] // LINE) * LINE + LINE
    if a.kind not in ("scratch", "copy"):
        return 0
    size = matrix_bytes(i, a.number) if a.kind == "copy" else a.number
    return -(-size // LINE) * LINE


def _is_apart(i: HloInstruction, a: Array) -> bool:
    """Whether a routine computes a result in scratch memory.

    OpenBLAS's cscal reads the number behind a vector of complex numbers (seen in 0.3.30, if the
    factor is NaN), so a result must not be the end of an array.
    """
    return a.kind == "result" and results_of(i)[a.number].element_type.is_complex


def emit_call(call: RoutineCall, *, serial: bool) -> list[Value]:
    """Emit a LAPACK call, on one thread (`serial`) or on OpenBLAS's threads.

    Returns the addresses of the arguments; a workspace is two, itself and its size.
    """
    f, i, addresses, offset = call.f, call.instruction, list[Value](), 0
    apart: list[tuple[int, Value]] = []
    for a in _placed(i, call.routine):
        if not isinstance(a, Array):
            addresses.append(_constant(f, call.type, a))
        elif _is_apart(i, a):
            apart.append((a.number, call.room(offset)))
            addresses.append(apart[-1][1])
            offset += _scratch_bytes(i, a)
            f.move(addresses[-1], call.results[a.number], result_bytes(i)[a.number])
        elif a.kind in ("operand", "result"):
            addresses.append((call.operands if a.kind == "operand" else call.results)[a.number])
        else:
            addresses.append(call.room(offset))
            offset += _scratch_bytes(i, a)
            if a.kind == "copy":
                f.move(addresses[-1], call.operands[a.number], matrix_bytes(i, a.number))
    routine = f"{_LETTERS[call.type]}{call.routine.name}"
    f.call(VOID, f"{SERIAL}{routine}.{len(addresses)}" if serial else f"{PREFIX}{routine}", *addresses)
    f.regions[-1].work += polling.CALL
    for k, room in apart:
        f.move(call.results[k], room, result_bytes(i)[k])
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


# -- strategies ------------------------------------------------------------------------------------

Finish = Callable[[RoutineCall, Sequence[Value]], None]


def lapack_way(
    fit: Fit, *, finish: Finish = lambda _call, _arguments: None, in_place: tuple[int, ...] = (0,)
) -> RoutineWay:
    """The strategy that calls one LAPACK routine; `finish` emits what follows the call."""

    def emit(call: RoutineCall) -> None:
        c = costs.COMMON
        limit = c.serial_iteration_flops if call.routine.finite else c.serial_flops
        finish(call, emit_call(call, serial=not call.alone or call.routine.flops < limit))

    return RoutineWay(
        "calls of LAPACK",
        fit,
        checked(emit),
        lambda _, routine: 500 + routine.flops / 4,
        lambda i, routine: sum(_scratch_bytes(i, a) for a in _placed(i, routine)) or (LINE if routine.finite else 0),
        in_place,
    )


def checked(emit: Callable[[RoutineCall], None]) -> Callable[[RoutineCall], None]:
    """Wrap an emitter: skip non-finite matrices; set results to NaN there and on failure."""

    def guarded(call: RoutineCall) -> None:
        if not call.routine.finite:
            emit(call)
            return
        f, info, sizes = call.f, Pointer(call.results[-1], I32), result_bytes(call.instruction)
        ok = emit_is_finite(call)
        with f.when(ok):
            emit(call)
        with f.when(~ok):
            info[0] = f.const(I32, NOT_FINITE)
        with f.when(info[0].differs(0)):
            for k in call.routine.failing:
                f.fill(call.results[k], 0xFF, sizes[k])

    return guarded


def emit_is_finite(call: RoutineCall) -> Value:
    """An i1: whether operand 0, or the part that is read, is finite. Uses one number of scratch."""
    rows, columns = size_of(call.instruction)
    parts, total = 2 if call.type.is_complex else 1, call.numbers(call.room())
    source = call.numbers(call.operands[0])
    step(call, sum_of_zeros, source, rows * parts, columns, parts, call.routine.finite, total)
    return total[0].equals(0.0)


def sum_of_zeros(c: Columns, a: Pointer, rows: Value, columns: Value, parts: Value, which: str, total: Pointer) -> None:
    """Set `total` to 0 if all numbers are finite, to NaN otherwise."""
    with c.count(0, columns, [c.zeros]) as loop:
        j, column = loop.index, a.by(loop.index * rows)
        low = j * parts if which == "L" else c.f.value(0)
        high = ((j + 1) * parts).smin(rows) if which == "U" else rows
        with c.count(low, high, loop.values, step=c.width) as row:
            x = column.load(row.index, c.width, c.first_lanes(row.index, high))
            row.next = [row.values[0] + x * 0.0]
        loop.next = row.values
    total[0] = c.total(loop.values[0])
