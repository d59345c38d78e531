"""The program of the documentation's pictures: a training step of a small transformer, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, FEATURES, HEADS, WORDS = 6, 64, 4, 256
BATCH, LENGTH = 4, 32


def normalized(x: Any, scale: Any) -> Any:
    """Layer normalization without a bias."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def attention(params: dict[str, Any], x: Any) -> Any:
    """Causal attention with a residual."""
    with jax.named_scope("attention"):
        q, k, v = (
            (normalized(x, params["scale"]) @ params[name]).reshape(BATCH, LENGTH, HEADS, FEATURES // HEADS)
            for name in "qkv"
        )
        with jax.named_scope("softmax"):
            scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(FEATURES // HEADS)
            weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9))
        mixed = jnp.einsum("bhts,bshd->bthd", weights, v).reshape(BATCH, LENGTH, FEATURES)
        return x + mixed @ params["o"]


def mlp(params: dict[str, Any], x: Any) -> Any:
    """Two products with a GELU between, and a residual."""
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(normalized(x, params["scale"]) @ params["up"]) @ params["down"]


def loss(params: dict[str, Any], tokens: Any) -> Any:
    """Cross entropy of each next token."""
    with jax.named_scope("embed"):
        x = params["embedding"][tokens]
    for n, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layer{n}"):
            x = mlp(layer, attention(layer, x))
    with jax.named_scope("loss"):
        logs = jax.nn.log_softmax((x @ params["embedding"].T)[:, :-1])
        return -jnp.take_along_axis(logs, tokens[:, 1:, None], -1).mean()


def step(params: dict[str, Any], tokens: Any) -> tuple[dict[str, Any], Any]:
    """One step of gradient descent: new parameters and the loss."""
    value, gradients = jax.value_and_grad(loss)(params, tokens)
    with jax.named_scope("sgd"):
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value


def training() -> tuple[Callable[..., Any], dict[str, Any], np.ndarray[Any, Any]]:
    """Return the step and its arguments."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    layers = [
        {
            **{name: weights(FEATURES, FEATURES) for name in "qkvo"},
            "up": weights(FEATURES, 4 * FEATURES),
            "down": weights(4 * FEATURES, FEATURES),
            "scale": np.ones(FEATURES, np.float32),
        }
        for _ in range(LAYERS)
    ]
    params = {"embedding": weights(WORDS, FEATURES), "layers": layers}
    return step, params, rng.integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
