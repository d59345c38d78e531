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


def partial_vector(tensor: Tensor) -> list[int | None] | None:
    """The elements of a vector of integers as far as they are known while the graph is built, None for the others; None where not even their number is.

    It looks through Shape, Pack, ConcatV2, StridedSlice, Cast and Identity, as constant_value_as_shape in TensorFlow's tensor_util does.
    """
    known = constant_value(tensor)
    if known is not None:
        return [int(v) for v in known] if known.ndim == 1 and known.dtype.kind in "iu" else None
    op = tensor.op
    if op.type in {"Shape", "ShapeN"}:
        dims = op.inputs[tensor.value_index].shape.as_tuple()
        return None if dims is None else list(dims)
    if op.type in {"Cast", "Identity", "StopGradient"}:
        return partial_vector(op.inputs[0])
    if op.type == "Pack" and op.attrs.get("axis", 0) == 0 and op.inputs[0].shape.rank == 0:
        return [_partial_scalar(t) for t in op.inputs]
    if op.type == "ConcatV2":
        parts = [partial_vector(t) for t in op.inputs[:-1]]
        return None if any(p is None for p in parts) else [d for p in parts for d in p or ()]
    if op.type == "StridedSlice":
        found = _sliced(op)
        return found if isinstance(found, list) else None
    size = tensor.shape.as_tuple()
    return [None] * size[0] if size is not None and len(size) == 1 and size[0] is not None else None


def _partial_scalar(tensor: Tensor) -> int | None:
    known = constant_value(tensor)
    if known is not None:
        return int(known) if known.ndim == 0 and known.dtype.kind in "iu" else None
    if tensor.op.type in {"Cast", "Identity"}:
        return _partial_scalar(tensor.op.inputs[0])
    found = _sliced(tensor.op) if tensor.op.type == "StridedSlice" else None
    return found if isinstance(found, int) else None


def _sliced(op: Operation) -> list[int | None] | int | None:
    """A part of a vector that is partly known: a list, or one element where the dimension goes."""
    vector = partial_vector(op.inputs[0]) if op.inputs[0].shape.rank == 1 else None
    ends = [constant_value(t) for t in op.inputs[1:]]
    bounds = [int(e[0]) for e in ends if e is not None and e.shape == (1,)]
    if (
        vector is None
        or len(bounds) != 3
        or op.attrs.get("ellipsis_mask")
        or op.attrs.get("new_axis_mask")
        or not bounds[2]
    ):
        return None
    if op.attrs.get("shrink_axis_mask"):
        return vector[bounds[0]] if -len(vector) <= bounds[0] < len(vector) else None
    begin = None if op.attrs.get("begin_mask") else bounds[0]
    end = None if op.attrs.get("end_mask") else bounds[1]
    return vector[begin : end : bounds[2]]
