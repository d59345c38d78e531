"""Complex arithmetic by parts, by the formulas of XLA's elemental_ir_emitter.cc.

They determine results for infinities, NaN and signed zeros. NumPy's differ there: its products are
contracted (a fused multiply-add avoids an overflow), and its powers and tangents have other limits.
XLA:CPU flushes subnormal numbers to zero, also as intermediate results; here and in compiled code
they are kept.
"""

from __future__ import annotations

import numpy as np

from xlanb.evaluator.values import Array


def of_parts(re: Array, im: Array) -> Array:
    """A complex array of its parts; re + 1j * im would turn an infinite part into NaN."""
    out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.result_type(re, np.complex64))
    out.real, out.imag = re, im
    return out


def multiply(x: Array, y: Array) -> Array:
    """The product, from four products of parts, each rounded."""
    return of_parts(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def divide(x: Array, y: Array) -> Array:
    """R. L. Smith's quotient, which scales by the larger part of the divisor.

    NaN results are recovered as in C99 (annex G.5.1).
    """
    swapped = np.abs(y.real) < np.abs(y.imag)
    big, small = np.where(swapped, y.imag, y.real), np.where(swapped, y.real, y.imag)
    ratio = small / big
    scale = big + small * ratio
    p, q = np.where(swapped, x.imag, x.real), np.where(swapped, x.real, x.imag)
    part = p * ratio
    re = (p + q * ratio) / scale
    im = np.where(swapped, part - q, q - part) / scale
    lost = np.isnan(re) & np.isnan(im)
    quotient = of_parts(re, im)
    return _recovered(x, y, quotient, lost) if lost.any() else quotient


def _recovered(x: Array, y: Array, quotient: Array, lost: Array) -> Array:
    """The quotient with its limits where it is NaN.

    These are division by zero, of infinities, and by infinities.
    """
    a, b, c, d = (np.broadcast_to(part, quotient.shape)[lost] for part in (x.real, x.imag, y.real, y.imag))
    x_finite, y_finite = np.isfinite(a) & np.isfinite(b), np.isfinite(c) & np.isfinite(d)
    x_infinite, y_infinite = np.isinf(a) | np.isinf(b), np.isinf(c) | np.isinf(d)
    infinity = np.copysign(a.dtype.type(np.inf), c)
    by_zero = (c == 0) & (d == 0) & (~np.isnan(a) | ~np.isnan(b))
    one_a, one_b, one_c, one_d = (np.copysign(np.isinf(v).astype(v.dtype), v) for v in (a, b, c, d))
    cases = [by_zero, x_infinite & y_finite, y_infinite & x_finite]
    re = [infinity * a, np.inf * (one_a * c + one_b * d), 0 * (a * one_c + b * one_d)]
    im = [infinity * b, np.inf * (one_b * c - one_a * d), 0 * (b * one_c - a * one_d)]
    out = np.array(quotient)
    out[lost] = of_parts(np.select(cases, re, quotient[lost].real), np.select(cases, im, quotient[lost].imag))
    return out


def power(x: Array, y: Array) -> Array:
    """|x|^c e^(-d t) (cos q + i sin q) with y = c + i d, t the angle of x, q = c t + d log|x|.

    x^0 and 1^y are 1. A positive real power of 0 is 0, of infinity infinity; a negative one of
    infinity is 0.
    """
    size, angle = np.abs(x), np.arctan2(x.imag, x.real)
    c, d = y.real, y.imag
    factor = np.power(size, c) * np.exp(-d * angle)
    q = c * angle + d * np.log(size)
    is_zero, is_one = size == 0, (x.real == 1) & (x.imag == 0)
    is_infinite = (x.real == np.inf) & (x.imag == 0)
    grows, falls = (d == 0) & (c > 0), (d == 0) & (c < 0)
    cases = [is_infinite & falls, is_infinite & grows, ((c == 0) & (d == 0)) | is_one, is_zero & grows]
    limits: list[Array] = [np.zeros((), size.dtype), np.full((), np.inf, size.dtype), np.ones((), size.dtype)]
    re = np.select(cases, [*limits, limits[0]], factor * np.cos(q))
    return of_parts(re, np.where(np.logical_or.reduce(cases), limits[0], factor * np.sin(q)))


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x^2 + y^2)), the principal value."""
    one = np.ones((), x.real.dtype)
    root = np.sqrt(multiply(y, y) + multiply(x, x))
    rotated = x + multiply(of_parts(one * 0, one), y)
    return multiply(of_parts(one * 0, -one), np.log(divide(rotated, root)))


def tanh(z: Array) -> Array:
    """(e^2x - e^-2x + 4i sin y cos y) / (e^2x + e^-2x - 2 + 4 cos^2 y) for z = x + i y.

    An infinite x determines the result for any y.
    """
    x, y = z.real, z.imag
    grown, shrunk = np.expm1(x + x), np.expm1(-(x + x))
    cos = np.cos(y)
    above, total = 4 * (cos * np.sin(y)), grown + shrunk
    below = total + cos * cos * 4
    endless, lost = np.isinf(x), np.isnan(above)
    re = np.where(total == np.inf, np.copysign(np.ones_like(x), x), (grown - shrunk) / below)
    re = np.where(lost & ~endless, x.dtype.type(np.nan), re)
    return of_parts(re, np.where((y == 0) | (endless & lost), x.dtype.type(0), above / below))


def tan(z: Array) -> Array:
    """-i tanh(i z)."""
    rotated = tanh(of_parts(-z.imag, z.real))
    return of_parts(rotated.imag, -rotated.real)
