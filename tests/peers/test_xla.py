"""Against the real XLA:CPU: it takes what we print, and computes what we compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.peers import xla

pytest.importorskip("jax")
pytestmark = pytest.mark.peer


def line(x: Any, y: Any, w: Any, b: Any) -> Any:
    from xlanb import tf

    error = w * x + b - y
    return tf.reduce_mean(tf.square(error)), tf.reduce_sum(error * x), tf.reduce_sum(error)


def layer(x: Any, w: Any, b: Any) -> Any:
    from xlanb import tf

    return tf.nn.relu(tf.matmul(x, w) + b)


def values(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


PROGRAMS = {"line": (line, ((100,), (100,), (), ())), "layer": (layer, ((16, 32), (32, 8), (8,)))}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("stage", ["tf2xla", "optimized"])
def test_the_real_xla_agrees_on_a_program(name: str, stage: str, rng: np.random.Generator) -> None:
    function, shapes = PROGRAMS[name]
    arguments = values(rng, *shapes)
    compiled = xlanb.Compilation(function, *arguments)
    executable = compiled.finish()
    module = compiled.trace[0].after if stage == "tf2xla" else executable.hlo_module
    real = xla.RealExecutable(str(module))(*arguments)
    for ours, theirs in zip(executable(*arguments), real, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_real_parser_reads_every_stage_as_ours_does(name: str, rng: np.random.Generator) -> None:
    function, shapes = PROGRAMS[name]
    trace = xlanb.trace(function, *values(rng, *shapes))
    texts = {str(s.after) for s in trace if s.kind == "hlo_pass"}
    assert len(texts) > 1
    for text in texts:
        assert xla.canonical_text(text).strip() == str(xlanb.hlo.parse(text)).strip()


def test_hlo_of_a_jax_function_compiles_to_the_same_values(rng: np.random.Generator) -> None:
    import jax.numpy as jnp

    def softmax(x: Any) -> Any:
        e = jnp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    (x,) = values(rng, (8, 16))
    ours = xlanb.compile(xla.from_jax(softmax, x))(x)
    (ours,) = ours if isinstance(ours, tuple) else (ours,)
    np.testing.assert_allclose(ours, np.asarray(softmax(x)), rtol=1e-5)
