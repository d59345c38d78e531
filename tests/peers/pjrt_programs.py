"""Programs for test_pjrt.py, run in a separate process on xlanb, then on JAX's CPU backend.

It prints a line of JSON with the difference for each.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ["JAX_PLATFORMS"] = "xlanb"

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import xlanb.pjrt

A = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
S = A @ A.T + 6 * np.eye(6, dtype=np.float32)
PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(f: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[f.__name__] = f
    return f


@program
def jit():
    return jax.jit(lambda x, y: jnp.tanh(x @ y) + x.sum())(A, S)


@program
def results_are_row_major():
    return jax.jit(lambda x: (x.T, jnp.moveaxis(jnp.stack([x, 2 * x]), 0, -1)))(A)


@program
def grad():
    return jax.grad(lambda w: jnp.sum(jax.nn.relu(A @ w) ** 2))(S)


@program
def hessian():
    return jax.hessian(lambda x: jnp.sum(x**3))(jnp.arange(3.0))


@program
def vmap():
    return jax.vmap(jnp.dot)(A, S)


@program
def scan():
    return lax.scan(lambda c, x: (c * 0.5 + x, c), jnp.zeros(6), jnp.asarray(A))


@program
def while_loop():
    return lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 1.1), (0, jnp.ones(3)))


@program
def cond_and_switch():
    branches = [lambda x: x, lambda x: x + 1, lambda x: x * 3]
    chosen = [lax.switch(k, branches, 2.0) for k in range(3)]
    return chosen, [lax.cond(p, jnp.sin, jnp.cos, 1.0) for p in (True, False)]


@program
def threefry():
    key = jax.random.key(0)
    draws = [jax.random.normal(key, (5,)), jax.random.permutation(key, 10), jax.random.gamma(key, 2.0, (4,))]
    return draws, jax.random.key_data(jax.random.split(key, 3)), jax.vmap(jax.random.uniform)(jax.random.split(key, 4))


@program
def rbg():
    key = jax.random.key(3, impl="rbg")
    return jax.random.normal(key, (8,)), jax.random.key_data(jax.random.split(key, 3))


@program
def factorizations():
    q, r = jnp.linalg.qr(A)
    return jnp.linalg.cholesky(S), q @ r, jnp.linalg.svd(A, compute_uv=False), jnp.linalg.eigh(S)[0], jsp.linalg.lu(A)


@program
def systems():
    triangular = jsp.linalg.solve_triangular(S, A, lower=True)
    return jnp.linalg.solve(S, A), jnp.linalg.inv(S), jnp.linalg.slogdet(S), triangular, jsp.linalg.expm(0.1 * A)


@program
def fft():
    return jnp.fft.fft(A), jnp.fft.rfft2(A)


@program
def sorting_and_indexing():
    return jnp.argsort(A[0]), lax.top_k(A, 2), jnp.asarray(A).at[jnp.array([0, 0])].add(1.0), A[np.array([0, 2])]


@program
def integers():
    return jnp.arange(5, dtype=jnp.int8) * 3, lax.population_count(jnp.uint32(77)), jnp.arange(-3, 4).astype(jnp.int4)


@program
def small_floats():
    return (jnp.full((4, 4), 1.5, jnp.bfloat16) @ jnp.ones((4, 4), jnp.bfloat16)), jnp.ones(3, jnp.float8_e4m3fn)


@program
def complex_numbers():
    return (A + 1j * S) @ (A - 1j * S)


@program
def x64():
    with jax.enable_x64(True):
        return jnp.linalg.inv(S.astype(np.float64)), jnp.arange(3), jnp.float64(3.5) * 2


@program
def empty():
    return jnp.zeros((0, 3)) @ jnp.zeros((3, 2)), jnp.zeros((2, 0)).sum()


@program
def strided_host_arrays():
    return jnp.asarray(A.T[::-1]), jax.device_put(A[:, ::2])


@program
def nested_arguments():
    return jax.jit(lambda t: jax.tree.map(lambda x: x * 2, t))({"a": A, "b": (S, {"c": 1})})


@program
def pure_callback():
    return jax.jit(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)(A)


@program
def ordered_callbacks():
    got = []

    def f(x):
        for k in range(3):
            io_callback(lambda v, k=k: got.append(float(v) + k), None, x.sum(), ordered=True)
        return x + 1

    result = jax.jit(f)(jnp.ones(3))
    jax.effects_barrier()
    return result, np.array(got)


@program
def donation():
    x = jnp.zeros(1000)
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    return y


@program
def one_device_mesh():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    placed = jax.device_put(A, NamedSharding(mesh, PartitionSpec("x")))
    mapped = jax.shard_map(
        lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec()
    )
    return jax.jit(lambda v: v * 2)(placed), jax.jit(mapped)(A)


@program
def views_outlive_arrays():
    x = jnp.arange(100000.0)
    view = np.asarray(x)
    del x
    jnp.zeros(100000).block_until_ready()
    return view


@program
def training():
    def loss(p, x, y):
        return jnp.mean((jax.nn.relu(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2)

    key = jax.random.key(1)
    p = {"w": jax.random.normal(key, (4, 16)), "b": jnp.zeros(16), "v": jax.random.normal(key, (16, 1))}
    x = jax.random.normal(key, (32, 4))
    y = x.sum(1, keepdims=True)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(p, x, y):
        value, gradient = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda a, b: a - 0.01 * b, p, gradient), value

    for _ in range(30):
        p, value = step(p, x, y)
    return value


def difference(name: str) -> str:
    """Return the difference between the two backends, or ""."""
    found: list[Any] = []
    for platform in ("xlanb", "cpu"):
        with jax.default_device(jax.devices(platform)[0]):
            found.append(jax.tree.leaves(PROGRAMS[name]()))
    try:
        for mine, theirs in zip(*found, strict=True):
            mine, theirs = np.asarray(mine), np.asarray(theirs)
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            wide = np.complex128
            np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=2e-4, atol=2e-5)
    except AssertionError as error:
        return str(error)
    return ""


def main() -> None:
    xlanb.pjrt.initialize()
    assert jax.devices()[0].platform == "xlanb"
    for name in PROGRAMS:
        try:
            told = difference(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test says it
            told = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps([name, told]) + "\n")


if __name__ == "__main__":
    main()
