"""tf.layers: layers as functions, with variables in their own scopes, as in TensorFlow 1.15.

Source: python/layers.
"""

# ruff: noqa: N802 - TensorFlow's names

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import array_ops, initializers, math_ops, nn_ops
from xlanb.graph.builders.control_flow import cond
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import get_variable, variable_scope
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype, float32
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest

_ZEROS, _ONES = initializers.Zeros(), initializers.Ones()


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


def _known(dims: TensorShape, axis: int, what: str) -> int:
    found = dims.as_list()[axis] if dims.rank is not None else None
    if found is None:
        raise GraphValueError(f"The last dimension of the inputs to `{what}` should be defined. Found {dims}.")
    return found


class Dense(Layer):
    """activation(inputs @ kernel + bias)."""

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
        bias_initializer: Any = _ZEROS, kernel_regularizer: Any = None, bias_regularizer: Any = None,
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
        size = _known(input_shape, -1, "Dense")
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
        return _regularized(self, result, self._activity)


def _regularized(layer: Layer, result: Any, regularizer: Any) -> Any:
    """The result; its loss, if there is one, is kept."""
    if regularizer is not None:
        with name_scope("ActivityRegularizer"):
            loss = regularizer(result)
        layer.losses.append(loss)
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return result


def _sizes(value: Any, count: int, what: str) -> list[int]:
    items = [value] * count if isinstance(value, int) else [int(v) for v in value]
    if len(items) != count:
        raise GraphValueError(f"The `{what}` argument must be {count} integers. Received: {value}")
    return items


def _is_first(data_format: str) -> bool:
    if data_format not in {"channels_first", "channels_last"}:
        raise GraphValueError(f"data_format must be channels_first or channels_last, got {data_format!r}")
    return data_format == "channels_first"


def _layout(rank: int, *, first: bool) -> str:
    space = {1: "W", 2: "HW", 3: "DHW"}[rank]
    return f"NC{space}" if first else f"N{space}C"


class Conv(Layer):
    """A convolution of one to three dimensions of space, with bias and activation."""

    def __init__(
        self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
        bias_initializer: Any = _ZEROS, kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None, dtype: Any = None, _reuse: Any = None, _scope: Any = None, kind: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kind or f"conv{rank}d", name, trainable=trainable, dtype=dtype, reuse=_reuse, scope=_scope)
        self.rank, self.filters = rank, filters
        self.kernel_size = _sizes(kernel_size, rank, "kernel_size")
        self.strides = _sizes(strides, rank, "strides")
        self.dilation_rate = _sizes(dilation_rate, rank, "dilation_rate")
        self.padding = padding.upper()
        self._first = _is_first(data_format)
        self._activation, self._use_bias = activation, use_bias
        self._kernel_how = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias_how = (bias_initializer, bias_regularizer, bias_constraint)
        self._activity = activity_regularizer
        self.kernel: Any = None
        self.bias: Any = None

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, channels, self.filters]

    def build(self, input_shape: TensorShape) -> None:
        """kernel [window..., channels, filters], bias [filters]."""
        channels = _known(input_shape, 1 if self._first else -1, type(self).__name__)
        self.kernel = self.add_variable("kernel", self._kernel_shape(channels), *self._kernel_how)
        if self._use_bias:
            self.bias = self.add_variable("bias", [self.filters], *self._bias_how)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The results."""
        result = self._convolve(inputs)
        if self._use_bias:
            result = nn_ops.bias_add(result, self.bias, data_format="NCHW" if self._first else "NHWC")
        result = self._activation(result) if self._activation is not None else result
        return _regularized(self, result, self._activity)

    def _all(self, sizes: list[int]) -> list[int]:
        return [1, 1, *sizes] if self._first else [1, *sizes, 1]

    def _convolve(self, inputs: Tensor) -> Tensor:
        constant(self.dilation_rate, name="dilation_rate")  # TensorFlow 1 makes and reads it only if it is not 1
        layout = _layout(self.rank, first=self._first)
        if self.rank == 3:
            return call(
                "Conv3D", inputs, self.kernel, strides=self._all(self.strides), padding=self.padding,
                data_format=layout,
                dilations=self._all(self.dilation_rate), name="Conv3D",
            )  # fmt: skip
        if self.rank == 2:
            return nn_ops.conv2d(
                inputs, self.kernel, self._all(self.strides), self.padding, data_format=layout,
                dilations=self._all(self.dilation_rate),
                name="Conv2D",
            )  # fmt: skip
        axis = 2 if self._first else 1
        with name_scope("conv1d"):
            wide = array_ops.expand_dims(inputs, axis)
            kernel = array_ops.expand_dims(self.kernel, 0)
            result = nn_ops.conv2d(
                wide, kernel, self._all([1, *self.strides]), self.padding,
                data_format="NCHW" if self._first else "NHWC",
                dilations=self._all([1, *self.dilation_rate]), name="Conv2D",
            )  # fmt: skip
            return array_ops.squeeze(result, [axis], name="Squeeze")


class Conv2DTranspose(Conv):
    """The transpose of a convolution: images grow by the strides."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", **how: Any
    ) -> None:
        super().__init__(2, filters, kernel_size, strides, padding, kind="conv2d_transpose", **how)

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, channels]

    def _convolve(self, inputs: Tensor) -> Tensor:
        sizes = array_ops.shape(inputs)
        rows, columns = (2, 3) if self._first else (1, 2)
        grown = [
            _grown(sizes[axis], size, stride, self.padding)
            for axis, size, stride in zip((rows, columns), self.kernel_size, self.strides, strict=True)
        ]
        wanted = [sizes[0], self.filters, *grown] if self._first else [sizes[0], *grown, self.filters]
        result = nn_ops.conv2d_transpose(
            inputs,
            self.kernel,
            array_ops.stack(wanted),
            self._all(self.strides),
            self.padding,
            _layout(2, first=self._first),
        )
        dims = inputs.shape.as_list()
        known = [
            None if dims[axis] is None else _grown(dims[axis], size, stride, self.padding)
            for axis, size, stride in zip((rows, columns), self.kernel_size, self.strides, strict=True)
        ]
        result.set_shape([dims[0], self.filters, *known] if self._first else [dims[0], *known, self.filters])
        return result


