"""Lists of tensors as immutable values (core/kernels/list_kernels.cc): ops return new lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.host.ops import HostState, check_rank, fault, host

Array = np.ndarray[Any, Any]
Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorListValue:
    """A list: elements of one dtype (None: lists) with shapes that fit `shape` (None: any rank).

    An item not yet set is None.
    """

    dtype: np.dtype[Any] | None
    shape: Dims | None
    items: tuple[Any, ...]


_LARGEST = 1 << 24


def checked_size(op: Operation, count: int) -> int:
    """Check the element count of a list or an array. Raises GraphError."""
    if not 0 <= count <= _LARGEST:
        raise fault(op, f"{count} elements requested, at most {_LARGEST} are supported")
    return count


def dims_of(op: Operation, value: Any) -> Dims | None:
    """An element shape as ops take it: -1 is an unknown size, the scalar -1 an unknown rank.

    Raises GraphError.
    """
    array = check_rank(op, value)
    return None if array.ndim == 0 else tuple(None if d < 0 else int(d) for d in array)


def merged(op: Operation, first: Dims | None, second: Dims | None) -> Dims | None:
    """The combination of two partial shapes. Raises GraphError if they are incompatible."""
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second) or any(None not in (a, b) and a != b for a, b in zip(first, second, strict=True)):
        raise fault(op, f"an element of shape {list(second)} does not fit the list's element shape {list(first)}")
    return tuple(b if a is None else a for a, b in zip(first, second, strict=True))


def _list(op: Operation, value: Any) -> TensorListValue:
    if not isinstance(value, TensorListValue):
        raise fault(op, f"the handle is not a tensor list but {value!r}")
    return value


def _dtype(op: Operation) -> np.dtype[Any] | None:
    dtype = op.attrs["element_dtype"]
    return dtype.numpy_dtype if dtype.has_numpy_dtype else None


def _element(op: Operation, held: TensorListValue, index: int, asked: Dims | None) -> Any:
    """An element; zeros if it was not set but its shape is known."""
    if not 0 <= index < len(held.items):
        raise fault(op, f"index {index} is out of range for a list of {len(held.items)} elements")
    if (item := held.items[index]) is not None:
        return item
    if held.dtype is None:
        return TensorListValue(None, None, ())
    dims = merged(op, held.shape, asked)
    for other in held.items:
        if other is not None:
            dims = merged(op, dims, np.shape(other))
    if dims is None or None in dims:
        raise fault(op, f"element {index} was never set, and its shape is unknown")
    return np.zeros([d or 0 for d in dims], held.dtype)


def _with(op: Operation, held: TensorListValue, index: int, item: Any) -> TensorListValue:
    if not 0 <= index < len(held.items):
        raise fault(op, f"index {index} is out of range for a list of {len(held.items)} elements")
    if not isinstance(item, TensorListValue):
        merged(op, held.shape, np.shape(item))
    return replace(held, items=(*held.items[:index], item, *held.items[index + 1 :]))


def _stack(op: Operation, held: TensorListValue, items: Sequence[Any], asked: Dims | None) -> Array:
    if items:
        return np.stack([np.asarray(i) for i in items])
    dims = merged(op, held.shape, asked)
    if dims is None or None in dims:
        raise fault(op, "an empty list of unknown element shape cannot be stacked")
    return np.zeros([0, *(d or 0 for d in dims)], held.dtype)


@host("TensorListReserve")
def _reserve(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = checked_size(op, int(inputs[1]))
    return [TensorListValue(_dtype(op), dims_of(op, inputs[0]), (None,) * count)]


@host("EmptyTensorList")
def _empty(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [TensorListValue(_dtype(op), dims_of(op, inputs[0]), ())]


@host("TensorListFromTensor")
def _from_tensor(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    tensor = np.asarray(inputs[0])
    if not tensor.ndim:
        raise fault(op, "a scalar cannot be sliced")
    dims = merged(op, dims_of(op, inputs[1]), tensor.shape[1:])
    return [TensorListValue(_dtype(op), dims, tuple(tensor))]


@host("TensorListLength")
def _length(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(len(_list(op, inputs[0]).items), np.int32)]


@host("TensorListElementShape")
def _element_shape(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    dims = _list(op, inputs[0]).shape
    dtype = op.outputs[0].dtype.numpy_dtype
    return [np.asarray(-1 if dims is None else [-1 if d is None else d for d in dims], dtype)]


@host("TensorListGetItem")
def _get(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [_element(op, _list(op, inputs[0]), int(inputs[1]), dims_of(op, inputs[2]))]


@host("TensorListSetItem")
def _set(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held, index = _list(op, inputs[0]), int(inputs[1])
    if op.attrs.get("resize_if_index_out_of_bounds") and checked_size(op, index) >= len(held.items):
        held = replace(held, items=(*held.items, *(None,) * (index + 1 - len(held.items))))
    return [_with(op, held, index, inputs[2])]


@host("TensorListPushBack")
def _push(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _list(op, inputs[0])
    return [_with(op, replace(held, items=(*held.items, None)), len(held.items), inputs[1])]


@host("TensorListPopBack")
def _pop(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _list(op, inputs[0])
    if not held.items:
        raise fault(op, "the list is empty")
    last = _element(op, held, len(held.items) - 1, dims_of(op, inputs[1]))
    return [replace(held, items=held.items[:-1]), last]


@host("TensorListStack")
def _stacked(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held, asked = _list(op, inputs[0]), dims_of(op, inputs[1])
    count = int(op.attrs.get("num_elements", -1))
    if count >= 0 and count != len(held.items):
        raise fault(op, f"the list has {len(held.items)} elements, not {count}")
    return [_stack(op, held, [_element(op, held, i, asked) for i in range(len(held.items))], asked)]


@host("TensorListGather")
def _gather(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held, asked = _list(op, inputs[0]), dims_of(op, inputs[2])
    return [_stack(op, held, [_element(op, held, int(i), asked) for i in np.asarray(inputs[1])], asked)]


@host("TensorListScatter", "TensorListScatterV2")
def _scatter(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices = np.asarray(inputs[1])
    asked = int(inputs[3]) if len(inputs) > 3 else -1
    count = checked_size(op, asked if asked >= 0 else int(indices.max(initial=-1)) + 1)
    held = TensorListValue(_dtype(op), dims_of(op, inputs[2]), (None,) * count)
    return [_scattered(op, held, indices, inputs[0])]


@host("TensorListScatterIntoExistingList")
def _scatter_into(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held, indices = _list(op, inputs[0]), np.asarray(inputs[2])
    more = checked_size(op, int(indices.max(initial=-1)) + 1) - len(held.items)
    return [_scattered(op, replace(held, items=held.items + (None,) * more), indices, inputs[1])]


def _scattered(op: Operation, held: TensorListValue, indices: Array, rows: Any) -> TensorListValue:
    for index, row in zip(indices, np.asarray(rows), strict=True):
        held = _with(op, held, int(index), row)
    return held


@host("TensorListResize")
def _resize(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held, size = _list(op, inputs[0]), int(inputs[1])
    checked_size(op, size)
    return [replace(held, items=held.items[:size] + (None,) * (size - len(held.items)))]


@host("TensorListConcatLists")
def _concat_lists(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    first, second = (_list(op, v) for v in inputs)
    return [replace(first, shape=merged(op, first.shape, second.shape), items=first.items + second.items)]


@host("TensorListConcat", "TensorListConcatV2")
def _concat(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    held = _list(op, inputs[0])
    asked = dims_of(op, inputs[1]) if len(inputs) > 1 else op.attrs["element_shape"].as_tuple()
    leading = np.asarray(inputs[2]) if len(inputs) > 2 else np.zeros(0)
    rest = None if asked is None else asked[1:]
    parts = []
    for index, item in enumerate(held.items):
        dims = None if rest is None or index >= len(leading) else (int(leading[index]), *rest)
        parts.append(np.asarray(item) if item is not None else _element(op, held, index, dims))
    if any(not p.ndim for p in parts):
        raise fault(op, "scalars cannot be concatenated")
    lengths = np.asarray([len(p) for p in parts], np.int64)
    joined = np.concatenate(parts) if parts else _stack(op, replace(held, shape=None), [], rest)
    return [joined, lengths]


@host("TensorListSplit")
def _split(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    tensor, lengths = np.asarray(inputs[0]), np.asarray(inputs[2])
    if not tensor.ndim or int(lengths.sum()) != len(tensor):
        raise fault(
            op, f"the lengths sum to {int(lengths.sum())}, which does not match a tensor of shape {list(tensor.shape)}"
        )
    items = tuple(np.split(tensor, np.cumsum(lengths)[:-1])) if len(lengths) else ()
    return [TensorListValue(_dtype(op), dims_of(op, inputs[1]), items)]


@host("TensorListPushBackBatch")
def _push_batch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    handles = np.asarray(inputs[0], object)
    out = np.empty(handles.shape, object)
    for index in np.ndindex(handles.shape):
        held = _list(op, handles[index])
        out[index] = replace(held, items=(*held.items, np.asarray(inputs[1])[index]))
    return [out]


def zeros_like(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """ZerosLike of a list: a list of the same number of zeros."""
    return [_zeros(_list(op, inputs[0]))]


def _zeros(held: TensorListValue) -> TensorListValue:
    return replace(
        held,
        items=tuple(
            None if i is None else _zeros(i) if isinstance(i, TensorListValue) else np.zeros_like(i) for i in held.items
        ),
    )


def add_lists(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """AddN of lists, element by element; an unset element counts as absent."""
    total = _list(op, inputs[0])
    for value in inputs[1:]:
        total = _added(op, total, _list(op, value))
    return [total]


def _added(op: Operation, first: TensorListValue, second: TensorListValue) -> TensorListValue:
    if len(first.items) != len(second.items):
        raise fault(op, f"lists of {len(first.items)} and {len(second.items)} elements cannot be added")
    return replace(first, items=tuple(_sum(op, a, b) for a, b in zip(first.items, second.items, strict=True)))


def _sum(op: Operation, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return _added(op, a, b) if isinstance(a, TensorListValue) else np.add(a, b)


# Ops that are lowered for numbers, and also defined for lists.
VARIANT_KERNELS = {"ZerosLike": zeros_like, "AddN": add_lists}
