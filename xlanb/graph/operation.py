"""Operation and Tensor: a node of a TensorFlow graph, and one of its outputs."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from xlanb.display import Displayable
from xlanb.errors import GraphError, GraphTypeError, GraphValueError
from xlanb.graph.default_session import require_session
from xlanb.graph.dtypes import DType
from xlanb.graph.tensor_shape import TensorShape
from xlanb.hooks import Hook

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph

Dims = tuple[int | None, ...]

infer_shapes: Final[Hook[[Operation], list[Dims | None]]] = Hook("graph.infer_shapes")
"""Infer the static shapes of an operation's outputs; shapes.py implements it."""

binary_operator: Final[Hook[[str, Tensor, Any, bool], Tensor]] = Hook("graph.binary_operator")
"""Build `tensor + other` and the like, by the operator's name; the last argument swaps operands."""

unary_operator: Final[Hook[[str, Tensor], Tensor]] = Hook("graph.unary_operator")
"""Build `-tensor` and the like, by the operator's name."""

index_tensor: Final[Hook[[Tensor, Any], Tensor]] = Hook("graph.index_tensor")
"""Build `tensor[key]`."""


Frame = tuple[str, int, str]
"""A Python frame: file, line (1-based), function."""


class Operation(Displayable):
    """One node: op type, inputs, attributes, outputs.

    Attributes:
        graph: the graph that holds it.
        name: unique in the graph, "gradients/Mean_grad/Reshape".
        type: op type, "MatMul".
        attrs: attributes by name: bool, int, float, str (bytes if not UTF-8), DType, TensorShape,
            NumPy array (tensors), FunctionRef, or a tuple of one of these. Change them through
            `set_attr`.
        device: the requested device, "" if none.
        outputs: its tensors.
        source_file, source_line: the Python line that made it, ("", 0) if unknown.
        stack: the frames that made it, innermost first: file, line, function; () if unknown.
    """

    is_program_site = True  # an internal error at one shows it
    __slots__ = ("_control_inputs", "_control_outputs", "_inputs", "attrs", "device", "graph", "name", "outputs",
                 "raw_attrs", "source_file", "source_line", "stack", "type")  # fmt: skip

    def __init__(
        self, graph: Graph, op_type: str, name: str, dtypes: Iterable[DType], attrs: dict[str, Any], device: str
    ) -> None:
        self.graph = graph
        self.type = op_type
        self.name = name
        self.attrs = attrs
        self.device = device
        self.outputs: list[Tensor] = []
        self.source_file = ""
        self.source_line = 0
        self.stack: tuple[Frame, ...] = ()
        # Attributes of a GraphDef by name: (parsed value, serialized form); see graphdef.
        # The form is None for a default that the GraphDef left out.
        self.raw_attrs: dict[str, tuple[Any, bytes | None]] | None = None
        self._inputs: list[Tensor] = []
        self._control_inputs: list[Operation] = []
        self._control_outputs: list[Operation] = []
        for dtype in dtypes:
            self.add_output(dtype)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The data inputs, in order."""
        return tuple(self._inputs)

    @property
    def control_inputs(self) -> tuple[Operation, ...]:
        """Operations that must run before this one."""
        return tuple(self._control_inputs)

    @property
    def control_outputs(self) -> tuple[Operation, ...]:
        """Operations that wait for this one without using its value."""
        return tuple(self._control_outputs)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute.

        Raises:
            GraphValueError: the operation has no such attribute.
        """
        try:
            return self.attrs[name]
        except KeyError:
            raise GraphValueError(
                f"Operation {self.name!r} (op {self.type}) has no attr named {name!r}; it has: "
                f"{', '.join(sorted(self.attrs)) or 'none'}"
            ) from None

    def set_attr(self, name: str, value: Any) -> None:
        """Set one attribute; shapes that were derived are derived again."""
        self.attrs[name] = value
        self._touch()

    def remove_attr(self, name: str) -> None:
        """Remove one attribute if it is there."""
        if self.attrs.pop(name, None) is not None:
            self._touch()

    def set_device(self, device: str) -> None:
        """Set the requested device."""
        self.device = device
        self.graph.touch()

    def add_output(self, dtype: DType) -> Tensor:
        """Append an output (the number of outputs of an unknown op is inferred from their uses)."""
        tensor = Tensor(self, len(self.outputs), dtype)
        self.outputs.append(tensor)
        return tensor

    def add_input(self, tensor: Tensor) -> None:
        """Append a data input."""
        self.graph.check_own(tensor)
        self._inputs.append(tensor)
        tensor.uses.append(self)
        self._touch()

    def set_input(self, index: int, tensor: Tensor) -> None:
        """Let input `index` be `tensor`."""
        self.graph.check_own(tensor)
        self._inputs[index].uses.remove(self)
        self._inputs[index] = tensor
        tensor.uses.append(self)
        self._touch()

    def close_cycle(self, index: int, tensor: Tensor) -> None:
        """Set input `index` to `tensor`, which depends on this operation; known shapes are kept."""
        self.graph.check_own(tensor)
        self._inputs[index].uses.remove(self)
        self._inputs[index] = tensor
        tensor.uses.append(self)
        self.graph.touch()

    def set_inputs(self, tensors: Sequence[Tensor]) -> None:
        """Replace all data inputs."""
        for old in self._inputs:
            old.uses.remove(self)
        self._inputs = []
        for tensor in tensors:
            self.add_input(tensor)
        self._touch()

    def add_control_input(self, op: Operation) -> None:
        """Make this operation wait for `op`; repeated calls change nothing."""
        self.graph.check_own(op)
        if op not in self._control_inputs:
            self._control_inputs.append(op)
            op._control_outputs.append(self)
            self.graph.touch()

    def remove_control_input(self, op: Operation) -> None:
        """Let this operation no longer wait for `op`."""
        if op in self._control_inputs:
            self._control_inputs.remove(op)
            op._control_outputs.remove(self)
            self.graph.touch()

    def disconnect(self) -> None:
        """Drop all inputs, data and control: the step before removal."""
        self.set_inputs(())
        for op in tuple(self._control_inputs):
            self.remove_control_input(op)

    def _touch(self) -> None:
        self.graph.touch()
        for tensor in self.outputs:
            tensor.forget_shape()

    @property
    def traceback(self) -> list[tuple[str, int, str, str]]:
        """File, line, function and text of the frames that made it, outermost first."""
        return [(f, line, name, linecache.getline(f, line).strip()) for f, line, name in reversed(self.stack)]

    @property
    def colocation_groups(self) -> list[str]:
        """Return the "loc:@name" groups this operation is placed with, by default its own."""
        groups = self.attrs.get("_class") or ()
        found = [g for g in groups if isinstance(g, str) and g.startswith("loc:@")]
        return found or [f"loc:@{self.name}"]

    @property
    def node_inputs(self) -> tuple[str, ...]:
        """The inputs as a GraphDef writes them: "a", "a:1", then "^b" sorted by name."""
        data = (t.op.name if t.value_index == 0 else t.name for t in self._inputs)
        return (*data, *(f"^{name}" for name in sorted(op.name for op in self._control_inputs)))

    def describe(self) -> str:
        """Describe the node in one line: name, op, input types and shapes, and the Python line if
        known.
        """
        inputs = ", ".join(f"{t.op.name if t.value_index == 0 else t.name}: {t.describe()}" for t in self._inputs)
        place = f" at {self.source_file}:{self.source_line}" if self.source_line else ""
        return f"node {self.name!r} = {self.type}({inputs}){place}"

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run this operation in `session`, or in the default session."""
        require_session(session, self.graph).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"


_UNSET = object()


@dataclass(frozen=True)
class _Refused:
    """A marker in place of a shape: the inputs do not fit.

    It keeps the error without its frames.
    """

    kind: type[GraphError]
    message: str


class Tensor(Displayable):
    """One output of an operation; Python's operators build nodes.

    Attributes:
        op: the operation that makes it.
        value_index: its place among the outputs.
        dtype: its element type.
        uses: the operations that read it, once for each input that does.
    """

    __slots__ = ("_asserted", "_shape", "dtype", "op", "uses", "value_index")
    __array_priority__ = 100

    def __init__(self, op: Operation, value_index: int, dtype: DType) -> None:
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self.uses: list[Operation] = []
        self._shape: Any = _UNSET
        self._asserted: TensorShape | None = None

    @property
    def name(self) -> str:
        """The name with the output's number, "x:0"."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph that holds it."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The requested device of its operation."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """Static shape, as far as known (see graph.shapes); computed once.

        Raises:
            GraphValueError: the shapes of the operation's inputs do not fit it.
        """
        if not self.knows_shape:
            _infer(self.op)
        shape: TensorShape = self._shape
        return shape

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge a known shape. Raises GraphError if it contradicts the inferred one."""
        merged = self.shape.merge_with(shape)
        self._asserted = self._shape = merged

    def give_shape(self, dims: Sequence[int | None] | None) -> None:
        """Record an inferred shape; shapes set by `set_shape` are kept."""
        shape = TensorShape(dims)
        self._shape = shape if self._asserted is None else shape.merge_with(self._asserted)

    def adopt_shape(self, other: Tensor) -> None:
        """Copy the inferred shape of `other`, of which this is a copy."""
        self._shape, self._asserted = other._shape if other.knows_shape else _UNSET, other._asserted

    def forget_shape(self) -> None:
        """Drop the inferred shape of this tensor and of all that depends on it."""
        pending = [self]
        while pending:
            tensor = pending.pop()
            if tensor._shape is not _UNSET:
                tensor._shape = _UNSET
                pending += (out for op in tensor.uses for out in op.outputs)

    @property
    def knows_shape(self) -> bool:
        """Whether the shape has been computed already."""
        return self._shape is not _UNSET and not isinstance(self._shape, _Refused)

    @property
    def shape_error(self) -> GraphError | None:
        """Why shape inference failed, or None. Inference runs once per operation."""
        return self._shape.kind(self._shape.message) if isinstance(self._shape, _Refused) else None

    def refuse_shape(self, error: GraphError) -> None:
        """Record that the inputs do not fit the operation."""
        self._shape = _Refused(type(error), str(error))

    def describe(self) -> str:
        """Return type and shape, "f32[?,3]"; "f32[*]" if the rank is unknown or inference
        failed.
        """
        try:
            dims = self.shape.as_tuple()
        except GraphError:
            dims = None
        inner = "*" if dims is None else ",".join("?" if d is None else str(d) for d in dims)
        return f"{self.dtype.short_name}[{inner}]"

    def consumers(self) -> list[Operation]:
        """The operations that read it, each once."""
        return list(dict.fromkeys(self.uses))

    def replace_uses(self, new: Tensor) -> None:
        """Let every reader of this tensor read `new` instead."""
        for op in dict.fromkeys(self.uses):
            for index, tensor in enumerate(op.inputs):
                if tensor is self:
                    op.set_input(index, new)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The value of this tensor, run in `session` or in the default session."""
        return require_session(session, self.graph).run(self, feed_dict)

    def __repr__(self) -> str:
        try:
            shape = str(self.shape)
        except GraphError:
            shape = "<inputs do not fit>"
        return f"<tf.Tensor {self.name!r} shape={shape} dtype={self.dtype.name}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        """Identity, as in TensorFlow 1: tensors are keys of feeds."""
        return self is other

    def __bool__(self) -> NoReturn:
        raise GraphTypeError(
            f"using the tensor {self.name!r} as a Python bool is not allowed: its value is unknown during graph "
            "construction. Use tf.cond for a branch in the graph, `is not None` to test for a tensor, or "
            "Session.run for the value."
        )

    def __iter__(self) -> Iterator[Tensor]:
        if self.shape.rank is None or self.shape.rank == 0 or self.shape[0].value is None:
            raise GraphTypeError(
                f"tensor {self.name!r} of shape {self.shape} cannot be iterated over during graph construction"
            )
        return (self[i] for i in range(int(self.shape[0])))

    def __len__(self) -> NoReturn:
        raise GraphTypeError(
            f"len is not defined for the tensor {self.name!r}: use tensor.shape[0] or tf.shape(tensor)[0]"
        )

    def __float__(self) -> NoReturn:
        raise GraphTypeError(f"the tensor {self.name!r} has no value during graph construction: run it in a Session")

    __int__ = __index__ = __complex__ = __float__

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise GraphTypeError(
            f"the tensor {self.name!r} has no value while the graph is built: NumPy functions need Session.run"
        )

    def _binary(self, method: str, other: Any, *, reverse: bool = False) -> Any:
        return binary_operator(method, self, other, reverse)

    def _unary(self, method: str) -> Tensor:
        return unary_operator(method, self)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, reverse=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, reverse=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", other, reverse=True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("truediv", other, reverse=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, reverse=True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("mod", other, reverse=True)

    def __pow__(self, other: Any) -> Any:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, reverse=True)

    def __matmul__(self, other: Any) -> Any:
        return self._binary("matmul", other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._binary("matmul", other, reverse=True)

    def __and__(self, other: Any) -> Any:
        return self._binary("and", other)

    def __rand__(self, other: Any) -> Any:
        return self._binary("and", other, reverse=True)

    def __or__(self, other: Any) -> Any:
        return self._binary("or", other)

    def __ror__(self, other: Any) -> Any:
        return self._binary("or", other, reverse=True)

    def __xor__(self, other: Any) -> Any:
        return self._binary("xor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._binary("xor", other, reverse=True)

    def __lt__(self, other: Any) -> Any:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Any:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("greater_equal", other)

    def __neg__(self) -> Tensor:
        return self._unary("neg")

    def __abs__(self) -> Tensor:
        return self._unary("abs")

    def __invert__(self) -> Tensor:
        return self._unary("invert")

    def __getitem__(self, key: Any) -> Tensor:
        return index_tensor(self, key)


def _infer(op: Operation) -> None:
    """Infer the shapes of the op's outputs, inputs first and without recursion, as graphs may be
    deep.

    Loops (NextIteration) are cut at a node that is met again while its inputs are in progress.
    """
    pending: list[tuple[Operation, bool]] = [(op, False)]
    opened: set[Operation] = set()
    while pending:
        current, ready = pending.pop()
        if ready or not current.inputs:
            _give(current)
        elif current not in opened:
            opened.add(current)
            pending.append((current, True))
            pending += ((t.op, False) for t in current.inputs if not t.knows_shape and t.op not in opened)


def _give(op: Operation) -> None:
    refused = op.outputs[0].shape_error if op.outputs else None
    if refused is not None:
        raise refused
    unknown = [t for t in op.inputs if not t.knows_shape]
    for tensor in unknown:  # the back edge of a loop: unknown while we go round
        tensor.give_shape(None)
    try:
        shapes = infer_shapes(op)
    except GraphError as error:
        if not unknown and type(error) in (GraphError, GraphValueError, GraphTypeError):
            for tensor in op.outputs:
                tensor.refuse_shape(error)
        raise
    finally:
        for tensor in unknown:
            tensor.forget_shape()
    for tensor, dims in zip(op.outputs, shapes, strict=True):
        tensor.give_shape(dims)


def as_operation(value: Any) -> Operation:
    """Return the operation of an operation, a tensor or a variable.

    Raises:
        GraphError: it is none of these.
    """
    if isinstance(value, Operation):
        return value
    op = getattr(value, "op", None)
    if isinstance(op, Operation):
        return op
    raise GraphError(f"expected an operation or a tensor, got {value!r}")


def handed_on_from(tensor: Tensor, is_handed_on: Callable[[Operation], bool]) -> Tensor:
    """Follow first inputs back through nodes that forward them; return the tensor copied by
    `tensor`.

    A cycle of such nodes is walked once.
    """
    seen: set[Tensor] = set()
    while is_handed_on(tensor.op) and tensor.op.inputs and tensor not in seen:
        seen.add(tensor)
        tensor = tensor.op.inputs[0]
    return tensor
