"""tf.contrib.layers: layers with a default activation and their own variable names.

Source: contrib/layers/python/layers/layers.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import initializers
from xlanb.graph.builders.array_ops import identity, one_hot
from xlanb.graph.builders.clip_ops import clip_by_global_norm
from xlanb.graph.builders.loss_ops import softmax as _softmax
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nn_ops import batch_normalization, embedding_lookup, moments
from xlanb.graph.builders.variable_scope import get_variable, variable_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import float32
from xlanb.graph.operation import Tensor
from xlanb.tf import layers as _layers
from xlanb.tf.adaptive_optimizers import FtrlOptimizer
from xlanb.tf.contrib.arg_scope import add_arg_scope
from xlanb.tf.generated import function_of
from xlanb.tf.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
    get_or_create_global_step,
)
from xlanb.tf.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

__all__ = [
    "OPTIMIZERS",
    "apply_regularization",
    "avg_pool2d",
    "batch_norm",
    "conv2d",
    "conv2d_transpose",
    "convolution2d",
    "dropout",
    "embed_sequence",
    "flatten",
    "fully_connected",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "linear",
    "max_pool2d",
    "one_hot_encoding",
    "optimize_loss",
    "relu",
    "repeat",
    "separable_conv2d",
    "softmax",
    "stack",
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


@add_arg_scope
def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """activation(inputs @ weights + biases), normalized before it on request; relu by default."""
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as found:
        layer = _layers.Dense(
            num_outputs, use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer or xavier_initializer(), bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, trainable=trainable,
            _scope=found, _reuse=reuse,
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


@add_arg_scope
def conv2d(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = None, rate: Any = 1,
    activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros, biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """Convolve images, with optional normalization; relu by default."""
    with variable_scope(scope, "Conv", [inputs], reuse=reuse) as found:
        layer = _layers.Conv(
            2, num_outputs, kernel_size, stride, padding,
            "channels_first" if data_format == "NCHW" else "channels_last", rate,
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer or xavier_initializer(),
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable, _scope=found, _reuse=reuse,
        )  # fmt: skip
        return _finished(layer, inputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


convolution2d = conv2d


@add_arg_scope
def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The largest element of each window."""
    layout = "channels_first" if data_format == "NCHW" else "channels_last"
    with variable_scope(scope, "MaxPool2D", [inputs]):
        return _kept(outputs_collections, _layers.max_pooling2d(inputs, kernel_size, stride, padding, layout))


@add_arg_scope
def avg_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """The mean of each window."""
    layout = "channels_first" if data_format == "NCHW" else "channels_last"
    with variable_scope(scope, "AvgPool2D", [inputs]):
        return _kept(outputs_collections, _layers.average_pooling2d(inputs, kernel_size, stride, padding, layout))


@add_arg_scope
def conv2d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: str = "NHWC",
    activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros, biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """The convolution's transpose, which makes pictures larger; relu by default."""
    with variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse) as found:
        layer = _layers.Conv2DTranspose(
            num_outputs, kernel_size, stride, padding,
            data_format="channels_first" if data_format == "NCHW" else "channels_last",
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer or xavier_initializer(),
            bias_initializer=biases_initializer, kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable, _scope=found, _reuse=reuse,
        )  # fmt: skip
        return _finished(layer, inputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


@add_arg_scope
def separable_conv2d(
    inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Any = _relu, normalizer_fn: Any = None, normalizer_params: Any = None,
    weights_initializer: Any = None,
    biases_initializer: Any = initializers.Zeros, reuse: Any = None, trainable: bool = True, scope: Any = None,
    **_ignored: Any,
) -> Any:  # fmt: skip
    """Each channel's convolution, then one of 1x1. Raises GraphValueError without num_outputs."""
    if num_outputs is None:
        raise GraphValueError("separable_conv2d without num_outputs is not supported: tf.nn.depthwise_conv2d")
    with variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as found:
        layer = _layers.SeparableConv2D(
            num_outputs, kernel_size, stride, padding, depth_multiplier=depth_multiplier,
            use_bias=normalizer_fn is None and biases_initializer is not None,
            depthwise_initializer=weights_initializer or xavier_initializer(),
            pointwise_initializer=weights_initializer or xavier_initializer(),
            bias_initializer=biases_initializer, trainable=trainable, _scope=found, _reuse=reuse,
        )  # fmt: skip
        names = {"depthwise_kernel": "depthwise_weights", "pointwise_kernel": "pointwise_weights", "bias": "biases"}
        result = _renamed(layer, inputs, names)
        if normalizer_fn is not None:
            result = normalizer_fn(result, **(normalizer_params or {}))
        return activation_fn(result) if activation_fn is not None else result


@add_arg_scope
def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, scope: Any = None, **_ignored: Any
) -> Any:
    """Classes as rows with one 1."""
    with name_scope(scope, "OneHotEncoding", [labels]):
        return one_hot(convert_to_tensor(labels), num_classes, on_value, off_value)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Any:
    """Softmax over the last dimension."""
    with variable_scope(scope, "softmax", [logits]):
        return _softmax(logits)


