"""StableHLO printed by JAX, read by xlanb and by XLA's converter: same operations, same results."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.frontends.stablehlo import from_stablehlo

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax

RNG = np.random.default_rng(5)
X = RNG.standard_normal((5, 6)).astype(np.float32)
SQUARE = RNG.standard_normal((4, 4)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 8, 8, 3)).astype(np.float32)
KERNEL = RNG.standard_normal((3, 3, 3, 5)).astype(np.float32)
ROWS = np.array([1, 3, 0], np.int32)

SAME = {
    "scan": (lambda x: lax.scan(lambda c, y: (jnp.tanh(c @ x), c.sum() + y), x, jnp.arange(5.0)), SQUARE),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda a: (a * 2, a.sum()), lambda a: (a - 1, a.max()), x), SQUARE),
    "switch": (lambda x: lax.switch(jnp.argmax(x) % 3, [jnp.sin, jnp.cos, lambda a: a + x], x), X),
    "while": (lambda i: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * i + s[0]), (0, i)), ROWS),
    "convolution": (
        lambda x: lax.conv_general_dilated(
            x, KERNEL, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), rhs_dilation=(1, 2)
        ),
        IMAGES,
    ),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), IMAGES),
    "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x, precision="highest"), X),
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x))), X),
    "softmax": (lambda x: (jax.nn.softmax(x), jax.nn.gelu(x), jnp.cumsum(x, 0), lax.cummax(x, 1)), X),
    "types": (lambda x: (x.astype(jnp.bfloat16), x.astype(jnp.int8), x.astype(jnp.float8_e4m3fn)), X),
    "remat": (jax.grad(lambda y: jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y).sum()), X),
}
"""Programs whose operations XLA's converter all keeps."""

CLOSE = {
    "indexing": (lambda x: (x[ROWS], x[:, ROWS], x.at[ROWS].set(1.0), x.at[ROWS, 0].add(2.0)), X),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 3), jnp.median(x)), X),
    "random": (
        lambda x: (jax.random.normal(jax.random.PRNGKey(3), (5,)), jax.random.permutation(jax.random.PRNGKey(0), x)),
        X,
    ),
    "linear algebra": (lambda x: (jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4)), jnp.linalg.eigh(x + x.T)[0]), SQUARE),
    "special": (
        lambda x: (jax.scipy.special.erf(x), lax.erf_inv(jnp.tanh(x)), lax.lgamma(x + 4), lax.igamma(x + 4, x * x)),
        X,
    ),
    "gradient of a pooling": (
        jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
        IMAGES,
    ),
    "bits": (
        lambda x: (lax.bitcast_convert_type(x, jnp.uint8), lax.reduce_precision(x, 5, 10), lax.nextafter(x, x + 1)),
        X,
    ),
    "complex": (lambda x: (jnp.exp(x * 1j), jnp.sqrt(x + 1j), abs(x * 1j)), X),
}
"""Programs that it simplifies, or computes by other formulas."""

_PLUMBING = frozenset(
    "constant broadcast get-tuple-element tuple parameter iota reshape convert transpose call while conditional".split()
)


def operations(module) -> Counter:
    """Count the used operations, with shapes and attributes, except those that only forward
    values.
    """
    found: Counter = Counter()
    for computation in module.computations:
        reached, stack = set(), [computation.root]
        while stack:
            i = stack.pop()
            if i not in reached:
                reached.add(i)
                stack += i.operands
        for i in reached:
            if i.opcode.text not in _PLUMBING:
                attributes = [(k, str(v)) for k, v in sorted(i.attributes.items()) if not hasattr(v, "root")]
                found[i.opcode.text, i.shape.text(layout=False), str(attributes)] += 1
    return found


def both(function, x, *, debug_info):
    text = jax.jit(function).lower(x).as_text(debug_info=debug_info)
    module = from_stablehlo(text)
    module.verify(executable=True)
    return module, xlanb.from_jax(text)


def results(module, x):
    value = xlanb.compile(module)(x)
    return [np.asarray(v) for v in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("debug_info", [False, True], ids=["plain", "locations"])
@pytest.mark.parametrize(("function", "x"), SAME.values(), ids=SAME)
def test_the_same_operations_and_bits(function, x, debug_info):
    ours, theirs = both(function, x, debug_info=debug_info)
    assert operations(ours) == operations(theirs)
    for a, b in zip(results(ours, x), results(theirs, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("function", "x"), CLOSE.values(), ids=CLOSE)
def test_the_same_results(function, x):
    ours, theirs = both(function, x, debug_info=False)
    for a, b in zip(results(ours, x), results(theirs, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_metadata_and_parameters_are_named_as_by_jax():
    def f(weights, x):
        with jax.named_scope("layer"):
            return jnp.tanh(x @ weights["w"])

    lowered = jax.jit(f).lower({"w": SQUARE}, SQUARE)
    ours = from_stablehlo(lowered.as_text(debug_info=True)).entry_computation
    theirs = xlanb.from_jax(lowered).entry_computation
    assert [p.metadata.op_name for p in ours.parameters] == [p.metadata.op_name for p in theirs.parameters]
    assert ours.root.metadata.op_name == theirs.root.metadata.op_name
    assert ours.root.metadata.python_line == theirs.root.metadata.python_line


def test_bytecode_is_read_by_jaxlib():
    exported = jax.export.export(jax.jit(lambda x: jnp.tanh(x) * 2))(X)
    module = from_stablehlo(exported.mlir_module_serialized)
    np.testing.assert_allclose(results(module, X)[0], np.tanh(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(xlanb.compile(exported.mlir_module_serialized)(X), np.tanh(X) * 2, rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    """Chains of random operations of JAX."""
    rng = np.random.default_rng(seed)
    unary = [
        jnp.sin,
        jnp.tanh,
        jnp.abs,
        lambda v: v.T,
        lambda v: jnp.sort(v, 0),
        lambda v: jnp.cumsum(v, 1),
        jax.nn.relu,
        lambda v: v[::-1],
        lambda v: v[:, ::2].repeat(2, 1),
    ]
    binary = [
        jnp.add,
        jnp.multiply,
        jnp.maximum,
        lambda a, b: a @ b,
        lambda a, b: jnp.where(a > b, a, b),
        lambda a, b: a - b.mean(0),
    ]

    def f(x):
        values = [x]
        for n in picks:
            a, b = values[n[1] % len(values)], values[n[2] % len(values)]
            values.append(unary[n[0] % len(unary)](a) if n[3] else binary[n[0] % len(binary)](a, b))
        return values[-1], values[len(values) // 2]

    picks = rng.integers(0, 1000, (10, 4)) * np.array([1, 1, 1, 0]) + np.array([0, 0, 0, 1]) * rng.integers(
        0, 2, (10, 1)
    )
    ours, theirs = both(f, SQUARE, debug_info=False)
    for a, b in zip(results(ours, SQUARE), results(theirs, SQUARE), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_what_xla_refuses_is_refused():
    text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.transpose %a, dims = [1] : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}"
    for read in (from_stablehlo, xlanb.from_jax):
        with pytest.raises(XlanbError):
            read(text)
