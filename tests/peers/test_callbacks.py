"""Python callbacks in JAX programs: called as by JAX, in order, compiled and interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.peers.xla import RealExecutable

jax = pytest.importorskip("jax")

from jax.experimental import io_callback  # noqa: E402

X = np.arange(1, 5, dtype=np.float32)
F32 = jax.ShapeDtypeStruct((), np.float32)


class _Program:
    """A function with all kinds of callbacks, and their records."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def tell(self, name: str, result=None):
        def call(a):
            self.told.append((name, float(np.sum(a))))
            return None if result is None else np.asarray(result(a))

        return call

    def __call__(self, x):
        y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        z = io_callback(
            self.tell("first", lambda a: (a * 2).astype(np.int32)),
            jax.ShapeDtypeStruct(x.shape, np.int32),
            x,
            ordered=True,
        )
        io_callback(self.tell("second"), None, z, ordered=True)
        jax.debug.callback(self.tell("third"), y, ordered=True)
        return y + z, z


@pytest.mark.parametrize("kind", ["function", "lowered", "compiled"])
def test_calls_are_made_as_jax_makes_them(kind):
    program = _Program()
    want = jax.jit(program)(X)
    jax.effects_barrier()
    told = sorted(program.told)
    lowered = jax.jit(program).lower(X)
    module = {
        "function": lambda: xlanb.from_jax(program, X),
        "lowered": lambda: xlanb.from_jax(lowered),
        "compiled": lambda: xlanb.from_jax(lowered.compile()),
    }[kind]()
    module.verify()
    for run in (xlanb.compile(module), lambda x: xlanb.evaluate(module, x)):
        program.told.clear()
        got = run(X)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        np.testing.assert_array_equal(got[1], want[1])
        assert got[1].dtype == np.int32
        assert sorted(program.told) == told
        assert [name for name, _ in program.told if name != "third"] == [
            "first",
            "second",
        ]  # one token leads to the other


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: jax.debug.print("x {}", x.sum(), ordered=True), "x 10.0\n"),
        (
            lambda x: jax.lax.fori_loop(0, 3, lambda k, c: (jax.debug.print("{}", k, ordered=True), c + 1)[1], x),
            "0\n1\n2\n",
        ),
        (lambda x: jax.lax.cond(x[0] > 0, lambda y: (jax.debug.print("yes"), y)[1], lambda y: y + 1, x), "yes\n"),
        (lambda x: (jax.debug.print("unused"), x)[1], "unused\n"),
    ],
    ids=["no result", "in a loop", "in a branch", "unordered"],
)
def test_what_is_printed_is_printed(function, said, capsys):
    module = xlanb.from_jax(function, X)
    want = jax.tree_util.tree_leaves(jax.jit(function)(X))
    jax.effects_barrier()
    assert capsys.readouterr().out == said
    for run in (xlanb.compile(module), lambda x: xlanb.evaluate(module, x)):
        got = jax.tree_util.tree_leaves(run(X))
        assert capsys.readouterr().out == said
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_batches_and_element_types():
    def f(x):
        return jax.vmap(lambda v: jax.pure_callback(np.cos, F32, v, vmap_method="sequential"))(x)

    def g(x):
        shapes = (jax.ShapeDtypeStruct((4,), np.int32), {"k": jax.ShapeDtypeStruct((), jax.numpy.bfloat16)})
        return jax.pure_callback(lambda a: (a.astype(np.int32), {"k": a.sum().astype(jax.numpy.bfloat16)}), shapes, x)

    np.testing.assert_allclose(xlanb.compile(xlanb.from_jax(f, X))(X), np.cos(X), rtol=1e-6)
    numbers, total = xlanb.compile(xlanb.from_jax(g, X))(X)
    np.testing.assert_array_equal(numbers, [1, 2, 3, 4])
    assert (float(total), total.dtype) == (10.0, jax.numpy.bfloat16)


def test_what_a_function_raises_comes_out():
    class OwnError(Exception):
        pass

    def fail(_):
        raise OwnError("mine")

    exe = xlanb.compile(xlanb.from_jax(lambda x: jax.pure_callback(fail, F32, x), X))
    with pytest.raises(OwnError, match="mine"):
        exe(X)


def test_the_text_alone_has_no_functions():
    module = xlanb.from_jax(lambda x: jax.pure_callback(np.sum, F32, x), X)
    assert len(module.host_callbacks) == 1
    exe = xlanb.compile(str(module))
    with pytest.raises(xlanb.errors.EvaluationError, match=r"pure_callback.*came without its functions"):
        exe(X)


def test_the_real_xla_is_not_run_without_them():
    module = xlanb.from_jax(lambda x: jax.pure_callback(np.sum, F32, x), X)
    with pytest.raises(xlanb.errors.XlanbError, match="only accepts from JAX"):
        RealExecutable(module)
