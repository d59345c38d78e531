"""tf.contrib.layers: layers with an activation by default, and with names of their own (contrib/layers/python/layers/layers.py)."""

from __future__ import annotations

from typing import Any

from xlanb.graph import initializers
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import float32
from xlanb.graph.operation import Tensor
from xlanb.graph.variable_scope import variable_scope
from xlanb.tf import layers as _layers
from xlanb.tf.generated import function_of
from xlanb.tf.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

__all__ = [
    "apply_regularization",
    "batch_norm",
    "conv2d",
    "convolution2d",
    "dropout",
    "flatten",
    "fully_connected",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "linear",
    "max_pool2d",
    "relu",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]
_relu = function_of("Relu", "relu")


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = float32
) -> initializers.VarianceScaling:
    """Random with variance 2 / (inputs + outputs) (Glorot and Bengio 2010)."""
    return (initializers.glorot_uniform if uniform else initializers.glorot_normal)(seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = float32
) -> initializers.VarianceScaling:
    """Random with variance factor / fan: He's by default."""
    return initializers.VarianceScaling(factor, mode.lower(), "uniform" if uniform else "truncated_normal", seed, dtype)


def _kept(collections: Any, value: Any) -> Any:
    get_default_graph().add_to_collections(collections or [], value)
    return value


def _renamed(layer: Any, inputs: Any, names: dict[str, str]) -> Any:
    """The layer's results, its variables under this library's names: weights and biases."""
    plain = layer.add_variable

    def add_variable(name: str, *args: Any, **how: Any) -> Any:
        return plain(names.get(name, name), *args, **how)

    layer.add_variable = add_variable
    return layer(inputs)


def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """activation(inputs @ weights + biases), normalised in between where asked for; relu by default."""
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as found:
        layer = _layers.Dense(
            num_outputs, use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer or xavier_initializer(), bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, trainable=trainable, _scope=found, _reuse=reuse,
        )  # fmt: skip
        return _finished(layer, inputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


def _finished(layer: Any, inputs: Any, normalizer: Any, params: Any, activation: Any, collections: Any) -> Any:
    result = _renamed(layer, inputs, {"kernel": "weights", "bias": "biases"})
    if normalizer is not None:
        result = normalizer(result, **(params or {}))
    return _kept(collections, activation(result) if activation is not None else result)


def linear(inputs: Any, num_outputs: int, **how: Any) -> Any:
    """A fully connected layer without activation."""
    return fully_connected(inputs, num_outputs, activation_fn=None, **how)


def relu(inputs: Any, num_outputs: int, **how: Any) -> Any:
    """A fully connected layer with relu."""
    return fully_connected(inputs, num_outputs, activation_fn=_relu, **how)


def conv2d(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: str | None = None, rate: Any = 1,
    activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = None,
    weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """A convolution of images, normalised where asked for; relu by default."""
    with variable_scope(scope, "Conv", [inputs], reuse=reuse) as found:
        layer = _layers.Conv(
            2, num_outputs, kernel_size, stride, padding, "channels_first" if data_format == "NCHW" else "channels_last", rate,
            use_bias=normalizer_fn is None and biases_initializer is not None, kernel_initializer=weights_initializer or xavier_initializer(),
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer,
            trainable=trainable, _scope=found, _reuse=reuse,
        )  # fmt: skip
        return _finished(layer, inputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


convolution2d = conv2d


def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC", outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The largest element of each window."""
    layout = "channels_first" if data_format == "NCHW" else "channels_last"
    with variable_scope(scope, "MaxPool2D", [inputs]):
        return _kept(outputs_collections, _layers.max_pooling2d(inputs, kernel_size, stride, padding, layout))


def batch_norm(
    inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001, activation_fn: Any = None,
    updates_collections: Any = "update_ops", is_training: Any = True, reuse: Any = None, outputs_collections: Any = None,
    trainable: bool = True, fused: bool | None = None, data_format: str = "NHWC", scope: Any = None,
) -> Any:  # fmt: skip
    """Batch normalisation. The averages' updates are in the collection "update_ops", or are made at once where that is None."""
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as found:
        layer = _layers.BatchNormalization(
            1 if data_format == "NCHW" else -1,
            decay,
            epsilon,
            center,
            scale,
            trainable=trainable,
            fused=fused,
            _scope=found,
            _reuse=reuse,
        )
        result = layer(inputs, training=is_training)
        if updates_collections is None:
            with get_default_graph().control_dependencies(layer.updates):
                result = _identity(result)
        return _kept(outputs_collections, activation_fn(result) if activation_fn is not None else result)


def _identity(value: Any) -> Tensor:
    from xlanb.graph.array_ops import identity

    return identity(value)


def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True, outputs_collections: Any = None, scope: Any = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """Dropout in training."""
    with variable_scope(scope, "Dropout", [inputs]):
        return _kept(outputs_collections, _layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training))


def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Any:
    """All dimensions but the first as one."""
    with variable_scope(scope, "Flatten", [inputs]):
        return _kept(outputs_collections, _layers.flatten(convert_to_tensor(inputs)))
