"""Cholesky factors, LU factors and triangular systems of small matrices, one per lane.

See side_by_side.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer, scatter
from xlanb.codegen.types import I32, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.routine import LINE, WAYS, Fit, Routine, RoutineCall, RoutineWay, element_type, size_of
from xlanb.cpu.emitters.linalg.side_by_side import (
    Element,
    SideBySide,
    copy,
    least_matrices,
    vectors_bytes,
)
from xlanb.cpu.emitters.linalg.table import cholesky, finish_potrf, getrf, potrf, trsm
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType


def _elements(routine: Routine) -> int:
    return sum(math.prod(size) for _, size in routine.operands)


def _nanoseconds(i: HloInstruction, routine: Routine) -> float:
    return 60.0 + (2 * _elements(routine) + routine.flops / 2) * (4 if element_type(i).is_complex else 1)


def _scratch(i: HloInstruction, routine: Routine) -> int:
    return LINE + sum(vectors_bytes(element_type(i), math.prod(size)) for _, size in routine.operands)


def _together(i: HloInstruction, routine: Routine) -> int:
    return least_matrices(element_type(i), _elements(routine), min(size_of(i)))


def _way(fit: Fit, emit: Callable[[RoutineCall], None], in_place: int = 0) -> RoutineWay:
    return RoutineWay("a matrix in each lane", fit, emit, _nanoseconds, _scratch, (in_place,), _together)


# -- Cholesky factors ------------------------------------------------------------------------------


def emit_potrf(call: RoutineCall) -> None:
    """Emit the factor and info; the opcode has no info result and keeps it in scratch memory."""
    n, is_upper, room = size_of(call.instruction)[1], call.routine.arguments[0] == "U", call.room()
    info = call.results[1] if len(call.results) > 1 else call.room(vectors_bytes(call.type, n * n))
    copy(call, call.operands[0], room, n * n)
    call.step("potrf", _write_potrf, room, info, n, call.count, *((n, 1) if is_upper else (1, n)))
    copy(call, call.results[0], room, n * n, out=True)
    finish_potrf(call, [info])


def _write_potrf(
    f: Function, t: PrimitiveType, room: Value, info: Value, n: Value, count: Value, down: Value, along: Value
) -> None:
    """Factor column by column; `down` and `along` are the row and column strides."""
    s = SideBySide(f, t)
    with f.carried(n, [s.none()], guarded=True) as column:
        at = f.value(column.index)
        column.next = [_potrf_column(s, room, at, n, (down, along), column.values[0])]
    s.store_integers(info, column.values[0], count)


def _potrf_column(s: SideBySide, a: Value, j: Value, n: Value, steps: tuple[Value, Value], info: Value) -> Value:
    """Compute column j and subtract it from the columns after it; return info."""
    f, (down, along) = s.f, steps
    own, below = j * along, j + 1
    diagonal = own + j * down
    pivot, *others = s.get(a, diagonal)
    bad = (pivot <= 0.0) & info.equals(0)
    root = pivot.sqrt()
    s.set(a, diagonal, (root, *(s.zeros for _ in others)))
    inverse = s.ones / root
    with f.loop(n, below, guarded=True) as i:
        at = own + f.value(i) * down
        s.set(a, at, s.scaled(s.get(a, at), inverse))
    with f.loop(n, below, guarded=True) as column:
        k = f.value(column)
        factor, other = s.adjoint(s.get(a, own + k * down)), k * along
        with f.loop(n, k, guarded=True) as i:
            row = f.value(i) * down
            s.set(a, other + row, s.minus(s.get(a, other + row), s.get(a, own + row), factor))
    return bad.select(s.everywhere(below), info)


WAYS["potrf"].insert(0, _way(potrf, emit_potrf))
WAYS[Op.CHOLESKY].insert(0, _way(cholesky, emit_potrf))


# -- LU factors ------------------------------------------------------------------------------------


def emit_getrf(call: RoutineCall) -> None:
    """Emit factors, pivots and info."""
    (m, n), room, (factors, pivots, info) = size_of(call.instruction), call.room(), call.results
    copy(call, call.operands[0], room, m * n)
    call.step("getrf", _write_getrf, room, pivots, info, m, n, min(m, n), call.count)
    copy(call, factors, room, m * n, out=True)


def _write_getrf(
    f: Function, t: PrimitiveType, room: Value, pivots: Value, info: Value, m: Value, n: Value,
    steps: Value, count: Value
) -> None:  # fmt: skip
    """Factor column by column; pivots differ from lane to lane."""
    s = SideBySide(f, t)
    matrices, mask = f.constants(I64, range(s.lanes)) * steps, Mask.first(f, s.lanes, count)
    with f.carried(steps, [s.none()], guarded=True) as step:
        k = f.value(step.index)
        where, failed = _getrf_column(s, room, (m, n), k, step.values[0])
        with f.vectorized(s.lanes, mask):
            scatter(f, Pointer(pivots, I32).addresses(matrices + k), where + 1)
        step.next = [failed]
    s.store_integers(info, step.values[0], count)


def _getrf_column(s: SideBySide, a: Value, size: tuple[Value, Value], k: Value, info: Value) -> tuple[Value, Value]:
    """Column k: exchange rows, divide, subtract from the columns after it.

    Returns the pivot's row, and info.
    """
    f, (m, n) = s.f, size
    own, below = k * m, k + 1
    where = _largest(s, a, own, k, m)
    _exchange(s, a, size, k, where)
    pivot = s.get(a, own + k)
    is_zero = s.size(pivot).equals(0.0)
    divisor = s.chosen(is_zero, s.one(), pivot)
    inverse = s.inverse(divisor) if s.parts == 2 else None
    with f.loop(m, below, guarded=True) as i:
        at = own + f.value(i)
        x = s.get(a, at)
        s.set(a, at, (x[0] / divisor[0],) if inverse is None else s.times(x, inverse))
    with f.loop(n, below, guarded=True) as j:
        column = f.value(j) * m
        factor = s.get(a, column + k)
        with f.loop(m, below, guarded=True) as i:
            row = f.value(i)
            s.set(a, column + row, s.minus(s.get(a, column + row), s.get(a, own + row), factor))
    return where, (is_zero & info.equals(0)).select(s.everywhere(below), info)


def _exchange(s: SideBySide, a: Value, size: tuple[Value, Value], k: Value, where: Value) -> None:
    """Exchange row k with row `where`, lane by lane."""
    f, (m, n) = s.f, size
    with f.loop(m, k + 1, guarded=True) as i:
        here = where.equals(s.everywhere(i))
        with f.loop(n, guarded=True) as j:
            column = f.value(j) * m
            places = column + k, column + f.value(i)
            x, y = (s.get(a, p) for p in places)
            s.set(a, places[0], s.chosen(here, y, x))
            s.set(a, places[1], s.chosen(here, x, y))


def _largest(s: SideBySide, a: Value, own: Value, k: Value, m: Value) -> Value:
    """The row of the largest element of a column from row k on; the first if there are several."""
    start = [s.size(s.get(a, own + k)), s.everywhere(k)]
    with s.f.carried(m, start, k + 1, guarded=True) as row:
        found = s.size(s.get(a, own + s.f.value(row.index)))
        larger = found > row.values[0]
        row.next = [larger.select(found, row.values[0]), larger.select(s.everywhere(row.index), row.values[1])]
    return row.values[1]


WAYS["getrf"].insert(0, _way(getrf, emit_getrf))


# -- triangular systems ----------------------------------------------------------------------------


def emit_trsm(call: RoutineCall) -> None:
    """Emit triangular solves as systems t y = c with a lower triangular t.

    Element (p, q) of t is a[corner + p down + q along], element (p, r) of y is x[start + p step + r
    side].
    """
    side, uplo, trans, diag, *_ = call.routine.arguments
    n, is_left = size_of(call.instruction)[0], side == "L"
    m = math.prod(size_of(call.instruction, 1)) // n
    # t is op(a) from the left, its transpose from the right
    down, along = (n, 1) if (trans != "N") == is_left else (1, n)
    step, side = (1, n) if is_left else (m, 1)
    corner = start = 0
    if ((uplo == "L") == (trans == "N")) != is_left:  # upper triangular: from the last to the first
        corner, start = (n - 1) * (n + 1), (n - 1) * step
        down, along, step = -down, -along, -step
    room, sides = call.room(), call.room(vectors_bytes(call.type, n * n))
    copy(call, call.operands[0], room, n * n)
    copy(call, call.operands[1], sides, n * m)
    numbers = (n, m, corner, down, along, start, step, side)
    call.step("trsm", _write_trsm, room, sides, *numbers, diag == "U", trans == "C")
    copy(call, call.results[0], sides, n * m, out=True)


def _write_trsm(
    f: Function, t: PrimitiveType, room: Value, sides: Value,
    n: Value, m: Value, corner: Value, down: Value, along: Value, start: Value, step: Value, side: Value,
    unit: bool, conjugated: bool,
) -> None:  # fmt: skip
    """Solve row by row of y; subtract each row's contribution from the rows after it."""
    s = SideBySide(f, t)

    def element(index: Ix) -> Element:
        return s.adjoint(s.get(room, index)) if conjugated else s.get(room, index)

    with f.loop(n, guarded=True) as counter:
        row = f.value(counter)
        column, own = corner + row * along, start + row * step
        inverse = s.inverse(s.one() if unit else element(column + row * down))
        with f.loop(m, guarded=True) as r:
            at = own + f.value(r) * side
            s.set(sides, at, s.times(s.get(sides, at), inverse))
        with f.loop(n, row + 1, guarded=True) as q:
            factor = element(column + f.value(q) * down)
            other = start + f.value(q) * step
            with f.loop(m, guarded=True) as r:
                across = f.value(r) * side
                s.set(sides, other + across, s.minus(s.get(sides, other + across), s.get(sides, own + across), factor))


WAYS["trsm"].insert(0, _way(trsm, emit_trsm, in_place=1))
