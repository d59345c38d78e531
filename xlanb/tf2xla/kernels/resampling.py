"""Resize images with kernels of several pixels, and crop boxes.

TensorFlow compiles none of these ops in clusters. Sources: resize_bicubic_op.cc, resize_area_op.cc,
scale_and_translate_op.cc and crop_and_resize_op.cc in tensorflow/core/kernels/image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled
from xlanb.tf2xla.kernels.resizing import image_sizes, multiplied
from xlanb.tf2xla.registry import register

Array = np.ndarray[Any, Any]
_STEPS = 1024  # steps of the table that TensorFlow reads cubic weights from


def _resampled(ctx: OpContext, weights: Callable[[int, int, int], Array]) -> HloInstruction:
    """Multiply rows and columns by `weights(out, size, axis)`, of shape [out, size], in float32."""
    images = ctx.input(0)
    pairs = image_sizes(ctx, images, ctx.sizes(1))
    matrices = [_checked(ctx, weights, out, size, axis) for axis, (out, size) in enumerate(pairs)]
    return multiplied(ctx, ctx.b.convert(images, PrimitiveType.F32), matrices)


def _resampled_back(ctx: OpContext, weights: Callable[[int, int, int], Array]) -> HloInstruction:
    """Multiply by the transposed weights; the result has the original image's dtype."""
    grads, original = ctx.input(0), ctx.input(1)
    pairs = image_sizes(ctx, original, grads.array_shape.dimensions[1:3])
    kind = original.array_shape.element_type
    matrices = [_checked(ctx, weights, out, size, axis).T.astype(kind.dtype) for axis, (out, size) in enumerate(pairs)]
    return multiplied(ctx, ctx.b.convert(grads, kind), matrices)


def _checked(ctx: OpContext, weights: Callable[[int, int, int], Array], out: int, size: int, axis: int) -> Array:
    ctx.check_constant([out, size])
    return weights(out, size, axis).astype(np.float32)


# ------------------------------------------------------------------------------------------ bicubic


def _cubic(ctx: OpContext, out: int, size: int, _: int) -> Array:
    """Return weights of four neighbours; a is -0.5 with half-pixel centres, else -0.75.

    With half-pixel centres, only pixels inside the image have weights.
    """
    is_half = bool(ctx.attr("half_pixel_centers"))
    scale = (size - 1) / (out - 1) if ctx.attr("align_corners") and out > 1 else size / out
    shift = 0.5 if is_half else 0.0
    where = ((np.arange(out) + shift) * np.float32(scale) - shift).astype(np.float32)
    first = np.floor(where).astype(int)
    step = np.rint((where - first) * _STEPS).astype(int)
    a = -0.5 if is_half else -0.75
    near, far = _cubic_table(a)
    found = np.zeros((out, size))
    rows = np.arange(out)
    for offset, share in ((-1, far[step]), (0, near[step]), (1, near[_STEPS - step]), (2, far[_STEPS - step])):
        pixel = np.clip(first + offset, 0, size - 1)
        inside = pixel == first + offset
        np.add.at(found, (rows, pixel), np.where(inside, share, 0) if is_half else share)
    return _normalized(found) if is_half else found


def _cubic_table(a: float) -> tuple[Array, Array]:
    x = np.arange(_STEPS + 1) / _STEPS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    x = x + 1
    return near, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _normalized(weights: Array) -> Array:
    """Scale rows to a sum of 1, unless the sum is 0."""
    total = weights.sum(1, keepdims=True)
    found: Array = np.divide(
        weights, total, out=weights.copy(), where=np.abs(total) >= 1000 * np.finfo(np.float32).tiny
    )
    return found


@register("ResizeBicubic", constants=(1,), is_compilable=False)
def _bicubic(ctx: OpContext) -> HloInstruction:
    return _resampled(ctx, lambda *sizes: _cubic(ctx, *sizes))


@register("ResizeBicubicGrad", is_compilable=False)
def _bicubic_grad(ctx: OpContext) -> HloInstruction:
    return _resampled_back(ctx, lambda *sizes: _cubic(ctx, *sizes))


# --------------------------------------------------------------------------------------------- area


