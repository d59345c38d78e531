"""Incomplete gamma and beta, Hurwitz zeta and polygamma functions.

Series and continued fractions run in double precision until they converge. The methods are those of
Cephes (igam.c, incbet.c, zeta.c) and, for the continued fractions, of Lentz (Numerical Recipes,
chapter 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xlanb.hlo import HloInstruction
from xlanb.hlo.special_functions import digamma, lgamma
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import broadcast_dimensions, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled
from xlanb.tf2xla.kernels.loops import iterate
from xlanb.tf2xla.registry import register

_ROUNDS = 2000
_EPSILON = 2.0**-52
_TINY = 1e-300
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_FAR = 12  # from here on Euler and Maclaurin's expansion is exact to double precision

Function = Callable[..., HloInstruction]


def _wide(ctx: OpContext) -> list[HloInstruction]:
    """The inputs in double precision, of one shape."""
    dims: Sequence[int] = ()
    for i in range(ctx.input_count):
        dims = broadcast_dimensions(dims, ctx.shape(i).dimensions)
    return [broadcast_to(ctx.b, ctx.b.convert(x, PrimitiveType.F64), dims) for x in ctx.inputs]


def _elementwise(*op_types: str) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        def lower(ctx: OpContext) -> HloInstruction:
            return ctx.b.convert(function(ctx, *_wide(ctx)), ctx.shape(0).element_type)

        register(*op_types)(lower)
        return function

    return decorate


def _is(ctx: OpContext, x: HloInstruction, direction: str, bound: float) -> HloInstruction:
    return ctx.b.compare(x, filled(ctx, x, bound), direction)


def _where(ctx: OpContext, condition: HloInstruction, value: float, other: HloInstruction) -> HloInstruction:
    return ctx.b.select(condition, filled(ctx, other, value), other)


def _plus(ctx: OpContext, x: HloInstruction, value: float) -> HloInstruction:
    return ctx.b.add(x, filled(ctx, x, value))


def _times(ctx: OpContext, x: HloInstruction, value: float) -> HloInstruction:
    return ctx.b.multiply(x, filled(ctx, x, value))


def _not_zero(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return _where(ctx, _is(ctx, x, "EQ", 0), _TINY, x)


def _moves(ctx: OpContext, change: HloInstruction, whole: HloInstruction) -> HloInstruction:
    """Return where a term is still significant compared with the sum."""
    b = ctx.b
    return b.compare(b.abs(change), _times(ctx, b.abs(whole), _EPSILON), "GT")


class _Gamma:
    """Parts of the incomplete gamma functions of a and x.

    `inside` says where the series is used; the continued fraction is used elsewhere.
    """

    def __init__(self, ctx: OpContext, a: HloInstruction, x: HloInstruction) -> None:
        b = ctx.b
        self.ctx, self.a, self.x = ctx, a, x
        self.is_wrong = b.or_(
            b.or_(b.not_(_is(ctx, a, "GT", 0)), b.not_(_is(ctx, x, "GE", 0))), _is(ctx, a, "EQ", math.inf)
        )
        self.is_zero, self.is_far = _is(ctx, x, "EQ", 0), _is(ctx, x, "EQ", math.inf)
        odd = b.or_(b.or_(self.is_wrong, self.is_zero), self.is_far)
        self.inside = b.and_(b.not_(odd), b.or_(_is(ctx, x, "LE", 1), b.compare(x, a, "LE")))
        self.outside = b.not_(b.or_(odd, self.inside))
        self.front = b.exp(b.subtract(b.subtract(b.multiply(a, b.log(x)), x), lgamma(ctx.b, a)))

    def series(self) -> list[HloInstruction]:
        """1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ..., and its derivative by a."""
        ctx, zero, one = self.ctx, filled(self.ctx, self.a, 0), filled(self.ctx, self.a, 1)

        def step(c: OpContext, s: list[HloInstruction]) -> tuple[HloInstruction, list[HloInstruction]]:
            x, r, term, total, slope, by_a = s
            b, r = c.b, _plus(c, r, 1)
            slope = b.subtract(b.multiply(slope, b.divide(x, r)), b.divide(b.multiply(term, x), b.multiply(r, r)))
            term = b.multiply(term, b.divide(x, r))
            total, by_a = b.add(total, term), b.add(by_a, slope)
            return b.or_(_moves(c, term, total), _moves(c, slope, by_a)), [x, r, term, total, slope, by_a]

        after = iterate(ctx, _ROUNDS, self.inside, [self.x, self.a, one, one, zero, zero], step, "igamma_series")
        return [after[3], after[5]]

    def fraction(self) -> list[HloInstruction]:
        """Return the upper function's continued fraction, without its prefactor, and its derivative
        by a.
        """
        ctx, b = self.ctx, self.ctx.b
        zero = filled(ctx, self.a, 0)
        bottom = _not_zero(ctx, b.subtract(_plus(ctx, self.x, 1), self.a))
        first = b.divide(filled(ctx, bottom, 1), bottom)
        start = [self.a, zero, bottom, filled(ctx, zero, 1 / _TINY), zero, first]
        squared = b.multiply(first, first)
        after = iterate(ctx, _ROUNDS, self.outside, [*start, squared, first, squared], _gamma_step, "igamma_fraction")
        return after[-2:]


def _gamma_step(c: OpContext, s: list[HloInstruction]) -> tuple[HloInstruction, list[HloInstruction]]:
    """One step of Lentz' method; every second value is the derivative of the one before it."""
    a, n, bottom, up, up_a, down, down_a, found, by_a = s
    b, one = c.b, filled(c, a, 1)
    n, bottom = _plus(c, n, 1), _plus(c, bottom, 2)
    factor = b.multiply(n, b.subtract(a, n))
    whole = _not_zero(c, b.add(b.multiply(factor, down), bottom))
    whole_a = b.subtract(b.add(b.multiply(n, down), b.multiply(factor, down_a)), one)
    share = b.divide(factor, up)
    up_a = b.subtract(b.subtract(b.divide(n, up), one), b.divide(b.multiply(share, up_a), up))
    up = _not_zero(c, b.add(bottom, share))
    down = b.divide(one, whole)
    down_a = b.negate(b.multiply(b.multiply(down, down), whole_a))
    step = b.multiply(up, down)
    step_a = b.add(b.multiply(up_a, down), b.multiply(up, down_a))
    new_a = b.add(b.multiply(by_a, step), b.multiply(found, step_a))
    moves = b.or_(_moves(c, b.subtract(step, one), one), _moves(c, b.subtract(new_a, by_a), new_a))
    return moves, [a, n, bottom, up, up_a, down, down_a, b.multiply(found, step), new_a]


