"""tf.keras.layers: tf.layers under Keras' names, with activations and initialisers by name."""

# ruff: noqa: N802 - Keras' names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import initializers, math_ops
from xlanb.graph.builders.array_ops import concat, placeholder, reshape, shape
from xlanb.graph.builders.nn_ops import embedding_lookup, leaky_relu
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf import layers as _layers
from xlanb.tf.initializers import he_normal, he_uniform, lecun_normal, lecun_uniform
from xlanb.tf.keras import activations

Layer = _layers.Layer
INITIALIZERS: dict[str, Callable[..., Any]] = {
    "zeros": initializers.Zeros, "ones": initializers.Ones, "constant": initializers.Constant,
    "Constant": initializers.Constant,
    "RandomNormal": initializers.RandomNormal, "RandomUniform": initializers.RandomUniform,
    "TruncatedNormal": initializers.TruncatedNormal,
    "random_normal": initializers.RandomNormal, "random_uniform": initializers.RandomUniform,
    "truncated_normal": initializers.TruncatedNormal,
    "glorot_uniform": initializers.glorot_uniform, "glorot_normal": initializers.glorot_normal,
    "orthogonal": initializers.Orthogonal,
    "he_normal": he_normal, "he_uniform": he_uniform, "lecun_normal": lecun_normal, "lecun_uniform": lecun_uniform,
    "uniform": initializers.RandomUniform,
    "VarianceScaling": initializers.VarianceScaling,
}  # fmt: skip


def Input(
    shape: Any = None, batch_size: int | None = None, name: str | None = None, dtype: Any = "float32", **_ignored: Any
) -> Tensor:
    """A placeholder for a batch of this shape."""
    return placeholder(dtype, [batch_size, *(shape or ())], name=name or "input")


def _initializer(identifier: Any) -> Any:
    if not isinstance(identifier, str):
        return identifier
    if identifier not in INITIALIZERS:
        raise GraphValueError(f"Unknown initializer: {identifier!r}; known initializers: {', '.join(INITIALIZERS)}")
    return INITIALIZERS[identifier]()


def _plain(how: dict[str, Any]) -> dict[str, Any]:
    """Keras' arguments as those of tf.layers."""
    found = {k: v for k, v in how.items() if k not in {"input_shape", "input_dim", "batch_input_shape"}}
    if "activation" in found:
        found["activation"] = activations.get(found["activation"])
    return {k: _initializer(v) if k.endswith("_initializer") else v for k, v in found.items()}


