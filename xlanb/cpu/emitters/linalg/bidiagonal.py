"""A matrix of no fewer rows than columns made upper bidiagonal by reflections from both sides, and the singular values of what comes of it by implicit QR.

(Golub and Van Loan, Matrix Computations, 4th edition, 8.6; the step without a shift is Demmel and Kahan's, Accurate singular values of bidiagonal matrices, 1990.)
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix
from xlanb.cpu.emitters.linalg.reflections import combine_columns, reflect_columns, reflector, subtract_products
from xlanb.cpu.emitters.linalg.rotations import Block, iterate, rotate_columns, rotation

Way = tuple[Pointer, Pointer, Value, Value, Value, Value]


def bidiagonal(
    c: Columns, a: Matrix, p: Matrix, d: Pointer, e: Pointer, tau: Pointer, other: Pointer,
    u: Pointer, v: Pointer, w: Pointer,
) -> None:  # fmt: skip
    """From a matrix the diagonals d and e; reflections of columns below its diagonal with factors tau, of rows in the columns of p with factors `other`. u, v and w are room for a column each."""
    n, end, last = a.columns, c.up(a.rows), c.up(a.columns)
    with c.count(0, n) as loop:
        k = loop.index
        factor, d[k] = reflector(c, a[k], k, end, u)
        tau[k] = factor
        reflect_columns(c, a, u, (c.down(k), end), factor, k + 1)
        with c.f.when(k + 1 < n):
            row = p[k]
            c.fill(row, (0, last), lambda _: c.zeros)
            with c.count(k + 1, n) as j:
                row[j.index] = a[j.index][k]
            factor, e[k] = reflector(c, row, k + 1, last, v)
            other[k] = factor
            rows = (c.down(k + 1), end)
            combine_columns(c, a, v, rows, k + 1, w)
            c.fill(w, rows, lambda r: c.load(w, r) * c.repeated(factor))
            subtract_products(c, a, [(w, v)], rows, k + 1)


def golub_kahan(
    c: Columns, d: Pointer, e: Pointer, x: Matrix, y: Matrix, turns: Pointer, info: Pointer, vectors: bool
) -> None:
    """Singular values, perhaps negative and in no order, of the matrix with diagonals d and e in place of d; the columns of x (left) and y (right) are rotated along; info: 1 where they were not found.

    d and e have room for a number before the first.
    """
    both = (turns, turns.by(y.rows + y.rows))
    e[-1] = c.real(0)

    def block(high: Value) -> Sequence[Value]:
        low, smallest = _block(c, d, e, high)
        e[low - 1] = c.real(0)
        return low, high, abs(d[low]) >= abs(d[high]), smallest

    def sweep(rows: Block, smallest: Value) -> None:
        _sweep(c, (d, e), rows, smallest, both)
        if vectors:
            _rotate(c, x, y, rows, both)

    iterate(c, y.rows, info, False, block, sweep)


def _block(c: Columns, d: Pointer, e: Pointer, high: Value) -> tuple[Value, Value]:
    """(the first row of the block up to `high` that does not fall apart, the smallest magnitude on its diagonal)."""
    with c.f.rounds([high, abs(d[high])]) as loop:
        k, smallest = loop.values
        before = k - 1
        above = abs(d[before])
        loop.again = abs(e[before]) > (above + abs(d[k])) * c.epsilon + c.tiny
        lower = c.f.intrinsic("minnum", smallest, above)
        loop.next = [loop.again.select(before, k), loop.again.select(lower, smallest)]
    return loop.values[0], loop.values[1]


def _rotate(c: Columns, x: Matrix, y: Matrix, block: Block, turns: tuple[Pointer, Pointer]) -> None:
    """Turn the columns of vectors: downwards those of right vectors by the first rotation of each pair, those of left ones by the second; upwards the other way round."""
    low, high, step = block
    down = step > 0
    columns = (down.select(low, high), step, high - low)
    for z, which in ((y, down), (x, ~down)):
        rotate_columns(c, z, columns, Pointer(which.select(turns[0].base, turns[1].base), c.kind))


def _shift(c: Columns, f: Value, g: Value, h: Value) -> Value:
    """The smaller singular value of [[f, g], [0, h]]; 0 where it does not matter."""
    f, g, h = abs(f), abs(g), abs(h)
    plus, minus, squared = f + h, f - h, g * g
    below = (plus * plus + squared).sqrt() + (minus * minus + squared).sqrt()
    return (below > (2.0**-50 if c.is_single else 2.0**-400)).select((f + f) * h / below, 0.0)


def _sweep(
    c: Columns,
    diagonals: tuple[Pointer, Pointer],
    block: Block,
    smallest: Value,
    turns: tuple[Pointer, Pointer],
) -> None:
    """One implicit QR step on rows low..high, downwards or (step -1) upwards. Upwards the matrix is seen from its other end, where it is the transpose of such a matrix."""
    (d, e), (low, high, step) = diagonals, block
    down = step > 0
    start, stop = down.select(low, high), down.select(high, low)
    # Between rows q and q + step lies e[q - ahead].
    ahead = (~down).zext(I64)
    first = d[start]
    shift = _shift(c, d[stop - step], e[stop - step - ahead], d[stop])
    ratio = shift / first
    tiny = 2.0**-60 if c.is_single else 2.0**-500
    plain = (ratio * ratio < c.epsilon) | (smallest < tiny) | shift.differs(shift)
    way = (d, e, start, step, ahead, high - low)
    with c.f.when(plain):
        _chase_without_shift(c, way, turns)
    with c.f.when(~plain):
        _chase(c, way, (abs(first) - shift) * (c.real(1).with_sign_of(first) + ratio), turns)
    # What was written before the block's beginning, or taken from beyond its end, is zero.
    e.by(start - ahead)[-step] = c.real(0)


def _chase(c: Columns, way: Way, f: Value, turns: tuple[Pointer, Pointer]) -> None:
    """The bulge of a shifted step, which begins with f, from start to stop."""
    d, e, start, step, ahead, count = way
    g = e[start - ahead]
    with c.count(0, count, [f, g, start, d[start], g]) as loop:
        f, g, q, here, off = loop.values
        after, between = q + step, e.by(q - ahead)
        cosine, sine, r = rotation(c, f, g)
        between[-step] = r
        f, off = cosine * here + sine * off, cosine * off - sine * here
        following = d[after]
        g, following = sine * following, cosine * following
        _keep(loop.index, turns[0], cosine, sine)
        cosine, sine, d[q] = rotation(c, f, g)
        f, following = cosine * off + sine * following, cosine * following - sine * off
        beyond = between[step]
        g, beyond = sine * beyond, cosine * beyond
        _keep(loop.index, turns[1], cosine, sine)
        loop.next = [f, g, after, following, beyond]
    f, _, q, here, _ = loop.values
    e.by(q - ahead)[-step] = f
    d[q] = here


def _chase_without_shift(c: Columns, way: Way, turns: tuple[Pointer, Pointer]) -> None:
    """The step without a shift: each number is a product, so that none loses digits."""
    d, e, start, step, ahead, count = way
    one, zero = c.real(1), c.real(0)
    with c.count(0, count, [one, one, zero, start, d[start]]) as loop:
        cosine, former, former_sine, q, here = loop.values
        after, between = q + step, e.by(q - ahead)
        cosine, sine, r = rotation(c, here * cosine, between[0])
        between[-step] = former_sine * r
        _keep(loop.index, turns[0], cosine, sine)
        following = d[after]
        former, former_sine, d[q] = rotation(c, former * r, following * sine)
        _keep(loop.index, turns[1], former, former_sine)
        loop.next = [cosine, former, former_sine, after, following]
    cosine, former, former_sine, q, here = loop.values
    h = here * cosine
    d[q] = h * former
    e.by(q - ahead)[-step] = h * former_sine


def _keep(at: Value, turns: Pointer, cosine: Value, sine: Value) -> None:
    turn = turns.by(at + at)
    turn[0], turn[1] = cosine, sine
