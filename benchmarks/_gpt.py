"""A training step of a small GPT in JAX: six layers in named scopes, Adam-like updates.

It has about 1,500 instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]
LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = 6, 128, 4, 512, 32, 2


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def _attention(x: Any, layer: Params) -> Any:
    parts = jnp.split(_normalized(x, *layer["ln1"]) @ layer["qkv"], 3, -1)
    shape = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
    q, k, v = (part.reshape(shape).transpose(0, 2, 1, 3) for part in parts)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3)
    return x + mixed.reshape(BATCH, LENGTH, WIDTH) @ layer["out"]


def _mlp(x: Any, layer: Params) -> Any:
    return x + jax.nn.gelu(_normalized(x, *layer["ln2"]) @ layer["up"]) @ layer["down"]


def _loss(params: Params, tokens: Any) -> Any:
    with jax.named_scope("embed"):
        x = params["words"][tokens] + params["places"]
    for k in range(LAYERS):
        with jax.named_scope(f"layer{k}"):
            with jax.named_scope("attn"):
                x = _attention(x, params[f"h{k}"])
            with jax.named_scope("mlp"):
                x = _mlp(x, params[f"h{k}"])
    with jax.named_scope("head"):
        logits = _normalized(x, *params["ln"]) @ params["words"].T
    with jax.named_scope("loss"):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1).mean()


def _step(params: Params, momentum: Params, tokens: Any) -> Any:
    loss, slopes = jax.value_and_grad(_loss)(params, tokens)
    with jax.named_scope("adam"):
        momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, momentum, slopes)
        params = jax.tree.map(lambda p, m: p - 1e-3 * m / (jnp.sqrt(m * m) + 1e-8), params, momentum)
    return params, momentum, loss


def gpt_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step, and arrays to call it with."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) * 0.02).astype(np.float32)

    norm = (np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    params: Params = {"words": weights(WORDS, WIDTH), "places": weights(LENGTH, WIDTH), "ln": norm}
    for k in range(LAYERS):
        dense = {"qkv": weights(WIDTH, 3 * WIDTH), "out": weights(WIDTH, WIDTH)}
        up, down = weights(WIDTH, 4 * WIDTH), weights(4 * WIDTH, WIDTH)
        params[f"h{k}"] = {"ln1": norm, "ln2": norm, **dense, "up": up, "down": down}
    tokens = random.integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    return _step, (params, jax.tree.map(np.zeros_like, params), tokens)
