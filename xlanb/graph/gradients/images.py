"""Gradients of image ops: resizing, patches and colors (the nodes of TensorFlow's python/ops/{image_grad,array_grad}.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.builders.array_ops import reshape, shape, stack, transpose
from xlanb.graph.builders.math_ops import reduce_max, reduce_min, reduce_sum
from xlanb.graph.convert import constant
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


@register_gradient("ExtractImagePatches")
def _extract_patches(op: Operation, grad: Tensor) -> Any:
    """The transposed convolution of a kernel of ones and zeros that copies each point of a window, for each channel alone."""
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
    """By the channels of which the value, saturation and hue are quotients; the first largest and the last smallest channel count."""
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