@register("ResizeArea", constants=(1,), is_compilable=False)
def _area(ctx: OpContext) -> HloInstruction:
    """Average the area that each pixel of the result covers; beyond the edge the last pixel is
    repeated.
    """

    def weights(out: int, size: int, _: int) -> Array:
        scale = (size - 1) / (out - 1) if ctx.attr("align_corners") and out > 1 else size / out
        found = np.zeros((out, size))
        if scale == 0:  # one pixel, its corners aligned with several
            found[:, 0] = 1
            return found
        for row in range(out):
            low, high = row * scale, (row + 1) * scale
            for pixel in range(int(np.floor(low)), int(np.ceil(high))):
                covered = min(pixel + 1, high) - max(pixel, low)
                found[row, min(max(pixel, 0), size - 1)] += covered / scale
        return found

    return _resampled(ctx, weights)


# ------------------------------------------------------------------------------ scale and translate


def _lanczos(radius: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0)


def _gaussian(x: Array) -> Array:
    return np.where(x < 1.5, np.exp(-x * x / (2 * 0.5**2)), 0)


def _box(x: Array) -> Array:
    return np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))


def _keys(x: Array) -> Array:
    inner, outer = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def _mitchell(x: Array) -> Array:
    inner = ((7 / 6 * x - 2) * x) * x + 8 / 9
    outer = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1.0, _lanczos(1.0)), "lanczos3": (3.0, _lanczos(3.0)), "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, _gaussian), "box": (1.0, _box), "triangle": (1.0, lambda x: np.maximum(0.0, 1 - x)),
    "keyscubic": (2.0, _keys), "mitchellcubic": (2.0, _mitchell),
}  # fmt: skip


def _spans(ctx: OpContext, scales: Array, shifts: Array) -> Callable[[int, int, int], Array]:
    """Return kernel weights around each result pixel's position in the image; zeros if that is
    outside.
    """
    kind = str(ctx.attr("kernel_type"))
    if kind not in _KERNELS:
        ctx.fail(f"kernel_type {kind!r} is unknown: expected one of {', '.join(_KERNELS)}")
    if scales.size != 2 or shifts.size != 2 or not (scales > 0).all():
        ctx.fail(f"scale {scales.tolist()} and translation {shifts.tolist()} must be pairs, scales positive")
    radius, kernel = _KERNELS[kind]

    def weights(out: int, size: int, axis: int) -> Array:
        """In float32, as TensorFlow: pixels on a kernel's edge count or don't by rounding."""
        single = np.float32
        inverse = single(1) / single(scales.flat[axis])
        where = (np.arange(out, dtype=single) + single(0.5)) * inverse - inverse * single(shifts.flat[axis])
        wide = max(inverse, single(1)) if ctx.attr("antialias") else single(1)
        first = np.clip(np.ceil(where - single(radius) * wide - single(0.5)), 0, size - 1)
        last = np.clip(np.floor(where + single(radius) * wide - single(0.5)), 0, size - 1)
        pixels = np.arange(size, dtype=single)
        counts = (pixels >= first[:, None]) & (pixels <= last[:, None])
        inside = (where >= 0) & (where <= size)
        share = kernel(np.abs((pixels + single(0.5) - where[:, None]) * (single(1) / wide)))
        return _normalized(np.where(counts & inside[:, None], share, 0.0))

    return weights


@register("ScaleAndTranslate", constants=(1, 2, 3), is_compilable=False)
def _scale_and_translate(ctx: OpContext) -> HloInstruction:
    return _resampled(ctx, _spans(ctx, ctx.constant(2), ctx.constant(3)))


@register("ScaleAndTranslateGrad", constants=(2, 3), is_compilable=False)
def _scale_and_translate_grad(ctx: OpContext) -> HloInstruction:
    return _resampled_back(ctx, _spans(ctx, ctx.constant(2), ctx.constant(3)))


# -------------------------------------------------------------------------------------------- crops


