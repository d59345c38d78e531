"""JAX functions inside TensorFlow functions: an XlaCallModule with StableHLO bytecode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb

tf = pytest.importorskip("tensorflow")
jax = pytest.importorskip("jax")
jax2tf = pytest.importorskip("jax.experimental.jax2tf")

pytestmark = pytest.mark.peer
jnp: Any = jax.numpy


def _two(x: Any) -> Any:
    return {"soft": jax.nn.softmax(x), "sorted": [jnp.sort(x, 1)]}


def _product(x: Any) -> Any:
    return jnp.sin(x) @ x.T


def _by_platform(x: Any) -> Any:
    return jax.lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos)


def _scanned(x: Any) -> Any:
    return jax.lax.scan(lambda c, a: (c * a.sum(), c), 1.0, x)


CASES: list[tuple[Any, dict[str, Any]]] = [
    (_two, {}),
    (_product, {"polymorphic_shapes": ["(b, 4)"]}),
    (_by_platform, {"native_serialization_platforms": ["cpu", "cuda"]}),
    (_scanned, {}),
]


@pytest.mark.parametrize(("function", "options"), CASES)
def test_a_function_of_jax2tf_compiles(function: Any, options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    converted = jax2tf.convert(function, **options)
    expected = tf.function(converted, autograph=False, jit_compile=True)(x)
    got = xlanb.jit(tf.function(converted, autograph=False))(x)
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_another_platform_is_refused_as_by_tensorflow() -> None:
    converted = jax2tf.convert(_product, native_serialization_platforms=["cuda"])
    with pytest.raises(xlanb.errors.GraphError, match="platform CPU is not among the platforms required by the module"):
        xlanb.jit(tf.function(converted, autograph=False))(np.ones((3, 4), np.float32))
