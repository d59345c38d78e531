"""Real models in flax and plain JAX, with random weights.

Each function returns a JAX function and its arguments, including weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks._beside import Program

Array = Any


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions with batch norms, plus the input."""

    width: int
    stride: int
    project: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        def normalized(y: Array) -> Array:
            return nn.BatchNorm(use_running_average=True)(y)

        strides = (self.stride, self.stride)
        y = nn.relu(normalized(nn.Conv(self.width, (1, 1), use_bias=False)(x)))
        y = nn.relu(normalized(nn.Conv(self.width, (3, 3), strides, use_bias=False)(y)))
        y = normalized(nn.Conv(4 * self.width, (1, 1), use_bias=False)(y))
        if self.project:
            x = normalized(nn.Conv(4 * self.width, (1, 1), strides, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet50(nn.Module):
    """ResNet-50 (He et al. 2015; stride in the 3x3 convolution), for inference."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.Conv(64, (7, 7), (2, 2), padding=[(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=[(1, 1), (1, 1)])
        for stage, count in enumerate((3, 4, 6, 3)):
            for k in range(count):
                stride = 2 if stage > 0 and k == 0 else 1
                x = Bottleneck(64 * 2**stage, stride, k == 0)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


class Layer(nn.Module):
    """A transformer layer; norms are before attention and MLP, or after the sums."""

    heads: int
    causal: bool = False
    norm_first: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:
        first, second = nn.LayerNorm(), nn.LayerNorm()
        if self.norm_first:
            x = x + self.attention(first(x))
            return x + self.mlp(second(x))
        x = first(x + self.attention(x))
        return second(x + self.mlp(x))

    def attention(self, x: Array) -> Array:
        batch, length, width = x.shape
        parts = jnp.split(nn.Dense(3 * width)(x), 3, -1)
        q, k, v = (p.reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3) for p in parts)
        y = attend(q, k, v, causal=self.causal).transpose(0, 2, 1, 3)
        return nn.Dense(width)(y.reshape(batch, length, width))

    def mlp(self, x: Array) -> Array:
        width = x.shape[-1]
        return nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(x), approximate=self.causal))


class ViT(nn.Module):
    """ViT-B/16 (Dosovitskiy et al. 2020) on 224 x 224."""

    @nn.compact
    def __call__(self, image: Array) -> Array:
        x = nn.Conv(768, (16, 16), (16, 16), padding="VALID")(image)
        x = x.reshape(x.shape[0], -1, 768)
        start = self.param("class", nn.initializers.zeros, (1, 1, 768))
        x = jnp.concatenate([jnp.broadcast_to(start, (x.shape[0], 1, 768)), x], 1)
        x = x + self.param("places", nn.initializers.zeros, (1, x.shape[1], 768))
        for _ in range(12):
            x = Layer(12)(x)
        return nn.Dense(1000)(nn.LayerNorm()(x)[:, 0])


class Bert(nn.Module):
    """BERT-base (Devlin et al. 2018): the hidden states."""

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        x = nn.Embed(30522, 768)(tokens)
        x = nn.LayerNorm()(x + self.param("places", nn.initializers.zeros, (x.shape[1], 768)))
        for _ in range(12):
            x = Layer(12, norm_first=False)(x)
        return x


class Gpt2(nn.Module):
    """GPT-2 small (Radford et al. 2019): logits of all positions; embedding and head share
    weights.
    """

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        words = nn.Embed(50257, 768)
        x = words(tokens)
        x = x + self.param("places", nn.initializers.zeros, (x.shape[1], 768))
        for _ in range(12):
            x = Layer(12, causal=True)(x)
        return words.attend(nn.LayerNorm()(x))


def attend(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """softmax(q k^T / sqrt(d)) v, over (..., length, d)."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores) @ v


def random_weights(model: nn.Module, *inputs: Array) -> Any:
    """Variables of a model in NumPy, scaled by the fan-in so that activations stay finite."""
    random = np.random.default_rng(0)

    def weight(path: Any, leaf: Any) -> Array:
        name, normal = path[-1].key, random.standard_normal(leaf.shape, np.float32)
        if name in {"scale", "var"}:
            return 1 + np.abs(0.1 * normal)
        fan_in = math.prod(leaf.shape[:-1]) if name == "kernel" else 2500
        return normal / np.float32(math.sqrt(fan_in))

    shapes = jax.eval_shape(model.init, jax.random.key(0), *inputs)
    return jax.tree_util.tree_map_with_path(weight, shapes)


def images(batch: int) -> Array:
    """Images of 224 x 224 and three channels, those last."""
    return np.random.default_rng(1).standard_normal((batch, 224, 224, 3), np.float32)


def tokens(length: int, words: int) -> Array:
    """A batch of one text."""
    return np.random.default_rng(1).integers(0, words, (1, length)).astype(np.int32)


def applied(model: nn.Module, inputs: Array) -> Program:
    """The forward pass."""
    return model.apply, (random_weights(model, inputs), inputs)


def gpt2_train() -> Program:
    """Loss of the next word, its gradients and Adam."""
    model, text = Gpt2(), tokens(128, 50257)

    def loss(weights: Any, text: Array) -> Array:
        logits = model.apply(weights, text)[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()

    return _train(loss, random_weights(model, text), text)


def mlp_train() -> Program:
    """Four dense layers of 1024, batch 256: squared error, gradients and Adam."""
    random = np.random.default_rng(0)
    weights = [
        (random.standard_normal((1024, 1024), np.float32) / np.float32(32), np.zeros(1024, np.float32))
        for _ in range(4)
    ]
    x, y = random.standard_normal((2, 256, 1024), np.float32)

    def loss(weights: Any, x: Array, y: Array) -> Array:
        for w, b in weights[:-1]:
            x = jax.nn.relu(x @ w + b)
        return ((x @ weights[-1][0] + weights[-1][1] - y) ** 2).mean()

    return _train(loss, weights, x, y)


def _train(loss: Callable[..., Array], weights: Any, *batch: Array) -> Program:
    adam = optax.adam(1e-3)

    def step(weights: Any, state: Any, *batch: Array) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, *batch)
        updates, state = adam.update(slopes, state)
        return optax.apply_updates(weights, updates), state, value

    return step, (weights, jax.tree.map(np.asarray, adam.init(weights)), *batch)


def matmul(n: int, kind: str) -> Program:
    """A product of two square matrices; of int8 with sums of int32."""
    random = np.random.default_rng(0)
    if kind == "int8":
        a, b = random.integers(-128, 128, (2, n, n)).astype(np.int8)
        return lambda x, y: jax.lax.dot(x, y, preferred_element_type=jnp.int32), (a, b)
    a, b = random.standard_normal((2, n, n)).astype(kind)
    return lambda x, y: x @ y, (a, b)


def matvec() -> Program:
    """The head of a decoding step: a row of 768 by 768 x 50257."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape, np.float32) for shape in ((1, 768), (768, 50257)))
    return lambda x, w: x @ w, (x, w)


def causal_attention() -> Program:
    """12 heads of 1024 x 64."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 12, 1024, 64), np.float32)
    return lambda q, k, v: attend(q, k, v, causal=True), (q, k, v)


def lstm(batch: int) -> Program:
    """An LSTM of 256 over 100 steps of 256."""
    x = np.random.default_rng(0).standard_normal((batch, 100, 256), np.float32)
    return applied(nn.RNN(nn.OptimizedLSTMCell(256)), x)
