"""Resize images (tf2xla/kernels/image_resize_ops.cc): multiply each axis by a constant weight
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.registry import register

Array = np.ndarray[Any, Any]
_PICTURES = 4  # batch, height, width, channels


def _source_positions(ctx: OpContext, out: int, size: int, shift: float) -> Array:
    """Return the position in the old image of each point of the new one."""
    ctx.check_constant([out])
    if ctx.attr("align_corners") and out > 1:
        return np.arange(out) * ((size - 1) / (out - 1))
    offset = 0.5 if ctx.attr("half_pixel_centers") else 0.0
    return (np.arange(out) + offset) * (size / out) - (offset if shift else 0.0)


def _weights(ctx: OpContext, out: int, size: int) -> Array:
    """Return linear interpolation weights [out, size]."""
    ctx.check_constant([out, size])
    where = _source_positions(ctx, out, size, 1.0).astype(np.float32)
    low = np.clip(np.floor(where), 0, size - 1).astype(int)
    high = np.clip(np.floor(where) + 1, 0, size - 1).astype(int)
    share = where - np.floor(where)
    found = np.zeros((out, size), np.float32)
    rows = np.arange(out)
    np.add.at(found, (rows, low), 1 - share)
    np.add.at(found, (rows, high), share)
    return found


def multiplied(ctx: OpContext, x: HloInstruction, matrices: Sequence[Array]) -> HloInstruction:
    """[n, h, w, c] with each of the two axes multiplied from the left by its matrix."""
    b = ctx.b
    rows = b.dot_general(b.constant(matrices[0]), x, lhs_contracting_dims=[1], rhs_contracting_dims=[1])  # [H, n, w, c]
    both = b.dot_general(
        b.constant(matrices[1]), rows, lhs_contracting_dims=[1], rhs_contracting_dims=[2]
    )  # [W, H, n, c]
    return b.transpose(both, [2, 1, 0, 3])


def image_sizes(ctx: OpContext, picture: HloInstruction, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The new and the old height and width of images. Raises GraphError if there is no pixel."""
    dims = picture.array_shape.dimensions
    if len(dims) != _PICTURES or len(sizes) != 2 or min(sizes) <= 0 or 0 in dims[1:3]:
        ctx.fail(f"cannot resize images of shape {list(dims)} to {list(sizes)}")
    return [(sizes[0], dims[1]), (sizes[1], dims[2])]


@register("ResizeBilinear", constants=(1,))
def _bilinear(ctx: OpContext) -> HloInstruction:
    """Resize bilinearly; the result is always float32."""
    images = ctx.input(0)
    matrices = [_weights(ctx, out, size) for out, size in image_sizes(ctx, images, ctx.sizes(1))]
    return multiplied(ctx, ctx.b.convert(images, PrimitiveType.F32), matrices)


@register("ResizeBilinearGrad")
def _bilinear_grad(ctx: OpContext) -> HloInstruction:
    """The transposed products; of the original's dtype."""
    grads, original = ctx.input(0), ctx.input(1)
    pairs = image_sizes(ctx, original, grads.array_shape.dimensions[1:3])
    kind = original.array_shape.element_type
    wide = PrimitiveType.F64 if kind is PrimitiveType.F64 else PrimitiveType.F32
    matrices = [_weights(ctx, *pair).T.astype(wide.dtype) for pair in pairs]
    made = multiplied(ctx, ctx.b.convert(grads, wide), matrices)
    return made if kind is wide else ctx.b.convert(made, kind)


def _picked(ctx: OpContext, out: int, size: int) -> Array:
    """The old point that each new one is."""
    where = _source_positions(ctx, out, size, 0.0).astype(np.float32)
    nearest = np.floor(where + 0.5) if ctx.attr("align_corners") else np.floor(where)
    return np.clip(nearest, 0, size - 1).astype(np.int32)


@register("ResizeNearestNeighbor", constants=(1,))
def _nearest(ctx: OpContext) -> HloInstruction:
    images = ctx.input(0)
    for axis, (out, size) in enumerate(image_sizes(ctx, images, ctx.sizes(1)), 1):
        images = gather_slices(ctx, images, ctx.b.constant(_picked(ctx, out, size)), axis)
    return images


@register("ResizeNearestNeighborGrad", constants=(1,), is_compilable=False)
def _nearest_grad(ctx: OpContext) -> HloInstruction:
    """Sum the gradients of the new points that copied each old point."""
    grads, sizes = ctx.input(0), ctx.ints(1)
    if len(sizes) != 2 or grads.array_shape.rank != _PICTURES:
        ctx.fail(f"{grads.shape} does not match images of {sizes}")
    kind = grads.array_shape.element_type
    matrices = []
    for out, size in zip(grads.array_shape.dimensions[1:3], sizes, strict=True):
        ctx.check_constant([size, out])
        chosen = np.zeros((size, out), kind.dtype)
        chosen[_picked(ctx, out, size), np.arange(out)] = 1
        matrices.append(chosen)
    return multiplied(ctx, grads, matrices)
