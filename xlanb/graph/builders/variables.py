"""Reference variables (TensorFlow 1's default) and resource variables, with TensorFlow's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.control_ops import group, no_op
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.default_session import require_session
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.hooks import Hook

resource_variables_wanted: Final[Hook[[bool | None], bool]] = Hook("graph.resource_variables_wanted")
"""Whether a new variable is a resource variable, given the caller's request.

variable_scope.py implements it.
"""


class GraphKeys:
    """Names of collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    TRAIN_OP = "train_op"
    GLOBAL_STEP = "global_step"
    SUMMARIES = "summaries"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    TABLE_INITIALIZERS = "table_initializer"
    QUEUE_RUNNERS = "queue_runners"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    SAVERS = "savers"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


class Variable:
    """A value that persists between runs: the common part of both kinds.

    Attributes:
        graph: the graph that holds it.
        initializer: the operation that gives it its initial value.
        initial_value: the tensor of that value.
        trainable: whether optimizers update it by default.
        constraint: a function applied to the value after each update, or None.
    """

    __array_priority__ = 100

    graph: Graph
    initializer: Operation
    initial_value: Tensor
    trainable: bool
    constraint: Callable[[Any], Any] | None
    _shape: TensorShape

    def __new__(cls, *_args: Any, use_resource: bool | None = None, **_kwargs: Any) -> Variable:  # noqa: PYI034 - one of two kinds
        """Make a resource variable if `use_resource` or a scope requests it, else a reference
        variable.
        """
        if cls is Variable:
            kind = ResourceVariable if resource_variables_wanted(use_resource) else RefVariable
            return object.__new__(kind)
        return object.__new__(cls)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        collections: Iterable[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        dtype: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        shape: Any = None,
    ) -> None:
        """Make a variable of the default graph.

        `initial_value`: a tensor, a Python value, or a function that makes one.

        Raises:
            GraphValueError: no initial value, or one of unknown shape with `validate_shape`.
        """
        if initial_value is None:
            raise GraphValueError("a variable needs an initial value")
        self.graph = get_default_graph()
        self.trainable = trainable
        self.constraint = constraint
        self._validate_shape = validate_shape
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        with self.graph.control_dependencies(None):
            values = [] if callable(initial_value) else [initial_value]
            with name_scope(name, "Variable", values) as scope:
                self._build(scope, initial_value, None if dtype is None else as_dtype(dtype), shape)
        self.graph.add_to_collections(keys, self)

    def _build(self, scope: str, initial_value: Any, dtype: DType | None, shape: Any) -> None:
        raise AssertionError("abstract")

    @staticmethod
    def of_nodes(
        variable: Tensor, initializer: Operation, snapshot: Tensor, initial_value: Tensor, trainable: bool = True
    ) -> Variable:
        """The variable of nodes that exist, as an imported graph has them; in no collection.

        `variable` is the output of a VariableV2 or VarHandleOp, `snapshot` the shared read.
        """
        kind = ResourceVariable if variable.op.type == "VarHandleOp" else RefVariable
        made = object.__new__(kind)
        made.graph, made.trainable, made.constraint, made._validate_shape = variable.graph, trainable, None, True
        made.initializer, made.initial_value = initializer, initial_value
        made._shape = TensorShape(variable.op.attrs["shape"])
        made._take_nodes(variable, snapshot)
        return made

    def _take_nodes(self, variable: Tensor, snapshot: Tensor) -> None:
        raise AssertionError("abstract")

    def _known_shape(self, shape: Any) -> TensorShape:
        found = (
            TensorShape(shape)
            if shape is not None
            else self.initial_value.shape
            if self._validate_shape
            else TensorShape(None)
        )
        if self._validate_shape and not self.initial_value.shape.is_fully_defined():
            raise GraphValueError(f"the initial value of a variable must have a known shape: {self.initial_value!r}")
        return found

    # What each kind provides.

    @property
    def op(self) -> Operation:
        """The variable's node."""
        raise AssertionError("abstract")

    @property
    def dtype(self) -> DType:
        """Element type; a reference type for reference variables."""
        raise AssertionError("abstract")

    def value(self) -> Tensor:
        """The value as a tensor."""
        raise AssertionError("abstract")

    def read_value(self) -> Tensor:
        """The value, read by a node of its own at the place where this is called."""
        raise AssertionError("abstract")

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set the value."""
        raise AssertionError("abstract")

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the value."""
        raise AssertionError("abstract")

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the value."""
        raise AssertionError("abstract")

    def as_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
        """The value (or the reference) if a tensor is needed."""
        raise AssertionError("abstract")

    # What follows from it.

    @property
    def name(self) -> str:
        """Name of the node's output, "weights:0"."""
        return f"{self.op.name}:0"

    @property
    def device(self) -> str:
        """The requested device."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """Static shape."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Static shape."""
        return self._shape

    def initialized_value(self) -> Tensor:
        """Return the initial value, for use in other variables' initial values."""
        return self.initial_value

    def _as_graph_element(self) -> Tensor:
        raise AssertionError("abstract")

    def eval(self, session: Any = None) -> Any:
        """The value now, in `session` or in the default one."""
        return self._as_graph_element().eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Set the value in a session without adding nodes to the graph."""
        target: Any = require_session(session, self.graph)
        target.load_variables({self.op.name: value})

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _overload(method: str) -> Callable[..., Any]:
    def forward(self: Variable, *args: Any) -> Any:
        return getattr(self.value(), method)(*args)

    forward.__name__ = method
    return forward


for _method in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
    "and rand or ror xor rxor lt le gt ge neg abs invert getitem"
).split():
    setattr(Variable, f"__{_method}__", _overload(f"__{_method}__"))


class RefVariable(Variable):
    """VariableV2, its Assign, and one Identity "read" that all readers share."""

    def _build(self, scope: str, initial_value: Any, dtype: DType | None, shape: Any) -> None:
        graph = self.graph
        if callable(initial_value):
            with graph.attr_scope({"_class": (f"loc:@{scope.removesuffix('/')}",)}):
                with graph.name_scope("Initializer"), graph.device(None):
                    self.initial_value = convert_to_tensor(initial_value(), dtype, "initial_value")
                self._make(scope, shape)
        else:
            self.initial_value = convert_to_tensor(initial_value, dtype, "initial_value")
            self._make(scope, shape)
        self.initializer = call_op("Assign", self._variable, self.initial_value, validate_shape=self._validate_shape)
        with graph.colocate_with(self._variable):
            self._snapshot = identity(self._variable, name="read")

    def _take_nodes(self, variable: Tensor, snapshot: Tensor) -> None:
        self._variable, self._snapshot = variable, snapshot

    def _make(self, scope: str, shape: Any) -> None:
        self._shape = self._known_shape(shape)
        self._variable = call("VariableV2", shape=self._shape, dtype=self.initial_value.dtype.base_dtype, name=scope)

    @property
    def op(self) -> Operation:
        """The VariableV2 node."""
        return self._variable.op

    @property
    def dtype(self) -> DType:
        """The reference type."""
        return self._variable.dtype

    def value(self) -> Tensor:
        """The shared read."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """A read of its own."""
        return identity(self._variable, name="read")

    def as_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
        """The reference, or the shared read."""
        if dtype is not None and not dtype.is_compatible_with(self.dtype):
            raise GraphTypeError(
                f"variable {self.name!r} has the dtype {self.dtype.base_dtype.name}, expected {dtype.name}"
            )
        return self._variable if as_ref else self._snapshot

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set the value; return the reference to it."""
        result = call("Assign", self._variable, value, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the value; return the reference to it."""
        result = call("AssignAdd", self._variable, delta, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the value; return the reference to it."""
        result = call("AssignSub", self._variable, delta, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def scatter_sub(self, delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Subtract from some rows."""
        return call("ScatterSub", self._variable, delta.indices, delta.values, use_locking=use_locking, name=name)

    def scatter_add(self, delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Add to some rows."""
        return call("ScatterAdd", self._variable, delta.indices, delta.values, use_locking=use_locking, name=name)


class ResourceVariable(Variable):
    """VarHandleOp, AssignVariableOp, and a ReadVariableOp wherever the value is used."""

    def _build(self, scope: str, initial_value: Any, dtype: DType | None, shape: Any) -> None:
        graph = self.graph
        label = scope.removesuffix("/")
        with graph.attr_scope({"_class": (f"loc:@{label}",)}):
            with graph.name_scope("Initializer"), graph.device(None):
                value = initial_value() if callable(initial_value) else initial_value
                self.initial_value = convert_to_tensor(value, dtype, "initial_value")
            self._shape = self._known_shape(shape)
            self._dtype = self.initial_value.dtype.base_dtype
            self.handle = call(
                "VarHandleOp", dtype=self._dtype, shape=self._shape, shared_name=label, debug_name=scope, name=scope
            )
        with graph.name_scope("IsInitialized"):
            self._is_initialized = call("VarIsInitializedOp", self.handle)
        with (
            graph.name_scope("Assign") as name,
            graph.colocate_with(None, ignore_existing=True),
            graph.device(self.handle.device),
        ):
            self.initializer = call_op("AssignVariableOp", self.handle, self.initial_value, name=name)
        with graph.name_scope("Read"), graph.device(self.handle.device):
            self._graph_element = self._read()

    def _take_nodes(self, variable: Tensor, snapshot: Tensor) -> None:
        self.handle, self._graph_element = variable, snapshot
        self._dtype = as_dtype(variable.op.attrs["dtype"])

    def _read(self) -> Tensor:
        return call("ReadVariableOp", self.handle, dtype=self._dtype)

    @property
    def op(self) -> Operation:
        """The VarHandleOp node."""
        return self.handle.op

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._dtype

    def value(self) -> Tensor:
        """A read at this place."""
        with self.graph.as_default(), self.graph.colocate_with(None, ignore_existing=True):
            return self._read()

    def read_value(self) -> Tensor:
        """A read at this place, with an Identity behind it."""
        with self.graph.as_default(), self.graph.name_scope("Read"):
            read = self._read()
        return identity(read)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has a value."""
        return call("VarIsInitializedOp", self.handle, name=name)

    def as_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
        """A read, or the handle."""
        if dtype is not None and not dtype.is_compatible_with(self._dtype):
            raise GraphTypeError(f"variable {self.name!r} has the dtype {self._dtype.name}, expected {dtype.name}")
        return self.handle if as_ref else self.value()

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Some rows, without reading all."""
        with name_scope("Gather" if name is None else name) as scope:
            return call("ResourceGather", self.handle, indices, dtype=self._dtype, name=scope)

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set the value; return the new value."""
        tensor = convert_to_tensor(value, self._dtype)
        if not self._shape.is_compatible_with(tensor.shape):
            raise GraphValueError(
                f"variable {self.name!r} has the shape {self._shape}: {tensor!r} cannot be assigned to it"
            )
        checked = self._validate_shape and self._shape.is_fully_defined()
        return self._after(
            call_op("AssignVariableOp", self.handle, tensor, validate_shape=checked, name=name), read_value
        )

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the value; return the new value."""
        return self._after(
            call_op("AssignAddVariableOp", self.handle, convert_to_tensor(delta, self._dtype), name=name), read_value
        )

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the value; return the new value."""
        return self._after(
            call_op("AssignSubVariableOp", self.handle, convert_to_tensor(delta, self._dtype), name=name), read_value
        )

    def _after(self, op: Operation, read_value: bool) -> Any:
        return AssignedVariable(self, op) if read_value else op


class AssignedVariable:
    """The result of an assignment to a resource variable: the operation, and the new value."""

    def __init__(self, variable: ResourceVariable, op: Operation) -> None:
        self.variable = variable
        self.op = op
        self.dtype = variable.dtype
        self.shape = variable.shape
        self.graph = variable.graph
        self.device = op.device
        self.handle = variable.handle
        self._graph_element = self.value()

    def value(self) -> Tensor:
        """The value after the assignment."""
        with self.graph.as_default(), self.graph.control_dependencies([self.op]):
            return self.variable._read()

    def as_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
        """The value after the assignment."""
        return self.handle if as_ref else self.value()

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def eval(self, session: Any = None) -> Any:
        """Assign, and return the new value."""
        return self._graph_element.eval(session=session)


def global_variables() -> list[Any]:
    """All variables of the default graph but local ones."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)


def local_variables() -> list[Any]:
    """Variables that are not saved."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Variables that optimizers change by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def variables_initializer(variables: Iterable[Any], name: str = "init") -> Operation:
    """Return the operation that initializes these variables."""
    operations = [v.initializer for v in variables]
    return group(*operations, name=name) if operations else no_op(name=name)


def global_variables_initializer() -> Operation:
    """Return the operation that initializes all global variables."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """Return the operation that initializes local variables."""
    return variables_initializer(local_variables())


def model_variables(scope: str | None = None) -> list[Any]:
    """Variables of the collection "model_variables"."""
    return get_default_graph().get_collection("model_variables", scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Variables of the collection "moving_average_variables"."""
    return get_default_graph().get_collection("moving_average_variables", scope)
