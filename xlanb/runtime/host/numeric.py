"""Numeric ops on the host: determinants, special functions by series, image resizing.

Based on core/kernels/{determinant_op,resize_*_op,dilation_ops}.cc and Eigen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]
_TERMS = 2000


def _squares(op: Operation, value: Any) -> Array:
    x = np.asarray(value)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise fault(op, f"expected square matrices, got shape {list(x.shape)}")
    return x


@host("MatrixDeterminant", "BatchMatrixDeterminant")
def _determinant(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    x = _squares(op, inputs[0])
    return [np.asarray(np.linalg.det(x), x.dtype)]


@host("LogMatrixDeterminant")
def _log_determinant(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    x = _squares(op, inputs[0])
    sign, log = np.linalg.slogdet(x)
    return [np.asarray(sign, x.dtype), np.asarray(log, x.dtype)]


@host("TridiagonalSolve")
def _tridiagonal(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Solve a tridiagonal system; the diagonals above, on and below the main one are rows.

    The last element of the first row and the first element of the last row are unused.
    """
    diagonals, right = np.asarray(inputs[0]), np.asarray(inputs[1])
    size = diagonals.shape[-1]
    if diagonals.shape[-2] != 3 or right.shape[-2] != size:
        raise fault(op, f"diagonals of shape {list(diagonals.shape)} do not fit {list(right.shape)}")
    matrix = np.zeros((*diagonals.shape[:-2], size, size), diagonals.dtype)
    place = np.arange(size)
    matrix[..., place, place] = diagonals[..., 1, :]
    matrix[..., place[:-1], place[1:]] = diagonals[..., 0, :-1]
    matrix[..., place[1:], place[:-1]] = diagonals[..., 2, 1:]
    return [np.asarray(np.linalg.solve(matrix, right), right.dtype)]


@host("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _quantized(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Quantize and dequantize: round to the values of this many bits within the range."""
    x = np.asarray(inputs[0])
    if int(op.attrs.get("axis", -1)) != -1:
        raise fault(op, "a separate range for each slice needs a compiled node: set axis to -1, or compile it")
    bits = int(inputs[3]) if op.type.endswith("V3") else int(op.attrs.get("num_bits", 8))
    is_signed, given = bool(op.attrs.get("signed_input", True)), bool(op.attrs.get("range_given"))
    low, high = (float(inputs[1]), float(inputs[2])) if given else (float(x.min()), float(x.max()))
    least = -(2 ** (bits - 1)) + bool(op.attrs.get("narrow_range")) if is_signed else 0
    most = 2 ** (bits - 1) - 1 if is_signed else 2**bits - 1
    scale = min(least / low if least * low > 0 else np.inf, most / high if most * high > 0 else np.inf)
    if np.isinf(scale):
        return [x]
    low, high = least / scale if is_signed else 0.0, most / scale
    scaled = np.clip(x.astype(np.float64), low, high) * scale
    up = str(op.attrs.get("round_mode", "HALF_TO_EVEN")) == "HALF_UP"
    return [((np.floor(scaled + 0.5) if up else np.round(scaled)) / scale).astype(x.dtype)]


# -------------------------------------------------------------------------------- special functions


def _elementwise(op: Operation, inputs: Sequence[Any], function: Callable[..., float]) -> list[Array]:
    arrays = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in inputs))
    out = np.empty(arrays[0].shape, np.float64)
    for index in np.ndindex(out.shape):
        out[index] = function(*(float(a[index]) for a in arrays))
    return [out.astype(op.outputs[0].dtype.numpy_dtype)]


def lower_gamma(a: float, x: float) -> float:
    """The regularized lower incomplete gamma function P(a, x).

    Computed by a series for small x, by a continued fraction (Lentz) for large x.
    """
    if not (a > 0 and x >= 0):
        return 1.0 if a == 0 and x > 0 else math.nan
    if x == 0 or math.isinf(x):
        return 0.0 if x == 0 else 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _TERMS):
            term *= x / (a + n)
            total += term
            if term < total * 1e-17:
                break
        return total * scale
    return 1 - scale * _fraction(a, x)


def _fraction(a: float, x: float) -> float:
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    found = d
    for n in range(1, _TERMS):
        factor = -n * (n - a)
        b += 2
        d = 1 / (factor * d + b or tiny)
        c = b + factor / c or tiny
        found *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return found


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if not (a > 0 and b > 0 and 0 <= x <= 1):
        return math.nan
    if x in {0.0, 1.0}:
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, _TERMS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + factor * d or tiny)
            c = 1 + factor / c or tiny
            found *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return float(front * found / a)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def hurwitz_zeta(s: float, q: float) -> float:
    """The sum over n >= 0 of (q + n)^-s, for s > 1, by the Euler-Maclaurin formula."""
    if s == 1 or not s > 1 or (q <= 0 and (q == math.floor(q) or s != math.floor(s))):
        return math.inf if s == 1 or (q <= 0 and q == math.floor(q)) else math.nan
    count = 12 + max(0, math.ceil(-q))
    total = sum((q + n) ** -s for n in range(count))
    at = q + count
    total += at ** (1 - s) / (s - 1) + 0.5 * at**-s
    factor = s * at ** (-s - 1) / 2
    for k, number in enumerate(_BERNOULLI, 1):
        total += factor * number
        factor *= (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2) * at * at)
    return float(total)


