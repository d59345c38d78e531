"""Reflections and rotations of the columns of a matrix in scratch (see columns.py): the steps that factorizations are made of.

A reflection is 1 - tau v v^T as LAPACK's larfg makes it: v[k] = 1, and v is zero before k. Everything here writes code into a routine; sizes and places are values of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.types import integer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Numbers

_UNROLL = 4
"""Vectors, or columns, that are worked on at once."""


def reflector(c: Columns, x: Numbers, k: Value, end: Value, v: Numbers) -> tuple[Value, Value]:
    """(tau, beta) of the reflection that makes (beta, 0, ...) of the column x from element k on. Its v goes to `v`, and in place of what vanishes; x[k] becomes beta.

    `end` is the column's padded length.
    """
    first, after = c.down(k), k + 1
    with c.count(first, end, [c.zeros], step=c.width) as loop:
        tail = c.lanes_from(loop.index, after).select(x.vector(loop.index), 0)
        v.write(loop.index, tail)
        loop.next = [loop.values[0] + tail * tail]
    squares, alpha = c.total(loop.values[0]), x[k]
    low, high = (2.0**-98, 2.0**98) if c.bytes == 4 else (2.0**-898, 2.0**898)
    plain = (squares > low) & (alpha * alpha + squares < high)
    tau, beta, factor = c.choose(
        plain, lambda: _reflection(c, alpha, squares), lambda: _scaled_reflection(c, alpha, squares, v, first, end)
    )
    with c.count(first, end, step=c.width) as loop:
        made = v.vector(loop.index) * factor.repeated(c.width)
        v.write(loop.index, made)
        x.write(loop.index, c.lanes_from(loop.index, after).select(made, x.vector(loop.index)))
    v[k] = 1.0
    x[k] = beta
    return tau, beta


def _reflection(c: Columns, alpha: Value, squares: Value) -> Sequence[Value]:
    """(tau, beta, what the tail is multiplied with)."""
    beta = -(alpha * alpha + squares).sqrt().with_sign_of(alpha)
    return (beta - alpha) / beta, beta, c.real(1) / (alpha - beta)


def _scaled_reflection(
    c: Columns, alpha: Value, squares: Value, v: Numbers, first: Value, end: Value
) -> Sequence[Value]:
    """The same where squares are too large or too small, or there is nothing to do: the tail at `v` is scaled by a power of two."""
    with c.count(first, end, [c.zeros], step=c.width) as loop:
        loop.next = [c.larger(loop.values[0], abs(v.vector(loop.index)))]
    tail = c.peak(loop.values[0])
    scale, back = power_scale(c, c.larger(tail, abs(alpha)))
    with c.count(first, end, [c.zeros], step=c.width) as loop:
        scaled = v.vector(loop.index) * scale.repeated(c.width)
        v.write(loop.index, scaled)
        loop.next = [loop.values[0] + scaled * scaled]
    tau, beta, factor = _reflection(c, alpha * scale, c.total(loop.values[0]))
    nothing = tail.equals(0.0) & squares.equals(squares)
    return [
        nothing.select(0.0, tau),
        nothing.select(alpha, beta * back),
        nothing.select(0.0, factor),
    ]


def power_scale(c: Columns, largest: Value) -> tuple[Value, Value]:
    """(the power of two that brings a magnitude near 1, its inverse); powers far from the ends of the exponent's range, so that both can be multiplied with."""
    kind, fraction, bias, room = (integer(32), 23, 127, 100) if c.bytes == 4 else (integer(64), 52, 1023, 900)
    exponent = largest.bits_as(kind).lshr(fraction).smax(bias - room).smin(bias + room)
    scale, back = ((e << fraction).bits_as(c.kind) for e in (2 * bias - exponent, exponent))
    return scale, back


def reflect_columns(
    c: Columns, a: Numbers, stride: Value, v: Numbers, rows: tuple[Value, Value], tau: Value, low: Value, high: Value
) -> None:
    """a := (1 - tau v v^T) a in columns low..high - 1, from row to row (multiples of a vector)."""
    begin, end = rows
    middle = low + ((high - low) & -_UNROLL)
    for begin_column, end_column, at_once in ((low, middle, _UNROLL), (middle, high, 1)):
        with c.count(begin_column, end_column, step=at_once) as each:
            column = a.by(each.index * stride)
            columns = [column]
            while len(columns) < at_once:
                columns.append(columns[-1].by(stride))
            with c.count(begin, end, [c.zeros] * at_once, step=c.width) as loop:
                part = v.vector(loop.index)
                loop.next = [total + part * x.vector(loop.index) for total, x in zip(loop.values, columns, strict=True)]
            weights = [(c.total(total) * tau).repeated(c.width) for total in loop.values]
            with c.count(begin, end, step=c.width) as loop:
                part = v.vector(loop.index)
                for x, weight in zip(columns, weights, strict=True):
                    x.write(loop.index, x.vector(loop.index) - part * weight)


