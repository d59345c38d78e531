"""The base of layers: variables that a first call makes, and later calls share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import initializers
from xlanb.graph.builders.control_flow import cond
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import get_variable, variable_scope
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype, float32
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape

ZEROS, ONES = initializers.Zeros(), initializers.Ones()


class Layer:
    """A layer: its variables are made at the first call, and shared by later calls.

    A subclass defines `build` (makes variables, from the input's shape) and `call` (computes).

    Attributes:
        name: its scope's, numbered if taken. variables: all it made. losses: of its regularizers.
        updates: operations of its moving averages.
    """

    def __init__(
        self, kind: str, name: str | None, *, trainable: bool, dtype: Any = None, reuse: Any = None, scope: Any = None
    ) -> None:
        self._kind = kind
        self._given_name = name
        self._scope: Any = None
        if scope is not None:
            with variable_scope(scope) as captured:
                self._scope = captured
        self._reuse = reuse
        self.trainable = trainable
        self.dtype = dtype
        self.built = False
        self.variables: list[Any] = []
        self.losses: list[Any] = []
        self.updates: list[Any] = []

    @property
    def name(self) -> str:
        """The name given, or that of its scope."""
        return self._given_name or (self._scope.name.split("/")[-1] if hasattr(self._scope, "name") else self._kind)

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that optimizers update."""
        return [v for v in self.variables if v.trainable]

    trainable_weights = trainable_variables

    @property
    def weights(self) -> list[Any]:
        """All of its variables."""
        return self.variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that optimizers do not update."""
        return [v for v in self.variables if not v.trainable]

    def build(self, input_shape: TensorShape) -> None:
        """Make the variables."""

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The layer's results."""
        raise AssertionError("abstract")

    def add_variable(
        self,
        name: str,
        shape: Sequence[Any],
        initializer: Any = None,
        regularizer: Any = None,
        constraint: Any = None,
        trainable: bool = True,
    ) -> Any:
        """A variable of the layer's scope."""
        before = len(get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES))
        made = get_variable(
            name, shape=shape, dtype=as_dtype(self.dtype or float32), initializer=initializer, regularizer=regularizer,
            constraint=constraint,
            trainable=trainable and self.trainable,
        )  # fmt: skip
        if made not in self.variables:
            self.variables.append(made)
        self.losses += get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES)[before:]
        return made

    def __call__(self, inputs: Any, **how: Any) -> Any:
        """Apply the layer; operations of moving averages go to the collection "update_ops"."""
        if self._scope is None:
            base = self._given_name or self._kind
            with variable_scope(base if self._reuse else None, base) as captured:
                self._scope = captured
        tensor = convert_to_tensor(inputs)
        if self.dtype is None:
            self.dtype = tensor.dtype.base_dtype.name
        reuse = True if self.built else self._reuse
        scopes = variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False)
        with scopes, name_scope(self._scope.original_name_scope):
            if not self.built:
                self.build(tensor.shape)
                self.built = True
            done = len(self.updates)
            result = self.call(tensor, **how)
        for update in self.updates[done:]:
            get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, update)
        return result

    apply = __call__


def known_size(dims: TensorShape, axis: int, what: str) -> int:
    """The size of a dimension, which must be known."""
    found = dims.as_list()[axis] if dims.rank is not None else None
    if found is None:
        raise GraphValueError(f"The last dimension of the inputs to `{what}` should be defined. Found {dims}.")
    return found


def regularized(layer: Layer, result: Any, regularizer: Any) -> Any:
    """The result; its loss, if there is one, is kept."""
    if regularizer is not None:
        with name_scope("ActivityRegularizer"):
            loss = regularizer(result)
        layer.losses.append(loss)
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return result


def is_on(training: Any) -> bool:
    """Whether training is on, or may be."""
    return isinstance(training, Tensor) or bool(training)


def chosen(training: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
    """What one of two functions returns, chosen by a bool or a tensor."""
    return cond(training, true, false) if isinstance(training, Tensor) else true() if training else false()
