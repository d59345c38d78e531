"""Copies of matrices to padded columns in scratch memory and back; scaling; sorting."""

from __future__ import annotations

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix
from xlanb.cpu.emitters.linalg.reflections import power_scale


def bring(c: Columns, source: Pointer, a: Matrix) -> None:
    """Copy columns to scratch memory, padded with zeros."""
    with c.count(0, a.columns) as loop:
        given = source.by(loop.index * a.rows)
        c.fill(a[loop.index], (0, c.up(a.rows)), lambda r: given.load(r, c.width, c.first_lanes(r, a.rows)))


def take(c: Columns, a: Matrix, target: Pointer, order: Pointer | None = None) -> None:
    """Copy columns out of scratch memory, permuted by `order` if given."""
    end = c.up(a.rows)
    with c.count(0, a.columns) as loop:
        column = a[order[loop.index] if order else loop.index]
        made = target.by(loop.index * a.rows)
        with c.count(0, end, step=c.width) as r:
            made.store(r.index, c.load(column, r.index), c.first_lanes(r.index, a.rows))


def normalize(c: Columns, a: Matrix) -> Value:
    """Scale very large or small matrices by a power of two; return the factor that undoes it."""
    rows = (0, c.up(a.rows))
    with c.count(0, a.columns, [c.zeros]) as loop:
        column = a[loop.index]
        loop.next = [c.fold(rows, lambda r: abs(c.load(column, r)), c.larger, loop.values[0])]
    scale, back = power_scale(c, c.f.reduce("fmax", loop.values[0]))
    with c.f.when(scale.differs(1.0)), c.count(0, a.columns) as loop:
        column = a[loop.index]
        c.fill(column, rows, lambda r: c.load(column, r) * c.repeated(scale))
    return back


def ascending(c: Columns, d: Pointer, n: Value, order: Pointer) -> None:
    """Stable argsort: order[k] := the index of the k-th smallest of n numbers at d.

    Pads d with infinities. A number's rank is the count of the numbers before it. If some are NaN,
    the indices in `order` are still below n.
    """
    end, ones = c.up(n), c.repeated(c.real(1))
    infinities = c.repeated(c.real(float("inf")))

    def lanes(row: Value, end: Value) -> Value:
        return c.first_lanes(row, end).value(c.f)

    c.fill(d, (c.down(n), end), lambda r: lanes(r, n).select(c.load(d, r), infinities))
    with c.count(0, n) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        i = loop.index
        own = c.repeated(d[i])

        def before(row: Value, own: Value = own, i: Value = i) -> Value:
            x = c.load(d, row)
            return ((x < own) | (x.equals(own) & lanes(row, i))).select(ones, 0.0)

        order[c.sum((0, end), before).cast("fptoui", I64)] = i
