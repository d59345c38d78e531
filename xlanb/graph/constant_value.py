"""Values known while the graph is built: what TensorFlow's Python looks through when it chooses which nodes to make."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.operation import Operation, Tensor

Array = np.ndarray[Any, Any]


def constant_value(value: Any) -> Array | None:
    """The value of a tensor that TensorFlow's tensor_util.constant_value knows, None for others; a Python value is its own.

    It looks through Const, Shape, Size, Rank, Range, Cast, Pack, ConcatV2, Fill, StopGradient and BroadcastTo.
    """
    if not isinstance(value, Tensor):
        return None if value is None else np.asarray(value)
    op = value.op
    if op.type == "Const":
        found: Array = op.attrs["value"]
        return found
    if op.type in {"Shape", "Size", "Rank"}:
        return _of_shape(op, value)
    rule = _RULES.get(op.type)
    if rule is None:
        return None
    parts = [constant_value(t) for t in op.inputs]
    known = [p for p in parts if p is not None]
    return rule(op, known) if len(known) == len(parts) else None


def _of_shape(op: Operation, value: Tensor) -> Array | None:
    shape = op.inputs[0].shape
    dtype = value.dtype.numpy_dtype
    if op.type == "Rank":
        return None if shape.rank is None else np.asarray(shape.rank, dtype)
    if not shape.is_fully_defined():
        return None
    return np.asarray(shape.as_tuple() if op.type == "Shape" else shape.num_elements(), dtype)


_RULES: dict[str, Any] = {
    "Range": lambda op, v: np.arange(v[0], v[1], v[2], dtype=op.outputs[0].dtype.numpy_dtype),
    "Cast": lambda op, v: v[0].astype(op.outputs[0].dtype.numpy_dtype),
    "Pack": lambda op, v: np.stack(v, axis=op.attrs.get("axis", 0)) if v else None,
    "ConcatV2": lambda _, v: np.concatenate(v[:-1], axis=int(v[-1])),
    "Fill": lambda _, v: np.full(v[0], v[1]),
    "StopGradient": lambda _, v: v[0],
    "BroadcastTo": lambda _, v: np.broadcast_to(v[0], v[1]),
}
