"""Iterators, which traverse a data set across runs (core/kernels/data)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlanb.errors import UninitializedError
from xlanb.graph.operation import Operation
from xlanb.runtime.host.dataset_values import DatasetValue, Element, Walk, dataset_of
from xlanb.runtime.host.ops import HostState, fault, host
from xlanb.runtime.resources import OutOfRangeError, Resources


class IteratorValue:
    """An iterator of a session; without a data set it is not initialized yet.

    Several threads may get elements from it, one at a time, holding `lock`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self._walk: Walk | None = None
        self._elements: Iterator[Element] | None = None

    @property
    def is_started(self) -> bool:
        """Whether it has a data set."""
        return self._elements is not None

    def start(self, dataset: DatasetValue, state: HostState) -> None:
        """Start at the first element."""
        with self.lock:
            self._walk = Walk(state)
            self._elements = dataset.elements(self._walk)

    def next(self, op: Operation, state: HostState) -> Element:
        """The next element.

        Raises:
            UninitializedError: There is no data set yet.
            OutOfRangeError: There is no next element.
        """
        if self._elements is None or self._walk is None:
            raise UninitializedError(
                f"node {op.name!r} ({op.type}): GetNext() failed because the iterator {self.name!r} has not been "
                "initialized; "
                "run its initializer before getting the next element"
            )
        self._walk.state = state
        found = next(self._elements, None)
        if found is None:
            raise OutOfRangeError(f"node {op.name!r} ({op.type}): End of sequence")
        return found


def _held(resources: Resources, op: Operation) -> IteratorValue:
    key = f"iterator/{op.attrs.get('container') or ''}/{op.attrs.get('shared_name') or op.name}"
    found: IteratorValue = resources.get(key, lambda: IteratorValue(op.name))
    return found


@host("Iterator", "IteratorV2", "AnonymousIteratorV2")
def _iterator(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return [_held(state.resources, op)]


@host("AnonymousIteratorV3")
def _anonymous(op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [IteratorValue(op.name)]


@host("OneShotIterator")
def _one_shot(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """An iterator whose data set is created by its function on first use."""
    held = _held(state.resources, op)
    with held.lock:
        if not held.is_started:
            name = str(op.attrs["dataset_factory"])
            if name not in op.graph.functions:
                raise fault(op, f"the graph's library has no function {name!r}")
            (made,) = state.call(op, op.graph.functions[name].body, [])
            held.start(dataset_of(op, made), state)
    return [held]


@host("MakeIterator")
def _start(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    _walked(op, inputs[1]).start(dataset_of(op, inputs[0]), state)
    return []


def _walked(op: Operation, value: Any) -> IteratorValue:
    if not isinstance(value, IteratorValue):
        raise fault(op, f"the input is not an iterator but {type(value).__name__}")
    return value


@host("IteratorGetNext", "IteratorGetNextSync")
def _next(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    iterator = _walked(op, inputs[0])
    with iterator.lock:
        found = iterator.next(op, state)
    if len(found) != len(op.outputs):
        raise fault(op, f"the elements of the data set have {len(found)} components, expected {len(op.outputs)}")
    return [_checked(op, i, value) for i, value in enumerate(found)]


def _checked(op: Operation, index: int, value: Any) -> np.ndarray[Any, Any]:
    wanted, array = op.outputs[index].dtype.numpy_dtype, np.asarray(value)
    if array.dtype != wanted:
        raise fault(op, f"component {index} is {array.dtype}, the iterator's type is {wanted}")
    return array


@host("IteratorToStringHandle")
def _to_handle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    held = _walked(op, inputs[0])
    out = np.empty((), object)
    out[()] = f"handle/{held.name}".encode()
    state.resources.get(f"handle/{held.name}", lambda: held)
    return [out]


@host("IteratorFromStringHandle", "IteratorFromStringHandleV2")
def _from_handle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    key = bytes(np.asarray(inputs[0], object).item()).decode("utf-8", "replace")

    def missing() -> Any:
        raise fault(op, f"{key!r} is not an iterator handle: run iterator.string_handle() in this session")

    return [state.resources.get(key, missing)]
