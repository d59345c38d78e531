"""Queues: first in first out, shuffled, padded, by priority.

Based on
core/kernels/{queue_base,fifo_queue,random_shuffle_queue_op,padding_fifo_queue,priority_queue}.cc.

A run that finds a queue full or empty waits for another thread's run. If nothing changes for
`PATIENCE` seconds, or no other thread exists that could change it, the run fails with a message
that says what it waited for. TensorFlow would wait forever.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlanb.errors import CancelledError
from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host
from xlanb.runtime.resources import DeadlineExceededError, OutOfRangeError, Resources

PATIENCE = 60.0
"""Seconds that a run waits for an idle queue."""

_UNBOUNDED = 2**31 - 1
_T = TypeVar("_T")
Element = tuple[np.ndarray[Any, Any], ...]


class QueueValue:
    """One queue: its elements, and their required dtypes and shapes."""

    def __init__(self, op: Operation, resources: Resources, generator: np.random.Generator | None) -> None:
        self.name = op.name
        self.op_type = op.type
        self.resources = resources
        self.generator = generator
        self.dtypes = [t.numpy_dtype for t in op.attrs.get("component_types") or ()]
        self.shapes = [s.as_tuple() for s in op.attrs.get("shapes") or ()]
        if op.type.startswith("Priority"):  # its first component is not in component_types
            self.dtypes.insert(0, np.dtype(np.int64))
        self.capacity = int(op.attrs.get("capacity", -1))
        if self.capacity < 0:
            self.capacity = _UNBOUNDED
        self.least = int(op.attrs.get("min_after_dequeue", 0)) if generator is not None else 0
        self.elements: list[Element] = []
        self.turns: list[object] = []
        """Runs that enqueue elements, in order of arrival; only the first may proceed."""
        self.is_closed = False

    @property
    def is_padding(self) -> bool:
        """Whether elements of different sizes are padded when several are dequeued."""
        return self.op_type.startswith("PaddingFIFO")

    def put(self, element: Element) -> None:
        """Append, or insert by priority."""
        if self.op_type.startswith("Priority"):
            place = next((i for i, e in enumerate(self.elements) if e[0] > element[0]), len(self.elements))
            self.elements.insert(place, element)
        else:
            self.elements.append(element)

    def take(self) -> Element:
        """Remove the next element: the first, or a random one if the queue shuffles."""
        index = 0 if self.generator is None else int(self.generator.integers(len(self.elements)))
        return self.elements.pop(index)

    def has_room(self, turn: object) -> bool:
        """Whether the run with this turn may enqueue an element."""
        return self.turns[0] is turn and len(self.elements) < self.capacity

    def can_take(self, count: int) -> bool:
        """Whether this many elements can be dequeued now, keeping the required minimum."""
        return len(self.elements) >= count + (0 if self.is_closed else self.least)

    def checked(self, op: Operation, parts: Sequence[Any]) -> Element:
        """An element that fits the queue. Raises GraphError, naming the node, if it does not."""
        if len(parts) != len(self.dtypes):
            raise fault(
                op, f"the queue {self.name!r} holds elements of {len(self.dtypes)} components, got {len(parts)}"
            )
        arrays = [np.asarray(p) for p in parts]
        for index, (array, dtype) in enumerate(zip(arrays, self.dtypes, strict=True)):
            shape = self.shapes[index] if index < len(self.shapes) else None
            if array.dtype != dtype or (shape is not None and not _fits(array.shape, shape)):
                wanted = "any shape" if shape is None else f"shape {list(shape)}"
                raise fault(
                    op,
                    f"component {index} of the queue {self.name!r} must be {dtype} of {wanted}, got {array.dtype} of "
                    f"shape {list(array.shape)}",
                )
        return tuple(arrays)


def _fits(shape: tuple[int, ...], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w in {None, s} for s, w in zip(shape, wanted, strict=True))


_KINDS = ("FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue")


@host(*_KINDS, *(f"{k}V2" for k in _KINDS))
def _make(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    key = f"queue/{op.attrs.get('container') or ''}/{op.attrs.get('shared_name') or op.name}"
    shuffles = op.type.startswith("RandomShuffle")
    return [
        state.resources.get(key, lambda: QueueValue(op, state.resources, state.generator(op) if shuffles else None))
    ]


def _queue(op: Operation, value: Any) -> QueueValue:
    if not isinstance(value, QueueValue):
        raise fault(op, f"input 0 is not a queue but {type(value).__name__}")
    return value


def _when(op: Operation, queue: QueueValue, ready: Callable[[], bool], what: str, act: Callable[[], _T]) -> _T:
    """Call `act` with the lock held as soon as it is `ready`; return its result.

    Raises an error if there is no prospect of that.
    """
    last, since = -1, time.monotonic()

    def acted() -> tuple[_T] | None:
        nonlocal last, since
        if ready():
            return (act(),)
        if queue.resources.is_closed:
            raise CancelledError(f"node {op.name!r} ({op.type}): the session was closed while it waited for {what}")
        if len(queue.elements) != last:
            last, since = len(queue.elements), time.monotonic()
        alone = threading.active_count() == 1
        if alone or time.monotonic() - since > PATIENCE:
            hint = (
                "no other thread is running that could change that" if alone else f"nothing changed for {PATIENCE:g} s"
            )
            raise DeadlineExceededError(
                f"node {op.name!r} ({op.type}) waits for {what} of queue {queue.name!r}, which holds "
                f"{len(queue.elements)} elements: {hint}; "
                "were tf.train.start_queue_runners() or the enqueue operations run?"
            )
        return None

    return queue.resources.monitor.attempt(acted)[0]


@host("QueueEnqueue", "QueueEnqueueV2")
def _enqueue(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    queue = _queue(op, inputs[0])
    _put(op, queue, [queue.checked(op, inputs[1:])])
    return []


def _put(op: Operation, queue: QueueValue, elements: Sequence[Element]) -> None:
    """Enqueue elements in order, without other runs' elements between them."""
    turn, left, monitor = object(), deque(elements), queue.resources.monitor

    def put() -> None:
        if queue.is_closed:
            raise CancelledError(f"node {op.name!r} ({op.type}): the queue {queue.name!r} is closed")
        while left and queue.has_room(turn):
            queue.put(left.popleft())
        monitor.notify()

    try:
        queue.turns.append(turn)
        while left:
            _when(op, queue, lambda: queue.is_closed or queue.has_room(turn), "room", put)
    finally:
        queue.turns.remove(turn)  # first, without the lock: an interrupt cannot come before it
        with monitor.lock:
            monitor.notify()


