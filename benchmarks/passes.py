"""The HLO passes of whole networks: XLA:CPU's and ours on the same module, and the cost of
recording.

XLA's time is its own: the pass pipeline logs the time of each pass and the sum
(TF_CPP_VMODULE=hlo_pass_pipeline=1), read from a process that compiles the same program through
JAX. Ours are the faithful pipeline "xla" and the default one. Times are the best of some rounds;
what recording adds is the median ratio of two runs in turn.
"""

from __future__ import annotations

import gc
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.text import network
from xlanb.cpu import pipeline
from xlanb.explorer.recorder import Recorder
from xlanb.hlo import HloModule, parse
from xlanb.tracing import observing
from xlanb.transforms.pipeline import HloPassPipeline

ROUNDS = 9
_CUMULATIVE = re.compile(r"HLO pass: \S+ time: .*\(cumulative: ([\d.]+) (\w+)")
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_LAYERS, _WIDTH, _HEADS, _LENGTH, _WORDS = 6, 128, 4, 64, 1000


def _weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 0.05).astype(np.float32)


def _norm(channels: int) -> tuple[np.ndarray, ...]:
    one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    return zero, one, one, zero


def resnet50() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return ResNet-50's forward pass on one image, with inference batch norm, and its
    arguments.
    """
    import jax
    from jax import lax
    from jax import numpy as jnp

    blocks: list[dict[str, Any]] = []
    strides: list[int] = []
    width = 64
    for channels, count, stride in _STAGES:
        for n in range(count):
            block = {
                "reduce": (_weights(1, 1, width, channels), _norm(channels)),
                "middle": (_weights(3, 3, channels, channels), _norm(channels)),
                "expand": (_weights(1, 1, channels, 4 * channels), _norm(4 * channels)),
            }
            if n == 0:
                block["shortcut"] = (_weights(1, 1, width, 4 * channels), _norm(4 * channels))
            blocks.append(block)
            strides.append(stride if n == 0 else 1)
            width = 4 * channels
    weights = {
        "stem": (_weights(7, 7, 3, 64), _norm(64)),
        "blocks": blocks,
        "dense": (_weights(width, 1000), np.zeros(1000, np.float32)),
    }

    def layer(x: Any, part: Any, stride: int = 1) -> Any:
        kernel, (mean, variance, scale, offset) = part
        dims = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=dims)
        return (y - mean) * lax.rsqrt(variance + 1e-5) * scale + offset

    def forward(w: Any, image: Any) -> Any:
        x = jax.nn.relu(layer(image, w["stem"], 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for block, stride in zip(w["blocks"], strides, strict=True):
            y = jax.nn.relu(layer(x, block["reduce"]))
            y = layer(jax.nn.relu(layer(y, block["middle"], stride)), block["expand"])
            x = jax.nn.relu(y + (layer(x, block["shortcut"], stride) if "shortcut" in block else x))
        kernel, bias = w["dense"]
        return x.mean((1, 2)) @ kernel + bias

    return forward, (weights, np.zeros((1, 224, 224, 3), np.float32))


def transformer_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a training step of a small language model with Adam, and its arguments.

    It has some thousand instructions.
    """
    import jax
    from jax import lax
    from jax import numpy as jnp

    def scale() -> tuple[np.ndarray, np.ndarray]:
        return np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)

    def block() -> dict[str, Any]:
        wide = 4 * _WIDTH
        return {
            "first": scale(),
            "qkv": _weights(_WIDTH, 3 * _WIDTH),
            "out": _weights(_WIDTH, _WIDTH),
            "second": scale(),
            "up": (_weights(_WIDTH, wide), np.zeros(wide, np.float32)),
            "down": (_weights(wide, _WIDTH), np.zeros(_WIDTH, np.float32)),
        }

    weights = {
        "words": _weights(_WORDS, _WIDTH),
        "places": _weights(_LENGTH, _WIDTH),
        "blocks": [block() for _ in range(_LAYERS)],
        "last": scale(),
    }

    def normalised(x: Any, p: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def attention(x: Any, p: Any) -> Any:
        q, k, v = (
            t.reshape(*t.shape[:2], _HEADS, -1).transpose(0, 2, 1, 3) for t in jnp.split(x @ p["qkv"], 3, axis=-1)
        )
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(_WIDTH // _HEADS)
        masked = jnp.where(jnp.tril(jnp.ones((_LENGTH, _LENGTH), bool)), scores, -1e9)
        return (jax.nn.softmax(masked) @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ p["out"]

    def loss(w: Any, tokens: Any) -> Any:
        h = w["words"][tokens] + w["places"]
        for p in w["blocks"]:
            h = h + attention(normalised(h, p["first"]), p)
            up, down = p["up"], p["down"]
            h = h + jax.nn.gelu(normalised(h, p["second"]) @ up[0] + up[1]) @ down[0] + down[1]
        logits = jax.nn.log_softmax((normalised(h, w["last"]) @ w["words"].T)[:, :-1])
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))

    def step(w: Any, m: Any, v: Any, tokens: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, tokens)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, gradient)
        w = jax.tree.map(lambda a, x, y: a - 1e-3 * x / (jnp.sqrt(y) + 1e-8), w, m, v)
        return w, m, v, value

    return step, (weights, weights, weights, np.zeros((4, _LENGTH), np.int32))


