"""Functions of tf.nn that are composed of several ops (python/ops/{nn_impl,nn_ops}.py)."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops, nn_ops
from xlanb.graph.builders.array_ops import concat, expand_dims, squeeze, stop_gradient
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The part of the elements that is 0."""
    with name_scope(name, "zero_fraction", [value]):
        x = convert_to_tensor(value, name="value")
        zeros = math_ops.cast(call("Equal", x, constant(0, x.dtype.base_dtype)), dtypes.float32)
        return math_ops.reduce_mean(zeros)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Concatenated relu of the features and of their negatives."""
    with name_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features, name="features")
        return call("Relu", concat([x, -x], axis, name=scope))


def conv1d(
    value: Any, filters: Any, stride: int, padding: str, use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution of sequences [batch, length, channels] with a kernel [width, in, out]."""
    with name_scope(name, "conv1d", [value, filters]) as scope:
        first = data_format in {"NCHW", "NCW"}
        axis = 2 if first else 1
        strides = [1, 1, 1, stride] if first else [1, 1, stride, 1]
        wide, kernel = expand_dims(value, axis), expand_dims(filters, 0)
        result = nn_ops.conv2d(wide, kernel, strides, padding, data_format="NCHW" if first else "NHWC")
        return squeeze(result, [axis], name=scope)


def convolution(
    input: Any,
    filter: Any,
    padding: str,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
) -> Tensor:
    """A convolution of one to three dimensions of space, as many as the kernel has but two."""
    rank = (convert_to_tensor(filter).shape.rank or 0) - 2
    if rank not in {1, 2, 3}:
        raise GraphValueError(f"convolution expects kernels of 3 to 5 dimensions, got {rank + 2}")
    steps, rates = list(strides or [1] * rank), list(dilation_rate or [1] * rank)
    if rank == 1:
        if rates != [1]:
            raise GraphValueError(
                "convolution dilates two or three spatial dimensions: add one of size 1 to the input and the kernel"
            )
        return conv1d(input, filter, steps[0], padding, data_format=data_format, name=name)
    first = data_format is not None and data_format.startswith("NC")
    around = [[1, 1, *v] if first else [1, *v, 1] for v in (steps, rates)]
    if rank == 2:
        return nn_ops.conv2d(
            input,
            filter,
            around[0],
            padding,
            data_format=data_format or "NHWC",
            dilations=around[1],
            name=name or "convolution",
        )
    return call(
        "Conv3D",
        input,
        filter,
        strides=around[0],
        padding=padding,
        data_format=data_format or "NDHWC",
        dilations=around[1],
        name=name or "convolution",
    )


def pool(
    input: Any, window_shape: Any, pooling_type: str, padding: str, strides: Any = None, name: str | None = None
) -> Tensor:
    """Maximum (MAX) or mean (AVG) of windows over two or three spatial dimensions; channels
    last.
    """
    rank = len(window_shape)
    if rank not in {2, 3} or pooling_type not in {"MAX", "AVG"}:
        raise GraphValueError(
            f"pool expects windows of two or three dimensions and MAX or AVG, got {list(window_shape)}, "
            f"{pooling_type!r}"
        )
    op_type = {"MAX": "MaxPool", "AVG": "AvgPool"}[pooling_type] + ("3D" if rank == 3 else "")
    steps = list(strides or [1] * rank)
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        return call(op_type, input, ksize=[1, *window_shape, 1], strides=[1, *steps, 1], padding=padding, name=scope)


def separable_conv2d(
    input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: str, rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Depthwise convolution, then a 1x1 convolution."""
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        layout = data_format or "NHWC"
        rates = [1, 1] if rate is None else list(rate)
        dilations = [1, 1, *rates] if layout == "NCHW" else [1, *rates, 1]
        apart = nn_ops.depthwise_conv2d_native(
            input, depthwise_filter, strides, padding, layout, dilations, name="depthwise"
        )
        return nn_ops.conv2d(apart, pointwise_filter, [1, 1, 1, 1], "VALID", data_format=layout, name=scope)


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """Sigmoid cross entropy in which the positive part counts `pos_weight` times."""
    labels = targets if labels is None else labels
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x, z = convert_to_tensor(logits, name="logits"), convert_to_tensor(labels, name="labels")
        weight = 1 + (pos_weight - 1) * z
        soft = call("Log1p", call("Exp", -math_ops.abs(x))) + call("Relu", -x)
        return math_ops.add((1 - z) * x, weight * soft, name=scope)


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(log_input) - log_input * targets; compute_full_loss adds Stirling's log(targets!)."""
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        x, z = convert_to_tensor(log_input, name="log_input"), convert_to_tensor(targets, name="targets")
        result: Tensor = call("Exp", x) - x * z
        if compute_full_loss:
            stirling = z * call("Log", z) - z + 0.5 * call("Log", 6.283185307179586 * z)
            small = call("LogicalAnd", z >= 0.0, z <= 1.0)
            result = result + call("SelectV2", small, 0.0 * z, stirling)
        return result


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: bool | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over dimensions, weighted."""
    keep = bool(keep_dims)
    with name_scope(name, "weighted_moments", [x, frequency_weights]):
        values = convert_to_tensor(x, name="x")
        weights = math_ops.cast(convert_to_tensor(frequency_weights, name="frequency_weights"), values.dtype)
        spread = weights + 0 * values
        total = math_ops.reduce_sum(spread, axes, keepdims=True)
        mean = math_ops.reduce_sum(spread * values, axes, keepdims=True) / total
        variance = (
            math_ops.reduce_sum(spread * call("SquaredDifference", values, stop_gradient(mean)), axes, keepdims=True)
            / total
        )
        return (mean, variance) if keep else (squeeze(mean, axes), squeeze(variance, axes))


def batch_norm_with_global_normalization(
    t: Any,
    m: Any,
    v: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: Any,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """Normalize batches by given moments; gamma is applied only on request."""
    return nn_ops.batch_normalization(
        t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name
    )


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """Dilated convolution: the kernel reads every rate-th pixel."""
    return nn_ops.conv2d(
        value, filters, [1, 1, 1, 1], padding, dilations=[1, rate, rate, 1], name=name or "convolution"
    )


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keep_dims: bool | None = None, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Number of elements, sum, sum of squares and the shift, over dimensions."""
    with name_scope(name, "sufficient_statistics", [x]):
        values = convert_to_tensor(x, name="x")
        sizes = [values.shape.as_list()[a] for a in axes]
        if any(s is None for s in sizes):
            count = math_ops.cast(
                call("Prod", call("GatherV2", call("Shape", values), list(axes), 0), [0]), values.dtype
            )
        else:
            total = 1
            for size in sizes:
                total *= size or 0
            count = constant(total, values.dtype.base_dtype)
        moved = values if shift is None else values - shift
        squares = call("Square", values) if shift is None else call("SquaredDifference", values, shift)
        keep = bool(keep_dims)
        return (
            count,
            math_ops.reduce_sum(moved, axes, keepdims=keep),
            math_ops.reduce_sum(squares, axes, keepdims=keep),
            shift,
        )


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the result of `sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = call("Reciprocal", counts)
        shifted = mean_ss * divisor
        mean = shifted if shift is None else shifted + shift
        return mean, variance_ss * divisor - call("Square", shifted)
