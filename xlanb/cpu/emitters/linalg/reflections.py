"""Householder reflections of columns in scratch memory (see columns.py): steps of factorizations.

A reflection is 1 - tau v v^T as in LAPACK's larfg: v[k] = 1, and v is zero before k. Row ranges are
multiples of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import integer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix, Rows

UNROLL = 4
"""Vectors, or columns, that are processed at once."""


def reflector(c: Columns, x: Pointer, k: Value, end: Value, v: Pointer) -> tuple[Value, Value]:
    """(tau, beta) of the reflection that maps column x from element k on to (beta, 0, ...).

    Stores v to `v` and over the eliminated elements; x[k] becomes beta. `end` is the column's
    padded length.
    """
    rows, after = (c.down(k), end), k + 1

    def square(row: Value) -> Value:
        tail = c.lanes_from(row, after).select(c.load(x, row), 0)
        v.store(row, tail)
        return tail * tail

    squares, alpha = c.sum(rows, square), x[k]
    low, high = (2.0**-98, 2.0**98) if c.is_single else (2.0**-898, 2.0**898)
    plain = (squares > low) & (alpha * alpha + squares < high)
    tau, beta, factor = c.f.choose(
        plain, lambda: _reflection(c, alpha, squares), lambda: _scaled_reflection(c, alpha, squares, v, rows)
    )
    with c.count(*rows, step=c.width) as loop:
        made = c.load(v, loop.index) * c.repeated(factor)
        v.store(loop.index, made)
        x.store(loop.index, c.lanes_from(loop.index, after).select(made, c.load(x, loop.index)))
    v[k], x[k] = c.real(1), beta
    return tau, beta


def _reflection(c: Columns, alpha: Value, squares: Value) -> Sequence[Value]:
    """(tau, beta, the factor of the tail)."""
    beta = -(alpha * alpha + squares).sqrt().with_sign_of(alpha)
    return (beta - alpha) / beta, beta, c.real(1) / (alpha - beta)


def _scaled_reflection(c: Columns, alpha: Value, squares: Value, v: Pointer, rows: Rows) -> Sequence[Value]:
    """The reflection if squares over- or underflow, or the tail is zero; scales the tail at `v`."""
    tail = c.f.reduce("fmax", c.fold(rows, lambda r: abs(c.load(v, r)), c.larger, c.zeros))
    scale, back = power_scale(c, c.larger(tail, abs(alpha)))
    c.fill(v, rows, lambda r: c.load(v, r) * c.repeated(scale))
    scaled = c.sum(rows, lambda r: c.load(v, r) * c.load(v, r))
    tau, beta, factor = _reflection(c, alpha * scale, scaled)
    nothing = tail.equals(0.0) & squares.equals(squares)
    return nothing.select(0.0, tau), nothing.select(alpha, beta * back), nothing.select(0.0, factor)


def power_scale(c: Columns, largest: Value) -> tuple[Value, Value]:
    """(the power of two that scales a magnitude to about 1, its inverse).

    Both are far enough from the ends of the exponent range to multiply by.
    """
    kind, fraction, bias, room = (integer(32), 23, 127, 100) if c.is_single else (integer(64), 52, 1023, 900)
    exponent = largest.bits_as(kind).lshr(fraction).smax(bias - room).smin(bias + room)
    scale, back = ((e << fraction).bits_as(c.kind) for e in (2 * bias - exponent, exponent))
    return scale, back


def reflect_columns(c: Columns, a: Matrix, v: Pointer, rows: Rows, tau: Value, low: Value) -> None:
    """a := (1 - tau v v^T) a in the columns from `low` on."""
    middle = low + ((a.columns - low) & -UNROLL)
    for begin, end, at_once in ((low, middle, UNROLL), (middle, a.columns, 1)):
        with c.count(begin, end, step=at_once) as each:
            columns = [a[each.index]]
            while len(columns) < at_once:
                columns.append(columns[-1].by(a.stride))
            with c.count(*rows, [c.zeros] * at_once, step=c.width) as loop:
                part = c.load(v, loop.index)
                loop.next = [t + part * c.load(x, loop.index) for t, x in zip(loop.values, columns, strict=True)]
            weights = [c.repeated(c.total(total) * tau) for total in loop.values]
            with c.count(*rows, step=c.width) as loop:
                part = c.load(v, loop.index)
                for x, weight in zip(columns, weights, strict=True):
                    x.store(loop.index, c.load(x, loop.index) - part * weight)


def combine_columns(c: Columns, a: Matrix, x: Pointer, rows: Rows, low: Value, y: Pointer) -> None:
    """y := a x: the sum of the columns from `low` on with weights x[low], ..."""
    high, ((begin, middle), (_, end)) = a.columns, row_blocks(c, rows)
    with c.count(begin, middle, step=UNROLL * c.width) as block:
        with c.count(low, high, [c.zeros] * UNROLL) as loop:
            column, weight = a[loop.index].by(block.index), c.repeated(x[loop.index])
            loop.next = [t + c.load(column, u * c.width) * weight for u, t in enumerate(loop.values)]
        for u, total in enumerate(loop.values):
            y.store(block.index + u * c.width, total)
    with c.count(middle, end, step=c.width) as block:
        shared = low + ((high - low) & -UNROLL)
        with c.count(low, shared, [c.zeros] * UNROLL, step=UNROLL) as loop:
            column, made = a[loop.index].by(block.index), list[Value]()
            for k, total in enumerate(loop.values):
                made.append(total + c.load(column) * c.repeated(x[loop.index + k]))
                column = column.by(a.stride)
            loop.next = made
        t = loop.values
        with c.count(shared, high, [(t[0] + t[1]) + (t[2] + t[3])]) as loop:
            column, weight = a[loop.index].by(block.index), c.repeated(x[loop.index])
            loop.next = [loop.values[0] + c.load(column) * weight]
        y.store(block.index, loop.values[0])


def subtract_products(c: Columns, a: Matrix, pairs: Sequence[tuple[Pointer, Pointer]], rows: Rows, low: Value) -> None:
    """a := a - y x^T for each pair (y, x), in the columns from `low` on."""
    for (begin, end), at_once in zip(row_blocks(c, rows), (UNROLL, 1), strict=True):
        with c.count(begin, end, step=at_once * c.width) as block:
            kept = [[c.load(y, block.index + u * c.width) for u in range(at_once)] for y, _ in pairs]
            with c.count(low, a.columns) as loop:
                column = a[loop.index].by(block.index)
                weights = [c.repeated(x[loop.index]) for _, x in pairs]
                for u in range(at_once):
                    made = c.load(column, u * c.width)
                    for parts, weight in zip(kept, weights, strict=True):
                        made = made - parts[u] * weight
                    column.store(u * c.width, made)


def row_blocks(c: Columns, rows: Rows) -> tuple[Rows, Rows]:
    """The rows in blocks of several vectors, and the remaining rows in blocks of one vector."""
    begin, end = map(c.f.value, rows)
    middle = begin + ((end - begin) & (-UNROLL * c.width))
    return (begin, middle), (middle, end)


def unitary(c: Columns, q: Matrix, packed: Matrix, tau: Pointer, v: Pointer, below: Value) -> None:
    """q := H(0) H(1) ... for the reflections in the columns of `packed`.

    The vector of column k has v[k + below] = 1. H(k) changes no column of the identity before k +
    below.
    """
    end = c.up(q.rows)
    with c.count(0, q.columns) as loop:
        column = q[loop.index]
        c.fill(column, (0, end), lambda _: c.zeros)
        column[loop.index] = c.real(1)
    with c.count(0, packed.columns) as loop:
        k = packed.columns - 1 - loop.index
        column, head = packed[k], k + below
        rows = (c.down(head), end)
        c.fill(v, rows, lambda r: c.lanes_from(r, head + 1).select(c.load(column, r), 0))
        v[head] = c.real(1)
        reflect_columns(c, q, v, rows, tau[k], head)
