"""Queues, and tf.train's input producers (python/ops/data_flow_ops.py,
python/training/input.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import gather, identity, shape
from xlanb.graph.builders.math_ops import range as range_of
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nest import flatten, pack_like
from xlanb.graph.builders.random_ops import get_seed, random_shuffle
from xlanb.graph.builders.variables import GraphKeys, Variable
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.coordinator import QueueRunner, add_queue_runner


class QueueBase:
    """A queue of tuples of tensors.

    Attributes:
        queue_ref: its handle. dtypes, shapes, names: of the components; an unknown shape is None.
    """

    def __init__(
        self, queue_ref: Tensor, types: Sequence[Any], shapes: Sequence[TensorShape] | None, names: Any
    ) -> None:
        self.queue_ref = queue_ref
        self.dtypes = list(types)
        self.shapes = list(shapes) if shapes else [TensorShape(None)] * len(self.dtypes)
        self.names = [names] if isinstance(names, str) else list(names) if names else None

    @property
    def name(self) -> str:
        """The name of its node."""
        return str(self.queue_ref.op.name)

    def _parts(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, dict):
            if self.names is None or sorted(vals) != sorted(self.names):
                raise GraphValueError(f"queue {self.name!r} has the components {self.names}, not {sorted(vals)}")
            listed = [vals[n] for n in self.names]
        else:
            listed = (
                list(vals)
                if isinstance(vals, list | tuple)
                and (len(self.dtypes) > 1 or isinstance(vals, tuple) or len(vals) == 1)
                else [vals]
            )
        if len(listed) != len(self.dtypes):
            raise GraphValueError(f"queue {self.name!r} holds {len(self.dtypes)} components, not {len(listed)}")
        return [
            convert_to_tensor(v, t, f"component_{i}") for i, (v, t) in enumerate(zip(listed, self.dtypes, strict=True))
        ]

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Put in one element."""
        with name_scope(name, f"{self.name}_enqueue") as scope:
            return call_op("QueueEnqueueV2", self.queue_ref, self._parts(vals), name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Put in an element for each row."""
        with name_scope(name, f"{self.name}_EnqueueMany") as scope:
            return call_op("QueueEnqueueManyV2", self.queue_ref, self._parts(vals), name=scope)

    def dequeue(self, name: str | None = None) -> Any:
        """Take one element: a tensor, or a list of its components."""
        made = call_op(
            "QueueDequeueV2", self.queue_ref, component_types=self.dtypes, name=name or f"{self.name}_Dequeue"
        )
        return self._given(made, self.shapes)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Take n elements, stacked."""
        return self._several(
            "QueueDequeueManyV2", n, name or f"{self.name}_DequeueMany", n if isinstance(n, int) else None
        )

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Dequeue n elements, stacked, or the rest of a closed queue."""
        return self._several("QueueDequeueUpToV2", n, name or f"{self.name}_DequeueUpTo", None)

    def _several(self, op_type: str, n: Any, name: str, rows: int | None) -> Any:
        made = call_op(op_type, self.queue_ref, n, component_types=self.dtypes, name=name)
        return self._given(made, [TensorShape([rows]).concatenate(s) for s in self.shapes])

    def _given(self, made: Operation, shapes: Sequence[TensorShape]) -> Any:
        for tensor, known in zip(made.outputs, shapes, strict=True):
            tensor.set_shape(known)
        if self.names is not None:
            return dict(zip(self.names, made.outputs, strict=True))
        return made.outputs[0] if len(made.outputs) == 1 else list(made.outputs)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        return call("QueueSizeV2", self.queue_ref, name=name or f"{self.name}_Size")

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Close the queue to further enqueues."""
        return call_op(
            "QueueCloseV2", self.queue_ref, cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self.name}_Close"
        )  # fmt: skip

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed to further enqueues."""
        return call("QueueIsClosedV2", self.queue_ref, name=name or f"{self.name}_Is_Closed")


def _components(types: Any, shapes: Any) -> tuple[list[Any], list[TensorShape]]:
    listed = [as_dtype(t) for t in (types if isinstance(types, list | tuple) else [types])]
    if shapes is None:
        return listed, []
    many = isinstance(shapes, list | tuple) and len(shapes) and isinstance(shapes[0], list | tuple | TensorShape)
    found = [TensorShape(s) for s in (shapes if many else [shapes])]
    if len(found) != len(listed):
        raise GraphValueError(f"a queue has {len(listed)} components but {len(found)} shapes")
    return listed, found


def _placed(op_type: str, **attrs: Any) -> Tensor:
    """A queue's node: queues live on the CPU."""
    with get_default_graph().device("/device:CPU:*"):
        return call(op_type, **attrs)


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
        name: str = "fifo_queue"
    ) -> None:  # fmt: skip
        types, found = _components(dtypes, shapes)
        made = _placed(
            "FIFOQueueV2",
            component_types=types,
            shapes=found,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(made, types, found, names)


class RandomShuffleQueue(QueueBase):
    """A queue with random order, which keeps at least `min_after_dequeue` elements."""

    def __init__(
        self, capacity: int, min_after_dequeue: int, dtypes: Any, shapes: Any = None, names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None, name: str = "random_shuffle_queue",
    ) -> None:  # fmt: skip
        types, found = _components(dtypes, shapes)
        first, second = get_seed(seed)
        made = _placed(
            "RandomShuffleQueueV2", component_types=types, shapes=found, capacity=capacity,
            min_after_dequeue=min_after_dequeue, seed=first or 0,
            seed2=second or 0, shared_name=shared_name or "", name=name,
        )  # fmt: skip
        super().__init__(made, types, found, names)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; elements of different sizes are padded when several are taken."""

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
        name: str = "padding_fifo_queue"
    ) -> None:  # fmt: skip
        types, found = _components(dtypes, shapes)
        made = _placed(
            "PaddingFIFOQueueV2",
            component_types=types,
            shapes=found,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(made, types, found, names)


class PriorityQueue(QueueBase):
    """The element with the smallest first component (int64) comes first."""

    def __init__(
        self, capacity: int, types: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
        name: str = "priority_queue"
    ) -> None:  # fmt: skip
        listed, found = _components(types, shapes)
        made = _placed(
            "PriorityQueueV2",
            component_types=listed,
            shapes=[TensorShape([]), *found],
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(made, [dtypes.int64, *listed], [TensorShape([]), *found], names)


# ---------------------------------------------------------------------------------- input producers


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """The tensor, so many times; then OutOfRangeError (a local variable counts)."""
    found = convert_to_tensor(tensor)
    if num_epochs is None:
        return found
    if num_epochs <= 0:
        raise GraphValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [found]) as scope:
        counter = Variable(
            constant(0, dtypes.int64), trainable=False, name="epochs", collections=[GraphKeys.LOCAL_VARIABLES],
            use_resource=False
        )  # fmt: skip
        counted = call("CountUpTo", counter.as_tensor(None, None, as_ref=True), limit=num_epochs)
        with get_default_graph().control_dependencies([counted]):
            return identity(found, name=scope)


def input_producer(
    input_tensor: Any, element_shape: Any = None, num_epochs: int | None = None, shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32, shared_name: str | None = None, summary_name: str | None = None, name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:  # fmt: skip
    """A queue of a tensor's rows, filled by a queue runner."""
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        shape_of_one = TensorShape(rows.shape[1:]) if element_shape is None else TensorShape(element_shape)
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [shape_of_one], shared_name=shared_name)
        enqueue = queue.enqueue_many([rows])
        add_queue_runner(QueueRunner(queue, [enqueue], queue.close(), queue.close(cancel_pending_enqueues=True)))
        return queue