def combine_columns(
    c: Columns, a: Numbers, stride: Value, x: Numbers, rows: tuple[Value, Value], low: Value, high: Value, y: Numbers
) -> None:
    """y := a x: the sum of columns low..high - 1 with weights x[low], ..., from row to row (multiples of a vector)."""
    zero = c.zeros
    (begin, middle), (_, end) = row_blocks(c, rows)
    with c.count(begin, middle, step=_UNROLL * c.width) as block:
        with c.count(low, high, [zero] * _UNROLL) as loop:
            column, weight = a.by(loop.index * stride).by(block.index), x[loop.index].repeated(c.width)
            loop.next = [t + column.vector(u * c.width) * weight for u, t in enumerate(loop.values)]
        for u, total in enumerate(loop.values):
            y.write(block.index + u * c.width, total)
    with c.count(middle, end, step=c.width) as block:
        shared = low + ((high - low) & -_UNROLL)
        with c.count(low, shared, [zero] * _UNROLL, step=_UNROLL) as loop:
            column, made = a.by(loop.index * stride).by(block.index), list[Value]()
            for k, total in enumerate(loop.values):
                made.append(total + column.vector(0) * x[loop.index + k].repeated(c.width))
                column = column.by(stride)
            loop.next = made
        t = loop.values
        with c.count(shared, high, [(t[0] + t[1]) + (t[2] + t[3])]) as loop:
            column, weight = a.by(loop.index * stride).by(block.index), x[loop.index].repeated(c.width)
            loop.next = [loop.values[0] + column.vector(0) * weight]
        y.write(block.index, loop.values[0])


def subtract_products(
    c: Columns,
    a: Numbers,
    stride: Value,
    pairs: Sequence[tuple[Numbers, Numbers]],
    rows: tuple[Value, Value],
    low: Value,
    high: Value,
) -> None:
    """a := a - y x^T for each pair (y, x), in columns low..high - 1, from row to row (multiples of a vector)."""
    for (begin, end), at_once in zip(row_blocks(c, rows), (_UNROLL, 1), strict=True):
        with c.count(begin, end, step=at_once * c.width) as block:
            kept = [[y.vector(block.index + u * c.width) for u in range(at_once)] for y, _ in pairs]
            with c.count(low, high) as loop:
                column = a.by(loop.index * stride).by(block.index)
                weights = [x[loop.index].repeated(c.width) for _, x in pairs]
                for u in range(at_once):
                    made = column.vector(u * c.width)
                    for parts, weight in zip(kept, weights, strict=True):
                        made = made - parts[u] * weight
                    column.write(u * c.width, made)


def row_blocks(c: Columns, rows: tuple[Value, Value]) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Rows in blocks of several vectors, and what is left in blocks of one."""
    begin, end = rows
    middle = begin + ((end - begin) & (-_UNROLL * c.width))
    return (begin, middle), (middle, end)


def product_of_reflections(
    c: Columns,
    q: Numbers,
    packed: Numbers,
    stride: Value,
    tau: Numbers,
    v: Numbers,
    sizes: tuple[Value, Value, Value],
    below: Value,
) -> None:
    """q := H(0) H(1) ... H(count - 1) q for the reflections in the columns of `packed`, those of column k with v[k + below] = 1; sizes are (columns of q, count, padded rows).

    Both matrices have columns of the same stride. q is known to be the identity: H(k) changes no column before k + below.
    """
    columns, count, end = sizes
    with c.count(0, count) as loop:
        k = count - 1 - loop.index
        rows = load_reflection(c, packed.by(k * stride), k + below, end, v)
        reflect_columns(c, q, stride, v, rows, tau[k], k + below, columns)


def load_reflection(c: Columns, column: Numbers, head: Value, end: Value, v: Numbers) -> tuple[Value, Value]:
    """v of a reflection whose 1 stands in row `head`, and its tail below that row of a column; gives the rows where it is not known to be zero."""
    first = c.down(head)
    with c.count(first, end, step=c.width) as rows:
        v.write(rows.index, c.lanes_from(rows.index, head + 1).select(column.vector(rows.index), 0))
    v[head] = 1.0
    return first, end