@_elementwise("Igamma")
def _igamma(ctx: OpContext, a: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The lower one, regularised: 0 at 0, 1 far out, NaN for a <= 0 or x < 0."""
    g, b = _Gamma(ctx, a, x), ctx.b
    lower = b.divide(b.multiply(g.front, g.series()[0]), a)
    upper = b.multiply(g.front, g.fraction()[0])
    value = b.select(g.inside, lower, b.subtract(filled(ctx, a, 1), upper))
    return _where(ctx, g.is_wrong, math.nan, _where(ctx, g.is_far, 1, _where(ctx, g.is_zero, 0, value)))


@_elementwise("Igammac")
def _igammac(ctx: OpContext, a: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The upper one: 1 less the lower."""
    g, b = _Gamma(ctx, a, x), ctx.b
    lower = b.divide(b.multiply(g.front, g.series()[0]), a)
    value = b.select(g.inside, b.subtract(filled(ctx, a, 1), lower), b.multiply(g.front, g.fraction()[0]))
    return _where(ctx, g.is_wrong, math.nan, _where(ctx, g.is_far, 0, _where(ctx, g.is_zero, 1, value)))


def _by_a(ctx: OpContext, a: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The derivative of the lower function by a."""
    g, b = _Gamma(ctx, a, x), ctx.b
    total, slope = g.series()
    front = b.divide(g.front, a)
    away = b.subtract(b.log(x), digamma(ctx.b, a))
    lower = b.multiply(front, b.add(b.multiply(total, b.subtract(away, b.divide(filled(ctx, a, 1), a))), slope))
    fraction, fraction_slope = g.fraction()
    upper = b.multiply(g.front, b.add(b.multiply(fraction, away), fraction_slope))
    value = b.select(g.inside, lower, b.negate(upper))
    return _where(ctx, g.is_wrong, math.nan, _where(ctx, b.or_(g.is_zero, g.is_far), 0, value))


_elementwise("IgammaGradA")(_by_a)


@_elementwise("RandomGammaGrad")
def _random_gamma_grad(ctx: OpContext, alpha: HloInstruction, sample: HloInstruction) -> HloInstruction:
    """Differentiate a gamma sample by alpha: minus the CDF's derivative by alpha over the
    density.
    """
    b = ctx.b
    log_density = b.subtract(b.subtract(b.multiply(_plus(ctx, alpha, -1), b.log(sample)), sample), lgamma(ctx.b, alpha))
    value = b.negate(b.divide(_by_a(ctx, alpha, sample), b.exp(log_density)))
    return _where(ctx, _is(ctx, sample, "EQ", 0), 0, value)


@_elementwise("Betainc")
def _betainc(ctx: OpContext, a: HloInstruction, b_: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The regularised incomplete beta function; for x beyond its mean, 1 less that of the rest."""
    b = ctx.b
    one = filled(ctx, x, 1)
    positive = b.and_(_is(ctx, a, "GT", 0), _is(ctx, b_, "GT", 0))
    is_right = b.and_(positive, b.and_(_is(ctx, x, "GE", 0), _is(ctx, x, "LE", 1)))
    turned = b.compare(x, b.divide(_plus(ctx, a, 1), _plus(ctx, b.add(a, b_), 2)), "GT")
    p, q = b.select(turned, b_, a), b.select(turned, a, b_)
    y = b.select(turned, b.subtract(one, x), x)
    is_end = b.or_(_is(ctx, x, "EQ", 0), _is(ctx, x, "EQ", 1))
    total = b.add(p, q)
    first = b.subtract(one, b.divide(b.multiply(total, y), _plus(ctx, p, 1)))
    down = b.divide(one, _not_zero(ctx, first))
    going = b.and_(is_right, b.not_(is_end))
    found = iterate(ctx, _ROUNDS, going, [p, q, y, filled(ctx, x, 0), one, down, down], _beta_step, "betainc")[-1]
    powers = b.add(b.multiply(p, b.log(y)), b.multiply(q, b.log1p(b.negate(y))))
    beta = b.subtract(lgamma(ctx.b, total), b.add(lgamma(ctx.b, p), lgamma(ctx.b, q)))
    value = b.divide(b.multiply(b.exp(b.add(powers, beta)), found), p)
    value = b.select(turned, b.subtract(one, value), value)
    return _where(ctx, b.not_(is_right), math.nan, b.select(is_end, x, value))


def _beta_step(c: OpContext, s: list[HloInstruction]) -> tuple[HloInstruction, list[HloInstruction]]:
    """Two steps of Lentz' method: the even and the odd terms have their own formulas."""
    p, q, y, m, up, down, found = s
    b, one = c.b, filled(c, p, 1)
    m = _plus(c, m, 1)
    at = b.add(p, b.add(m, m))
    even = b.divide(b.multiply(b.multiply(m, b.subtract(q, m)), y), b.multiply(_plus(c, at, -1), at))
    odd_top = b.multiply(b.multiply(b.add(p, m), b.add(b.add(p, q), m)), y)
    odd = b.negate(b.divide(odd_top, b.multiply(at, _plus(c, at, 1))))
    step = one
    for factor in (even, odd):
        down = b.divide(one, _not_zero(c, b.add(one, b.multiply(factor, down))))
        up = _not_zero(c, b.add(one, b.divide(factor, up)))
        step = b.multiply(up, down)
        found = b.multiply(found, step)
    return _moves(c, b.subtract(step, one), one), [p, q, y, m, up, down, found]


def _zeta(ctx: OpContext, s: HloInstruction, q: HloInstruction) -> HloInstruction:
    """Sum (q + n)^-s over n >= 0: terms up to q + n > 12, the rest by Euler and Maclaurin.

    Infinite at the poles, NaN for s < 1.
    """
    b = ctx.b

    def step(c: OpContext, held: list[HloInstruction]) -> tuple[HloInstruction, list[HloInstruction]]:
        power, at, total = held
        total = c.b.add(total, c.b.power(at, power))
        at = _plus(c, at, 1)
        return _is(c, at, "LE", _FAR), [power, at, total]

    start = [b.negate(s), q, filled(ctx, s, 0)]
    _, at, total = iterate(ctx, _ROUNDS, _is(ctx, q, "LE", _FAR), start, step, "zeta")
    last = b.power(at, b.negate(s))
    tail = b.add(b.divide(b.multiply(last, at), _plus(ctx, s, -1)), _times(ctx, last, 0.5))
    factor = b.divide(_times(ctx, b.multiply(s, last), 0.5), at)
    for k, number in enumerate(_BERNOULLI, 1):
        tail = b.add(tail, _times(ctx, factor, number))
        rise = b.multiply(_plus(ctx, s, 2 * k - 1), _plus(ctx, s, 2 * k))
        factor = b.divide(b.multiply(factor, rise), _times(ctx, b.multiply(at, at), (2 * k + 1) * (2 * k + 2)))
    low = _is(ctx, q, "LE", 0)
    pole = b.and_(low, b.compare(q, b.floor(q), "EQ"))
    wrong = b.or_(_is(ctx, s, "LT", 1), b.and_(low, b.compare(s, b.floor(s), "NE")))
    value = _where(ctx, wrong, math.nan, _where(ctx, pole, math.inf, b.add(total, tail)))
    return _where(ctx, _is(ctx, s, "EQ", 1), math.inf, value)


_elementwise("Zeta")(_zeta)


@_elementwise("Polygamma")
def _polygamma(ctx: OpContext, n: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x); NaN where n is not a natural
    number.
    """
    b = ctx.b
    order = _plus(ctx, n, 1)
    size = b.multiply(b.exp(lgamma(ctx.b, order)), _zeta(ctx, order, x))
    value = b.select(_is(ctx, b.remainder(n, filled(ctx, n, 2)), "EQ", 1), size, b.negate(size))
    wrong = b.or_(_is(ctx, n, "LT", 0), b.compare(n, b.floor(n), "NE"))
    return _where(ctx, wrong, math.nan, b.select(_is(ctx, n, "EQ", 0), digamma(ctx.b, x), value))