@add_arg_scope
def layer_norm(
    inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None, **_ignored: Any,
) -> Any:  # fmt: skip
    """Normalize each row to mean 0 and variance 1 (Ba et al. 2016), then apply a learned scale and
    offset.
    """
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        found = convert_to_tensor(inputs)
        rank = found.shape.rank or 0
        size = found.shape.as_list()[begin_params_axis:]
        beta = get_variable("beta", size, initializer=initializers.Zeros(), trainable=trainable) if center else None
        gamma = get_variable("gamma", size, initializer=initializers.Ones(), trainable=trainable) if scale else None
        mean, variance = moments(found, list(range(begin_norm_axis, rank)), keep_dims=True)
        result = batch_normalization(found, mean, variance, beta, gamma, 1e-12)
        return activation_fn(result) if activation_fn is not None else result


def embed_sequence(
    ids: Any, vocab_size: int | None = None, embed_dim: int | None = None, unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Any:  # fmt: skip
    """Ids as rows of a table that is learnt. Raises GraphValueError without both sizes."""
    if not (vocab_size and embed_dim):
        raise GraphValueError("Must specify vocab size and embedding dimension when not reusing.")
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        table = get_variable(
            "embeddings", [vocab_size, embed_dim], initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        return embedding_lookup(table, ids)


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """The layer so many times, each in a scope of its own, numbered."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        result = inputs
        name = scope if isinstance(scope, str) else getattr(layer, "__name__", "repeat")
        for index in range(repetitions):
            result = layer(result, *args, **{**kwargs, "scope": f"{name}_{index + 1}"})
        return result


def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """The layer once for each of stack_args, each in a scope of its own, numbered."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Stack", [inputs]):
        result = inputs
        name = scope if isinstance(scope, str) else getattr(layer, "__name__", "stack")
        for index, given in enumerate(stack_args):
            listed = given if isinstance(given, list | tuple) else [given]
            result = layer(result, *listed, **{**kwargs, "scope": f"{name}_{index + 1}"})
        return result


def optimize_loss(
    loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, clip_gradients: Any = None,
    learning_rate_decay_fn: Any = None,
    variables: Any = None, name: str | None = None, **_ignored: Any,
) -> Any:  # fmt: skip
    """Return the loss after a training step of an optimizer: an object, a class, or a name ("SGD",
    ...).

    Raises:
        GraphValueError: the optimizer's name is unknown.
    """
    step = global_step if global_step is not None else get_or_create_global_step()
    rate = learning_rate_decay_fn(learning_rate, step) if learning_rate_decay_fn else learning_rate
    made = OPTIMIZERS[optimizer](rate) if isinstance(optimizer, str) and optimizer in OPTIMIZERS else optimizer
    if isinstance(made, str):
        raise GraphValueError(f"optimizer {made!r} is not one of {', '.join(OPTIMIZERS)}")
    found = made(rate) if callable(made) else made
    pairs = [(g, v) for g, v in found.compute_gradients(loss, variables) if g is not None]
    if clip_gradients is not None:
        slopes, _ = clip_by_global_norm([g for g, _ in pairs], clip_gradients)
        pairs = list(zip(slopes, [v for _, v in pairs], strict=True))
    with get_default_graph().control_dependencies(get_default_graph().get_collection("update_ops")):
        done = found.apply_gradients(pairs, global_step=step, name=name or "train")
    with get_default_graph().control_dependencies([done]):
        return _identity(loss)


OPTIMIZERS: dict[str, Any] = {
    "SGD": GradientDescentOptimizer, "Adam": AdamOptimizer, "RMSProp": RMSPropOptimizer, "Adagrad": AdagradOptimizer,
    "Momentum": lambda rate: MomentumOptimizer(rate, 0.9), "Ftrl": FtrlOptimizer,
}  # fmt: skip


@add_arg_scope
def batch_norm(
    inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
    activation_fn: Any = None,
    updates_collections: Any = "update_ops", is_training: Any = True, reuse: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True, fused: bool | None = None, data_format: str = "NHWC", scope: Any = None, **_ignored: Any,
) -> Any:  # fmt: skip
    """Normalize batches. Updates of the averages go to the collection "update_ops".

    If `updates_collections` is None, they run at once.
    """
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
    return identity(value)


@add_arg_scope
def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
    outputs_collections: Any = None, scope: Any = None,
    seed: int | None = None,
) -> Any:  # fmt: skip
    """Dropout in training."""
    with variable_scope(scope, "Dropout", [inputs]):
        return _kept(outputs_collections, _layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training))


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Any:
    """Merge all dimensions but the first."""
    with variable_scope(scope, "Flatten", [inputs]):
        return _kept(outputs_collections, _layers.flatten(convert_to_tensor(inputs)))
