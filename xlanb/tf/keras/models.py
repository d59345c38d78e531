"""tf.keras.Model and Sequential, called with tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph.builders.nest import flatten, pack_like
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by


class Model:
    """Layers under one name: subclass it and define `call`, or pass the inputs and outputs of a
    graph.

    Attributes:
        inputs, outputs: those it was given.
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **_ignored: Any) -> None:
        self.inputs, self.outputs, self.name = inputs, outputs, name or "model"

    def call(self, inputs: Any, **how: Any) -> Any:
        """Return the outputs; for other inputs than the model's, copies of its nodes.

        Raises:
            UnimplementedError: neither `call` nor outputs were given.
        """
        if self.outputs is None:
            raise UnimplementedError(f"model {self.name!r}: define call(), or pass inputs and outputs")
        given, own = flatten(inputs), flatten(self.inputs)
        if all(a is b for a, b in zip(given, own, strict=True)):
            return self.outputs
        return pack_like(self.outputs, _replayed(flatten(self.outputs), dict(zip(own, given, strict=True))))

    def __call__(self, inputs: Any, *args: Any, **how: Any) -> Any:
        """As `call`."""
        return self.call(inputs, *args, **how)

    @property
    def layers(self) -> list[Any]:
        """The layers that are its attributes, or in lists of them."""
        found: list[Any] = []
        for value in vars(self).values():
            listed = (
                value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
            )
            found += [v for v in listed if hasattr(v, "variables") and callable(v)]
        return found

    @property
    def variables(self) -> list[Any]:
        """All variables of its layers, or those that its graph outputs read."""
        if self.outputs is not None:
            return _read_by(flatten(self.outputs))
        return list(dict.fromkeys(v for layer in self.layers for v in layer.variables))

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that optimizers update."""
        return [v for v in self.variables if v.trainable]

    trainable_weights = trainable_variables

    @property
    def updates(self) -> list[Any]:
        """Updates of the layers' moving averages."""
        return [u for layer in self.layers for u in layer.updates]

    @property
    def losses(self) -> list[Any]:
        """Losses of the layers' regularizers."""
        return [u for layer in self.layers for u in layer.losses]

    def compile(self, *_args: Any, **_options: Any) -> None:
        """Refused. Raises UnimplementedError: Keras' own training is not here."""
        raise UnimplementedError(
            "tf.keras's compile, fit, evaluate and predict are not in xlanb.tf: call the model with tensors, "
            "minimize a loss with an optimizer of tf.train, run with tf.Session"
        )

    fit = evaluate = predict = compile  # noqa: A003 - Keras' name


class Sequential(Model):
    """One layer after the other."""

    def __init__(self, layers: Iterable[Any] | None = None, name: str | None = None) -> None:
        super().__init__(name=name or "sequential")
        self._stack = list(layers or ())

    @property
    def layers(self) -> list[Any]:
        """The layers, in order."""
        return self._stack

    def add(self, layer: Any) -> None:
        """Append a layer."""
        self._stack.append(layer)

    def call(self, inputs: Any, **how: Any) -> Any:
        """The last layer's results; `training` goes to layers that have a training half."""
        result = inputs
        for layer in self._stack:
            wants = type(layer).__name__ in {"Dropout", "BatchNormalization", "Sequential"}
            result = layer(result, **({"training": how["training"]} if wants and "training" in how else {}))
        return result


def _read_by(outputs: list[Tensor]) -> list[Any]:
    graph = outputs[0].graph
    needed = set(needed_by([t.op for t in outputs]))
    return [v for v in graph.get_collection("variables") if v.op in needed or getattr(v, "handle", v).op in needed]


_KEPT = frozenset({"VariableV2", "Variable", "VarHandleOp"})


def _replayed(outputs: list[Tensor], stands: dict[Tensor, Tensor]) -> list[Tensor]:
    """Return the outputs for other inputs: copy the nodes that depend on the inputs, share the
    others.
    """
    graph = outputs[0].graph
    needed = set(needed_by([t.op for t in outputs], set(stands)))
    copied: dict[Operation, Operation] = {}
    for op in graph.get_operations():
        if op not in needed or op.type in _KEPT or not any(t in stands for t in op.inputs):
            continue
        inputs = [stands.get(t, t) for t in op.inputs]
        attrs = {k: v for k, v in op.attrs.items() if k != "_class"}
        copied[op] = graph.create_op(op.type, inputs, [t.dtype for t in op.outputs], attrs, op.name, op.control_inputs)
        stands.update(zip(op.outputs, copied[op].outputs, strict=True))
    return [stands.get(t, t) for t in outputs]
