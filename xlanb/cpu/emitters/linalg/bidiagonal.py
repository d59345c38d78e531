"""A matrix of no fewer rows than columns made upper bidiagonal by reflections from both sides, and the singular values of what comes of it by implicit QR.

(Golub and Van Loan, Matrix Computations, 4th edition, 8.6; the step without a shift is Demmel and Kahan's, Accurate singular values of bidiagonal matrices, 1990.)
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.types import I32
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Numbers
from xlanb.cpu.emitters.linalg.reflections import combine_columns, reflect_columns, reflector, subtract_products
from xlanb.cpu.emitters.linalg.rotations import rotate_columns, rotation

ITERATIONS = 30
"""Rounds that each singular value may take."""
Way = tuple[Numbers, Numbers, Value, Value, Value, Value]
Turns = tuple[Numbers, Numbers] | None


def write_bidiagonal(c: Columns) -> None:
    """The routine: from a matrix at %a (in scratch) the diagonals %d and %e; reflections of columns below the diagonal of %a with factors %tau, of rows in the columns of %p
    with factors %other. %u, %v and %w are room for a column each.
    """
    m, n = c.given("m"), c.given("n")
    a, p, apart, others = c.place("a"), c.place("p"), c.given("stride"), c.given("others")
    d, e, tau, other, u, v, w = (c.place(name) for name in ("d", "e", "tau", "other", "u", "v", "w"))
    end, last, zero = c.up(m), c.up(n), c.zeros
    with c.count(0, n) as loop:
        k = loop.index
        factor, d[k] = reflector(c, a.by(k * apart), k, end, u)
        tau[k] = factor
        reflect_columns(c, a, apart, u, (c.down(k), end), factor, k + 1, n)
        with c.f.when(k + 1 < n):
            row = p.by(k * others)
            with c.count(0, last, step=c.width) as r:
                row.write(r.index, zero)
            with c.count(k + 1, n) as j:
                row[j.index] = a.by(j.index * apart)[k]
            factor, e[k] = reflector(c, row, k + 1, last, v)
            other[k] = factor
            rows = (c.down(k + 1), end)
            combine_columns(c, a, apart, v, rows, k + 1, n, w)
            with c.count(*rows, step=c.width) as r:
                w.write(r.index, w.vector(r.index) * factor.repeated(c.width))
            subtract_products(c, a, apart, [(w, v)], rows, k + 1, n)


def write_golub_kahan(c: Columns, *, vectors: bool) -> None:
    """The routine: singular values, perhaps negative and in no order, of the matrix with diagonals %d and %e in place of %d; the columns of %x (left) and %y (right) are rotated along;
    %info: 1 where they were not found. %d and %e have room for a number before the first.
    """
    n = c.given("n")
    d, e = c.place("d"), c.place("e")
    e[-1] = 0.0
    zero = c.whole(0)
    with c.repeat(n - 1, zero, c.whole(-1), c.whole(-1), c.whole(1)) as loop:
        high, rounds, *former = loop.values
        low, smallest = _block(c, d, e, high)
        e[low - 1] = 0.0
        moved = low.differs(former[0]) | high.differs(former[1])
        step = moved.select((abs(d[low]) >= abs(d[high])).select(c.whole(1), -1), former[2])

        def sweep() -> Sequence[Value]:
            _sweep(c, (d, e), (low, high, step), smallest, vectors=vectors)
            return [high, rounds + 1]

        loop.next = c.choose(high.equals(low), lambda: [high - 1, rounds], sweep)
        loop.next = [*loop.next, low, high, step]
        loop.again = (loop.next[0] >= 0) & (loop.next[1] < n * ITERATIONS)
    failed = loop.values[0] >= 0
    c.place("info", I32)[0] = failed.zext(I32)


def _block(c: Columns, d: Numbers, e: Numbers, high: Value) -> tuple[Value, Value]:
    """(the first row of the block up to `high` that does not fall apart, the smallest magnitude on its diagonal)."""
    with c.repeat(high, abs(d[high])) as loop:
        k, smallest = loop.values
        before = k - 1
        above = abs(d[before])
        loop.again = abs(e[before]) > (above + abs(d[k])) * c.epsilon + c.tiny
        loop.next = [loop.again.select(before, k), loop.again.select(c.smaller(smallest, above), smallest)]
    return loop.values[0], loop.values[1]


def _shift(c: Columns, f: Value, g: Value, h: Value) -> Value:
    """The smaller singular value of [[f, g], [0, h]]; 0 where it does not matter."""
    f, g, h = abs(f), abs(g), abs(h)
    plus, minus, squared = f + h, f - h, g * g
    below = (plus * plus + squared).sqrt() + (minus * minus + squared).sqrt()
    small = 2.0**-50 if c.bytes == 4 else 2.0**-400
    return (below > small).select((f + f) * h / below, 0.0)


def _sweep(
    c: Columns, diagonals: tuple[Numbers, Numbers], block: tuple[Value, Value, Value], smallest: Value, *, vectors: bool
) -> None:
    """One implicit QR step on rows low..high, downwards or (step -1) upwards. Upwards the matrix is seen from its other end, where it is the transpose of such a matrix."""
    (d, e), (low, high, step) = diagonals, block
    down = step > 0
    start, stop, count = down.select(low, high), down.select(high, low), high - low
    # Between rows q and q + step lies e[q - ahead].
    ahead = down.select(c.whole(0), 1)
    first = d[start]
    shift = _shift(c, d[stop - step], e[stop - step - ahead], d[stop])
    ratio = shift / first
    tiny = 2.0**-60 if c.bytes == 4 else 2.0**-500
    plain = (ratio * ratio < c.epsilon) | (smallest < tiny) | shift.differs(shift)
    way = (d, e, start, step, ahead, count)
    n = c.given("n")
    both = (c.place("turns"), c.place("turns").by(n + n)) if vectors else None

    f = (abs(first) - shift) * (c.real(1).with_sign_of(first) + ratio)
    c.choose(plain, lambda: _chase_without_shift(c, way, both), lambda: _chase(c, way, f, both))
    if both is None:
        return
    # Downwards the first rotation of each pair turns columns of the right vectors, the second those of the left ones; upwards the other way round.
    left = c.place("x").pointer.base, c.given("stride"), c.up(c.given("m"))
    right = c.place("y").pointer.base, c.given("others"), c.up(n)
    with c.count(0, 2) as side:
        is_right = side.index.equals(0)
        z, apart, end = (is_right.select(r, x) for r, x in zip(right, left, strict=True))
        turns = both[0].by((is_right ^ down).select(n + n, 0))
        rotate_columns(c, c.at(z), apart, end, (start, step, count), turns)


def _chase(c: Columns, way: Way, f: Value, turns: Turns) -> None:
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
        _keep(loop.index, turns, 0, cosine, sine)
        cosine, sine, d[q] = rotation(c, f, g)
        f, following = cosine * off + sine * following, cosine * following - sine * off
        beyond = between[step]
        g, beyond = sine * beyond, cosine * beyond
        _keep(loop.index, turns, 1, cosine, sine)
        loop.next = [f, g, after, following, beyond]
    f, _, q, here, _ = loop.values
    e.by(q - ahead)[-step] = f
    d[q] = here
    # What was written before the block's beginning, or taken from beyond its end, is zero.
    e.by(start - ahead)[-step] = 0.0


def _chase_without_shift(c: Columns, way: Way, turns: Turns) -> None:
    """The step without a shift: each number is a product, so that none loses digits."""
    d, e, start, step, ahead, count = way
    one, zero = c.real(1), c.real(0)
    with c.count(0, count, [one, one, zero, start, d[start]]) as loop:
        cosine, former, former_sine, q, here = loop.values
        after, between = q + step, e.by(q - ahead)
        cosine, sine, r = rotation(c, here * cosine, between[0])
        between[-step] = former_sine * r
        _keep(loop.index, turns, 0, cosine, sine)
        following = d[after]
        former, former_sine, d[q] = rotation(c, former * r, following * sine)
        _keep(loop.index, turns, 1, former, former_sine)
        loop.next = [cosine, former, former_sine, after, following]
    cosine, former, former_sine, q, here = loop.values
    h = here * cosine
    d[q] = h * former
    e.by(q - ahead)[-step] = h * former_sine
    e.by(start - ahead)[-step] = 0.0


def _keep(at: Value, turns: Turns, which: int, cosine: Value, sine: Value) -> None:
    if turns is not None:
        turn = turns[which].by(at + at)
        turn[0], turn[1] = cosine, sine