@register("CropAndResize", constants=(3,), is_compilable=False, ranks="4 2 1 1")
def _crop_and_resize(ctx: OpContext) -> HloInstruction:
    """Crop boxes [y1, x1, y2, x2], in fractions of the image, and resize them to crop_size.

    Positions outside the image have the extrapolation value.
    """
    b = ctx.b
    images, boxes, owners = ctx.inputs[:3]
    sizes = ctx.sizes(3)
    (batch, height, width, depth), count = images.array_shape.dimensions, boxes.array_shape.dimensions[0]
    if len(sizes) != 2 or min(sizes) <= 0 or 0 in (batch, height, width) or boxes.array_shape.dimensions[1] != 4:
        ctx.fail(f"cannot crop boxes {boxes.shape} of images {images.shape} to {sizes}")
    dims = [count, *sizes]
    images = b.convert(images, PrimitiveType.F32)
    y, x = (_points(ctx, boxes, i, extent, sizes[i]) for i, extent in enumerate((height, width)))
    is_owner = b.and_(
        b.compare(owners, filled(ctx, owners, 0), "GE"), b.compare(owners, filled(ctx, owners, batch), "LT")
    )
    inside = b.and_(
        b.broadcast_in_dim(_inside(ctx, y, height), dims, [0, 1]),
        b.broadcast_in_dim(_inside(ctx, x, width), dims, [0, 2]),
    )
    inside = b.and_(inside, b.broadcast_in_dim(is_owner, dims, [0]))

    def pick(rows: HloInstruction, columns: HloInstruction) -> HloInstruction:
        parts = [
            b.broadcast_in_dim(owners, dims, [0]),
            b.broadcast_in_dim(rows, dims, [0, 1]),
            b.broadcast_in_dim(columns, dims, [0, 2]),
        ]
        where = b.concatenate([b.reshape(p, [*dims, 1]) for p in parts], 3)
        return b.gather(
            images, where, offset_dims=[3], collapsed_slice_dims=[0, 1, 2], start_index_map=[0, 1, 2],
            index_vector_dim=3,
            slice_sizes=[1, 1, 1, depth],
        )  # fmt: skip

    full = [*dims, depth]
    found = _nearest(ctx, y, x, pick) if ctx.attr("method") == "nearest" else _between(ctx, y, x, pick, full)
    outside = filled(ctx, found, float(ctx.attr("extrapolation_value")))
    return b.select(b.broadcast_in_dim(inside, full, [0, 1, 2]), found, outside)


def _points(ctx: OpContext, boxes: HloInstruction, axis: int, extent: int, out: int) -> HloInstruction:
    """Return where the rows or columns of each crop lie: [boxes, out]."""
    b, count = ctx.b, boxes.array_shape.dimensions[0]
    low, high = (b.reshape(b.slice(boxes, [0, i], [count, i + 1], [1, 1]), [count]) for i in (axis, axis + 2))
    if out == 1:
        middle = b.multiply(b.add(low, high), filled(ctx, low, 0.5 * (extent - 1)))
        return b.reshape(middle, [count, 1])
    step = b.multiply(b.subtract(high, low), filled(ctx, low, (extent - 1) / (out - 1)))
    start = b.multiply(low, filled(ctx, low, extent - 1))
    numbers = b.iota(array(PrimitiveType.F32, [count, out]), 1)
    return b.add(
        b.broadcast_in_dim(start, [count, out], [0]), b.multiply(numbers, b.broadcast_in_dim(step, [count, out], [0]))
    )


def _inside(ctx: OpContext, points: HloInstruction, extent: int) -> HloInstruction:
    b = ctx.b
    return b.and_(
        b.compare(points, filled(ctx, points, 0), "GE"), b.compare(points, filled(ctx, points, extent - 1), "LE")
    )


def _index(ctx: OpContext, points: HloInstruction) -> HloInstruction:
    return ctx.b.convert(points, PrimitiveType.S32)


def _nearest(
    ctx: OpContext,
    y: HloInstruction,
    x: HloInstruction,
    pick: Callable[[HloInstruction, HloInstruction], HloInstruction],
) -> HloInstruction:
    return pick(*(_index(ctx, ctx.b.round_nearest_afz(p)) for p in (y, x)))


def _between(
    ctx: OpContext,
    y: HloInstruction,
    x: HloInstruction,
    pick: Callable[[HloInstruction, HloInstruction], HloInstruction],
    dims: Sequence[int],
) -> HloInstruction:
    """Interpolate between the four pixels around each point."""
    b = ctx.b
    top, left = b.floor(y), b.floor(x)
    rows, columns = ([_index(ctx, low), _index(ctx, b.ceil(p))] for low, p in ((top, y), (left, x)))
    across = b.broadcast_in_dim(b.subtract(x, left), dims, [0, 2])
    down = b.broadcast_in_dim(b.subtract(y, top), dims, [0, 1])

    def mix(low: HloInstruction, high: HloInstruction, share: HloInstruction) -> HloInstruction:
        return b.add(low, b.multiply(b.subtract(high, low), share))

    lines = [mix(pick(row, columns[0]), pick(row, columns[1]), across) for row in rows]
    return mix(lines[0], lines[1], down)