def _grown(size: Any, window: int, stride: int, padding: str) -> Any:
    return size * stride + (max(window - stride, 0) if padding == "VALID" else 0)


class SeparableConv2D(Conv):
    """Depthwise convolution, then a pointwise one."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", depth_multiplier: int = 1,
        depthwise_initializer: Any = None, pointwise_initializer: Any = None, depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None, **how: Any,
    ) -> None:  # fmt: skip
        super().__init__(2, filters, kernel_size, strides, padding, kind="separable_conv2d", **how)
        self._multiplier = depth_multiplier
        self._depthwise_how = (depthwise_initializer, depthwise_regularizer)
        self._pointwise_how = (pointwise_initializer, pointwise_regularizer)

    def build(self, input_shape: TensorShape) -> None:
        """Make the depthwise and pointwise kernels and the bias.

        depthwise_kernel: [h, w, channels, multiplier]; pointwise_kernel: [1, 1, channels *
        multiplier, filters].
        """
        channels = _known(input_shape, 1 if self._first else -1, "SeparableConv2D")
        shape = [*self.kernel_size, channels, self._multiplier]
        self.depthwise_kernel = self.add_variable("depthwise_kernel", shape, *self._depthwise_how)
        mixed = [1, 1, channels * self._multiplier, self.filters]
        self.pointwise_kernel = self.add_variable("pointwise_kernel", mixed, *self._pointwise_how)
        if self._use_bias:
            self.bias = self.add_variable("bias", [self.filters], *self._bias_how)

    def _convolve(self, inputs: Tensor) -> Tensor:
        layout = _layout(2, first=self._first)
        with name_scope("separable_conv2d") as scope:
            apart = nn_ops.depthwise_conv2d_native(
                inputs,
                self.depthwise_kernel,
                self._all(self.strides),
                self.padding,
                layout,
                self._all(self.dilation_rate),
                name="depthwise",
            )
            return nn_ops.conv2d(apart, self.pointwise_kernel, [1, 1, 1, 1], "VALID", data_format=layout, name=scope)


class BatchNormalization(Layer):
    """Normalisation by the batch's mean and variance (training), or by their moving averages.

    The averages' updates are in the collection "update_ops", for the train step to wait for.
    """

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = _ZEROS, gamma_initializer: Any = _ONES,
        moving_mean_initializer: Any = _ZEROS, moving_variance_initializer: Any = _ONES,
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
        size = _known(input_shape, self.axis, "BatchNormalization")
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

        output, mean, variance = _chosen(training, by_batch, by_average)
        found: Tensor = output
        if _is_on(training):
            momentum = _chosen(training, lambda: convert_to_tensor(self.momentum), lambda: convert_to_tensor(1.0))
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

        if not _is_on(training):
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
        else:
            mean, variance = nn_ops.moments(inputs, axes, keep_dims=False)
            batch = mean, variance
            mean = _chosen(training, lambda: batch[0], lambda: convert_to_tensor(self.moving_mean))
            variance = _chosen(training, lambda: batch[1], lambda: convert_to_tensor(self.moving_variance))
            momentum = (
                self.momentum
                if not isinstance(training, Tensor)
                else _chosen(training, lambda: self.momentum, lambda: 1.0)
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


def _is_on(training: Any) -> bool:
    """Whether training is on, or may be."""
    return isinstance(training, Tensor) or bool(training)


def _chosen(training: Any, true: Callable[[], Any], false: Callable[[], Any]) -> Any:
    return cond(training, true, false) if isinstance(training, Tensor) else true() if training else false()


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

        return _chosen(training, dropped, lambda: array_ops.identity(inputs))


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


class _PoolLayer(Layer):
    def __init__(
        self,
        rank: int,
        op_type: str,
        kind: str,
        pool_size: Any,
        strides: Any,
        padding: str,
        data_format: str,
        name: str | None,
    ) -> None:
        super().__init__(kind, name, trainable=False)
        self._rank, self._op_type = rank, op_type
        self._size, self._steps = _sizes(pool_size, rank, "pool_size"), _sizes(strides, rank, "strides")
        self._padding = padding.upper()
        self._first = _is_first(data_format)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The pooled images."""
        sizes, steps = self._size, self._steps
        axis = (2 if self._first else 1) if self._rank == 1 else None
        if axis is not None:
            inputs = array_ops.expand_dims(inputs, axis + 1)
            sizes, steps = [*sizes, 1], [*steps, 1]
        rank = 2 if self._rank == 1 else self._rank
        around = [[1, 1, *v] if self._first else [1, *v, 1] for v in (sizes, steps)]
        result = call(
            self._op_type,
            inputs,
            ksize=around[0],
            strides=around[1],
            padding=self._padding,
            data_format=_layout(rank, first=self._first),
        )
        return result if axis is None else array_ops.squeeze(result, [axis + 1])


