"""Crops of images and drawing on them.

Based on core/kernels/image/{crop_and_resize_op,attention_ops,draw_bounding_box_op}.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]
Lerp = tuple[Array, Array, Array]
"""Of each row or column of a crop: the neighbor below, the one above, and the share of the
latter."""


def _positions(low: float, high: float, extent: int, count: int) -> Array:
    """Where the rows or columns of a crop lie in the image, in pixels."""
    if count == 1:
        return np.asarray([0.5 * (low + high) * (extent - 1)], np.float32)
    step = np.float32(high - low) * (extent - 1) / np.float32(count - 1)
    return np.asarray(np.float32(low) * (extent - 1) + np.arange(count, dtype=np.float32) * step, np.float32)


def _neighbors(op: Operation, at: Array) -> Lerp:
    if op.attrs.get("method", "bilinear") == "nearest":
        nearest = np.floor(at + 0.5).astype(int)
        return nearest, nearest, np.zeros_like(at)
    return np.floor(at).astype(int), np.ceil(at).astype(int), at - np.floor(at)


def _crops(
    op: Operation, boxes: Array, owners: Array, image_shape: Sequence[int], crop: Sequence[int]
) -> Iterator[tuple[int, int, Array, Array, Lerp, Lerp]]:
    """Yield each box: its number, its image, its rows and columns, and their neighbors.

    Only rows and columns inside of the image count.
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4 or owners.shape != boxes.shape[:1]:
        raise fault(
            op, f"expected boxes [n, 4] and box_ind [n], got shapes {list(boxes.shape)} and {list(owners.shape)}"
        )
    if ((owners < 0) | (owners >= image_shape[0])).any():
        raise fault(op, f"box_ind has values outside of [0, {image_shape[0]}), the images of the batch")
    for number, (box, owner) in enumerate(zip(boxes, owners, strict=True)):
        ys = _positions(box[0], box[2], image_shape[1], crop[0])
        xs = _positions(box[1], box[3], image_shape[2], crop[1])
        rows, columns = (
            np.flatnonzero((at >= 0) & (at <= extent - 1))
            for at, extent in ((ys, image_shape[1]), (xs, image_shape[2]))
        )
        yield number, int(owner), rows, columns, _neighbors(op, ys[rows]), _neighbors(op, xs[columns])


