"""Values kept within bounds, as TensorFlow's clip functions build them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import identity, ones_like, stack, where
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def _values(tensors: Sequence[Any]) -> list[Any]:
    items = enumerate(tensors)
    return [
        None if t is None else convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name=f"t_{i}")
        for i, t in items
    ]


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """min(max(x, low), high)."""
    with name_scope(name, "clip_by_value", [t]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        result = call("Maximum", call("Minimum", values, clip_value_max), clip_value_min, name=scope)
        return IndexedSlices(result, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else result


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scaled down so that its norm is at most `clip_norm`."""
    with name_scope(name, "clip_by_norm", [t]) as scope:
        values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
        total = math_ops.reduce_sum(values * values, axes, keepdims=True)
        positive = total > 0
        norm = where(positive, call("Sqrt", where(positive, total, ones_like(total))), total)
        result = identity(values * clip_norm / call("Maximum", norm, clip_norm), name=scope)
        return IndexedSlices(result, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else result


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """sum(t^2) / 2."""
    return call("L2Loss", t, name=name)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """The square root of the sum of all elements' squares."""
    items = list(t_list)
    graph = get_default_graph()
    with name_scope(name, "global_norm", [t for t in items if t is not None]):
        halves = []
        for value in _values(items):
            if value is not None:
                with graph.colocate_with(value):
                    halves.append(l2_loss(value))
        half = math_ops.reduce_sum(stack(halves))
        return call("Sqrt", half * constant(2.0, half.dtype), name="global_norm")


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """All scaled by one factor so that their global norm is at most `clip_norm`; with that norm."""
    items = list(t_list)
    norm = global_norm(items, name) if use_norm is None else use_norm
    graph = get_default_graph()
    with name_scope(name, "clip_by_global_norm", [t for t in items if t is not None]) as scope:
        bounded = call("Minimum", 1.0 / norm, constant(1.0, norm.dtype) / clip_norm)
        finite = clip_norm * bounded
        scale = finite + (norm - norm)  # NaN and infinity stay visible
        clipped: list[Any] = []
        for i, (item, value) in enumerate(zip(items, _values(items), strict=True)):
            if value is None:
                clipped.append(None)
                continue
            with graph.colocate_with(value):
                result = identity(value * math_ops.cast(scale, value.dtype), name=f"{scope}_{i}")
            clipped.append(
                IndexedSlices(result, item.indices, item.dense_shape) if isinstance(item, IndexedSlices) else result
            )
        return clipped, norm
