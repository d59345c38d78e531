"""dot, ragged-dot and scaled-dot, by batched matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator import complex_math
from xlanb.evaluator.bits import convert
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, is_complex, primitive_type, widen
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.shape_inference.registry import group_prefix, product_type
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

_EXACT_IN_DOUBLE = 2**53
_PART = 1 << 29
"""The number of float multiplications that take well below a second."""
_COPIED = 1 << 24
"""The most elements of an operand that are packed for BLAS at once."""
_SLOWER = 8
"""How much slower integer products may be, since no library computes them."""


def matmul(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Matrix products [..., m, k] x [..., k, n] in the type in which XLA computes them.

    The result is converted to `dtype`. Narrow floats are multiplied and added in f32. Integers are
    exact modulo the width of the result.
    """
    kind = product_type(primitive_type(a), primitive_type(b), from_dtype(dtype))
    return convert(_matmul_of(convert(a, kind.dtype), convert(b, kind.dtype), kind), dtype)


def _matmul_of(a: Array, b: Array, kind: PrimitiveType) -> Array:
    """Matrix products with operands and result of one type."""
    if kind is PrimitiveType.PRED:
        return np.asarray(np.matmul(a, b))
    a, b = widen(a), widen(b)
    return convert(_integer_matmul(a, b) if kind.is_integral else product(a, b), kind.dtype)


def product(a: Array, b: Array) -> Array:
    """Matrix products of floats or complex numbers.

    A complex product is four products of parts: BLAS multiplies its sum by 1 + 0j, which turns
    infinities into NaN.
    """
    if not is_complex(a):
        return _product(a, b)
    (ar, ai), (br, bi) = ([np.ascontiguousarray(part) for part in (x.real, x.imag)] for x in (a, b))
    real = _product(ar, br) - _product(ai, bi)
    return complex_math.of_parts(real, _product(ar, bi) + _product(ai, br))


