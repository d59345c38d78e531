"""Layers' arithmetic, with the nodes and names that TensorFlow's tf.nn functions build."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import expand_dims, gather, identity, shape, squeeze, stop_gradient, where_v2
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.random_ops import random_uniform
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """A vector added along the channels' dimension."""
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        layout = None if data_format is None else "NCHW" if data_format.startswith("NC") else "NHWC"
        value = convert_to_tensor(value, name="input")
        return call("BiasAdd", value, convert_to_tensor(bias, value.dtype, "bias"), data_format=layout, name=scope)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """x @ weights + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        x, weights, biases = (
            convert_to_tensor(v, name=n) for v, n in ((x, "x"), (weights, "weights"), (biases, "biases"))
        )
        return bias_add(math_ops.matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(x @ weights + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        x, weights, biases = (
            convert_to_tensor(v, name=n) for v, n in ((x, "x"), (weights, "weights"), (biases, "biases"))
        )
        return call("Relu", bias_add(math_ops.matmul(x, weights), biases), name=scope)


def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6)."""
    with name_scope(name, "Relu6", [features]) as scope:
        return call("Relu6", convert_to_tensor(features, name="features"), name=scope)


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x where positive, alpha * x elsewhere."""
    with name_scope(name, "LeakyRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = math_ops.cast(features, dtypes.float32)
        return call("LeakyRelu", features, alpha=float(alpha), name=scope)


def swish(features: Any) -> Tensor:
    """x * sigmoid(x)."""
    features = convert_to_tensor(features, name="features")
    return features * math_ops.sigmoid(features)  # type: ignore[no-any-return]


def _window(value: Any, count: int, channels_first: bool, what: str) -> list[int]:
    """A window's sizes or strides for all dimensions, of those of the image's two alone or all."""
    items = [value] if isinstance(value, int) else [int(v) for v in value]
    if len(items) == count + 2:
        return items
    if len(items) not in {1, count}:
        raise GraphValueError(f"{what} has 1, {count} or {count + 2} elements, not {items}")
    items = items * count if len(items) == 1 else items
    return [1, 1, *items] if channels_first else [1, *items, 1]


def _padding(padding: Any) -> tuple[str, list[int]]:
    """SAME, VALID, or amounts before and behind each dimension."""
    if isinstance(padding, str):
        return padding, []
    return "EXPLICIT", [int(p) for pair in padding for p in pair]


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Convolve images [batch, height, width, channels] with a kernel [height, width, in, out]."""
    data_format = data_format or "NHWC"
    first = data_format.startswith("NC")
    kind, explicit = _padding(padding)
    return call(
        "Conv2D", input, filter if filter is not None else filters, strides=_window(strides, 2, first, "strides"),
        padding=kind,
        use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit, data_format=data_format,
        dilations=_window(dilations, 2, first, "dilations"), name=name,
    )  # fmt: skip