def _kind(make: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def layer(*args: Any, **how: Any) -> Any:
        return make(*args, **_plain(how))

    layer.__doc__ = doc
    return layer


Dense = _kind(_layers.Dense, "activation(inputs @ kernel + bias).")
Conv1D = _kind(lambda *a, **k: _layers.Conv(1, *a, **k), "Convolution over 1 spatial dimension.")
Conv2D = Convolution2D = _kind(lambda *a, **k: _layers.Conv(2, *a, **k), "Convolution over 2 spatial dimensions.")
Conv3D = _kind(lambda *a, **k: _layers.Conv(3, *a, **k), "Convolution over 3 spatial dimensions.")
Conv2DTranspose = _kind(_layers.Conv2DTranspose, "Transposed convolution over 2 spatial dimensions.")
SeparableConv2D = _kind(_layers.SeparableConv2D, "Depthwise convolution, then a 1x1 convolution.")
BatchNormalization = _kind(
    _layers.BatchNormalization, "Batch normalization; training=True in the call normalizes by the batch's statistics."
)
Dropout = _kind(_layers.Dropout, "Dropout: set elements to zero at random; only with training=True in the call.")
Flatten = _kind(_layers.Flatten, "Flatten all dimensions but the first.")


def MaxPooling2D(
    pool_size: Any = 2,
    strides: Any = None,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
    **_i: Any,
) -> Any:
    """The largest element of each window."""
    return _layers.MaxPooling2D(pool_size, pool_size if strides is None else strides, padding, data_format, name)


def AveragePooling2D(
    pool_size: Any = 2,
    strides: Any = None,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
    **_i: Any,
) -> Any:
    """The mean of each window."""
    return _layers.AveragePooling2D(pool_size, pool_size if strides is None else strides, padding, data_format, name)


MaxPool2D, AvgPool2D = MaxPooling2D, AveragePooling2D


class _Function(Layer):
    """A layer without variables."""

    def __init__(self, kind: str, function: Callable[[Any], Any], name: str | None = None) -> None:
        super().__init__(kind, name, trainable=False)
        self._function = function

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The function of the inputs."""
        return self._function(inputs)


def Activation(activation: Any, name: str | None = None, **_ignored: Any) -> Layer:
    """An activation by name or as a function."""
    return _Function("activation", activations.get(activation) or activations.linear, name)


def ReLU(max_value: Any = None, name: str | None = None, **_ignored: Any) -> Layer:
    """max(x, 0), at most max_value."""
    top = None if max_value is None else float(max_value)
    return _Function(
        "re_lu", lambda x: activations.relu(x) if top is None else call("Minimum", activations.relu(x), top), name
    )


def LeakyReLU(alpha: float = 0.3, name: str | None = None, **_ignored: Any) -> Layer:
    """x, or alpha x below 0."""
    return _Function("leaky_re_lu", lambda x: leaky_relu(x, alpha), name)


def Softmax(axis: int = -1, name: str | None = None, **_ignored: Any) -> Layer:
    """Softmax."""
    return _Function("softmax", lambda x: activations.get("softmax")(x, axis), name)  # type: ignore[misc]


def Lambda(function: Callable[[Any], Any], name: str | None = None, **_ignored: Any) -> Layer:
    """Any function."""
    return _Function("lambda", function, name)


def Reshape(target_shape: Any, name: str | None = None, **_ignored: Any) -> Layer:
    """Another shape, the batch's size kept."""

    def reshaped(x: Tensor) -> Tensor:
        made = reshape(x, concat([shape(x)[:1], list(target_shape)], 0))
        made.set_shape([x.shape.as_list()[0], *(None if d < 0 else d for d in target_shape)])
        return made

    return _Function("reshape", reshaped, name)


def GlobalAveragePooling2D(name: str | None = None, **_ignored: Any) -> Layer:
    """The mean of each channel."""
    return _Function("global_average_pooling2d", lambda x: math_ops.reduce_mean(x, [1, 2]), name)


def GlobalMaxPooling2D(name: str | None = None, **_ignored: Any) -> Layer:
    """The largest element of each channel."""
    return _Function("global_max_pooling2d", lambda x: math_ops.reduce_max(x, [1, 2]), name)


def ZeroPadding2D(padding: Any = 1, name: str | None = None, **_ignored: Any) -> Layer:
    """Zeros around each picture."""
    sides = [padding, padding] if isinstance(padding, int) else list(padding)
    both = [[s, s] if isinstance(s, int) else list(s) for s in sides]
    return _Function("zero_padding2d", lambda x: call("Pad", x, [[0, 0], *both, [0, 0]]), name)


def UpSampling2D(size: Any = 2, name: str | None = None, **_ignored: Any) -> Layer:
    """Each pixel so many times."""
    high, wide = (size, size) if isinstance(size, int) else size

    def grown(x: Tensor) -> Tensor:
        sizes: list[Any] = x.shape.as_list()
        return call("ResizeNearestNeighbor", x, [sizes[1] * high, sizes[2] * wide])

    return _Function("up_sampling2d", grown, name)


class Embedding(Layer):
    """Ids as rows of a table."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        name: str | None = None,
        trainable: bool = True,
        **_ignored: Any,
    ) -> None:
        super().__init__("embedding", name, trainable=trainable, dtype="float32")
        self.input_dim, self.output_dim = input_dim, output_dim
        self._initializer = _initializer(embeddings_initializer)
        if embeddings_initializer == "uniform":
            self._initializer = initializers.RandomUniform(-0.05, 0.05)
        self.embeddings: Any = None

    def build(self, input_shape: TensorShape) -> None:
        """embeddings [input_dim, output_dim]."""
        self.embeddings = self.add_variable("embeddings", [self.input_dim, self.output_dim], self._initializer)

    def call(self, inputs: Tensor, **how: Any) -> Tensor:
        """The rows."""
        return embedding_lookup(self.embeddings, inputs)


def _merge(kind: str, of: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    class Merge:
        def __init__(self, name: str | None = None, **_ignored: Any) -> None:
            self.name = name or kind
            self.variables: list[Any] = []
            self.updates: list[Any] = []
            self.losses: list[Any] = []

        def __call__(self, inputs: Any, **_how: Any) -> Any:
            return of(list(inputs))

    Merge.__doc__ = f"Merge several tensors ({kind})."
    return Merge


Add = _merge("add", lambda xs: sum(xs[1:], xs[0]))
Average = _merge("average", lambda xs: sum(xs[1:], xs[0]) / float(len(xs)))


def _product(xs: list[Any]) -> Any:
    result = xs[0]
    for x in xs[1:]:
        result = result * x
    return result


Multiply = _merge("multiply", _product)


def Concatenate(axis: int = -1, name: str | None = None, **_ignored: Any) -> Any:
    """Several tensors, one after the other."""
    return _merge("concatenate", lambda xs: concat(xs, axis))(name)


def concatenate(inputs: Any, axis: int = -1, **_ignored: Any) -> Tensor:
    """Several tensors, one after the other."""
    return concat(list(inputs), axis)


def add(inputs: Any, **_ignored: Any) -> Any:
    """The sum of several tensors."""
    return Add()(inputs)
