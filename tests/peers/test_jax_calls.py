"""Repeated calls of xlanb.jit with arrays: JAX's results, types and devices after any other
call.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb

jax = pytest.importorskip("jax")
jnp = jax.numpy

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def agree(got, want) -> None:
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
        assert isinstance(a, jax.Array)
        assert (a.dtype, a.shape, a.weak_type, a.committed, a.sharding) == (
            b.dtype, b.shape, b.weak_type, b.committed, b.sharding,
        )  # fmt: skip


FUNCTIONS = {
    "array": lambda x, y: x * 2 + y,
    "tuple": lambda x, y: (x + y, x - y),
    "tuple of one": lambda x, y: (x + y,),
    "dictionary": lambda x, y: {"a": x + y, "b": [x]},
    "argument": lambda x, _: x,
    "none": lambda _x, _y: None,
    "weak": lambda x, y: (x.sum() * 0 + y, jnp.asarray(1.5) * 2, 3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("put", [jnp.asarray, lambda a: jax.device_put(a, jax.devices()[0])], ids=["free", "committed"])
def test_calls_with_arrays_of_jax(name, put):
    function = FUNCTIONS[name]
    fast, want = xlanb.jit(function), jax.jit(function)(put(A), put(A + 1))
    results = [fast(put(A), put(A + 1)) for _ in range(4)]
    for got in results:
        if name == "weak":  # numbers stay numbers
            got, plain = (*got[:2],), (*want[:2],)
            agree(got, plain)
        else:
            agree(got, want)
    assert fast.cache_info().misses == 1


def test_calls_with_pytrees_names_and_arrays_of_both_kinds():
    def step(params, x, *, scale):
        return {"w": params["w"] * scale + x, "b": params["b"]}

    fast = xlanb.jit(step)
    for kind in (np.asarray, jnp.asarray, np.asarray, jnp.asarray):
        params = {"w": kind(A), "b": kind(A[0])}
        for _ in range(3):
            got = fast(params, A, scale=jnp.float32(2))
            agree(got, jax.jit(step)(jax.tree.map(jnp.asarray, params), A, scale=jnp.float32(2)))
    assert fast.cache_info().misses == 1


def test_numpy_arrays_alone_give_numpy_arrays_after_those_of_jax():
    fast = xlanb.jit(lambda x, y: x @ y.T)
    for _ in range(3):
        assert isinstance(fast(jnp.asarray(A), A), jax.Array)
        assert isinstance(fast(A, jnp.asarray(A)), jax.Array)
        assert type(fast(A, A)) is np.ndarray
    assert fast.cache_info().misses == 1
    assert fast.cache_info().hits == 8
    assert repr(fast) == "<xlanb.jit of <lambda>: 1 signature compiled>"


def test_results_of_calls_are_independent():
    fast = xlanb.jit(lambda x: x + 1)
    results = [fast(jnp.full(100, n, jnp.float32)) for n in range(50)]
    for n, r in enumerate(results):
        np.testing.assert_array_equal(r, np.full(100, n + 1, np.float32))
    x = jnp.zeros(3)
    for _ in range(100):
        x = fast(x)
    np.testing.assert_array_equal(x, [100] * 3)


def test_a_deleted_array_is_refused():
    fast = xlanb.jit(lambda x: x + 1)
    for _ in range(3):
        fast(jnp.asarray(A))
    gone = jnp.asarray(A)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        fast(gone)


def test_types_that_differ_are_compiled_anew():
    fast = xlanb.jit(lambda x: x * 2)
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    values = [jnp.asarray(A), jnp.asarray(A[0]), jnp.asarray(A, jnp.bfloat16), jnp.float32(2), weak]
    for _ in range(3):
        for v in values:
            agree(fast(v), jax.jit(lambda x: x * 2)(v))
    assert fast.cache_info().misses == len(values)


def test_precision_of_64_bits():
    fast = xlanb.jit(lambda x: jnp.multiply(x, 2))
    wide = A.astype(np.float64)
    for _ in range(3):
        assert fast(wide).dtype == np.float32
        with jax.enable_x64(True):
            assert fast(wide).dtype == np.float64
            agree(fast(jnp.asarray(wide)), jnp.asarray(wide) * 2)


def test_keys():
    fast = xlanb.jit(lambda key, x: (jax.random.split(key)[0], jax.random.normal(key, (2,)) + x))
    want = jax.jit(lambda key, x: (jax.random.split(key)[0], jax.random.normal(key, (2,)) + x))(
        jax.random.key(1), A[0, 0]
    )
    for _ in range(3):
        key, values = fast(jax.random.key(1), A[0, 0])
        assert jax.random.key_data(key).tolist() == jax.random.key_data(want[0]).tolist()
        np.testing.assert_allclose(values, want[1], rtol=1e-5)


def test_static_arguments_are_told_apart():
    fast = xlanb.jit(lambda x, n: x * n, static_argnames="n")
    for _ in range(3):
        np.testing.assert_array_equal(fast(jnp.asarray(A), n=2), A * 2)
        np.testing.assert_array_equal(fast(jnp.asarray(A), n=3), A * 3)
    assert fast.cache_info().misses == 2


def test_transformations_of_a_compiled_function():
    fast = xlanb.jit(lambda x: (x * x).sum())
    for _ in range(3):
        fast(jnp.asarray(A))
        np.testing.assert_allclose(jax.grad(fast)(jnp.asarray(A)), 2 * A)
        np.testing.assert_allclose(jax.vmap(fast)(jnp.asarray(A)), (A * A).sum(1))
