"""Values known while a graph is built, which TensorFlow's Python uses to choose nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlanb.graph.limits import LARGEST_EXPANSION
from xlanb.graph.operation import Operation, Tensor

Array = np.ndarray[Any, Any]
_DEEPEST: Final = 64  # nodes of a chain that is looked through
_LONGEST: Final = 1 << 16  # elements of a vector that is known in part


def constant_value(value: Any) -> Array | None:
    """Return the value that TensorFlow's tensor_util.constant_value finds, else None.

    It looks through Const, Shape, Size, Rank, Range, Cast, Pack, ConcatV2, Fill, StopGradient and
    BroadcastTo, up to some dozens of nodes deep, and returns None for values that are too large. A
    Python value is its own.
    """
    if not isinstance(value, Tensor):
        return None if value is None else np.asarray(value)
    return _known(value, {}, _DEEPEST)


def _known(tensor: Tensor, seen: dict[Tensor, Array | None], depth: int) -> Array | None:
    """`constant_value` of a tensor; `seen` caches results, so that no part is walked twice."""
    if tensor not in seen:
        seen[tensor] = None  # what reads itself has no value
        seen[tensor] = _found(tensor, seen, depth)
    return seen[tensor]


def _found(tensor: Tensor, seen: dict[Tensor, Array | None], depth: int) -> Array | None:
    op = tensor.op
    if op.type == "Const":
        held: Array | None = op.attrs.get("value")
        return held
    if op.type in {"Shape", "Size", "Rank"}:
        return _of_shape(op, tensor)
    rule = _RULES.get(op.type)
    if rule is None or not depth:
        return None
    parts = [_known(t, seen, depth - 1) for t in op.inputs]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    try:
        found: Array | None = rule(op, known)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, MemoryError):
        return None  # the values do not fit the op: that is said when it is made, lowered or run
    return found


def _of_shape(op: Operation, value: Tensor) -> Array | None:
    shape = op.inputs[0].shape
    dtype = value.dtype.numpy_dtype
    if op.type == "Rank":
        return None if shape.rank is None else np.asarray(shape.rank, dtype)
    if not shape.is_fully_defined():
        return None
    return np.asarray(shape.as_tuple() if op.type == "Shape" else shape.num_elements(), dtype)


def _small(values: Sequence[Array]) -> bool | None:
    """Return True if a copy of the values is within the limit, else None."""
    return sum(v.nbytes for v in values) <= LARGEST_EXPANSION or None


def _range(ends: Sequence[Array], dtype: np.dtype[Any]) -> Array | None:
    start, limit, delta = (v.item() for v in ends)
    count = (limit - start) / delta
    return np.arange(start, limit, delta, dtype=dtype) if count * dtype.itemsize <= LARGEST_EXPANSION else None


_RULES: dict[str, Any] = {
    "Range": lambda op, v: _range(v, op.outputs[0].dtype.numpy_dtype),
    "Cast": lambda op, v: _small(v) and v[0].astype(op.outputs[0].dtype.numpy_dtype),
    "Pack": lambda op, v: _small(v) and np.stack(v, axis=op.attrs.get("axis", 0)),
    "ConcatV2": lambda _, v: _small(v) and np.concatenate(v[:-1], axis=int(v[-1])),
    "Fill": lambda _, v: np.broadcast_to(v[1], v[0]),
    "StopGradient": lambda _, v: v[0],
    "BroadcastTo": lambda _, v: np.broadcast_to(v[0], v[1]),
}


PartialVector = list[int | None]


def partial_vector(tensor: Tensor) -> PartialVector | None:
    """Return the statically known elements of an integer vector, None for each unknown one.

    The result is None if even their number is unknown. It looks through Shape, Pack, ConcatV2,
    StridedSlice, Cast and Identity, as constant_value_as_shape in TensorFlow's tensor_util does.
    """
    return _Partial().vector(tensor, _DEEPEST)


class _Partial:
    """One search for a vector, with a cache, so that no part is walked twice."""

    def __init__(self) -> None:
        self._seen: dict[Tensor, PartialVector | None] = {}

    def vector(self, tensor: Tensor, depth: int) -> PartialVector | None:
        """See `partial_vector`; follows a limited number of nodes."""
        if tensor not in self._seen:
            self._seen[tensor] = None  # what reads itself has no value
            self._seen[tensor] = self._vector(tensor, depth)
        return self._seen[tensor]

    def _vector(self, tensor: Tensor, depth: int) -> PartialVector | None:
        known = constant_value(tensor)
        if known is not None:
            is_vector = known.ndim == 1 and known.dtype.kind in "iu" and known.size <= _LONGEST
            return [int(v) for v in known] if is_vector else None
        op = tensor.op
        if op.type in {"Shape", "ShapeN"}:
            dims = op.inputs[tensor.value_index].shape.as_tuple()
            return None if dims is None else list(dims)
        found = self._through(op, depth - 1) if depth else None
        if found is not None or op.type in {"Cast", "Identity", "StopGradient", "ConcatV2", "StridedSlice"}:
            return found
        size = tensor.shape.as_tuple()
        count = size[0] if size is not None and len(size) == 1 else None
        return None if count is None or count > _LONGEST else [None] * count

    def _through(self, op: Operation, depth: int) -> PartialVector | None:
        """Compute a vector's known elements from its node's inputs."""
        if op.type in {"Cast", "Identity", "StopGradient"}:
            return self.vector(op.inputs[0], depth)
        if op.type == "Pack" and op.attrs.get("axis", 0) == 0 and op.inputs[0].shape.rank == 0:
            return [self._scalar(t, depth) for t in op.inputs]
        if op.type == "ConcatV2":
            parts = [self.vector(t, depth) for t in op.inputs[:-1]]
            known = [p for p in parts if p is not None]
            is_known = len(known) == len(parts) and sum(map(len, known)) <= _LONGEST
            return [d for p in known for d in p] if is_known else None
        found = self._sliced(op, depth) if op.type == "StridedSlice" else None
        return found if isinstance(found, list) else None

    def _scalar(self, tensor: Tensor, depth: int) -> int | None:
        known = constant_value(tensor)
        if known is not None:
            return int(known) if known.ndim == 0 and known.dtype.kind in "iu" else None
        if tensor.op.type in {"Cast", "Identity"} and depth:
            return self._scalar(tensor.op.inputs[0], depth - 1)
        found = self._sliced(tensor.op, depth) if tensor.op.type == "StridedSlice" else None
        return found if isinstance(found, int) else None

    def _sliced(self, op: Operation, depth: int) -> PartialVector | int | None:
        """Slice a partly known vector: a list, or one element if the dimension is removed."""
        vector = self.vector(op.inputs[0], depth - 1) if depth and op.inputs[0].shape.rank == 1 else None
        ends = [constant_value(t) for t in op.inputs[1:]]
        bounds = [int(e[0]) for e in ends if e is not None and e.shape == (1,)]
        others = ("ellipsis_mask", "new_axis_mask")
        if vector is None or len(bounds) != 3 or any(op.attrs.get(m) for m in others) or not bounds[2]:
            return None
        if op.attrs.get("shrink_axis_mask"):
            return vector[bounds[0]] if -len(vector) <= bounds[0] < len(vector) else None
        begin = None if op.attrs.get("begin_mask") else bounds[0]
        end = None if op.attrs.get("end_mask") else bounds[1]
        return vector[begin : end : bounds[2]]
