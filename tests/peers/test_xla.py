"""Against the real XLA:CPU: it takes what we print, and computes what we compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.hlo import HloModule
from xlanb.hlo.opcode import HloOpcode
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


def softmax(x: Any, w: Any) -> Any:
    import jax.numpy as jnp
    from jax.nn import softmax as normalised

    return normalised(jnp.tanh(x @ w))


def test_the_real_compilation_is_a_trace_with_results(rng: np.random.Generator) -> None:
    x, w = values(rng, (8, 16), (16, 4))
    trace = xla.trace(softmax, x, w, runs=3)
    assert trace["fusion"].changed
    assert trace["algsimp"].pipeline == ("HLO_passes_through_layout_assignment", "simplification")
    assert trace["buffer_assignment"].after is not None
    assert trace["llvm_ir"].after is not None
    assert len(trace.runs) == 3
    ours = xlanb.compile(xla.from_jax(softmax, x, w))
    np.testing.assert_allclose(ours(x, w), trace.results[0], rtol=1e-5)


def test_arguments_may_be_structures_as_in_jax() -> None:
    def layer(params: Any, x: Any) -> Any:
        return x @ params["w"] + params["b"]

    x, params = np.eye(3, dtype=np.float32), {"b": np.float32([1, 2, 3]), "w": np.full((3, 3), 2, np.float32)}
    real = xla.trace(layer, params, x, runs=1)
    np.testing.assert_array_equal(real.results[0], x @ params["w"] + params["b"])
    assert [a.shape for a in real.inputs] == [(3,), (3, 3), (3, 3)]


def test_ours_and_theirs_are_compared(rng: np.random.Generator) -> None:
    x, w = values(rng, (8, 16), (16, 4))
    theirs = xla.trace(softmax, x, w)
    found = xlanb.trace(xla.from_jax(softmax, x, w)).diff(theirs)
    assert found.final.counts["removed"] == 0
    assert {"pass", "changed_before", "changed_after"} <= set(found.passes.columns)


def test_the_real_passes_move_no_numbers(rng: np.random.Generator) -> None:
    x, w = values(rng, (8, 16), (16, 4))
    assert xla.trace(softmax, x, w).bisect(x, w).stage is None


def test_every_form_that_jax_has_becomes_hlo(rng: np.random.Generator) -> None:
    import jax

    x, w = values(rng, (8, 16), (16, 4))
    lowered = jax.jit(softmax).lower(x, w)
    forms = [
        (jax.jit(softmax), x, w),
        (lowered,),
        (lowered.compile(),),
        (jax.make_jaxpr(softmax)(x, w),),
        (lowered.as_text(),),
    ]
    expected = np.asarray(softmax(x, w))
    for form in forms:
        np.testing.assert_allclose(xlanb.evaluate(xla.from_jax(*form), x, w), expected, rtol=1e-5)
    with pytest.raises(XlanbError, match="pass a function and its arguments"):
        xla.from_jax(7)
    with pytest.raises(XlanbError, match="rejects the StableHLO"):
        xla.from_jax("module {")


def test_a_pass_of_ours_runs_inside_the_real_compiler(rng: np.random.Generator) -> None:
    import jax

    (x,) = values(rng, (8,))

    def turned(module: HloModule) -> None:
        for c in module.computations:  # fused already, when the pass runs
            for i in [i for i in c if i.opcode is HloOpcode.TANH]:
                c.replace(i, c.add(HloOpcode.COSINE, i.operands, i.shape))

    with xla.using(turned) as edited:
        changed = jax.jit(jax.numpy.tanh)(x)
    assert any(e.before is not e.after for e in edited)
    np.testing.assert_allclose(changed, np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.numpy.tanh)(x), np.tanh(x), rtol=1e-5)


def test_a_pass_that_fails_inside_is_raised_after_the_block(rng: np.random.Generator) -> None:
    import jax

    (x,) = values(rng, (8,))

    def broken(module: HloModule) -> None:
        raise ValueError(module.name)

    with pytest.raises(XlanbError, match="pass broken failed inside XLA: ValueError"), xla.using(broken):
        np.testing.assert_allclose(jax.jit(lambda v: v + 1)(x), x + 1)


def test_what_the_real_xla_refuses_is_an_error() -> None:
    with pytest.raises(XlanbError, match="the real XLA rejects the module"):
        xla.trace(
            'HloModule m\nENTRY e { ROOT a = f32[2]{0} custom-call(), custom_call_target="no_such_target" }',
            all_passes=False,
        )
