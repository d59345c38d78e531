"""convolution of any rank: strided patches, then a matrix product per group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.analysis.convolution import multiplies_padding
from xlanb.errors import EvaluationError
from xlanb.evaluator.bits import convert
from xlanb.evaluator.data_movement import padded
from xlanb.evaluator.dot import matmul, product
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, primitive_type, widen
from xlanb.evaluator.windows import checked_window, window_count, window_positions
from xlanb.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    Window,
    WindowDimension,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.shape_inference.registry import product_type
from xlanb.shape.primitive_type import from_dtype

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

# The most bytes of patches that are laid out at a time.
_PATCH_BYTES = 64 << 20


@rule("convolution")
def _convolution(ev: Evaluator, i: HloInstruction, lhs: Array, rhs: Array, *rest: Array) -> Array:
    if rest:
        raise EvaluationError("a convolution with more than two operands is ragged, which is not supported")
    return convolve(
        lhs,
        rhs,
        i.window,
        i.attributes["dim_labels"],
        i.array_shape.dtype,
        feature_groups=i.get("feature_group_count") or 1,
        batch_groups=i.get("batch_group_count") or 1,
        skips_padding=not multiplies_padding(i),
    )


def convolve(
    lhs: Array,
    rhs: Array,
    window: Window,
    numbers: ConvolutionDimensionNumbers,
    dtype: np.dtype[Any],
    *,
    feature_groups: int = 1,
    batch_groups: int = 1,
    skips_padding: bool = False,
) -> Array:
    """The convolution of lhs by the kernel rhs, as XLA defines it.

    It is a correlation, unless the window is reversed.

    Args:
        lhs: input, with dimensions in the order of `numbers`.
        rhs: kernel.
        window: one entry per spatial dimension: padding, strides, dilation of input (base) and
            kernel (window).
        numbers: the dimension numbers.
        dtype: element type of the result.
        feature_groups: the number of groups of input features, each with its own kernels.
        batch_groups: the number of groups of the batch, each with its own kernels.
        skips_padding: padding and holes are not multiplied, else they are zeros (see
            `multiplies_padding`). It matters for NaN and infinity in the kernel.
    """
    rank = len(numbers.input_spatial)
    dimensions = checked_window(window, rank)
    sizes = tuple(d.size for d in dimensions)
    if tuple(rhs.shape[d] for d in numbers.kernel_spatial) != sizes:  # the views below rely on it
        raise EvaluationError(f"window sizes {list(sizes)} do not match a kernel of shape {list(rhs.shape)}")
    image = lhs.transpose(numbers.input_batch, *numbers.input_spatial, numbers.input_feature)
    kernel = rhs.transpose(*numbers.kernel_spatial, numbers.kernel_input_feature, numbers.kernel_output_feature)
    kernel = np.flip(kernel, tuple(d for d in range(rank) if dimensions[d].reversal))
    places = tuple(window_count(n, d) for n, d in zip(image.shape[1:-1], dimensions, strict=True))
    sizes_before = image.shape[1:-1]
    image = _prepared(image, dimensions)
    groups = max(feature_groups, batch_groups)
    kernel = np.moveaxis(
        kernel.reshape(*kernel.shape[:-1], groups, kernel.shape[-1] // groups), -2, 0
    )  # [groups, spatial..., in, out]
    grouped = _grouped(image, feature_groups, batch_groups)  # [groups, batch, spatial..., in]
    if skips_padding and not np.isfinite(widen(kernel)).all():
        inside = [
            window_positions(n, replace(d, reversal=False))[1] for n, d in zip(sizes_before, dimensions, strict=True)
        ]
        result = _correlate_inside(grouped, kernel, dimensions, inside, dtype)
    else:
        # [groups, batch, positions..., out]
        result = _correlate(grouped, kernel, dimensions, places, dtype)
    merged = np.moveaxis(result, 0, -2).reshape(*result.shape[1:-1], groups * result.shape[-1])
    order = np.argsort([numbers.output_batch, *numbers.output_spatial, numbers.output_feature])
    return merged.transpose(order)


def _prepared(image: Array, dimensions: tuple[WindowDimension, ...]) -> Array:
    """The image with base dilation and padding applied."""
    if all(d.padding_low == d.padding_high == 0 and d.base_dilation == 1 for d in dimensions):
        return np.ascontiguousarray(image)
    inner = tuple(PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1) for d in dimensions)
    low_cut = tuple(
        max(0, -(n - 1) * d.base_dilation - 1 - d.padding_low - d.padding_high)
        for n, d in zip(image.shape[1:-1], dimensions, strict=True)
    )
    if any(low_cut):  # no window fits: the rest of the image does not matter
        return np.zeros((image.shape[0], *(0 for _ in dimensions), image.shape[-1]), image.dtype)
    return padded(image, np.zeros((), image.dtype), (PaddingDimension(), *inner, PaddingDimension()))


def _grouped(image: Array, feature_groups: int, batch_groups: int) -> Array:
    if batch_groups > 1:
        return image.reshape(batch_groups, image.shape[0] // batch_groups, *image.shape[1:])
    return np.moveaxis(image.reshape(*image.shape[:-1], feature_groups, image.shape[-1] // feature_groups), -2, 0)


def _correlate(
    image: Array,
    kernel: Array,
    dimensions: tuple[WindowDimension, ...],
    places: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Array:
    """Correlate images [g, n, spatial..., c] with kernels [g, spatial..., c, o] per group.

    Returns [g, n, positions..., o].
    """
    groups, batch, outputs = image.shape[0], image.shape[1], kernel.shape[-1]
    result = np.zeros((groups, batch, *places, outputs), dtype)
    if 0 in result.shape or 0 in kernel.shape:
        return result
    patch = math.prod(kernel.shape[1:-1])
    flat_kernel = kernel.reshape(groups, patch, outputs)
    per_image = groups * math.prod(places) * patch * max(4, image.dtype.itemsize)
    # the windows' type may be wider
    kind = product_type(primitive_type(image), primitive_type(kernel), from_dtype(dtype))
    windows = _windows(image, kernel.shape[1:-2], dimensions, places)
    for part in _parts((batch, *places), per_image):
        here = (slice(None), *part)
        patches = windows[here].reshape(groups, -1, patch)
        result[here] = convert(matmul(patches, flat_kernel, kind.dtype), dtype).reshape(result[here].shape)
    return result


def _parts(sizes: Sequence[int], per_image: int) -> Iterator[tuple[slice, ...]]:
    """Slices of [batch, positions...] to compute at once.

    They are several images, or some rows of an image that is too large.
    """
    step = max(1, _PATCH_BYTES // per_image)
    rows = max(1, _PATCH_BYTES * sizes[1] // per_image) if len(sizes) > 1 else 1
    for first in range(0, sizes[0], step):
        images = slice(first, first + step)
        if per_image <= _PATCH_BYTES or len(sizes) == 1:
            yield (images,)
            continue
        for row in range(0, sizes[1], rows):
            yield images, slice(row, row + rows)


def _correlate_inside(
    image: Array,
    kernel: Array,
    dimensions: tuple[WindowDimension, ...],
    inside: list[Array],
    dtype: np.dtype[Any],
) -> Array:
    """As `_correlate`, but skip elements outside the image.

    `inside` says, by dimension and position, which offsets are inside.
    """
    places = tuple(d.shape[0] for d in inside)
    sizes = kernel.shape[1:-2]
    wide = product_type(primitive_type(image), primitive_type(kernel), from_dtype(dtype))
    x, k = (widen(convert(v, wide.dtype)) for v in (image, kernel))
    total = np.zeros((*image.shape[:2], *places, kernel.shape[-1]), x.dtype)
    windows = _windows(x, sizes, dimensions, places)
    for offset in np.ndindex(*sizes):
        taken = np.ones((), np.bool_)
        for axis, (table, o) in enumerate(zip(inside, offset, strict=True)):
            taken = taken & table[:, o].reshape([-1 if a == axis else 1 for a in range(len(places))])
        tap = windows[(slice(None),) * (2 + len(places)) + offset]  # [g, n, positions..., c]
        flat = tap.reshape(tap.shape[0], -1, tap.shape[-1])
        added = product(flat, k[(slice(None), *offset)]).reshape(total.shape)
        total = total + np.where(taken[..., None], added, np.zeros((), x.dtype))
    return convert(convert(total, wide.dtype), dtype)


def _windows(
    image: Array,
    sizes: tuple[int, ...],
    dimensions: tuple[WindowDimension, ...],
    places: tuple[int, ...],
) -> Array:
    """A view [g, n, positions..., window..., c] of an image [g, n, spatial..., c]."""
    # NumPy takes strides only as Python integers
    image = image if image.dtype.isbuiltin == 1 else widen(image)
    strides = image.strides[2:-1]
    by_place = [s * d.stride for s, d in zip(strides, dimensions, strict=True)]
    by_offset = [s * d.window_dilation for s, d in zip(strides, dimensions, strict=True)]
    return np.lib.stride_tricks.as_strided(
        image,
        (*image.shape[:2], *places, *sizes, image.shape[-1]),
        (*image.strides[:2], *by_place, *by_offset, image.strides[-1]),
        writeable=False,
    )