def dense(inputs: Any, units: int, *args: Any, name: str | None = None, reuse: Any = None, **how: Any) -> Any:
    """A densely connected layer: activation(inputs @ kernel + bias). Arguments as of `Dense`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Dense(units, *args, **how)(inputs)


def conv1d(
    inputs: Any, filters: int, kernel_size: Any, *args: Any, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """A convolution over [batch, length, channels]. Arguments as of `Conv`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Conv(1, filters, kernel_size, *args, **how)(inputs)


def conv2d(
    inputs: Any, filters: int, kernel_size: Any, *args: Any, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """A convolution over [batch, height, width, channels]. Arguments as of `Conv`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Conv(2, filters, kernel_size, *args, **how)(inputs)


def conv3d(
    inputs: Any, filters: int, kernel_size: Any, *args: Any, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """A convolution over [batch, depth, height, width, channels]. Arguments as of `Conv`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Conv(3, filters, kernel_size, *args, **how)(inputs)


def conv2d_transpose(
    inputs: Any, filters: int, kernel_size: Any, *args: Any, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """The transpose of a convolution. Arguments as of `Conv2DTranspose`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return Conv2DTranspose(filters, kernel_size, *args, **how)(inputs)


def separable_conv2d(
    inputs: Any, filters: int, kernel_size: Any, *args: Any, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """A depthwise convolution, then one of 1x1. Arguments as of `SeparableConv2D`."""
    how.update(name=name, _reuse=reuse, _scope=name)
    return SeparableConv2D(filters, kernel_size, *args, **how)(inputs)


def batch_normalization(
    inputs: Any, *args: Any, training: Any = False, name: str | None = None, reuse: Any = None, **how: Any
) -> Any:
    """Normalize batches, with the arguments of `BatchNormalization`.

    The averages' updates go to the collection "update_ops".
    """
    how.update(name=name, _reuse=reuse, _scope=name)
    return BatchNormalization(*args, **how)(inputs, training=training)


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


def _pooled(rank: int, kind: str) -> Callable[..., Any]:
    op_type = {"max": "MaxPool", "average": "AvgPool"}[kind] + ("3D" if rank == 3 else "")
    label = f"{kind}_pooling{rank}d"

    def pooling(
        inputs: Any,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Any:
        return _PoolLayer(rank, op_type, label, pool_size, strides, padding, data_format, name)(inputs)

    pooling.__name__ = pooling.__qualname__ = label
    pooling.__doc__ = f"The {kind} of each window, over {rank} spatial dimensions."
    return pooling


max_pooling1d, max_pooling2d, max_pooling3d = (_pooled(rank, "max") for rank in (1, 2, 3))
average_pooling1d, average_pooling2d, average_pooling3d = (_pooled(rank, "average") for rank in (1, 2, 3))


def Conv2D(filters: int, kernel_size: Any, *args: Any, **how: Any) -> Conv:
    """A convolution layer of images."""
    return Conv(2, filters, kernel_size, *args, **how)


def Conv1D(filters: int, kernel_size: Any, *args: Any, **how: Any) -> Conv:
    """A convolution layer of sequences."""
    return Conv(1, filters, kernel_size, *args, **how)


def MaxPooling2D(
    pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None
) -> Layer:
    """A layer that takes the largest element of each window."""
    return _PoolLayer(2, "MaxPool", "max_pooling2d", pool_size, strides, padding, data_format, name)


def AveragePooling2D(
    pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None
) -> Layer:
    """A layer that takes the mean of each window."""
    return _PoolLayer(2, "AvgPool", "average_pooling2d", pool_size, strides, padding, data_format, name)


__getattr__ = _naming_the_nearest(__name__)
