"""Batch normalization."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import array_ops, math_ops, nn_ops
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.layers.base import ONES, ZEROS, Layer, chosen, is_on, known_size


class BatchNormalization(Layer):
    """Normalisation by the batch's mean and variance (training), or by their moving averages.

    The averages' updates are in the collection "update_ops", for the train step to wait for.
    """

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = ZEROS, gamma_initializer: Any = ONES,
        moving_mean_initializer: Any = ZEROS, moving_variance_initializer: Any = ONES,
        beta_regularizer: Any = None, gamma_regularizer: Any = None, beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True, name: str | None = None, fused: bool | None = None, dtype: Any = None,
        _reuse: Any = None, _scope: Any = None,
    ) -> None:  # fmt: skip
        super().__init__("batch_normalization", name, trainable=trainable, dtype=dtype, reuse=_reuse, scope=_scope)
        self.axis, self.momentum, self.epsilon = axis, momentum, epsilon
        self._beta_how = (beta_initializer, beta_regularizer, beta_constraint) if center else None
        self._gamma_how = (gamma_initializer, gamma_regularizer, gamma_constraint) if scale else None
        self._moving = (moving_mean_initializer, moving_variance_initializer)
        self._fused = fused
        self.beta: Any = None
        self.gamma: Any = None

    def build(self, input_shape: TensorShape) -> None:
        """gamma, beta, moving_mean, moving_variance: one number a channel."""
        rank = input_shape.rank
        if rank is None:
            raise GraphValueError(f"batch_normalization needs inputs of known rank, got {input_shape}")
        self.axis = self.axis + rank if self.axis < 0 else self.axis
        size = known_size(input_shape, self.axis, "BatchNormalization")
        if self._fused is None:
            self._fused = rank == 4 and self.axis in {1, 3}
        if self._gamma_how is not None:
            self.gamma = self.add_variable("gamma", [size], *self._gamma_how)
        if self._beta_how is not None:
            self.beta = self.add_variable("beta", [size], *self._beta_how)
        self.moving_mean = self.add_variable("moving_mean", [size], self._moving[0], trainable=False)
        self.moving_variance = self.add_variable("moving_variance", [size], self._moving[1], trainable=False)
        self._size = size

    def call(self, inputs: Tensor, training: Any = False, **how: Any) -> Any:
        """The normalised inputs. `training`: a Python bool, or a tensor."""
        return self._by_one_op(inputs, training) if self._fused else self._by_parts(inputs, training)

    def _by_one_op(self, inputs: Tensor, training: Any) -> Tensor:
        layout = "NCHW" if self.axis == 1 else "NHWC"
        beta = self.beta if self.beta is not None else constant(0.0, shape=[self._size])
        gamma = self.gamma if self.gamma is not None else constant(1.0, shape=[self._size])

        def by_batch() -> Any:
            return nn_ops.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=layout)

        def by_average() -> Any:
            return nn_ops.fused_batch_norm(
                inputs, gamma, beta, self.moving_mean, self.moving_variance, self.epsilon, layout, is_training=False
            )

        output, mean, variance = chosen(training, by_batch, by_average)
        found: Tensor = output
        if is_on(training):
            momentum = chosen(training, lambda: convert_to_tensor(self.momentum), lambda: convert_to_tensor(1.0))
            self._update(self.moving_mean, mean, momentum)
            self._update(self.moving_variance, variance, momentum)
        return found

    def _by_parts(self, inputs: Tensor, training: Any) -> Tensor:
        rank = inputs.shape.rank or 0
        axes = [i for i in range(rank) if i != self.axis]
        around = [1] * rank
        around[self.axis] = self._size
        is_last = self.axis == rank - 1

        def spread(value: Any) -> Any:
            return value if value is None or is_last else array_ops.reshape(value, around)

        if not is_on(training):
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
        else:
            mean, variance = nn_ops.moments(inputs, axes, keep_dims=False)
            batch = mean, variance
            mean = chosen(training, lambda: batch[0], lambda: convert_to_tensor(self.moving_mean))
            variance = chosen(training, lambda: batch[1], lambda: convert_to_tensor(self.moving_variance))
            momentum = (
                self.momentum
                if not isinstance(training, Tensor)
                else chosen(training, lambda: self.momentum, lambda: 1.0)
            )
            self._update(self.moving_mean, mean, momentum)
            self._update(self.moving_variance, variance, momentum)
        result = nn_ops.batch_normalization(
            inputs, spread(mean), spread(variance), spread(self.beta), spread(self.gamma), self.epsilon
        )
        result.set_shape(inputs.shape)
        return result

    def _update(self, average: Any, value: Tensor, momentum: Any) -> None:
        """average -= (average - value) * (1 - momentum)."""
        with (
            name_scope("AssignMovingAvg", values=[average, value]) as scope,
            get_default_graph().colocate_with(average),
        ):
            decay = convert_to_tensor(1.0 - momentum, name="decay")
            delta = (average.value() - math_ops.cast(value, average.dtype.base_dtype)) * decay
            self.updates.append(average.assign_sub(delta, name=scope))


def batch_normalization(
    inputs: Any, *args: Any, training: Any = False, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """Normalize batches, with the arguments of `BatchNormalization`.

    The averages' updates go to the collection "update_ops".
    """
    how.update(name=name, _reuse=reuse, _scope=name)
    return BatchNormalization(*args, **how)(inputs, training=training)
