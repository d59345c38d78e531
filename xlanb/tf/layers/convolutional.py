"""Convolutions, transposed and separable ones."""

# ruff: noqa: N802 - TensorFlow's names

from __future__ import annotations

from typing import Any

from xlanb.graph.builders import array_ops, nn_ops
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.layers.base import ZEROS, Layer, known_size, regularized
from xlanb.tf.layers.windows import is_first, layout_of, sizes_of


class Conv(Layer):
    """A convolution of one to three dimensions of space, with bias and activation."""

    def __init__(
        self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS, kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None, dtype: Any = None, _reuse: Any = None, _scope: Any = None, kind: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kind or f"conv{rank}d", name, trainable=trainable, dtype=dtype, reuse=_reuse, scope=_scope)
        self.rank, self.filters = rank, filters
        self.kernel_size = sizes_of(kernel_size, rank, "kernel_size")
        self.strides = sizes_of(strides, rank, "strides")
        self.dilation_rate = sizes_of(dilation_rate, rank, "dilation_rate")
        self.padding = padding.upper()
        self._first = is_first(data_format)
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
        channels = known_size(input_shape, 1 if self._first else -1, type(self).__name__)
        self.kernel = self.add_variable("kernel", self._kernel_shape(channels), *self._kernel_how)
        if self._use_bias:
            self.bias = self.add_variable("bias", [self.filters], *self._bias_how)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The results."""
        result = self._convolve(inputs)
        if self._use_bias:
            result = nn_ops.bias_add(result, self.bias, data_format="NCHW" if self._first else "NHWC")
        result = self._activation(result) if self._activation is not None else result
        return regularized(self, result, self._activity)

    def _all(self, sizes: list[int]) -> list[int]:
        return [1, 1, *sizes] if self._first else [1, *sizes, 1]

    def _convolve(self, inputs: Tensor) -> Tensor:
        constant(self.dilation_rate, name="dilation_rate")  # TensorFlow 1 makes and reads it only if it is not 1
        layout = layout_of(self.rank, first=self._first)
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
            layout_of(2, first=self._first),
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
        channels = known_size(input_shape, 1 if self._first else -1, "SeparableConv2D")
        shape = [*self.kernel_size, channels, self._multiplier]
        self.depthwise_kernel = self.add_variable("depthwise_kernel", shape, *self._depthwise_how)
        mixed = [1, 1, channels * self._multiplier, self.filters]
        self.pointwise_kernel = self.add_variable("pointwise_kernel", mixed, *self._pointwise_how)
        if self._use_bias:
            self.bias = self.add_variable("bias", [self.filters], *self._bias_how)

    def _convolve(self, inputs: Tensor) -> Tensor:
        layout = layout_of(2, first=self._first)
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


def Conv2D(filters: int, kernel_size: Any, *args: Any, **how: Any) -> Conv:
    """A convolution layer of images."""
    return Conv(2, filters, kernel_size, *args, **how)


def Conv1D(filters: int, kernel_size: Any, *args: Any, **how: Any) -> Conv:
    """A convolution layer of sequences."""
    return Conv(1, filters, kernel_size, *args, **how)
