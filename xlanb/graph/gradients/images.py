"""Gradients of image ops: resizing, patches and colours.

They have the nodes of TensorFlow's python/ops/{image_grad,array_grad}.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.builders.array_ops import expand_dims, identity, reshape, shape, stack, transpose, where_v2, zeros_like
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.math_ops import cast, reduce_max, reduce_min, reduce_sum
from xlanb.graph.builders.math_ops import range as range_of
from xlanb.graph.convert import constant
from xlanb.graph.gradients.backprop import gradients
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor


def _resize_attrs(op: Operation) -> dict[str, Any]:
    return {n: op.get_attr(n) for n in ("align_corners", "half_pixel_centers")}


@register_gradient("ResizeBilinear")
def _resize_bilinear(op: Operation, grad: Tensor) -> Any:
    return call("ResizeBilinearGrad", grad, op.inputs[0], **_resize_attrs(op)), None


@register_gradient("ResizeBilinearGrad")
def _resize_bilinear_grad(op: Operation, grad: Tensor) -> Any:
    return call("ResizeBilinear", grad, shape(op.inputs[0])[1:3], **_resize_attrs(op)), None


@register_gradient("ResizeNearestNeighbor")
def _resize_nearest(op: Operation, grad: Tensor) -> Any:
    return call("ResizeNearestNeighborGrad", grad, shape(op.inputs[0])[1:3], **_resize_attrs(op)), None


@register_gradient("ResizeNearestNeighborGrad")
def _resize_nearest_grad(op: Operation, grad: Tensor) -> Any:
    return call("ResizeNearestNeighbor", grad, shape(op.inputs[0])[1:3], **_resize_attrs(op)), None


@register_gradient("ResizeBicubic")
def _resize_bicubic(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    wide = x if x.dtype.name in {"float32", "float64"} else cast(x, "float32")
    return cast(call("ResizeBicubicGrad", grad, wide, **_resize_attrs(op)), x.dtype), None


@register_gradient("ScaleAndTranslate")
def _scale_and_translate(op: Operation, grad: Tensor) -> Any:
    attrs = {n: op.get_attr(n) for n in ("kernel_type", "antialias")}
    wide = cast(op.inputs[0], "float32")
    found = call("ScaleAndTranslateGrad", grad, wide, *op.inputs[2:], **attrs)
    return cast(found, op.inputs[0].dtype), None, None, None


@register_gradient("CropAndResize")
def _crop_and_resize(op: Operation, grad: Tensor) -> Any:
    """By the images and the boxes: the interpolation, written out and differentiated."""
    images, boxes = identity(op.inputs[0]), identity(op.inputs[1])
    made = _interpolated(op, images, boxes)
    by_images, by_boxes = gradients(made, [images, boxes], grad, unconnected_gradients="zero")
    dense = by_images.as_tensor() if isinstance(by_images, IndexedSlices) else by_images
    return dense, by_boxes, None, None


def _interpolated(op: Operation, images: Tensor, boxes: Tensor) -> Tensor:
    owners, sizes = op.inputs[2:]
    images = cast(images, "float32")
    extents = [cast(shape(images)[i] - 1, "float32") for i in (1, 2)]
    points = [_box_points(boxes, axis, extents[axis], sizes[axis]) for axis in (0, 1)]
    inside = [cast((p >= 0.0) & (p <= e), "float32") for p, e in zip(points, extents, strict=True)]
    is_owner = cast((owners >= 0) & (owners < shape(images)[0]), "float32")
    rows, columns = ([call("Floor", p), call("Ceil", p)] for p in points)
    down, across = expand_dims(points[0] - rows[0], 2), expand_dims(points[1] - columns[0], 1)
    if op.get_attr("method") == "nearest":
        rows, columns = ([call("Floor", p + 0.5)] * 2 for p in points)

    def pick(row: Tensor, column: Tensor) -> Tensor:
        """Gather [boxes, height, width, channels]; outside positions read the edge, with weight
        0.
        """
        y = call("Maximum", call("Minimum", row, extents[0]), constant(0.0))
        x = call("Maximum", call("Minimum", column, extents[1]), constant(0.0))
        owner = call("Maximum", call("Minimum", owners, shape(images)[0] - 1), constant(0))
        ones = zeros_like(expand_dims(y, 2) + expand_dims(x, 1))
        parts = [
            cast(p + ones, "int32")
            for p in (expand_dims(expand_dims(cast(owner, "float32"), 1), 2), expand_dims(y, 2), expand_dims(x, 1))
        ]
        return call("GatherNd", images, stack(parts, axis=-1))

    corners = [[pick(row, column) for column in columns] for row in rows]
    share = expand_dims(across + zeros_like(down), 3)
    lines = [left + (right - left) * share for left, right in corners]
    found = lines[0] + (lines[1] - lines[0]) * expand_dims(down + zeros_like(across), 3)
    counts = expand_dims(inside[0], 2) * expand_dims(inside[1], 1) * expand_dims(expand_dims(is_owner, 1), 2)
    made: Tensor = found * expand_dims(counts, 3)
    return made


def _box_points(boxes: Tensor, axis: int, extent: Tensor, out: Tensor) -> Tensor:
    """Return the rows or columns of each crop: [boxes, out]."""
    low, high = (boxes[:, i : i + 1] for i in (axis, axis + 2))
    numbers = cast(range_of(out), "float32")
    steps = call("Maximum", cast(out - 1, "float32"), constant(1.0))
    middle = (low + high) * 0.5
    found: Tensor = where_v2(out > 1, low + (high - low) * (numbers / steps), middle + zeros_like(numbers)) * extent
    return found


@register_gradient("ExtractImagePatches")
def _extract_patches(op: Operation, grad: Tensor) -> Any:
    """Convolve, transposed, with a one-hot kernel that copies each point of a window, per
    channel.
    """
    x = op.inputs[0]
    _, rows, columns, _ = op.get_attr("ksizes")
    size = rows * columns
    dims = shape(x)
    n, channels = dims[0], dims[3]
    out = shape(grad)
    parts = reshape(grad, stack([n, out[1], out[2], constant(size), channels]))
    single = reshape(transpose(parts, [0, 4, 1, 2, 3]), stack([n * channels, out[1], out[2], constant(size)]))
    kernel = constant(np.eye(size).reshape(rows, columns, 1, size), grad.dtype)
    made = call(
        "Conv2DBackpropInput", stack([n * channels, dims[1], dims[2], constant(1)]), kernel, single,
        strides=op.get_attr("strides"), dilations=op.get_attr("rates"), padding=op.get_attr("padding"),
    )  # fmt: skip
    return transpose(reshape(made, stack([n, channels, dims[1], dims[2]])), [0, 2, 3, 1])


@register_gradient("RGBToHSV")
def _rgb_to_hsv(op: Operation, grad: Tensor) -> Any:
    """Differentiate value, saturation and hue, which are quotients of channels.

    Of equal channels, the first largest and the last smallest one are used.
    """
    x = op.inputs[0]
    kind = x.dtype
    by_hue, by_saturation, by_value = (grad[..., i : i + 1] for i in range(3))
    most, least = reduce_max(x, -1, keepdims=True), reduce_min(x, -1, keepdims=True)
    span = most - least
    largest = call("OneHot", call("ArgMax", x, -1), 3, constant(1, kind), constant(0, kind))
    last = constant(2, "int64") - call("ArgMin", call("ReverseV2", x, [-1]), -1)
    smallest = call("OneHot", last, 3, constant(1, kind), constant(0, kind))
    axis = constant(-1)
    turn = call("Roll", largest, constant(1), axis) - call("Roll", largest, constant(2), axis)
    sixth = call("DivNoNan", by_hue, span * constant(6.0, kind))
    slope = call("DivNoNan", sixth * reduce_sum(x * turn, -1, keepdims=True), span)
    by_largest = by_value + call("DivNoNan", by_saturation * least, most * most) - slope
    by_smallest = slope - call("DivNoNan", by_saturation, most)
    return largest * by_largest + smallest * by_smallest + sixth * turn
