"""tf.TensorArray: tensors by index, each written once, for loops
(python/ops/tensor_array_ops.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import identity, shape
from xlanb.graph.builders.math_ops import cast
from xlanb.graph.builders.math_ops import range as range_
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape


class TensorArray:
    """A handle, and the flow that orders operations on it: each write returns a new object, which
    must be used from then on.
    """

    def __init__(
        self, dtype: Any, size: Any = None, dynamic_size: bool | None = None, clear_after_read: bool | None = None,
        tensor_array_name: str | None = None, handle: Tensor | None = None, flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None, colocate_with_first_write_call: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        """Make an array of `size` elements of `dtype`, or more if `dynamic_size`.

        With `handle`, wrap the array of that handle, at the state `flow`.

        Raises:
            GraphValueError: neither size nor handle, or both.
        """
        if (handle is None) == (size is None):
            raise GraphValueError("a TensorArray needs either a size or the handle of another one, not both")
        self.dtype: DType = as_dtype(dtype).base_dtype
        self._size = size
        self._dynamic = bool(dynamic_size)
        self._infers = infer_shape
        self._shape = [TensorShape(element_shape)]  # shared by all objects of one array
        self._place: list[Any] | None = [] if colocate_with_first_write_call else None
        graph = get_default_graph()
        with name_scope(name, "TensorArray", [v for v in (handle, size, flow) if v is not None]) as scope:
            if handle is not None:
                if flow is None:
                    raise GraphValueError("a TensorArray with a handle also needs a flow")
                self.handle, self.flow = handle, flow
                return
            with graph.device(None), graph.colocate_with(None, ignore_existing=True):
                made = call_op(
                    "TensorArrayV3", size, dtype=self.dtype, element_shape=TensorShape(element_shape),
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic, clear_after_read=clear_after_read is None or clear_after_read,
                    tensor_array_name=tensor_array_name or "", name=scope,
                )  # fmt: skip
            self.handle, self.flow = made.outputs
            self.flow.give_shape(())

    def with_flow(self, flow: Tensor) -> TensorArray:
        """The same array as of another flow."""
        flow.give_shape(())
        new = TensorArray(self.dtype, handle=self.handle, flow=flow, infer_shape=self._infers)
        new._size, new._dynamic, new._shape, new._place = self._size, self._dynamic, self._shape, self._place
        return new

    @property
    def graph(self) -> Any:
        """The graph that holds it."""
        return self.handle.graph

    @property
    def element_shape(self) -> TensorShape:
        """The elements' shape, as far as known."""
        return self._shape[0]

    def _note_shape(self, found: TensorShape) -> None:
        if not found.is_compatible_with(self._shape[0]):
            raise GraphValueError(f"Inconsistent shapes: saw {found} but expected {self._shape[0]}")
        if self._infers:
            self._shape[0] = self._shape[0].merge_with(found)

    @contextmanager
    def _placed(self, value: Tensor) -> Iterator[None]:
        if self._place is None:
            yield
            return
        if not self._place:
            self._place.append(value)
        with get_default_graph().colocate_with(self._place[0]):
            yield

    def _value(self, value: Any) -> Tensor:
        tensor = convert_to_tensor(value, preferred_dtype=self.dtype, name="value")
        if tensor.dtype.base_dtype is not self.dtype:
            raise GraphTypeError(
                f"TensorArray dtype is {self.dtype.name} but {tensor.name!r} has dtype {tensor.dtype.name}"
            )
        return tensor

    def identity(self) -> TensorArray:
        """The same array, with its flow through an Identity."""
        return self.with_flow(identity(self.flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """The array of the elements' gradients, one for each `source`."""
        flow = self.flow if flow is None else flow
        graph = get_default_graph()
        with name_scope(name, "TensorArrayGrad", [self.handle]), graph.colocate_with(self.handle):
            made = call_op("TensorArrayGradV3", self.handle, flow, source=source, name=name)
            with graph.control_dependencies([made]):
                flow = identity(flow, name="gradient_flow")
            found = TensorArray(
                self.dtype,
                handle=made.outputs[0],
                flow=flow,
                infer_shape=self._infers,
                colocate_with_first_write_call=False,
            )
            found._shape = self._shape
            return found

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        value = call("TensorArrayReadV3", self.handle, index, self.flow, dtype=self.dtype, name=name)
        value.set_shape(self._shape[0])
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`."""
        with name_scope(name, "TensorArrayWrite", [self.handle]):
            tensor = self._value(value)
            self._note_shape(tensor.shape)
            with self._placed(tensor):
                flow = call("TensorArrayWriteV3", self.handle, index, tensor, self.flow, name=name)
            return self.with_flow(flow)

    def stack(self, name: str | None = None) -> Tensor:
        """Stack all elements into one tensor."""
        with get_default_graph().colocate_with(self.handle), name_scope(name, "TensorArrayStack", [self.handle]):
            value = self.gather(range_(0, self.size()), name=name)
            if not self._dynamic and self._size is not None and self._shape[0].rank is not None:
                count = constant_value(self._size) if isinstance(self._size, Tensor) else self._size
                value.set_shape([None if count is None else int(count), *self._shape[0].as_list()])
            return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Stack some elements into one tensor."""
        value = call(
            "TensorArrayGatherV3",
            self.handle,
            indices,
            self.flow,
            dtype=self.dtype,
            element_shape=self._shape[0],
            name=name,
        )
        if self._shape[0].rank is not None:
            value.set_shape([None, *self._shape[0].as_list()])
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """All elements one after the other along their first dimension."""
        rest = self._shape[0][1:] if self._shape[0].rank is not None else TensorShape(None)
        made = call_op(
            "TensorArrayConcatV3", self.handle, self.flow, dtype=self.dtype, element_shape_except0=rest, name=name
        )
        return made.outputs[0]

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with the parts of `value` along its first dimension."""
        with name_scope(name, "TensorArrayUnstack", [self.handle, value]):
            count = shape(value)[0]
            return self.scatter(range_(0, count), value, name=name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the parts of `value` at `indices`."""
        with name_scope(name, "TensorArrayScatter", [self.handle, value, indices]):
            tensor = self._value(value)
            if tensor.shape.rank is not None:
                self._note_shape(tensor.shape[1:])
            with self._placed(tensor):
                flow = call("TensorArrayScatterV3", self.handle, indices, tensor, self.flow, name=name)
            return self.with_flow(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with pieces of `value` of these lengths along its first dimension."""
        with name_scope(name, "TensorArraySplit", [self.handle, value, lengths]):
            tensor = self._value(value)
            with self._placed(tensor):
                wide = cast(lengths, dtypes.int64)
                flow = call("TensorArraySplitV3", self.handle, tensor, wide, self.flow, name=name)
            return self.with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        if not self._dynamic and self._size is not None:
            return convert_to_tensor(self._size, dtypes.int32)
        return call("TensorArraySizeV3", self.handle, self.flow, name=name)

    def close(self, name: str | None = None) -> Operation:
        """Let go of the elements."""
        return call_op("TensorArrayCloseV3", self.handle, name=name)

    def __repr__(self) -> str:
        return f"<tf.TensorArray {self.handle.op.name!r} of {self.dtype.name} elements of shape {self._shape[0]}>"
