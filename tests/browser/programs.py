"""JAX programs with named scopes, two of them of a realistic size, and a small HLO module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LAYERS = 6
WIDTH = 32
CHANNELS = 8

TINY = """HloModule tiny

ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %one = f32[] constant(1)
  %ones = f32[8]{0} broadcast(%one), dimensions={}
  %product = f32[8]{0} multiply(%x, %ones)
  %sum = f32[8]{0} add(%product, %y)
  ROOT %result = f32[8]{0} tanh(%sum)
}
"""

Step = tuple[Callable[..., Any], tuple[Any, ...]]


def transformer_step() -> Step:
    """One step of gradient descent on a transformer of six layers, and its arguments."""
    import jax
    import jax.numpy as jnp

    def normalized(x, scale):
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale

    def attend(layer, x):
        q, k, v = (x @ layer[name] for name in ("q", "k", "v"))
        scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(WIDTH)
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        with jax.named_scope("softmax"):
            weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return (weights @ v) @ layer["o"]

    def loss(params, tokens):
        with jax.named_scope("embed"):
            x = params["embedding"][tokens]
        for number, layer in enumerate(params["layers"]):
            with jax.named_scope(f"block_{number}"):
                with jax.named_scope("attention"):
                    x = x + attend(layer, normalized(x, layer["scale1"]))
                with jax.named_scope("mlp"):
                    hidden = jax.nn.gelu(normalized(x, layer["scale2"]) @ layer["up"])
                    x = x + hidden @ layer["down"]
        with jax.named_scope("head"):
            logits = x @ params["embedding"].T
        with jax.named_scope("loss"):
            kept = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
            return -kept.mean()

    def step(params, tokens):
        gradients = jax.grad(loss)(params, tokens)
        with jax.named_scope("update"):
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    random = np.random.default_rng(0)

    def array(*shape):
        return random.normal(size=shape).astype(np.float32)

    layers = [
        {
            **{name: array(WIDTH, WIDTH) for name in "qkvo"},
            **{name: array(WIDTH) for name in ("scale1", "scale2")},
            "up": array(WIDTH, 4 * WIDTH),
            "down": array(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    params = {"embedding": array(64, WIDTH), "layers": layers}
    return step, (params, random.integers(0, 64, (2, 16)).astype(np.int32))


def residual_step() -> Step:
    """One step of gradient descent on a residual net of twelve convolutions, and its arguments."""
    import jax
    import jax.numpy as jnp

    def convolved(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normalized(x, scale):
        centred = x - x.mean((0, 1, 2))
        return centred * jax.lax.rsqrt((centred**2).mean((0, 1, 2)) + 1e-5) * scale

    def loss(params, images, labels):
        with jax.named_scope("stem"):
            x = jax.nn.relu(convolved(images, params["stem"]))
        for number, block in enumerate(params["blocks"]):
            with jax.named_scope(f"block_{number}"):
                short = x
                with jax.named_scope("conv1"):
                    x = jax.nn.relu(normalized(convolved(x, block["first"]), block["scale1"]))
                with jax.named_scope("conv2"):
                    x = normalized(convolved(x, block["second"]), block["scale2"])
                x = jax.nn.relu(x + short)
        with jax.named_scope("head"):
            logits = x.mean((1, 2)) @ params["head"]
        with jax.named_scope("loss"):
            kept = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1)
            return -kept.mean()

    def step(params, images, labels):
        gradients = jax.grad(loss)(params, images, labels)
        with jax.named_scope("update"):
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    random = np.random.default_rng(0)

    def array(*shape):
        return random.normal(size=shape).astype(np.float32)

    c = CHANNELS
    block = {"first": (3, 3, c, c), "second": (3, 3, c, c), "scale1": (c,), "scale2": (c,)}
    params = {
        "stem": array(3, 3, 3, c),
        "blocks": [{k: array(*shape) for k, shape in block.items()} for _ in range(6)],
        "head": array(c, 10),
    }
    images, labels = array(4, 16, 16, 3), random.integers(0, 10, 4).astype(np.int32)
    return step, (params, images, labels)


def small_step() -> Step:
    """Two layers, small enough for every op to be on the page, and its arguments."""
    import jax
    import jax.numpy as jnp

    def step(params, x):
        for number, layer in enumerate(params):
            with jax.named_scope(f"layer_{number}"):
                x = jnp.tanh(x @ layer["weights"] + layer["bias"])
                with jax.named_scope("scale"):
                    x = x / jnp.sqrt((x**2).sum(-1, keepdims=True))
        return x

    random = np.random.default_rng(0)
    shapes = {"weights": (WIDTH, WIDTH), "bias": (WIDTH,)}
    params = [{k: random.normal(size=shape).astype(np.float32) for k, shape in shapes.items()} for _ in range(2)]
    return step, (params, random.normal(size=(4, WIDTH)).astype(np.float32))
