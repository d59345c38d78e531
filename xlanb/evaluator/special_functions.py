"""Functions that NumPy lacks, over whole arrays."""

from __future__ import annotations

import numpy as np

from xlanb.evaluator.values import Array

# W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969):
# numerators and denominators, highest power last, for |x| <= 0.46875, |x| <= 4 and beyond.
_SMALL_P = (
    3.20937758913846947e03,
    3.77485237685302021e02,
    1.13864154151050156e02,
    3.16112374387056560e00,
    1.85777706184603153e-1,
)
_SMALL_Q = (
    2.84423683343917062e03,
    1.28261652607737228e03,
    2.44024637934444173e02,
    2.36012909523441209e01,
    1.0,
)
_MIDDLE_P = (
    1.23033935479799725e03,
    2.05107837782607147e03,
    1.71204761263407058e03,
    8.81952221241769090e02,
    2.98635138197400131e02,
    6.61191906371416295e01,
    8.88314979438837594e00,
    5.64188496988670089e-1,
    2.15311535474403846e-8,
)
_MIDDLE_Q = (
    1.23033935480374942e03,
    3.43936767414372164e03,
    4.36261909014324716e03,
    3.29079923573345963e03,
    1.62138957456669019e03,
    5.37181101862009858e02,
    1.17693950891312499e02,
    1.57449261107098347e01,
    1.0,
)
_LARGE_P = (
    6.58749161529837803e-4,
    1.60837851487422766e-2,
    1.25781726111229246e-1,
    3.60344899949804439e-1,
    3.05326634961232344e-1,
    1.63153871373020978e-2,
)
_LARGE_Q = (
    2.33520497626869185e-3,
    6.05183413124413191e-2,
    5.27905102951428412e-1,
    1.87295284992346725e00,
    2.56852019228982242e00,
    1.0,
)
_INVERSE_SQRT_PI = 5.6418958354775628695e-1


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    out = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


# The number of elements computed at a time, so that intermediate arrays stay in the cache.
_BLOCK = 1 << 14


def erf(x: Array) -> Array:
    """The error function of real numbers, in f64, accurate to about 1e-15."""
    flat = np.asarray(x).reshape(-1)
    out = np.empty_like(flat)
    for first in range(0, flat.size, _BLOCK):
        out[first : first + _BLOCK] = _erf(flat[first : first + _BLOCK].astype(np.float64))
    return out.reshape(x.shape)


def _erf(wide: Array) -> Array:
    y = np.abs(wide)
    square = y * y
    small = wide * _polynomial(np.minimum(square, 1.0), _SMALL_P) / _polynomial(np.minimum(square, 1.0), _SMALL_Q)
    clipped = np.clip(y, 0.4, 28.0)
    decay = np.exp(-clipped * clipped)
    middle = decay * _polynomial(clipped, _MIDDLE_P) / _polynomial(clipped, _MIDDLE_Q)
    inverse = 1.0 / (clipped * clipped)
    tail = inverse * _polynomial(inverse, _LARGE_P) / _polynomial(inverse, _LARGE_Q)
    large = decay * (_INVERSE_SQRT_PI - tail) / clipped
    complement = np.where(y <= 4.0, middle, large)
    result = np.where(y <= 0.46875, small, np.copysign(1.0 - complement, wide))
    return np.where(np.isnan(wide), wide, result)