@host("Igamma")
def _igamma(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return _elementwise(op, inputs, lower_gamma)


@host("Igammac")
def _igammac(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    def upper(a: float, x: float) -> float:
        if a > 0 and x >= a + 1 and not math.isinf(x):
            return math.exp(a * math.log(x) - x - math.lgamma(a)) * _fraction(a, x)
        return 1 - lower_gamma(a, x)

    return _elementwise(op, inputs, upper)


@host("Betainc")
def _betainc(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return _elementwise(op, inputs, incomplete_beta)


@host("Zeta")
def _zeta(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return _elementwise(op, inputs, hurwitz_zeta)


@host("Polygamma")
def _polygamma(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    def derivative(n: float, x: float) -> float:
        if n < 1 or n != math.floor(n):
            return _digamma(x) if n == 0 else math.nan
        return float((-1) ** (int(n) + 1) * math.exp(math.lgamma(n + 1)) * hurwitz_zeta(n + 1, x))

    return _elementwise(op, inputs, derivative)


def _digamma(x: float) -> float:
    total = 0.0
    if x <= 0 and x == math.floor(x):
        return math.nan
    if x < 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    while x < 12:
        total -= 1 / x
        x += 1
    tail = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    return total + math.log(x) - 0.5 / x - tail


# ------------------------------------------------------------------------------------------- images


def _source_coordinates(op: Operation, out: int, size: int) -> Array:
    """The source coordinate of each output pixel along one side of the image."""
    if op.attrs.get("align_corners") and out > 1:
        return np.arange(out) * ((size - 1) / (out - 1))
    shift = 0.5 if op.attrs.get("half_pixel_centers") else 0.0
    return (np.arange(out) + shift) * (size / out) - shift


def _picture(op: Operation, inputs: Sequence[Any]) -> tuple[Array, list[int]]:
    images, sizes = np.asarray(inputs[0]), [int(n) for n in np.asarray(inputs[1])]
    if images.ndim != 4 or len(sizes) != 2 or min(sizes) <= 0 or 0 in images.shape[1:3]:
        raise fault(op, f"cannot resize images of shape {list(images.shape)} to {sizes}")
    return images, sizes


@host("ResizeBilinear")
def _bilinear(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    images, sizes = _picture(op, inputs)
    found = images.astype(np.float32)
    for axis, out in zip((1, 2), sizes, strict=True):
        size = found.shape[axis]
        where = _source_coordinates(op, out, size).astype(np.float32)
        low = np.clip(np.floor(where), 0, size - 1).astype(int)
        high = np.clip(np.floor(where) + 1, 0, size - 1).astype(int)
        share = (where - np.floor(where)).reshape([-1 if i == axis else 1 for i in range(4)])
        first, second = found.take(low, axis), found.take(high, axis)
        found = first + (second - first) * share
    return [found.astype(np.float32)]


@host("ResizeNearestNeighbor")
def _nearest(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    images, sizes = _picture(op, inputs)
    for axis, out in zip((1, 2), sizes, strict=True):
        size = images.shape[axis]
        where = _source_coordinates(op, out, size)
        if op.attrs.get("half_pixel_centers"):
            where = where + 0.5
        picked = np.floor(where + 0.5) if op.attrs.get("align_corners") else np.floor(where)
        images = images.take(np.clip(picked, 0, size - 1).astype(int), axis)
    return [images]


@host("Dilation2D")
def _dilation(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """The maximum of image plus filter over each window."""
    x, window = np.asarray(inputs[0]), np.asarray(inputs[1])
    strides, rates = ([int(n) for n in op.attrs[a]] for a in ("strides", "rates"))
    reach = [(window.shape[i] - 1) * rates[i + 1] + 1 for i in (0, 1)]
    sizes, pads = [], [(0, 0)]
    for i in (0, 1):
        size, step = x.shape[i + 1], strides[i + 1]
        is_same = op.attrs.get("padding") == "SAME"
        out = -(-size // step) if is_same else (size - reach[i]) // step + 1
        missing = max(0, (out - 1) * step + reach[i] - size)
        sizes.append(out)
        pads.append((missing // 2, missing - missing // 2))
    padded = np.pad(x, [*pads, (0, 0)], constant_values=-np.inf if x.dtype.kind != "i" else np.iinfo(x.dtype).min)
    out = np.full((len(x), *sizes, x.shape[3]), -np.inf if x.dtype.kind != "i" else np.iinfo(x.dtype).min, x.dtype)
    for i in range(window.shape[0]):
        for j in range(window.shape[1]):
            rows = slice(i * rates[1], i * rates[1] + (sizes[0] - 1) * strides[1] + 1, strides[1])
            columns = slice(j * rates[2], j * rates[2] + (sizes[1] - 1) * strides[2] + 1, strides[2])
            out = np.maximum(out, padded[:, rows, columns] + window[i, j])
    return [out]
