"""Tensor arrays and stacks: resources of one run (core/kernels/{tensor_array_ops,stack}.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.lists import Dims, checked_size, merged
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]
_FLOW = np.zeros((), np.float32)


class TensorArrayValue:
    """A tensor array: elements by index, each written once; a gradient array adds up its writes."""

    def __init__(self, op: Operation, dtype: np.dtype[Any], size: int, shape: Dims | None) -> None:
        self.node = op.name
        self.dtype = dtype
        self.items: list[Array | None] = [None] * size
        self.shape = shape
        self.is_dynamic = bool(op.attrs.get("dynamic_size", False))
        self.is_cleared_by_reads = bool(op.attrs.get("clear_after_read", True))
        self.is_alike = bool(op.attrs.get("identical_element_shapes", False))
        self.is_gradient = False
        self.cleared: set[int] = set()
        self.gradients: dict[str, TensorArrayValue] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}

    def __repr__(self) -> str:
        return f"<tensor array {self.node!r} of {len(self.items)} elements>"


class StackValue:
    """A stack of tensors."""

    def __init__(self, node: str, limit: int) -> None:
        self.node = node
        self.limit = limit
        self.items: list[Any] = []

    def __repr__(self) -> str:
        return f"<stack {self.node!r} of {len(self.items)} elements>"


def _array(op: Operation, value: Any) -> TensorArrayValue:
    if not isinstance(value, TensorArrayValue):
        raise fault(op, f"the handle is not a tensor array but {value!r}")
    return value


def _write(op: Operation, held: TensorArrayValue, index: int, value: Any) -> None:
    value = np.asarray(value)
    if held.is_dynamic and checked_size(op, index) >= len(held.items):
        held.items += [None] * (index + 1 - len(held.items))
    if not 0 <= index < len(held.items):
        raise fault(op, f"tried to write to index {index}, but the array has {len(held.items)} elements")
    dims = merged(op, held.shape, value.shape)
    held.shape = dims if held.is_alike else held.shape
    before = held.items[index]
    if index in held.cleared or (before is not None and not held.is_gradient):
        raise fault(op, f"index {index} of {held.node!r} has been written to already")
    if before is not None and before.shape != value.shape:
        raise fault(
            op, f"index {index} gets gradients of different shapes, {list(before.shape)} and {list(value.shape)}"
        )
    held.items[index] = value if before is None else np.add(before, value)
    held.shapes[index] = value.shape


def _read(op: Operation, held: TensorArrayValue, index: int, asked: Dims | None = None) -> Array:
    if not 0 <= index < len(held.items):
        raise fault(op, f"tried to read index {index}, but the array has {len(held.items)} elements")
    item = held.items[index]
    if index in held.cleared:
        raise fault(op, f"index {index} of {held.node!r} was cleared by an earlier read (clear_after_read)")
    if item is None:
        dims = held.shapes.get(index) or merged(op, held.shape, asked)
        if dims is None or None in dims:
            raise fault(op, f"index {index} of {held.node!r} has not been written, and its shape is unknown")
        item = np.zeros([d or 0 for d in dims], held.dtype)
    if held.is_cleared_by_reads and not held.is_gradient:
        held.items[index] = None
        held.cleared.add(index)
    return item


@host("TensorArrayV3", "TensorArrayV2")
def _make(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    size = checked_size(op, int(inputs[0]))
    shape = op.attrs.get("element_shape")
    dims = None if shape is None else shape.as_tuple()
    return [TensorArrayValue(op, op.attrs["dtype"].numpy_dtype, size, dims), _FLOW]


@host("TensorArrayWriteV3")
def _write_one(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    _write(op, _array(op, inputs[0]), int(inputs[1]), inputs[2])
    return [inputs[3]]


@host("TensorArrayReadV3")
def _read_one(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [_read(op, _array(op, inputs[0]), int(inputs[1]))]


@host("TensorArrayGatherV3")
def _gather(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _array(op, inputs[0])
    shape = op.attrs.get("element_shape")
    asked = None if shape is None else shape.as_tuple()
    items = [_read(op, held, int(i), asked) for i in np.asarray(inputs[1])]
    if items:
        return [np.stack(items)]
    dims = merged(op, held.shape, asked)
    if dims is None or None in dims:
        raise fault(op, f"no element is gathered, and the element shape of {held.node!r} is unknown")
    return [np.zeros([0, *(d or 0 for d in dims)], held.dtype)]


@host("TensorArrayScatterV3")
def _scatter(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, rows = np.asarray(inputs[1]), np.asarray(inputs[2])
    if not rows.ndim or len(indices) != len(rows):
        raise fault(op, f"{len(indices)} indices do not match a value of shape {list(rows.shape)}")
    for index, row in zip(indices, rows, strict=True):
        _write(op, _array(op, inputs[0]), int(index), row)
    return [inputs[3]]


@host("TensorArrayConcatV3")
def _concat(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _array(op, inputs[0])
    shape = op.attrs.get("element_shape_except0")
    rest = None if shape is None else shape.as_tuple()
    items = [_read(op, held, i, None if rest is None else (None, *rest)) for i in range(len(held.items))]
    if any(not i.ndim for i in items):
        raise fault(op, "scalars cannot be concatenated")
    lengths = np.asarray([len(i) for i in items], np.int64)
    if items:
        return [np.concatenate(items), lengths]
    if rest is None or None in rest:
        raise fault(op, f"{held.node!r} is empty, and its element shape is unknown")
    return [np.zeros([0, *(d or 0 for d in rest)], held.dtype), lengths]


@host("TensorArraySplitV3")
def _split(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    rows, lengths = np.asarray(inputs[1]), np.asarray(inputs[2])
    if not rows.ndim or int(lengths.sum()) != len(rows):
        raise fault(
            op, f"the lengths sum to {int(lengths.sum())}, which does not match a value of shape {list(rows.shape)}"
        )
    parts = np.split(rows, np.cumsum(lengths)[:-1]) if len(lengths) else []
    for index, part in enumerate(parts):
        _write(op, _array(op, inputs[0]), index, part)
    return [inputs[3]]


@host("TensorArraySizeV3")
def _size(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(len(_array(op, inputs[0]).items), np.int32)]


@host("TensorArrayCloseV3", "StackCloseV2")
def _close(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return []


@host("TensorArrayGradV3", "TensorArrayGradWithShape")
def _grad(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """The gradient array of an array and a source; created on first use."""
    held, source = _array(op, inputs[0]), str(op.attrs.get("source", ""))
    if source not in held.gradients:
        made = TensorArrayValue(op, held.dtype, len(held.items), None)
        made.node, made.is_gradient, made.shapes = f"{held.node}@{source}", True, dict(held.shapes)
        made.shape = held.shape
        held.gradients[source] = made
    return [held.gradients[source], _FLOW]


@host("StackV2")
def _stack(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [StackValue(op.name, int(inputs[0]))]


def _held_stack(op: Operation, value: Any) -> StackValue:
    if not isinstance(value, StackValue):
        raise fault(op, f"the handle is not a stack but {value!r}")
    return value


@host("StackPushV2")
def _push(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _held_stack(op, inputs[0])
    if 0 <= held.limit <= len(held.items):
        raise fault(op, f"stack {held.node!r} overflowed its {held.limit} elements")
    held.items.append(inputs[1])
    return [inputs[1]]


@host("StackPopV2")
def _pop(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _held_stack(op, inputs[0])
    if not held.items:
        raise fault(op, f"stack {held.node!r} is empty")
    return [held.items.pop()]
