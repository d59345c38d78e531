"""OpContext: the inputs, attributes, variables and constants that an op's lowering sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlanb.errors import EvaluationError, GraphError, UninitializedError, XlanbError
from xlanb.evaluator import evaluate_instruction
from xlanb.graph.limits import LARGEST_EXPANSION, check_bytes
from xlanb.graph.operation import Operation
from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import MOST_DIMENSIONS, ArrayShape, PrimitiveType, TupleShape
from xlanb.shape.primitive_type import from_dtype

if TYPE_CHECKING:
    from xlanb.tf2xla.registry import Rank

_MAX_STEPS = 1_000_000
_MAX_BYTES = 256 << 20
"""The largest compile-time value in bytes: sizes, permutations, paddings."""

_UNKNOWN_UNTIL_RUN = frozenset(
    {HloOpcode.PARAMETER, HloOpcode.RNG, HloOpcode.INFEED, HloOpcode.RNG_GET_AND_UPDATE_STATE}
)

_MOST_INTS = 1 << 16
"""The most elements in a list of sizes, axes or indices; a longer list is damaged or malicious."""


class NotConstantError(GraphError):
    """A compile-time constant depends on an argument."""


@dataclass(slots=True)
class VariableState:
    """A variable during lowering: its name, its argument number, its value, and whether it
    changed.
    """

    name: str
    argument: int
    value: HloInstruction | None
    is_written: bool = False


@dataclass(slots=True)
class Store(VariableState):
    """A TF1 stack or tensor array: a variable that the program itself makes.

    Its value is a buffer with one row per element; for a stack, a tuple of the buffer and the fill
    count. It is None until the shape of an element is known.

    Attributes:
        element_type, dims: an element's type and shape.
        size: the number of elements; None for a stack until the number of pushes is known.
        pushes: the number of pushes so far, loop iterations counted.
        gradients: the arrays of its gradients, by the name of the backward pass that made them.
    """

    element_type: PrimitiveType = PrimitiveType.F32
    size: int | None = None
    dims: tuple[int, ...] | None = None
    is_stack: bool = False
    is_gradient: bool = False
    pushes: int = 0
    gradients: dict[str, Store] = field(default_factory=dict)

    def form(self, b: HloBuilder, dims: Sequence[int]) -> None:
        """Give it zeros for elements of this shape, if it has no value yet."""
        if self.value is not None:
            return
        self.dims = tuple(dims)
        zero = b.constant(np.zeros((), self.element_type.dtype))
        buffer = b.broadcast(zero, [1 if self.size is None else self.size, *dims])
        self.value = b.tuple([buffer, b.constant(np.zeros((), np.int32))]) if self.is_stack else buffer


@dataclass(frozen=True, slots=True)
class PendingList:
    """A tensor list whose element shape is unknown; it becomes a list of zeros once it is known."""

    element_type: PrimitiveType
    size: int
    is_pushed: bool


Value = HloInstruction | VariableState | PendingList | None


class OpContext:
    """One operation, as its lowering sees it.

    `b` builds HLO whose metadata already names the op's type, node and Python line.
    """

    def __init__(self, op: Operation, values: list[Value], b: HloBuilder, constants: ConstantValues) -> None:
        self.op = op
        self.b = b
        self._values = values
        self._constants = constants

    def within(self, b: HloBuilder) -> OpContext:
        """The same node, building in another computation: a loop's body, a branch."""
        return OpContext(self.op, self._values, b, self._constants)

    @property
    def values(self) -> list[Value]:
        """All inputs: HLO, or variables."""
        return self._values

    @property
    def constants(self) -> ConstantValues:
        """The compile-time values of the whole function."""
        return self._constants

    @property
    def input_count(self) -> int:
        """Number of data inputs."""
        return len(self._values)

    def input(self, index: int) -> HloInstruction:
        """An input as HLO; of a ref variable, its value."""
        value = self._values[index]
        if isinstance(value, VariableState):
            return self._read(value, index)
        if value is None:
            if self.op.inputs[index].dtype.name == "string":
                self.fail(
                    f"input {index} is a string, which compiled code cannot hold; TensorFlow's XLA: "
                    "Const op with type DT_STRING is not supported by XLA"
                )
            self.fail(f"input {index} has no value")
        if isinstance(value, PendingList):
            self.fail(f"input {index} is a list whose element shape is unknown")
        return value

    @property
    def inputs(self) -> list[HloInstruction]:
        """All inputs as HLO."""
        return [self.input(i) for i in range(self.input_count)]

    def shape(self, index: int) -> ArrayShape:
        """The shape of an input."""
        return self.input(index).array_shape

    def constant(self, index: int) -> np.ndarray[Any, Any]:
        """The value of an input that must be known now (a shape, an axis, ...).

        Raises:
            NotConstantError: it depends on an argument of the compilation; names the node.
        """
        try:
            return self._constants.of(self.input(index))
        except NotConstantError as error:
            index %= self.input_count
            raise NotConstantError(
                f"input {index} of node {self.op.name!r} ({self.op.type}) must be a compile-time constant, but "
                f"it depends on {error}"
            ) from None

    def known(self, x: HloInstruction) -> np.ndarray[Any, Any] | None:
        """Return the value of HLO that depends on no argument, else None."""
        try:
            return self._constants.of(x)
        except NotConstantError:
            return None  # that is the answer

    def ints(self, index: int) -> list[int]:
        """The value of an integer input that must be known now, flat: sizes, axes, places.

        Raises:
            GraphError: it has more elements than are read; names the node.
        """
        values = self.constant(index)
        if values.size > _MOST_INTS:
            self.fail(f"input {index} has {values.size:,} elements; at most {_MOST_INTS:,} are supported")
        return [int(v) for v in values.ravel()]

    def number(self, index: int) -> Any:
        """Return the compile-time value of a one-element input as a Python number.

        Raises:
            GraphError: it does not have one element; names the node.
        """
        value = self.constant(index)
        if value.size != 1:
            self.fail(f"input {index % self.input_count} must be one number, not {value.dtype}{list(value.shape)}")
        return value.item()

    def sizes(self, index: int) -> list[int]:
        """Return the compile-time value of an input with the sizes of an array.

        Raises:
            GraphError: it is not a vector, has a negative size, or has more dimensions than an
                array may have; names the node.
        """
        found = self.bounded_ints(index)
        if self.shape(index).rank > 1 or min(found, default=0) < 0 or len(found) > MOST_DIMENSIONS:
            self.fail(
                f"input {index} must be a vector of sizes, at most {MOST_DIMENSIONS}, none of them negative, "
                f"not {found[:70]}"
            )
        return found

    def _is_dynamic(self, index: int) -> bool:
        """Whether an input depends on the sizes of dynamic dimensions, and on nothing else at run
        time.
        """
        x = self.input(index)
        return self.known(x) is None and self._constants.bound(x) is not None

    def bounded_ints(self, index: int) -> list[int]:
        """Like `ints`, with the bounds of dynamic sizes."""
        bound = self._constants.bound(self.input(index)) if self._is_dynamic(index) else None
        return self.ints(index) if bound is None else [int(v) for v in bound.value.ravel()]

    def bounded_number(self, index: int) -> Any:
        """Like `number`, with the bounds of dynamic sizes."""
        if not self._is_dynamic(index):
            return self.number(index)
        (value,) = self.bounded_ints(index)
        return value

    def size_of(self, index: int, element: int | None = None) -> HloInstruction | None:
        """Return an integer input, or one of its elements, as an s32 scalar if it depends on
        dynamic sizes.

        Otherwise returns None.
        """
        if not self._is_dynamic(index):
            return None
        given = self.b.convert(self.input(index), PrimitiveType.S32)
        if element is None:
            return self.b.reshape(given, [])
        bound = self._constants.bound(self.input(index))
        if bound is None or not bound.moves.ravel()[element]:
            return None
        return self.b.reshape(self.b.slice(given, [element], [element + 1]), [])

    def sized(self, x: HloInstruction, index: int) -> HloInstruction:
        """Set the dynamic sizes of `x` that input `index` gives."""
        for d in range(x.array_shape.rank) if self._is_dynamic(index) else ():
            size = self.size_of(index, d)
            if size is not None:
                x = self.b.set_dimension_size(x, size, d)
        return x

    def per_dimension(self, index: int, of: int = 0) -> list[int]:
        """Return a compile-time integer input with one number for each dimension of the input `of`.

        Raises:
            GraphError: it has another number of elements; names the node.
        """
        found, shape = self.ints(index), self.shape(of)
        if len(found) != shape.rank:
            self.fail(
                f"input {index} must have {shape.rank} elements, one for each dimension of {shape}, not {len(found)}"
            )
        return found

    def paddings(self, index: int, count: int) -> list[tuple[int, int]]:
        """Return compile-time paddings [count, 2], low and high for each dimension.

        Raises:
            GraphError: it has another number of elements; names the node.
        """
        value = self.constant(index)
        if value.size != 2 * count:
            self.fail(f"input {index} must be the paddings of {count} dimensions, [{count},2], not {list(value.shape)}")
        return [(int(low), int(high)) for low, high in value.reshape(count, 2)]

    def check_ranks(self, wanted: Sequence[Rank]) -> None:
        """Raise GraphError, naming the node, if an input does not have the rank that the op
        requires.
        """
        for index, (rank, value) in enumerate(zip(wanted, self._values, strict=False)):
            if (
                isinstance(value, HloInstruction)
                and isinstance(value.shape, ArrayShape)
                and not rank.fits(value.shape.rank)
            ):
                self.fail(f"input {index} must have {rank}, not {value.shape}")

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node, or the default."""
        return self.op.attrs.get(name, default)

    def element_type(self, name: str) -> PrimitiveType:
        """An attribute that is a dtype, as an element type."""
        return from_dtype(self.op.attrs[name].as_numpy_dtype)

    def read_variable(self, index: int) -> HloInstruction:
        """The value of a variable input (a resource, or a ref)."""
        value = self._values[index]
        if not isinstance(value, VariableState):
            self.fail(f"input {index} is not a variable")
        return self._read(value, index)

    def value_of(self, variable: VariableState) -> HloInstruction:
        """Return the value of a variable. Raises UninitializedError if it has none."""
        if variable.value is None:
            raise UninitializedError(
                f"Attempting to use uninitialized value {variable.name} in node {self.op.name!r} ({self.op.type})"
            )
        return variable.value

    def has_value(self, index: int) -> bool:
        """Whether a variable input has a value."""
        value = self._values[index]
        if not isinstance(value, VariableState):
            self.fail(f"input {index} is not a variable")
        return value.value is not None

    def assign_variable(self, index: int, new: HloInstruction) -> None:
        """Give a variable input a new value."""
        value = self._values[index]
        if not isinstance(value, VariableState):
            self.fail(f"input {index} is not a variable")
        value.value = new
        value.is_written = True

    def check_constant(self, dims: Sequence[int], itemsize: int = 8) -> None:
        """Raise GraphError, naming the node, if a constant that the lowering would create is too
        large.
        """
        check_bytes(f"node {self.op.name!r} ({self.op.type}): a constant", dims, itemsize, LARGEST_EXPANSION)

    def fail(self, message: str) -> NoReturn:
        """Raise a GraphError that names the node."""
        raise GraphError(f"node {self.op.name!r} ({self.op.type}): {message}")

    def _read(self, variable: VariableState, index: int) -> HloInstruction:
        if variable.value is None:
            raise UninitializedError(
                f"Attempting to use uninitialized value {variable.name} in node {self.op.name!r} ({self.op.type}), "
                f"input {index}; run tf.global_variables_initializer() first, or load_variables()"
            )
        return variable.value


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound of a value that depends on dynamic sizes, and which elements depend on
    them.
    """

    value: np.ndarray[Any, Any]
    moves: np.ndarray[Any, Any]