def string_input_producer(
    string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None, name: str | None = None, cancel_op: Any = None,
) -> FIFOQueue:  # fmt: skip
    """A queue of texts, such as names of files. Raises GraphValueError for none."""
    if not isinstance(string_tensor, Tensor) and not len(string_tensor):
        raise GraphValueError("string_input_producer requires a non-null input tensor")
    with name_scope(name, "input_producer", [string_tensor]):
        texts = convert_to_tensor(string_tensor, dtypes.string)
        return input_producer(texts, [], num_epochs, shuffle, seed, capacity, shared_name)


def range_input_producer(
    limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32,
    shared_name: str | None = None, name: str | None = None,
) -> FIFOQueue:  # fmt: skip
    """A queue of the numbers below `limit`."""
    with name_scope(name, "input_producer", [limit]):
        return input_producer(
            range_of(limit), [], num_epochs, shuffle, seed, capacity, shared_name, "fraction_of_%d_full"
        )


def slice_input_producer(
    tensor_list: Sequence[Any], num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None, name: str | None = None,
) -> list[Tensor]:  # fmt: skip
    """One row of each of the tensors at a time."""
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = [convert_to_tensor(t) for t in tensor_list]
        if not tensors:
            raise GraphValueError("Expected at least one tensor in slice_input_producer().")
        count = shape(tensors[0])[0]
        index = range_input_producer(count, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [gather(t, index) for t in tensors]


def _batch_queue(
    tensors: Any, queue: Any, batch_size: Any, num_threads: int, enqueue_many: bool, allow_smaller: bool, name: str
) -> Any:
    parts = [convert_to_tensor(t) for t in flatten(tensors)]
    held = queue(
        [t.dtype.base_dtype for t in parts], [TensorShape(t.shape[1:]) if enqueue_many else t.shape for t in parts]
    )
    put = [held.enqueue_many(tuple(parts)) if enqueue_many else held.enqueue(tuple(parts)) for _ in range(num_threads)]
    add_queue_runner(QueueRunner(held, put, held.close(), held.close(cancel_pending_enqueues=True)))
    found = (held.dequeue_up_to if allow_smaller else held.dequeue_many)(batch_size, name=name)
    found = found if isinstance(found, list) else [found]
    return (
        pack_like(tensors, found)
        if (isinstance(tensors, list | tuple | dict) and len(parts) != 1) or isinstance(tensors, dict)
        else found[0]
    )


def batch(
    tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, shared_name: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Batches of tensors, gathered by threads in a queue."""
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    with name_scope(name, "batch", flatten(tensors)) as scope:
        return _batch_queue(
            tensors, lambda types, sizes: kind(capacity, types, sizes, shared_name=shared_name), batch_size,
            num_threads, enqueue_many,
            allow_smaller_final_batch, scope,
        )  # fmt: skip


def shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1, seed: int | None = None,
    enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Batches of tensors, in a random order, gathered by threads in a queue."""
    with name_scope(name, "shuffle_batch", flatten(tensors)) as scope:
        return _batch_queue(
            tensors,
            lambda types, sizes: RandomShuffleQueue(
                capacity, min_after_dequeue, types, sizes, seed=seed, shared_name=shared_name
            ),
            batch_size, num_threads, enqueue_many, allow_smaller_final_batch, scope,
        )  # fmt: skip
