"""Gradients through broadcasting: sums over the dimensions along which an argument was repeated."""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.array_ops import reshape, shape
from xlanb.graph.builders.math_ops import reduce_sum
from xlanb.graph.op_library import call_n
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import Dims


def same_known_shape(x: Tensor, y: Tensor, grad: Any) -> bool:
    """Whether all three have one fully known shape, so that there is no broadcast."""
    return isinstance(grad, Tensor) and x.shape.is_fully_defined() and x.shape == y.shape and x.shape == grad.shape


def reduce_gradients(x: Tensor, y: Tensor, gx: Tensor | None, gy: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Sum the gradients of a broadcasting op to the shapes of its arguments.

    Sum(gx, dimensions along which x was repeated) -> Reshape to x. The dimensions are constants if
    the static shapes determine them, else BroadcastGradientArgs computes them at run time.
    """
    if gx is None and gy is None:
        return None, None
    x_shape, y_shape = shape(x), shape(y)
    axes = _broadcast_axes(x.shape.as_tuple(), y.shape.as_tuple())
    if axes is None:
        found = call_n("BroadcastGradientArgs", x_shape, y_shape)
        return _reduced(gx, x_shape, found[0]), _reduced(gy, y_shape, found[1])
    (x_axes, y_axes), ranks = axes, (len(x.shape), len(y.shape))
    gx = _reduced(gx, x_shape, x_axes) if x_axes or ranks[0] < ranks[1] else gx
    gy = _reduced(gy, y_shape, y_axes) if y_axes or ranks[1] < ranks[0] else gy
    return gx, gy


def _reduced(grad: Tensor | None, target_shape: Tensor, axes: Any) -> Tensor | None:
    return None if grad is None else reshape(reduce_sum(grad, axes, keepdims=True), target_shape)


def _broadcast_axes(x: Dims | None, y: Dims | None) -> tuple[list[int], list[int]] | None:
    """Return the result's dimensions along which each was repeated; None if not known
    statically.
    """
    if x is None or y is None:
        return None
    rank = max(len(x), len(y))
    x, y = (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y
    x_axes, y_axes = [], []
    for axis, (a, b) in enumerate(zip(x, y, strict=True)):
        if a == 1 and b != 1:
            x_axes.append(axis)
        elif b == 1 and a != 1:
            y_axes.append(axis)
        elif a is None or b is None:
            return None
    return x_axes, y_axes
