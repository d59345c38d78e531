"""Matrices moved between arrays, whose columns lie side by side, and padded columns in scratch memory; their magnitude; numbers in order."""

from __future__ import annotations

from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Numbers, parameters
from xlanb.cpu.emitters.linalg.reflections import power_scale


def bring(c: Columns, source: Numbers, rows: Value, columns: Value, target: Numbers, stride: Value) -> None:
    """Columns to scratch, padded with zeros."""
    end = c.up(rows)
    with c.count(0, columns) as loop:
        a, b = source.by(loop.index * rows), target.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            b.write(r.index, a.vector(r.index, c.lanes_to(r.index, rows)))


MOVE = parameters("source target", "rows columns stride")


def write_bring(c: Columns) -> None:
    """The routine that brings columns to scratch."""
    bring(c, c.place("source"), c.given("rows"), c.given("columns"), c.place("target"), c.given("stride"))


def write_take(c: Columns) -> None:
    """The routine that takes columns out of scratch."""
    take(c, c.place("source"), c.given("stride"), c.place("target"), c.given("rows"), c.given("columns"))


def bring_transposed(c: Columns, source: Numbers, rows: Value, columns: Value, target: Numbers, stride: Value) -> None:
    """Rows of a matrix to columns of scratch, padded with zeros."""
    zero, padded = c.zeros, c.up(columns)
    with c.count(0, rows) as loop:
        b = target.by(loop.index * stride)
        b.write(padded - c.width, zero)
        with c.count(0, columns) as j:
            b[j.index] = source.by(j.index * rows)[loop.index]


def take(
    c: Columns,
    source: Numbers,
    stride: Value,
    target: Numbers,
    rows: Value,
    columns: Value,
    order: Numbers | None = None,
) -> None:
    """Columns out of scratch, those that `order` names where it is given."""
    end = c.up(rows)
    with c.count(0, columns) as loop:
        j = order[loop.index] if order else loop.index
        a, b = source.by(j * stride), target.by(loop.index * rows)
        with c.count(0, end, step=c.width) as r:
            b.write(r.index, a.vector(r.index), c.lanes_to(r.index, rows))


def take_transposed(
    c: Columns,
    source: Numbers,
    stride: Value,
    target: Numbers,
    rows: Value,
    columns: Value,
    order: Numbers | None = None,
) -> None:
    """Columns out of scratch, those that `order` names where it is given, as the rows of a matrix of so many rows and columns."""
    with c.count(0, columns) as loop:
        b = target.by(loop.index * rows)
        with c.count(0, rows) as r:
            j = order[r.index] if order else r.index
            b[r.index] = source.by(j * stride)[loop.index]


def mirror(c: Columns, a: Numbers, stride: Value, n: Value, upper: Value) -> None:
    """Make a matrix in scratch symmetric, of one of its triangles: the upper one where the i1 holds."""
    with c.count(0, n) as loop:
        j = loop.index
        with c.count(j + 1, n) as inner:
            below, above = j * stride + inner.index, inner.index * stride + j
            source, target = upper.select(above, below), upper.select(below, above)
            a[target] = a[source]


def magnitude(c: Columns, a: Numbers, stride: Value, end: Value, columns: Value) -> tuple[Value, Value]:
    """(the largest magnitude of a matrix in scratch, i1: whether all of it is finite)."""
    zero = c.zeros
    with c.count(0, columns, [zero, zero]) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, loop.values, step=c.width) as r:
            x = column.vector(r.index)
            r.next = [c.larger(r.values[0], abs(x)), r.values[1] + x * 0.0]
        loop.next = r.values
    return c.peak(loop.values[0]), c.total(loop.values[1]).equals(0.0)


def normalize(c: Columns, a: Numbers, stride: Value, end: Value, columns: Value) -> tuple[Value, Value]:
    """(what results are to be multiplied with, whether all of the matrix is finite): a matrix of very large or very small numbers is scaled by a power of two."""
    largest, finite = magnitude(c, a, stride, end, columns)
    scale, back = power_scale(c, largest)
    with c.f.when(scale.differs(1.0)), c.count(0, columns) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            column.write(r.index, column.vector(r.index) * scale.repeated(c.width))
    return back, finite


def identity(c: Columns, a: Numbers, stride: Value, end: Value, columns: Value) -> None:
    """Columns of the identity in scratch."""
    zero = c.zeros
    with c.count(0, columns) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            column.write(r.index, zero)
        column[loop.index] = 1.0


def ascending(c: Columns, d: Numbers, n: Value, order: Numbers) -> None:
    """order[k] := which of n numbers at d (padded by this with infinities) is the k-th from below; of equal ones the first comes first.

    Each number's place is the count of those before it. Where some are not numbers, what is in `order` is below n nevertheless.
    """
    end, inf = c.up(n), c.every(float("inf"))
    with c.count(c.down(n), end, step=c.width) as loop:
        d.write(loop.index, c.lanes_to(loop.index, n).select(d.vector(loop.index), inf))
    with c.count(0, n) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        i = loop.index
        own = d[i].repeated(c.width)
        with c.count(0, end, [c.zeros], step=c.width) as each:
            x = d.vector(each.index)
            before = (x < own) | (x.equals(own) & c.lanes_to(each.index, i))
            each.next = [each.values[0] + before.select(c.every(1), 0.0)]
        count = c.total(each.values[0])
        order[count.cast("fptoui", I64)] = i


def fail(c: Columns, target: Numbers, count: Value) -> None:
    """Numbers that are none, all over an array."""
    with c.count(0, count) as loop:
        target[loop.index] = c.real(float("nan"))