@host("CropAndResizeGradImage")
def _image_gradient(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Add each element of the crops' gradient to the pixels that it was interpolated from."""
    grads, boxes, owners = (np.asarray(v) for v in inputs[:3])
    dims = [int(d) for d in np.asarray(inputs[3])]
    if grads.ndim != 4 or len(dims) != 4 or dims[3] != grads.shape[3] or len(grads) != len(boxes):
        raise fault(op, f"grads of shape {list(grads.shape)} do not fit {len(boxes)} boxes in images of {dims}")
    out = np.zeros(dims, np.float64)
    for number, owner, rows, columns, (top, bottom, down), (left, right, across) in _crops(
        op, boxes, owners, dims, grads.shape[1:3]
    ):
        given = grads[number][np.ix_(rows, columns)].astype(np.float64)
        for ys, y_share in ((top, 1 - down), (bottom, down)):
            for xs, x_share in ((left, 1 - across), (right, across)):
                weight = y_share[:, None, None] * x_share[None, :, None]
                np.add.at(out[owner], (ys[:, None], xs[None, :]), given * weight)
    return [out.astype(op.outputs[0].dtype.numpy_dtype)]


@host("CropAndResizeGradBoxes")
def _box_gradient(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """The gradient by the corners: the slope of the image at each point of a crop."""
    grads, image, boxes, owners = (np.asarray(v) for v in inputs)
    if grads.ndim != 4 or image.ndim != 4 or image.shape[3] != grads.shape[3] or len(grads) != len(boxes):
        raise fault(
            op, f"grads of shape {list(grads.shape)} do not fit {len(boxes)} boxes in images of {list(image.shape)}"
        )
    out = np.zeros(boxes.shape, np.float64)
    height, width = image.shape[1:3]
    for number, owner, rows, columns, (top, bottom, down), (left, right, across) in _crops(
        op, boxes, owners, image.shape, grads.shape[1:3]
    ):
        pixels = image[owner].astype(np.float64)
        (a, b), (c, d) = ([pixels[np.ix_(y, x)] for x in (left, right)] for y in (top, bottom))
        given = grads[number][np.ix_(rows, columns)].astype(np.float64)
        share_x, share_y = across[None, :, None], down[:, None, None]
        by_y = (((1 - share_x) * (c - a) + share_x * (d - b)) * given).sum(axis=(1, 2))
        by_x = (((1 - share_y) * (b - a) + share_y * (d - c)) * given).sum(axis=(0, 2))
        for axis, slope, places, extent in ((0, by_y, rows, height), (1, by_x, columns, width)):
            count = grads.shape[1 + axis]
            far = places / (count - 1) if count > 1 else np.full(len(places), 0.5)
            out[number, axis] += (slope * (1 - far)).sum() * (extent - 1)
            out[number, axis + 2] += (slope * far).sum() * (extent - 1)
    return [out.astype(np.float32)]


@host("ExtractGlimpse", "ExtractGlimpseV2")
def _glimpse(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Cut a window out of each image; noise fills what lies outside of the image."""
    images, (height, width), offsets = np.asarray(inputs[0]), (int(n) for n in inputs[1]), np.asarray(inputs[2])
    if images.ndim != 4 or offsets.shape != (len(images), 2):
        raise fault(
            op,
            "expected images [batch, height, width, channels] and offsets [batch, 2], "
            f"got shapes {list(images.shape)} and {list(offsets.shape)}",
        )
    if height < 1 or width < 1:
        raise fault(op, f"the size must be positive, got {[height, width]}")
    size, extent = np.asarray([height, width]), np.asarray(images.shape[1:3], np.float32)
    out = np.empty((len(images), height, width, images.shape[3]), np.float32)
    for number, (image, offset) in enumerate(zip(images, offsets, strict=True)):
        first = _glimpse_corner(op, np.asarray(offset, np.float32), extent, size).astype(int)
        low, high = np.maximum(first, 0), np.minimum(first + size, images.shape[1:3])
        at = np.minimum(low - first, size)
        piece = image[low[0] : max(low[0], high[0]), low[1] : max(low[1], high[1])]
        if piece.shape != out.shape[1:]:
            out[number] = _noise(op, image, out.shape[1:], state)
        out[number, at[0] : at[0] + piece.shape[0], at[1] : at[1] + piece.shape[1]] = piece
    return [out]


def _glimpse_corner(op: Operation, offset: Array, extent: Array, size: Array) -> Array:
    """The first row and column; the two versions of the op center pixel offsets differently."""
    is_centered, is_normalized = op.attrs.get("centered", True), op.attrs.get("normalized", True)
    if op.type == "ExtractGlimpse":
        at = offset * extent if is_normalized else offset
        return (at / 2 + extent / 2 if is_centered else at) - size / 2
    if is_normalized:
        at = offset * extent
        return at / 2 + extent / 2 - size / 2 if is_centered else at
    return offset + extent / 2 if is_centered else offset


def _noise(op: Operation, image: Array, shape: tuple[int, ...], state: HostState) -> Array:
    kind = "uniform" if op.attrs.get("uniform_noise", True) else str(op.attrs.get("noise") or "gaussian")
    if kind == "zero":
        return np.zeros(shape, np.float32)
    generator = state.generator(op)
    if kind == "uniform":
        return np.asarray(generator.uniform(image.min(), image.max(), shape), np.float32)
    if kind == "gaussian":
        return np.asarray(generator.normal(image.mean((0, 1)), image.std((0, 1)), shape), np.float32)
    raise fault(op, f"noise {kind!r} is unknown: expected uniform, gaussian or zero")


_COLORS = np.asarray(
    [
        (1, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 1), (0.5, 0, 0.5, 1), (0.5, 0.5, 0, 1), (0.5, 0, 0, 1),
        (0, 0, 0.5, 1), (0, 1, 1, 1), (1, 0, 1, 1),
    ],
    np.float32,
)  # fmt: skip
"""Yellow, blue, red, lime, purple, olive, maroon, navy, aqua and fuchsia."""


@host("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def _draw_boxes(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Draw the outlines of boxes [y1, x1, y2, x2], as shares of height and width, into images."""
    images, boxes = np.array(inputs[0]), np.asarray(inputs[1], np.float32)
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise fault(op, f"expected images [batch, height, width, 1, 3 or 4 channels], got shape {list(images.shape)}")
    if boxes.ndim != 3 or boxes.shape[2] != 4 or len(boxes) != len(images):
        raise fault(op, f"expected boxes [{len(images)}, n, 4], got shape {list(boxes.shape)}")
    colors = _box_colors(op, inputs[2:], images.shape[3])
    for image, own in zip(images, boxes, strict=True):
        for number, box in enumerate(own):
            _draw_box(image, box, colors[number % len(colors)])
    return [images]


def _box_colors(op: Operation, given: Sequence[Any], channels: int) -> Array:
    colors = np.asarray(given[0], np.float32) if given else _COLORS[:0]
    if colors.ndim != 2 or (len(colors) and colors.shape[1] < channels):
        raise fault(op, f"expected colors [n, {channels} or more], got shape {list(colors.shape)}")
    if len(colors):
        return colors[:, :channels]
    return np.ones((1, 1), np.float32) if channels == 1 else _COLORS[:, :channels]


def _draw_box(image: Array, box: Array, color: Array) -> None:
    height, width = image.shape[:2]
    scale = np.asarray([height - 1, width - 1] * 2, np.float32)
    top, left, bottom, right = (int(v) for v in np.trunc(box * scale))
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    if top >= 0:
        image[top, columns] = color
    if bottom < height:
        image[bottom, columns] = color
    if left >= 0:
        image[rows, left] = color
    if right < width:
        image[rows, right] = color
