"""Optimizers: update nodes as by TensorFlow 1's tf.train optimizers, with their names and slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import initializers
from xlanb.graph.builders.array_ops import shape
from xlanb.graph.builders.control_ops import group, tuple_
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.math_ops import cast
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import get_variable, variable_scope
from xlanb.graph.builders.variables import (
    GraphKeys,
    RefVariable,
    ResourceVariable,
    Variable,
    trainable_variables,
)
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.gradients import gradients
from xlanb.graph.op_library import call, call_n, call_op
from xlanb.graph.operation import Operation, Tensor, as_operation
from xlanb.tf.states import rows, set_rows

_TRAINABLE_TYPES = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})


class Optimizer:
    """Update variables to reduce a loss.

    A subclass defines its slots (additional variables for each variable), the tensors it prepares,
    and the update of one variable.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise GraphValueError("an optimizer needs a name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._prepared: dict[str, Tensor] = {}

    # What each kind provides.

    def _create_slots(self, variables: Sequence[Any]) -> None:
        """Make the slots."""

    def _prepare(self) -> None:
        """Make the tensors that all updates share."""
        raise AssertionError("abstract")

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        """Update one variable."""
        raise AssertionError("abstract")

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        """Update some rows of one variable; each index occurs once."""
        raise GraphTypeError(
            f"{type(self).__name__} does not support sparse gradients, such as that of {variable.name!r}"
        )

    def _finish(self, updates: list[Operation], scope: str) -> Operation:
        """Return the operation that groups all updates."""
        return group(*updates, name=scope)

    # What programs call.

    def get_name(self) -> str:
        """The name given to the updates' scope."""
        return self._name

    def minimize(
        self,
        loss: Tensor,
        global_step: Any = None,
        var_list: Sequence[Any] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """The operation that makes one step: compute_gradients, then apply_gradients.

        Raises:
            GraphValueError: there is no variable, or the loss depends on none of them.
        """
        found = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        if all(grad is None for grad, _ in found):
            names = ", ".join(v.name for _, v in found)
            raise GraphValueError(
                f"No gradients provided for any variable: the loss {loss.name!r} does not depend on any of {names}"
            )
        return self.apply_gradients(found, global_step, name)

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Sequence[Any] | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Return the gradient of the loss by each variable, None if independent.

        Raises:
            GraphTypeError: the loss is not of a floating point type.
            GraphValueError: there is no variable.
        """
        if loss.dtype.base_dtype.name not in _TRAINABLE_TYPES:
            raise GraphTypeError(
                f"the loss {loss.name!r} has the type {loss.dtype.name}: only floating-point losses can be minimized"
            )
        variables = trainable_variables() if var_list is None else list(var_list)
        if not variables:
            raise GraphValueError("No variables to optimize.")
        found = gradients(
            loss, variables, grad_ys=grad_loss, gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )  # fmt: skip
        if gate_gradients == self.GATE_GRAPH:
            found = tuple_(found)
        return list(zip(found, variables, strict=True))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The operation that updates the variables by these gradients, and counts the step.

        Raises:
            GraphValueError: no gradient at all.
        """
        pairs = [(_gradient(g), v) for g, v in grads_and_vars]
        wanted = [v for g, v in pairs if g is not None]
        if not wanted:
            raise GraphValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        graph = get_default_graph()
        with graph.control_dependencies(None):
            self._create_slots(wanted)
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for grad, variable in pairs:
                if grad is not None:
                    with name_scope(f"update_{variable.op.name}"), graph.colocate_with(variable):
                        updates.append(self._update(grad, variable))
            done = self._finish(updates, scope) if global_step is None else self._counted(updates, global_step, scope)
        train_ops = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if done not in train_ops:
            train_ops.append(done)
        return done

    def get_slot(self, variable: Any, name: str) -> Any:
        """Return the slot of a name for a variable, or None."""
        return self._slots.get(name, {}).get(variable)

    def get_slot_names(self) -> list[str]:
        """Names of all slots."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """All variables that the optimizer made."""
        return sorted((v for slots in self._slots.values() for v in slots.values()), key=lambda v: str(v.name))

    # What kinds use.

    def _update(self, grad: Tensor | IndexedSlices, variable: Any) -> Operation:
        if isinstance(grad, Tensor):
            update = self._apply_dense(grad, variable)
        else:
            update = self._apply_slices(grad, variable)
        if variable.constraint is None:
            return update
        with get_default_graph().control_dependencies([update]):
            return as_operation(variable.assign(variable.constraint(variable.value())))

    def _apply_slices(self, grad: IndexedSlices, variable: Any) -> Operation:
        """Rows of the same index are added up first."""
        unique, positions = call_n("Unique", grad.indices)
        total = call("UnsortedSegmentSum", grad.values, positions, shape(unique)[0])
        return self._apply_sparse(total, unique, variable)

    def _counted(self, updates: list[Operation], global_step: Any, scope: str) -> Operation:
        graph = get_default_graph()
        with graph.control_dependencies([self._finish(updates, "update")]), graph.colocate_with(global_step):
            if isinstance(global_step, ResourceVariable):
                one = convert_to_tensor(1, global_step.dtype)
                return call_op("AssignAddVariableOp", global_step.handle, one, name=scope)
            return call_op("AssignAdd", global_step, 1, name=scope)

    def _prepare_tensor(self, name: str, value: Any) -> None:
        self._prepared[name] = convert_to_tensor(value() if callable(value) else value, name=name)

    def _as_type(self, name: str, variable: Any) -> Tensor:
        """A prepared tensor in the variable's type."""
        result: Tensor = cast(self._prepared[name], variable.dtype.base_dtype)
        return result

    def _slot(self, variable: Any, name: str, initializer: Any = None) -> Any:
        """The slot `name` for a variable, created if missing: with its shape, zeros by default."""
        slots = self._slots.setdefault(name, {})
        if variable not in slots:
            slots[variable] = _make_slot(variable, self._name, initializer or initializers.Zeros())
        return slots[variable]

    def _apply(
        self, op_type: str, variable: Any, inputs: Sequence[Any], slots: Sequence[Any] = (), **attrs: Any
    ) -> Operation:
        """Return the update node: `Resource` + op type on handles for resource variables, else on
        references.
        """
        names = (variable, *slots)
        if isinstance(variable, RefVariable):
            return call_op(op_type, *names, *inputs, use_locking=self._use_locking, **attrs)
        return call_op(
            f"Resource{op_type}", *(v.handle for v in names), *inputs, use_locking=self._use_locking, **attrs
        )


def _gradient(value: Any) -> Tensor | IndexedSlices | None:
    return value if value is None or isinstance(value, IndexedSlices) else convert_to_tensor(value)


def _make_slot(primary: Any, name: str, initializer: Any) -> Any:
    graph = get_default_graph()
    with variable_scope(None, f"{primary.op.name}/{name}"), graph.colocate_with(primary):
        return get_variable(
            "", initializer=initializer, trainable=False, use_resource=isinstance(primary, ResourceVariable),
            shape=primary.shape,
            dtype=primary.dtype.base_dtype, validate_shape=primary.shape.is_fully_defined(),
        )  # fmt: skip


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * grad."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._prepare_tensor("learning_rate", self._learning_rate)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        return self._apply("ApplyGradientDescent", variable, [self._as_type("learning_rate", variable), grad])

    def _apply_slices(self, grad: IndexedSlices, variable: Any) -> Operation:
        # Subtracting row by row is right for rows that come twice, too.
        rate = self._as_type("learning_rate", variable)
        if isinstance(variable, RefVariable):
            delta = IndexedSlices(grad.values * rate, grad.indices, grad.dense_shape)
            return variable.scatter_sub(delta, use_locking=self._use_locking).op
        return call_op("ResourceScatterAdd", variable.handle, grad.indices, -grad.values * rate)


class MomentumOptimizer(Optimizer):
    """accumulation = momentum * accumulation + grad; var -= learning_rate * accumulation."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for v in variables:
            self._slot(v, "momentum")

    def _prepare(self) -> None:
        self._prepare_tensor("learning_rate", self._learning_rate)
        self._prepare_tensor("momentum", self._momentum)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        rate = self._as_type("learning_rate", variable)
        inputs = [rate, grad, self._as_type("momentum", variable)]
        return self._apply(
            "ApplyMomentum", variable, inputs, [self.get_slot(variable, "momentum")], use_nesterov=self._use_nesterov
        )

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        rate = self._as_type("learning_rate", variable)
        inputs = [rate, values, indices, self._as_type("momentum", variable)]
        slots = [self.get_slot(variable, "momentum")]
        op_type = "SparseApplyMomentum"
        return self._apply(op_type, variable, inputs, slots, use_nesterov=self._use_nesterov)


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba 2014), with the epsilon of the formulation before section 2.1."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._values = {"learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        self._powers: tuple[Any, ...] = ()  # of beta1 and beta2; made with the slots

    def _create_slots(self, variables: Sequence[Any]) -> None:
        first = min(variables, key=lambda v: str(v.name))
        if not self._powers:
            resource = isinstance(first, ResourceVariable)
            with get_default_graph().colocate_with(first):
                made = [
                    Variable(self._values[b], name=f"{b}_power", trainable=False, use_resource=resource)
                    for b in ("beta1", "beta2")
                ]
            self._powers = tuple(made)
        for v in variables:
            self._slot(v, "m")
            self._slot(v, "v")

    def _prepare(self) -> None:
        for name, value in self._values.items():
            self._prepare_tensor(name, value)

    def _power_values(self, variable: Any) -> list[Tensor]:
        return [cast(p, variable.dtype.base_dtype) for p in self._powers]

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        powers = self._power_values(variable)
        rates = [self._as_type(n, variable) for n in ("learning_rate", "beta1", "beta2", "epsilon")]
        slots = [self.get_slot(variable, n) for n in ("m", "v")]
        return self._apply("ApplyAdam", variable, [*powers, *rates, grad], slots)

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        """Decay the moments everywhere, then add rows where there are gradients."""
        power1, power2 = self._power_values(variable)
        rate, beta1, beta2, epsilon = (
            self._as_type(n, variable) for n in ("learning_rate", "beta1", "beta2", "epsilon")
        )
        rate = rate * call("Sqrt", 1 - power2) / (1 - power1)
        m = self._decayed(self.get_slot(variable, "m"), beta1, values * (1 - beta1), indices)
        v = self._decayed(self.get_slot(variable, "v"), beta2, values * values * (1 - beta2), indices)
        root = call("Sqrt", v)
        step = rate * m / (root + epsilon)
        update = variable.assign_sub(step, use_locking=self._use_locking)
        return group(update, m, v)

    def _decayed(self, slot: Any, beta: Tensor, added: Tensor, indices: Tensor) -> Tensor:
        graph = get_default_graph()
        decayed = slot.assign(slot.value() * beta, use_locking=self._use_locking)
        with graph.control_dependencies([as_operation(decayed)]):
            if isinstance(slot, RefVariable):
                return slot.scatter_add(IndexedSlices(added, indices), use_locking=self._use_locking)
            scattered = call_op("ResourceScatterAdd", slot.handle, indices, added)
        with graph.control_dependencies([scattered]):
            result: Tensor = slot.value()
            return result

    def _finish(self, updates: list[Operation], scope: str) -> Operation:
        graph = get_default_graph()
        with graph.control_dependencies(updates), graph.colocate_with(self._powers[0]):
            counted = [
                p.assign(p * self._prepared[b], use_locking=self._use_locking)
                for p, b in zip(self._powers, ("beta1", "beta2"), strict=True)
            ]
        return group(*updates, *counted, name=scope)

    def variables(self) -> list[Any]:
        """All variables that the optimizer made."""
        return sorted((*super().variables(), *self._powers), key=lambda v: str(v.name))


class AdagradOptimizer(Optimizer):
    """accumulation += grad^2; var -= learning_rate * grad / sqrt(accumulation)."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0:
            raise GraphValueError(f"initial_accumulator_value must be positive, not {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial = initial_accumulator_value

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for v in variables:
            self._slot(v, "accumulator", initializers.Constant(self._initial, v.dtype.base_dtype))

    def _prepare(self) -> None:
        self._prepare_tensor("learning_rate", self._learning_rate)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        slots = [self.get_slot(variable, "accumulator")]
        return self._apply("ApplyAdagrad", variable, [self._as_type("learning_rate", variable), grad], slots)

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        slots = [self.get_slot(variable, "accumulator")]
        return self._apply(
            "SparseApplyAdagrad", variable, [self._as_type("learning_rate", variable), values, indices], slots
        )


class RMSPropOptimizer(Optimizer):
    """Divide gradients by a running mean of their size, with momentum (Tieleman and Hinton
    2012).
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._values = {"learning_rate": learning_rate, "decay": decay, "momentum": momentum, "epsilon": epsilon}
        self._centered = centered

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for v in variables:
            self._slot(v, "rms", initializers.Ones(v.dtype.base_dtype))
            if self._centered:
                self._slot(v, "mg")
            self._slot(v, "momentum")

    def _prepare(self) -> None:
        for name, value in self._values.items():
            self._prepare_tensor(name, value)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        names = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        slots = [self.get_slot(variable, n) for n in names]
        op_type = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        return self._apply(op_type, variable, [*(self._as_type(n, variable) for n in self._values), grad], slots)

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        """The same formula for the rows that have gradients."""
        rate, decay, momentum, epsilon = (self._as_type(n, variable) for n in self._values)
        rms, past = self.get_slot(variable, "rms"), self.get_slot(variable, "momentum")
        squares = rows(rms, indices) * decay + call("Square", values) * (1 - decay)
        changed = {rms: squares}
        spread = squares
        if self._centered:
            means = self.get_slot(variable, "mg")
            changed[means] = rows(means, indices) * decay + values * (1 - decay)
            spread = squares - call("Square", changed[means])
        step = rows(past, indices) * momentum + rate * values * call("Rsqrt", spread + epsilon)
        return set_rows({**changed, past: step, variable: rows(variable, indices) - step}, indices)


def get_or_create_global_step() -> Any:
    """The graph's step counter: an int64 variable "global_step"."""
    graph = get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if found:
        return found[0]
    keys = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP]
    with name_scope(None):
        return get_variable(
            "global_step",
            shape=[],
            dtype=dtypes.int64,
            initializer=initializers.Zeros(),
            trainable=False,
            collections=keys,
        )
