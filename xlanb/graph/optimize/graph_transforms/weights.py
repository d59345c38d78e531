"""Transforms that round or quantize large constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graphdef.attr_values import attr_to_proto, new_message, tensor_from_proto, tensor_to_proto
from xlanb.graph.optimize.graph_transforms.transform import TransformContext

_SMALLEST: Final = 16
"""Constants with fewer elements are not rounded."""


def _large_floats(node: Any, smallest: int) -> np.ndarray[Any, Any] | None:
    """The value of a float Const with at least this many elements."""
    if node.op != "Const" or node.attr["value"].tensor.dtype != as_dtype("float32").as_datatype_enum:
        return None
    value = tensor_from_proto(node.attr["value"].tensor)
    return value if value.size >= smallest and np.all(np.isfinite(value)) else None


def _range(value: np.ndarray[Any, Any]) -> tuple[float, float]:
    low, high = float(value.min()), float(value.max())
    if low < high:
        return low, high
    if abs(low) < 1e-6:
        return low, low + 1
    return (low, 2 * low) if low > 0 else (2 * high, high)


def round_weights(node: Any, context: TransformContext) -> None:
    """Round each value of a large constant to the middle of one of num_steps equal steps of its
    range.
    """
    steps = context.transform.whole("num_steps", 256)
    if steps < 1:
        raise GraphValueError(f"round_weights(num_steps=...) expects a positive number, got {steps}")
    value = _large_floats(node, _SMALLEST)
    if value is None:
        return
    low, high = _range(value)
    width = np.float32((high - low) / steps)
    bucket = np.minimum(np.floor((value - np.float32(low)) / width), np.float32(steps - 1))
    rounded = np.float32(low) + width * (bucket + np.float32(0.5))
    _set_value(node, rounded.astype(np.float32), as_dtype("float32"))


def _set_value(node: Any, value: np.ndarray[Any, Any], dtype: DType) -> None:
    node.attr["value"].tensor.Clear()
    tensor_to_proto(value, dtype, node.attr["value"].tensor)
    attr_to_proto(dtype, node.attr["dtype"])


def quantize_weights(proto: Any, context: TransformContext) -> Any:
    """Large float constants become eight bits and a Dequantize of their name."""
    smallest = context.transform.whole("minimum_size", 1024)
    made = new_message("GraphDef")
    for node in proto.node:
        value = _large_floats(node, smallest)
        if value is None:
            made.node.add().CopyFrom(node)
            continue
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        high = high if low < high else 1.0
        steps = 255 / (high - low)
        codes = np.clip(np.round(value * steps) - np.round(low * steps), 0, 255).astype(np.uint8)
        parts = {"const": (codes, "quint8"), "min": (np.float32(low), "float32"), "max": (np.float32(high), "float32")}
        for what, (part, dtype) in parts.items():
            const = made.node.add()
            const.name, const.op, const.device = f"{node.name}_quantized_{what}", "Const", node.device
            _set_value(const, np.asarray(part), as_dtype(dtype))
        back = made.node.add()
        back.name, back.op, back.device = node.name, "Dequantize", node.device
        back.input.extend(f"{node.name}_quantized_{what}" for what in parts)
        attr_to_proto(as_dtype("quint8"), back.attr["T"])
        attr_to_proto("MIN_FIRST", back.attr["mode"])
    return made
