"""Whether rounding errors explain a difference: evaluate the reference with disturbed roundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.fuzz.on_devices import evaluated
from xlanb.errors import XlanbError
from xlanb.evaluator import Evaluator
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape.primitive_type import from_dtype

FUNCTIONS = {
    Op.EXPONENTIAL, Op.EXPONENTIAL_MINUS_ONE, Op.LOG, Op.LOG_PLUS_ONE, Op.POWER, Op.TANH, Op.SINE, Op.COSINE, Op.TAN,
    Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.ATAN2, Op.SQRT, Op.RSQRT, Op.CBRT,
    Op.LOGISTIC, Op.ERF, Op.DIVIDE,
}  # fmt: skip
"""Each element is rounded more than once, whatever its value."""
DECOMPOSITIONS = {
    Op.CHOLESKY, Op.TRIANGULAR_SOLVE, Op.FFT, Op.CUSTOM_CALL, Op.BATCH_NORM_TRAINING, Op.BATCH_NORM_INFERENCE,
    Op.BATCH_NORM_GRAD, Op.SCALED_DOT,
}  # fmt: skip
"""An element's error is proportional to the largest magnitude of operands and results."""
_SUMS = {Op.DOT, Op.CONVOLUTION, Op.REDUCE, Op.REDUCE_WINDOW, Op.SCATTER, Op.SELECT_AND_SCATTER}
_PRODUCTS = {Op.DOT, Op.CONVOLUTION}
"""A term is as large as a product of operands."""
_ARITHMETIC = {Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.CONVERT, Op.REDUCE_PRECISION, Op.ABS, Op.REMAINDER, *_SUMS}
"""Exact if the result, and the terms of a sum, are whole numbers of moderate size.

A wide type must still distinguish them from their neighbours' halves.
"""
_ROUNDS = 16
_UNITS_WIDE, _UNITS_NARROW = 8.0, 1.0
"""The size of disturbances of a result, in units in the last place."""
_MARGIN = 8.0
"""How much an error may exceed the largest effect of the disturbances."""

_NOISE = 0.25
"""The relative error from which on a value is arbitrary."""


class _Disturbed(Evaluator):
    """Evaluates with different rounding errors."""

    def __init__(self, rng: np.random.Generator, max_steps: int, max_seconds: float) -> None:
        super().__init__(max_steps=max_steps, max_seconds=max_seconds)
        self._rng = rng

    def _apply(self, step: Any, operands: Sequence[Any], *, lifted: bool) -> Any:
        op = step.instruction.opcode
        if op in DECOMPOSITIONS:
            # Backward stable: what is computed is exact for operands that are as far off as one
            # rounding.
            operands = [
                self._disturbed(x, max(map(_largest, leaves_of([x])), default=0.0), is_exact=False) for x in operands
            ]
        value = super()._apply(step, operands, lifted=lifted)
        if op not in FUNCTIONS and op not in DECOMPOSITIONS and op not in _ARITHMETIC:
            return value
        largest = 0.0
        if op in DECOMPOSITIONS or op in _SUMS:
            largest = max((_largest(x) for x in leaves_of([*operands, value])), default=0.0)
        if op in _PRODUCTS:
            largest = max(largest, float(np.prod([_magnitude(x) for x in operands])))
        is_exact = op in _ARITHMETIC and (op not in _SUMS or all(map(_is_whole, leaves_of(operands))))
        return self._disturbed(value, largest, is_exact=is_exact)

    def _disturbed(self, value: Any, largest: float, *, is_exact: bool) -> Any:
        if isinstance(value, tuple):
            return tuple(self._disturbed(v, largest, is_exact=is_exact) for v in value)
        if not is_rounded(value):
            return value
        x = value.astype(_wide(value))
        unit = float(ml_dtypes.finfo(value.dtype).eps)
        is_narrow = value.dtype.kind != "c" and value.dtype.itemsize < 4
        units = (_UNITS_NARROW if is_narrow else _UNITS_WIDE) * unit
        noise = self._rng.uniform(-units, units, x.shape) * np.maximum(np.abs(x), largest)
        if x.dtype.kind == "c":
            noise = noise + 1j * self._rng.uniform(-units, units, x.shape) * np.maximum(np.abs(x), largest)
        if is_exact and not is_narrow:
            # Larger ones are all whole; small ones may be residues of large ones.
            noise = np.where((x == np.rint(x)) & (np.maximum(np.abs(x), largest) * unit < 1), 0, noise)
        return np.where(np.isfinite(x), x + noise, x).astype(value.dtype)


def is_rounded(value: Any) -> bool:
    """Whether a value is an array of floats or complex numbers."""
    if not isinstance(value, np.ndarray) or value.dtype.kind == "b":
        return False
    t = from_dtype(value.dtype)
    return t.is_floating or t.is_complex


def _is_whole(x: Any) -> bool:
    """Whether all elements are whole numbers.

    A sum of others may be a whole number only due to rounding errors.
    """
    return not is_rounded(x) or bool(np.all(np.asarray(x) == np.rint(x)))


def _wide(x: NDArray[Any]) -> type:
    return np.complex128 if x.dtype.kind == "c" else np.float64


def _largest(x: Any) -> float:
    """The largest finite magnitude; 0 for what is not rounded."""
    return _magnitude(x) if is_rounded(x) else 0.0


def _magnitude(x: Any) -> float:
    """The largest finite magnitude of an array's elements."""
    magnitudes = np.abs(np.asarray(x).astype(_wide(x)))
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))


def is_rounding(
    module: HloModule,
    arguments: Sequence[Any],
    got: Sequence[NDArray[Any]],
    expected: Sequence[NDArray[Any]],
    *,
    max_steps: int,
    max_seconds: float,
) -> bool:
    """Whether other rounding errors explain every element of `got` that is not as `expected`.

    They must move it as far, or to non-finite values. For several devices, `arguments` has a row
    for each,
    `got` and `expected` hold all their results in sequence.
    """
    rng = np.random.default_rng(0)
    spreads = [np.zeros(e.shape) for e in expected]
    for _ in range(_ROUNDS):
        try:
            values, _ = evaluated(lambda: _Disturbed(rng.spawn(1)[0], max_steps, max_seconds), module, arguments)
        except XlanbError:
            return False
        with np.errstate(all="ignore"):
            for spread, e, v in zip(spreads, expected, values, strict=True):
                np.maximum(spread, _distance(v, e), out=spread)
            if all(bool(np.all(_is_reached(g, e, s))) for g, e, s in zip(got, expected, spreads, strict=True)):
                return True
    return False


def _is_reached(got: NDArray[Any], expected: NDArray[Any], spread: NDArray[Any]) -> NDArray[Any]:
    """The elements that rounding errors explain.

    An element that is only error may be infinite (1 / 1e-17 for 1 / 0).
    """
    distance = _distance(got, expected)
    if got.dtype.kind == "b" or from_dtype(got.dtype).is_integral:
        return distance <= spread
    is_noise = spread >= _NOISE * np.abs(expected.astype(_wide(expected)))
    return (distance <= _MARGIN * spread) | (np.isinf(distance) & is_noise)


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The distances of elements; infinity if only one is finite."""
    if a.dtype.kind == "b" or from_dtype(a.dtype).is_integral:
        return np.where(a == b, 0.0, np.inf)
    x, y = a.astype(_wide(a)), b.astype(_wide(b))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y), np.inf))
