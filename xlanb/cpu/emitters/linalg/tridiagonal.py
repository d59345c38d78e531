"""A symmetric matrix made tridiagonal by reflections from both sides, and the eigenvalues of what comes of it by implicit QL with Wilkinson's shift.

    a <- H a H = a - v w^T - w v^T      w = tau a v - (tau^2 v^T a v / 2) v

(Golub and Van Loan, Matrix Computations, 4th edition, 8.3; QL starts at the smaller end, as LAPACK's steqr.) Both
triangles are kept, so that columns of the matrix are its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.types import I32, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Numbers
from xlanb.cpu.emitters.linalg.reflections import combine_columns, reflector, subtract_products
from xlanb.cpu.emitters.linalg.rotations import rotate_columns, rotation

ITERATIONS = 30
"""Rounds that each eigenvalue may take (LAPACK's)."""


def write_tridiagonal(c: Columns) -> None:
    """The routine: from a symmetric matrix at %a (in scratch) diagonals %d and %e, reflections below its subdiagonal, their factors %tau; %v and %w are room for a column each."""
    n, step, a = c.given("n"), c.given("stride"), c.place("a")
    d, e, tau, v, w = (c.place(name) for name in ("d", "e", "tau", "v", "w"))
    end = c.up(n)
    with c.count(0, n - 1) as loop:
        k = loop.index
        column = a.by(k * step)
        d[k] = column[k]
        factor, e[k] = reflector(c, column, k + 1, end, v)
        tau[k] = factor
        rows = (c.down(k + 1), end)
        combine_columns(c, a, step, v, rows, k + 1, n, w)
        with c.count(*rows, [c.zeros], step=c.width) as r:
            r.next = [r.values[0] + v.vector(r.index) * w.vector(r.index)]
        half = (factor * factor * c.total(r.values[0]) * 0.5).repeated(c.width)
        with c.count(*rows, step=c.width) as r:
            w.write(r.index, w.vector(r.index) * factor.repeated(c.width) - v.vector(r.index) * half)
        subtract_products(c, a, step, [(v, w), (w, v)], rows, k + 1, n)
    last = n - 1
    d[last] = a.by(last * step)[last]


def write_ql(c: Columns, *, vectors: bool) -> None:
    """The routine: eigenvalues of the matrix with diagonals %d and %e, in no order, in place of %d, the columns of %z rotated along; %info: 1 where they were not found.

    %d has room for a number behind the last one, %e for one before the first.
    """
    n = c.given("n")
    d, e = c.place("d"), c.place("e")
    d[n], e[n - 1] = 0.0, 0.0
    zero = c.whole(0)
    with c.repeat(zero, zero, c.whole(-1), zero, c.whole(1)) as loop:
        low, rounds, *former = loop.values
        high = _block_end(c, d, e, low)
        e[high] = 0.0
        moved = low.differs(former[0]) | high.differs(former[1])
        step = moved.select((abs(d[high]) >= abs(d[low])).select(c.whole(1), -1), former[2])

        def turn(low: Value = low, rounds: Value = rounds, high: Value = high, step: Value = step) -> Sequence[Value]:
            _sweep(c, (d, e), (low, high, step), vectors=vectors)
            return [low, rounds + 1]

        loop.next = c.choose(high.equals(low), lambda: [low + 1, rounds], turn)
        loop.next = [*loop.next, low, high, step]
        loop.again = (loop.next[0] < n) & (loop.next[1] < n * ITERATIONS)
    failed = loop.values[0] < n
    c.place("info", I32)[0] = failed.zext(I32)


def _block_end(c: Columns, d: Numbers, e: Numbers, low: Value) -> Value:
    """The last row of the block from `low` on that does not fall apart."""
    with c.repeat(low) as loop:
        k = loop.values[0]
        off, both = e[k], abs(d[k]) * c.epsilon**2 * abs(d[k + 1])
        loop.again = off * off > both + c.tiny
        loop.next = [k + loop.again.zext(I64)]
    return loop.values[0]


def _sweep(c: Columns, diagonals: tuple[Numbers, Numbers], block: tuple[Value, Value, Value], *, vectors: bool) -> None:
    """One implicit QL step on rows low..high: the shift is taken at one end, the bulge goes from the other one to it; `step` leads from the first to the second."""
    (d, e), (low, high, step) = diagonals, block
    forward = step > 0
    near, far, count = forward.select(low, high), forward.select(high, low), high - low
    # Between rows q and q - step lies e[q - behind]; between q and q + step e[q - ahead].
    behind, ahead = forward.select(c.whole(1), 0), forward.select(c.whole(0), 1)
    first = e.by(near - ahead)
    p, off = d[near], first[0]
    g = (d[near + step] - p) / (off + off)
    r = (g * g + 1.0).sqrt().with_sign_of(g)
    g = d[far] - p + off / (g + r)
    turns = c.place("turns")
    start = [g, c.real(1), c.real(1), c.real(0), far]
    with c.count(0, count, start) as loop:
        g, s, cosine, p, q = loop.values
        between = e.by(q - behind)
        other = q - step
        f, b = s * between[0], cosine * between[0]
        cosine, s, r = rotation(c, g, f)
        between[step] = r
        g = d[q] - p
        r = (d[other] - g) * s + (cosine + cosine) * b
        p = s * r
        d[q] = g + p
        g = cosine * r - b
        if vectors:
            turn = turns.by(loop.index + loop.index)
            turn[0], turn[1] = cosine, s
        loop.next = [g, s, cosine, p, other]
    g, _, _, p, _ = loop.values
    d[near] = d[near] - p
    first[0] = g
    e.by(far - behind)[step] = 0.0
    if vectors:
        rotate_columns(c, c.place("z"), c.given("stride"), c.up(c.given("n")), (far, -step, count), turns)