def conv2d_transpose(
    value: Any,
    filter: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Transpose of a convolution (its gradient by the images). Kernel: [height, width, out, in]."""
    with name_scope(name, "conv2d_transpose", [value, filter]) as scope:
        sizes = _window(strides, 2, data_format.startswith("NC"), "strides")
        return call(
            "Conv2DBackpropInput", convert_to_tensor(output_shape, dtypes.int32, "output_shape"), filter, value,
            strides=sizes, padding=padding,
            data_format=data_format, name=scope,
        )  # fmt: skip


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Convolve each channel with its `multiplier` kernels [height, width, channels, multiplier]."""
    return call(
        "DepthwiseConv2dNative",
        input,
        filter,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: str,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
) -> Tensor:
    """As the native one. Raises GraphValueError for a rate other than 1."""
    if rate is not None and any(r != 1 for r in rate):
        raise GraphValueError(
            "depthwise_conv2d does not support a rate other than 1: use depthwise_conv2d_native with dilations"
        )
    with name_scope(name, "depthwise", [input, filter]) as scope:
        input, filter = convert_to_tensor(input, name="tensor_in"), convert_to_tensor(filter, name="filter_in")
        return depthwise_conv2d_native(input, filter, strides, padding, data_format or "NHWC", name=scope)


def _pool(
    op_type: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str | None
) -> Tensor:
    data_format = data_format or "NHWC"
    first = data_format.startswith("NC")
    with name_scope(name, op_type, [value]) as scope:
        kind, explicit = _padding(padding)
        extra = {"explicit_paddings": explicit} if op_type == "MaxPool" else {}
        sizes, steps = _window(ksize, 2, first, "ksize"), _window(strides, 2, first, "strides")
        return call(
            op_type, value, ksize=sizes, strides=steps, padding=kind, data_format=data_format, name=scope, **extra
        )


def max_pool(
    value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """The largest element of each window."""
    return _pool("MaxPool", value, ksize, strides, padding, data_format, name)


def avg_pool(
    value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """The mean of each window."""
    return _pool("AvgPool", value, ksize, strides, padding, data_format, name)


# ------------------------------------------------------------------------------------ normalisation


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over dimensions."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "moments", [x]):
        x = convert_to_tensor(x)
        y = math_ops.cast(x, dtypes.float32) if x.dtype is dtypes.float16 else x
        mean = math_ops.reduce_mean(y, axes, keepdims=True, name="mean")
        squared = call("SquaredDifference", y, stop_gradient(mean))
        variance = math_ops.reduce_mean(squared, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        if x.dtype is dtypes.float16:
            mean, variance = math_ops.cast(mean, dtypes.float16), math_ops.cast(variance, dtypes.float16)
        return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, the constant part computed first."""
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = call("Rsqrt", variance + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        scaled = x * math_ops.cast(inverse, x.dtype)
        rest = offset - mean * inverse if offset is not None else -mean * inverse
        result: Tensor = scaled + math_ops.cast(rest, x.dtype)
        return result


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize batches by one op; return the images, and the batch's (or given) mean and variance.

    Raises:
        GraphValueError: mean and variance are missing but needed.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise GraphValueError("fused_batch_norm needs mean and variance when it is not training")
    x, scale, offset = (convert_to_tensor(v, name=n) for v, n in ((x, "input"), (scale, "scale"), (offset, "offset")))
    mean = constant([]) if mean is None else mean
    variance = constant([]) if variance is None else variance
    found = call_n(
        "FusedBatchNormV3", x, scale, offset, mean, variance, epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format, is_training=is_training, name=name,
    )  # fmt: skip
    return found[0], found[1], found[2]


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """x / sqrt(max(sum(x^2), epsilon)) along dimensions."""
    axis = dim if axis is None else axis
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        total = math_ops.reduce_sum(call("Square", x), axis, keepdims=True)
        inverse = call("Rsqrt", call("Maximum", total, epsilon))
        return call("Mul", x, inverse, name=scope)


# ------------------------------------------------------------------------------------------- others


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Set elements to 0 with probability `rate` = 1 - keep_prob; scale the others by 1 / keep_prob.

    Raises:
        GraphValueError: neither is given, or the rate is not in [0, 1).
    """
    if rate is None and keep_prob is not None:
        rate = 1.0 - keep_prob
    if rate is None:
        raise GraphValueError("dropout needs rate or keep_prob")
    with name_scope(name, "dropout", [x]):
        tensor = convert_to_tensor(x, name="x")
        number = isinstance(rate, int | float)
        if number and not 0 <= rate < 1:
            raise GraphValueError(f"dropout: rate must be in [0, 1), got {rate}")
        if number and rate == 0:
            return tensor
        if number:
            scaled = call("Mul", tensor, convert_to_tensor(1 / (1 - rate), tensor.dtype.base_dtype))
        else:
            rate = math_ops.cast(convert_to_tensor(rate), tensor.dtype)
            scaled = call("RealDiv", tensor, call("Sub", constant(1, tensor.dtype.base_dtype), rate))
        drawn = random_uniform(_noise_shape(tensor, noise_shape), dtype=tensor.dtype.base_dtype, seed=seed)
        kept = drawn >= rate
        result = where_v2(kept, scaled, constant(0, tensor.dtype.base_dtype))
        result.set_shape(tensor.shape)
        return result


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return shape(x)
    if isinstance(noise_shape, Tensor) or x.shape.rank is None:
        return noise_shape
    given = TensorShape(noise_shape).as_tuple() or ()
    known = [k if g is None else g for g, k in zip(given, x.shape.as_list(), strict=True)]
    return TensorShape(known) if None not in known else noise_shape


class TopK(NamedTuple):
    """The result of `top_k`."""

    values: Tensor
    indices: Tensor


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> TopK:
    """The k largest elements along the last dimension, and their indices."""
    values, indices = call_n("TopKV2", input, k, sorted=sorted, name=name)
    return TopK(values, indices)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether the target is among the k largest predictions."""
    with name_scope(name, "in_top_k"):
        return call("InTopKV2", predictions, targets, k, name=name)


def embedding_lookup(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None, max_norm: Any = None
) -> Tensor:
    """Gather rows of a matrix (or variable) by index.

    Raises:
        GraphValueError: several params, or a norm.
    """
    items = list(params) if isinstance(params, list | tuple) else [params]
    if len(items) != 1 or max_norm is not None:
        raise GraphValueError(
            "embedding_lookup takes one variable, without max_norm: concatenate parts, clip the returned rows"
        )
    with name_scope(name, "embedding_lookup", [*items, ids]) as scope:
        graph = get_default_graph()
        ids = convert_to_tensor(ids, name="ids")
        if isinstance(items[0], np.ndarray | list | tuple):
            items[0] = convert_to_tensor(items[0], name="params")
        with graph.colocate_with(items[0]):
            rows = gather(items[0], ids, name=scope)
        return identity(rows)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """For each length, a row with that many leading True.

    Shape: `lengths` with `maxlen` appended.
    """
    with name_scope(name, "SequenceMask", [lengths]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            longest = math_ops.reduce_max(lengths)
            maxlen = call("Maximum", constant(0, longest.dtype), longest)
        else:
            maxlen = convert_to_tensor(maxlen)
        row = call("Range", constant(0, maxlen.dtype), maxlen, constant(1, maxlen.dtype))
        result = row < math_ops.cast(expand_dims(lengths, -1), maxlen.dtype)
        mask: Tensor = math_ops.cast(result, dtype)
        return mask