def _product(a: Array, b: Array) -> Array:
    """np.matmul; a large one in parts, so that Python handles signals in between."""
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    limit = _PART if a.dtype.kind == "f" else _PART // _SLOWER
    if a.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[0] * rows * inner * columns <= limit // _SLOWER:
        return np.asarray(np.matmul(a, b))
    length = min(inner, max(1, _COPIED // columns))
    step = max(1, min(limit // (length * columns), _COPIED // length))
    batches = max(1, min(limit // (rows * length * columns), _COPIED // (length * max(columns, min(step, rows)))))
    out = np.zeros((a.shape[0], rows, columns), np.result_type(a, b))
    for first in range(0, a.shape[0], batches):
        some = slice(first, first + batches)
        for at in range(0, inner, length):
            # BLAS does not accept a broadcast array, whose strides are 0; NumPy would then use a
            # slow loop.
            right = np.ascontiguousarray(b[some, at : at + length])
            for row in range(0, rows, step):
                out[some, row : row + step] += np.ascontiguousarray(a[some, row : row + step, at : at + length]) @ right
    return out


def _integer_matmul(a: Array, b: Array) -> Array:
    """Integer products, through BLAS in f64 if that is exact, else in 64-bit integers.

    The latter wrap around as narrower ones do.
    """
    if not a.size or not b.size:
        return np.zeros(np.matmul(a, b).shape, np.int64)
    bound = max(abs(int(a.max())), abs(int(a.min()))) * max(abs(int(b.max())), abs(int(b.min()))) * a.shape[-1]
    if bound < _EXACT_IN_DOUBLE:
        return _product(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return _product(a.astype(np.int64), b.astype(np.int64))


def dot_general(
    a: Array,
    b: Array,
    batch: tuple[Sequence[int], Sequence[int]],
    contracting: tuple[Sequence[int], Sequence[int]],
    dtype: np.dtype[Any],
) -> Array:
    """Sum of products over the contracting dimensions.

    The result has the batch dimensions, then a's free dimensions, then b's.
    """
    free_a = [d for d in range(a.ndim) if d not in (*batch[0], *contracting[0])]
    free_b = [d for d in range(b.ndim) if d not in (*batch[1], *contracting[1])]
    sizes_batch = [a.shape[d] for d in batch[0]]
    sizes_a, sizes_b = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    inner = math.prod(a.shape[d] for d in contracting[0])
    count = math.prod(sizes_batch)
    left = a.transpose([*batch[0], *free_a, *contracting[0]]).reshape(count, math.prod(sizes_a), inner)
    right = b.transpose([*batch[1], *contracting[1], *free_b]).reshape(count, inner, math.prod(sizes_b))
    made = _one_by_one(left, right, dtype) if inner == 1 else matmul(left, right, dtype)
    return made.reshape(sizes_batch + sizes_a + sizes_b)


def _one_by_one(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Products [..., m, 1] x [..., 1, n] without a sum: XLA multiplies, so -0 stays -0."""
    kind = product_type(primitive_type(a), primitive_type(b), from_dtype(dtype))
    x, y = (widen(convert(v, kind.dtype)) for v in (a, b))
    made = complex_math.multiply(x, y) if is_complex(x) else np.multiply(x, y)
    return convert(convert(made, kind.dtype), dtype)


def _numbers(
    i: HloInstruction,
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]:
    return (
        (i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")),
        (i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")),
    )


@rule("dot")
def _dot(ev: Evaluator, i: HloInstruction, a: Array, b: Array) -> Array:
    batch, contracting = _numbers(i)
    return dot_general(a, b, batch, contracting, i.array_shape.dtype)


@rule("scaled-dot")
def _scaled_dot(ev: Evaluator, i: HloInstruction, a: Array, b: Array, a_scale: Array, b_scale: Array) -> Array:
    """Multiply each operand by its scales, one per block of elements, then compute the dot."""
    batch, contracting = _numbers(i)
    return dot_general(_scaled(a, a_scale), _scaled(b, b_scale), batch, contracting, i.array_shape.dtype)


def _scaled(x: Array, scale: Array) -> Array:
    wide = widen(scale)
    if scale.ndim == 0:
        return widen(x) * wide
    for axis, (n, blocks) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if blocks == 0 or n % blocks:
            raise EvaluationError(f"{blocks} scales do not fit {n} elements of dimension {axis}")
        wide = np.repeat(wide, n // blocks, axis=axis)
    return widen(x) * wide


@rule("ragged-dot")
def _ragged_dot(ev: Evaluator, i: HloInstruction, a: Array, b: Array, sizes: Array) -> Array:
    """Compute one group after another along the ragged dimension of the lhs.

    Mode 1, a free dimension: rows of a group are multiplied by that group's matrix. Mode 2, a
    contracting dimension: one result per group. Mode 3, a batch dimension: a plain dot.
    """
    batch, contracting = _numbers(i)
    ragged = i.ints("lhs_ragged_dims")[0]
    group_dims = i.ints("rhs_group_dims")
    dtype = i.array_shape.dtype
    if ragged in batch[0]:
        return dot_general(a, b, batch, contracting, dtype)
    if not sizes.size:
        return np.zeros(i.array_shape.dimensions, dtype)
    ends = np.cumsum(sizes.astype(np.int64), axis=-1)
    begins = ends - sizes.astype(np.int64)
    row = np.arange(a.shape[ragged])
    inside = (row >= begins[..., None]) & (row < ends[..., None])  # [prefix..., group, row]
    prefix = group_prefix(ragged, batch[0], contracting[0], a.ndim) if sizes.ndim > 1 else ()
    groups = sizes.shape[-1]
    parts = []
    for g in range(groups):
        masked = np.where(_aligned(inside[..., g, :], a.ndim, (*prefix, ragged)), a, np.zeros((), a.dtype))
        if ragged in contracting[0]:
            parts.append(dot_general(masked, b, batch, contracting, dtype))
            continue
        axis = group_dims[0]
        one = np.take(b, g, axis=axis)
        shifted = [[d - (d > axis) for d in dims] for dims in (batch[1], contracting[1])]
        parts.append(dot_general(masked, one, (batch[0], shifted[0]), (contracting[0], shifted[1]), dtype))
    if ragged in contracting[0]:
        return np.stack(parts)
    total = parts[0]
    for p in parts[1:]:
        # all parts but one of each element are zero
        total = convert(widen(total) + widen(p), dtype)
    return total


def _aligned(mask: Array, rank: int, axes: Sequence[int]) -> Array:
    """Broadcast a mask over `axes` of the lhs to all dimensions of the lhs."""
    sizes = [1] * rank
    for axis, n in zip(axes, mask.shape, strict=True):
        sizes[axis] = n
    return mask.transpose(np.argsort(axes)).reshape(sizes)