@host("QueueEnqueueMany", "QueueEnqueueManyV2")
def _enqueue_many(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Enqueue each row of the components as an element."""
    queue, parts = _queue(op, inputs[0]), [np.asarray(v) for v in inputs[1:]]
    counts = {p.shape[0] if p.ndim else -1 for p in parts}
    if len(counts) != 1 or -1 in counts:
        raise fault(
            op, f"all components must have the same number of rows, got shapes {[list(p.shape) for p in parts]}"
        )
    _put(op, queue, [queue.checked(op, [p[row] for p in parts]) for row in range(counts.pop())])
    return []


@host("QueueDequeue", "QueueDequeueV2")
def _dequeue(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return list(_taken(op, _queue(op, inputs[0]), 1, exact=True)[0])


@host("QueueDequeueMany", "QueueDequeueManyV2")
def _dequeue_many(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return _rows(op, _queue(op, inputs[0]), int(inputs[1]), exact=True)


@host("QueueDequeueUpTo", "QueueDequeueUpToV2")
def _dequeue_up_to(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Dequeue a number of elements; fewer if the queue is closed and has no more."""
    return _rows(op, _queue(op, inputs[0]), int(inputs[1]), exact=False)


def _taken(op: Operation, queue: QueueValue, count: int, *, exact: bool) -> list[Element]:
    def take() -> list[Element]:
        there = len(queue.elements)
        if there < count and (exact or not there):
            raise OutOfRangeError(
                f"node {op.name!r} ({op.type}): the queue {queue.name!r} is closed and has insufficient elements "
                f"(requested {count}, current size {there})"
            )
        found = [queue.take() for _ in range(min(count, there))]
        queue.resources.monitor.notify()
        return found

    return _when(op, queue, lambda: queue.is_closed or queue.can_take(count), f"{count} elements", take)


def _rows(op: Operation, queue: QueueValue, count: int, *, exact: bool) -> list[Any]:
    if count < 0:
        raise fault(op, f"cannot dequeue {count} elements")
    if count == 0:
        return [np.zeros((0, *(d or 0 for d in s or ())), t) for s, t in zip(queue.shapes, queue.dtypes, strict=True)]
    columns = zip(*_taken(op, queue, count, exact=exact), strict=True)
    return [_padded(column) if queue.is_padding else np.stack(column) for column in columns]


def _padded(parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Stack the parts as rows, padded with zeros (strings: empty ones) to the largest."""
    sizes = np.max([p.shape for p in parts], axis=0) if parts[0].ndim else ()
    dtype = parts[0].dtype
    out = np.full((len(parts), *(int(s) for s in sizes)), b"" if dtype.kind == "O" else 0, dtype)
    for row, part in enumerate(parts):
        place: tuple[Any, ...] = (row, *(slice(0, s) for s in part.shape))
        out[place] = part
    return out


@host("QueueClose", "QueueCloseV2")
def _close(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    queue = _queue(op, inputs[0])
    with queue.resources.monitor.lock:
        queue.is_closed = True
        queue.resources.monitor.notify()
    return []


@host("QueueSize", "QueueSizeV2")
def _size(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(len(_queue(op, inputs[0]).elements), np.int32)]


@host("QueueIsClosed", "QueueIsClosedV2")
def _is_closed(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(_queue(op, inputs[0]).is_closed)]


@host("CountUpTo", "ResourceCountUpTo")
def _count_up_to(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Return the variable's value and increment it; raise an error at the limit."""
    limit = int(op.attrs["limit"])

    def step() -> Any:
        value = state.variables.read(inputs[0])
        if int(value) >= limit:
            raise OutOfRangeError(f"node {op.name!r} ({op.type}): Reached limit of {limit}")
        state.variables.write({inputs[0].name: np.asarray(value + 1, value.dtype)})
        return value

    return [state.variables.exclusively([inputs[0].name], step)]
