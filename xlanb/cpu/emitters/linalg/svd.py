"""Singular values, descending, and singular vectors of small matrices: gesdd by bidiagonal form, implicit QR and sorting.

A matrix with more columns than rows is transposed: left vectors are right ones then.
"""

from __future__ import annotations

from dataclasses import replace

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.bidiagonal import bidiagonal, golub_kahan
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix, Room, step
from xlanb.cpu.emitters.linalg.lapack import checked
from xlanb.cpu.emitters.linalg.padded import ascending, bring, bring_transposed, normalize, take, take_transposed
from xlanb.cpu.emitters.linalg.reflections import unitary
from xlanb.cpu.emitters.linalg.routine import LINE, WAYS, Call, Routine, Way, element_type, size_of, small
from xlanb.cpu.emitters.linalg.table import gesdd
from xlanb.hlo.instruction import HloInstruction


def _sizes(i: HloInstruction, routine: Routine) -> tuple[int, int, int]:
    """Rows m and columns n of the matrix as it stands in scratch, with m >= n; how many left vectors are wanted."""
    m, n = max(size_of(i)), min(size_of(i))
    return m, n, {"N": 0, "A": m}.get(str(routine.arguments[0]), n)


def _room(i: HloInstruction, routine: Routine) -> Room:
    """a, p, x, y; d, e; tau, other, u, v, w; order, rotations, what singular values are multiplied with."""
    (m, n, lefts), t = _sizes(i, routine), element_type(i)
    padded = (n + 2 * LINE // t.byte_size, 1)
    matrices = ((m, n), (n, n), (m, lefts), (n, n if lefts else 0))
    return Room(t, (*matrices, padded, padded, *[(m, 1)] * 5, (2 * m, 1), (4 * n, 1), (1, 1)))


def emit_gesdd(call: Call) -> None:
    """The first result stays the matrix; singular values, U, V^H, info."""
    _, n, lefts = _sizes(call.instruction, call.routine)
    source, values, left, right = map(call.numbers, call.results[:4])
    a, p, x, y, *columns = _room(call.instruction, call.routine).matrices(call)
    d, e, tau, other, u, v, w, order, turns, back = (column.first for column in columns)
    d, e = (diagonal.by(LINE // call.type.byte_size) for diagonal in (d, e))
    order = replace(order, element=I64)
    rows, width = size_of(call.instruction)
    step(call, general, source, a, back, rows < width)
    step(call, bidiagonal, a, p, d, e, tau, other, u, v, w)
    if lefts:
        step(call, unitary, x, a, tau, u, 0)
        step(call, unitary, y, replace(p, columns=call.f.const(I64, n - 1)), other, v, 1)
    step(call, golub_kahan, d, e, x, y, turns, Pointer(call.results[4], I32), bool(lefts))
    step(call, singular_values, d, x.columns, y, order, back, values, bool(lefts))
    if lefts:
        first, second = (y, x) if rows < width else (x, y)
        step(call, take, first, left, order)
        step(call, take_transposed, second, right, order)


def general(c: Columns, source: Pointer, a: Matrix, back: Pointer, transposed: bool) -> None:
    """A matrix, or its transpose, to scratch, scaled."""
    (bring_transposed if transposed else bring)(c, source, a)
    back[0] = normalize(c, a)


def singular_values(
    c: Columns, d: Pointer, lefts: Value, y: Matrix, order: Pointer, back: Pointer, values: Pointer, vectors: bool
) -> None:
    """Singular values in order, the largest first, and which they are, made positive, right vectors with them."""
    n = y.rows
    with c.count(0, n) as loop:
        found = d[loop.index]
        d[loop.index] = -abs(found)
        if vectors:
            column = y[loop.index]
            with c.f.when(found < 0.0):
                c.fill(column, (0, c.up(n)), lambda r: -c.load(column, r))
    ascending(c, d, n, order)
    with c.count(n, lefts) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        values[loop.index] = abs(d[order[loop.index]]) * back[0]


def _nanoseconds(i: HloInstruction, routine: Routine) -> float:
    """The time of one matrix, roughly."""
    m, n, lefts = _sizes(i, routine)
    return 300.0 + 60.0 * n * n + m * n * (2 * n + lefts) * element_type(i).byte_size / 40


WAYS["gesdd"].insert(0, Way(small(gesdd), checked(emit_gesdd), _nanoseconds, lambda i, r: _room(i, r).bytes))