class ConstantValues:
    """Values of HLO that depends on no argument, computed by the evaluator and remembered."""

    def __init__(self) -> None:
        self._values: dict[HloInstruction, Any] = {}
        self._at_bound: dict[HloInstruction, Any] = {}
        self._below: dict[HloInstruction, Any] = {}

    def of(self, wanted: HloInstruction) -> np.ndarray[Any, Any]:
        """Evaluate an instruction.

        Raises:
            NotConstantError: it depends on a parameter or on random numbers; the message names
                which.
        """
        return self._evaluated(wanted, self._values, None)

    def bound(self, wanted: HloInstruction) -> Bound | None:
        """Evaluate with dynamic dimensions at their bounds; None if it depends on other run-time
        values.
        """
        try:
            high = self._evaluated(wanted, self._at_bound, 0)
            return Bound(high, high != self._evaluated(wanted, self._below, 1))
        except NotConstantError:
            return None  # that is the answer

    def set_bound(self, x: HloInstruction, bound: np.ndarray[Any, Any]) -> None:
        """Set the upper bound of a value, in its own element type."""
        self._at_bound[x] = bound
        self._below[x] = np.asarray(np.maximum(bound, 1) - 1, bound.dtype)

    def _evaluated(
        self, wanted: HloInstruction, values: dict[HloInstruction, Any], below: int | None
    ) -> np.ndarray[Any, Any]:
        """Evaluate an instruction; `below` is subtracted from the bounds of dynamic dimensions."""
        stack = [wanted]
        while stack:
            i = stack[-1]
            if i in values:
                stack.pop()
                continue
            if below is not None and i.opcode is HloOpcode.GET_DIMENSION_SIZE:
                size = i.operands[0].array_shape.dimensions[i.dimensions[0]]
                values[i] = np.asarray(max(0, size - below), np.int32)
                stack.pop()
                continue
            if i.opcode in _UNKNOWN_UNTIL_RUN or i.has_side_effect:
                raise NotConstantError(f"{i.name} ({i.metadata.op_name or i.opcode})")
            todo = [o for o in i.operands if o not in values]
            if todo:
                stack.extend(todo)
                continue
            if i.opcode is not HloOpcode.CONSTANT and _bytes(i) > LARGEST_EXPANSION:
                raise NotConstantError(
                    f"{i.name}, whose {_bytes(i):,} bytes exceed the limit of {LARGEST_EXPANSION:,} bytes"
                )
            try:
                values[i] = evaluate_instruction(
                    i, [values[o] for o in i.operands], max_steps=_MAX_STEPS, max_bytes=_MAX_BYTES
                )
            except EvaluationError as error:
                raise NotConstantError(str(error)) from error
            stack.pop()
        return np.asarray(values[wanted])


def _bytes(i: HloInstruction) -> int:
    """Return the bytes of an instruction's result."""
    shapes = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    return sum(s.element_count * s.dtype.itemsize for s in shapes if isinstance(s, ArrayShape) and s.is_array)


def explain(op: Operation, values: Sequence[Value], error: XlanbError) -> GraphError:
    """Convert an error of the HLO builder; name the TensorFlow node, input shapes and Python
    line.
    """
    place = f" (created at {op.source_file}:{op.source_line})" if op.source_line else ""
    inputs = (f"{t.name}: {_shape_text(v)}" for t, v in zip(op.inputs, values, strict=True))
    return GraphError(f"node {op.name!r} ({op.type}){place}: {error}\n  inputs: {', '.join(inputs)}")


def _shape_text(value: Value) -> str:
    found = value.value if isinstance(value, VariableState) else value
    if isinstance(found, PendingList):
        return f"a list of {found.size}"
    return "no value" if found is None else found.shape.text(layout=False)