NETWORKS = {"ResNet-50 forward": resnet50, "transformer step": transformer_step}


def xla_milliseconds(name: str) -> float:
    """Return the time of XLA:CPU's own HLO passes on a network, from its log.

    Raises:
        RuntimeError: the log has no passes.
    """
    code = (
        f"import jax; from benchmarks.passes import NETWORKS; f, a = NETWORKS[{name!r}](); "
        "jax.jit(f).lower(*a).compile()"
    )
    env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "hlo_pass_pipeline=1"}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    found = _CUMULATIVE.findall(ran.stderr)
    if not found:
        raise RuntimeError(f"the log of XLA tells no pass's time: {ran.stderr[-400:]}")
    value, unit = found[-1]
    return float(value) * _UNITS[unit]


def milliseconds(module: HloModule, passes: HloPassPipeline, *, recorded: bool = False) -> float:
    """The time of one run of a pipeline over a copy of a module."""
    copy = module.clone()
    gc.collect()
    with observing(Recorder()) if recorded else nullcontext():
        begin = time.perf_counter()
        passes.run(copy)
        return (time.perf_counter() - begin) * 1e3


def table() -> pd.DataFrame:
    """Return a row per network: instructions, milliseconds of XLA's passes and ours, their ratio,
    recording.
    """
    rows = []
    for name, text, real in _programs():
        module = parse(text)
        rounds = [
            (
                milliseconds(module, pipeline()),
                milliseconds(module, pipeline(), recorded=True),
                milliseconds(module, pipeline("xla")),
            )
            for _ in range(ROUNDS)
        ]
        plain, _, faithful = (min(times) for times in zip(*rounds, strict=True))
        rows.append(
            {
                "program": name,
                "instructions": module.instruction_count,
                "XLA ms": real,
                "ours ms": plain,
                "ours by XLA's": plain / real,
                "faithful pipeline ms": faithful,
                "recording adds": statistics.median(recorded / alone for alone, recorded, _ in rounds) - 1,
            }
        )
    return pd.DataFrame(rows).round(2)


def _programs() -> list[tuple[str, str, float]]:
    plain = [(f"chain of {n}", network(n), float("nan")) for n in (10, 200)]
    if find_spec("jax") is None:
        return plain
    import jax

    made = []
    for name, build in NETWORKS.items():
        f, arguments = build()
        made.append((name, jax.jit(f).lower(*arguments).as_text(dialect="hlo"), xla_milliseconds(name)))
    return plain + made
