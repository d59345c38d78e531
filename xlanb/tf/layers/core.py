"""Densely connected layers, dropout, and flattening."""

from __future__ import annotations

import math
from typing import Any

from xlanb.graph.builders import array_ops, math_ops, nn_ops
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.layers.base import ZEROS, Layer, chosen, known_size, regularized


class Dense(Layer):
    """activation(inputs @ kernel + bias)."""

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS, kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None, dtype: Any = None, _reuse: Any = None, _scope: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("dense", name, trainable=trainable, dtype=dtype, reuse=_reuse, scope=_scope)
        self.units = int(units)
        self._activation, self._use_bias = activation, use_bias
        self._kernel_how = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias_how = (bias_initializer, bias_regularizer, bias_constraint)
        self._activity = activity_regularizer
        self.kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: TensorShape) -> None:
        """kernel [inputs, units], bias [units]."""
        size = known_size(input_shape, -1, "Dense")
        self.kernel = self.add_variable("kernel", [size, self.units], *self._kernel_how)
        if self._use_bias:
            self.bias = self.add_variable("bias", [self.units], *self._bias_how)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The results, [..., units]."""
        rank = inputs.shape.rank
        if rank is not None and rank > 2:
            result = math_ops.tensordot(inputs, self.kernel.value(), [[rank - 1], [0]])
            known = inputs.shape.as_list()[:-1]
            result.set_shape([*known, self.units])
        else:
            result = math_ops.matmul(inputs, self.kernel)
        if self._use_bias:
            result = nn_ops.bias_add(result, self.bias)
        result = self._activation(result) if self._activation is not None else result
        return regularized(self, result, self._activity)


class Dropout(Layer):
    """Elements set to 0 with probability `rate` in training; the others scaled up."""

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None
    ) -> None:
        super().__init__("dropout", name, trainable=False)
        self.rate, self._noise_shape, self._seed = rate, noise_shape, seed

    def call(self, inputs: Tensor, training: Any = False, **how: Any) -> Any:
        """The inputs, thinned out in training."""

        def dropped() -> Tensor:
            return nn_ops.dropout(inputs, noise_shape=self._noise_shape, seed=self._seed, rate=self.rate)

        return chosen(training, dropped, lambda: array_ops.identity(inputs))


class Flatten(Layer):
    """[batch, ...] as [batch, the product of the rest]."""

    def __init__(self, name: str | None = None, **_ignored: Any) -> None:
        super().__init__("flatten", name, trainable=False)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The matrix."""
        dims = inputs.shape.as_list()
        rest = dims[1:]
        batch = dims[0] or array_ops.shape(inputs)[0]
        result = array_ops.reshape(inputs, [batch, -1])
        result.set_shape([dims[0], None if None in rest else math.prod(d for d in rest if d is not None)])
        return result


def dense(inputs: Any, units: int, *args: Any, name: str | None = None, reuse: Any = None, **how: Any) -> Any:
    """A densely connected layer: activation(inputs @ kernel + bias). Arguments as of `Dense`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Dense(units, *args, **how)(inputs)


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Any:
    """Dropout where `training`."""
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


def flatten(inputs: Any, name: str | None = None) -> Any:
    """Merge all dimensions but the first."""
    return Flatten(name)(inputs)
