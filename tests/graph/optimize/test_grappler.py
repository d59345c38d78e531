"""Grappler's rewrites: each by its name, with a reason, and the values that were there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import FlagError, GraphValueError
from xlanb.explorer.transform_trace import transform_trace
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n
from xlanb.graph.optimize.grappler import arithmetic_optimizer, layout, remapper

RNG = np.random.default_rng(3)


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def built(build: Callable[[Any], Any], *shape: int) -> Graph:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, list(shape or (2, 3)), name="x")
        call("Identity", build(x), name="out")
    return graph


def run(graph: Graph, value: Any) -> Any:
    with tf.Session(graph=graph) as session:
        return session.run("out:0", {"x:0": value})


def types(graph: Graph) -> list[str]:
    return sorted(op.type for op in graph if op.type not in ("Const", "Placeholder") and op.name != "out")


ONE = np.float32(1)
CASES: dict[str, tuple[Callable[[Any], Any], list[str], str]] = {
    "RemoveInvolution": (lambda x: call("Neg", call("Neg", x)), [], "Neg of Neg"),
    "RemoveIdentityTranspose": (
        lambda x: call("Transpose", call("Transpose", x, [1, 0]), [1, 0]), [], "the permutations [1, 0] and [1, 0] cancel"
    ),
    "RemoveRedundantReshape": (lambda x: call("Reshape", call("Reshape", x, [6]), [2, 3]), [], "does not depend on the shape"),
    "RemoveRedundantCast": (lambda x: call("Cast", x, DstT=tf.float32), [], "is float32 already"),
    "SimplifyArithmeticOperations": (lambda x: call("Mul", x, np.ones((2, 3), np.float32)), [], "Mul with 1"),
    "ReplaceMulWithSquare": (lambda x: call("Mul", x, x), ["Square"], "both factors are the same tensor"),
    "ConvertPow": (lambda x: call("Pow", x, np.float32(2)), ["Square"], "the power 2 is Square"),
    "ConvertLog1p": (lambda x: call("Log", call("Add", call("Abs", x), ONE)), ["Abs", "Log1p"], "more exact as Log1p"),
    "ConvertExpm1": (lambda x: call("Sub", call("Exp", x), ONE), ["Expm1"], "more exact as Expm1"),
    "RemoveNegation": (lambda x: call("Add", call("Neg", x), call("Abs", x)), ["Abs", "Sub"], "first operand is negated"),
    "HoistCommonFactorOutOfAggregation": (
        lambda x: call("Add", call("Mul", x, call("Exp", x)), call("Mul", x, call("Abs", x))),
        ["Abs", "Add", "Exp", "Mul"], "have the factor x:0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_arithmetic_by_its_names(rule: str) -> None:
    build, left, why = CASES[rule]
    graph = built(build)
    made, rewrites = arithmetic_optimizer(graph, {"x", "out"})
    assert rule in [r.rule for r in rewrites]
    assert why in " ".join(r.why for r in rewrites)
    assert types(made) == left
    value = f32(2, 3)
    np.testing.assert_allclose(run(made, value), run(graph, value), rtol=1e-5, atol=1e-6)


def test_three_transposes_become_one() -> None:
    graph = built(lambda x: call("Transpose", call("Transpose", x, [1, 2, 0]), [1, 0, 2]), 2, 3, 4)
    made, _ = arithmetic_optimizer(graph, {"x", "out"})
    assert types(made) == ["Transpose"]
    value = f32(2, 3, 4)
    np.testing.assert_array_equal(run(made, value), run(graph, value))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: call("Mul", x, np.ones((4, 1, 1), np.float32)),  # it broadcasts
        lambda x: call("RealDiv", ONE, x),
        lambda x: call("Sub", np.float32(0), x),
        lambda x: call("Transpose", x, [1, 0]),
        lambda x: call("Reshape", x, [3, 2]),
        lambda x: call("Pow", x, np.float32(1.5)),
        lambda x: call("Add", call("Mul", x, np.ones((1, 3), np.float32) * 2), call("Mul", x, np.float32(3))),
    ],
)
def test_what_would_be_another_value_stays(build: Callable[[Any], Any]) -> None:
    graph = built(build)
    assert arithmetic_optimizer(graph, {"x", "out"}) == (graph, [])


def test_what_is_fed_or_fetched_is_not_looked_through() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3], name="x")
        middle = call("Neg", x, name="middle")
        call("Identity", call("Neg", middle), name="out")
    made, rewrites = arithmetic_optimizer(graph, {"middle", "out"}, {"middle"})
    assert (made, rewrites) == (graph, [])
    made, _ = arithmetic_optimizer(graph, {"middle", "out"})
    assert types(made) == ["Neg"]


def network(*, fetched: str = "") -> Graph:
    """Build a small NHWC network: convolution, bias, activation, pooling, a residual sum, a
    product.
    """
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 9, 8, 3], name="x")
        conv = {"strides": [1, 1, 2, 1], "padding": "SAME"}
        y = call("Relu", call("BiasAdd", call("Conv2D", x, f32(3, 3, 3, 4), **conv), f32(4)))
        z = call(
            "Conv2D",
            y,
            f32(3, 3, 4, 4),
            strides=[1] * 4,
            padding="EXPLICIT",
            explicit_paddings=[0, 0, 1, 1, 2, 0, 0, 0],
        )
        z = call_n("FusedBatchNormV3", z, f32(4), f32(4), f32(4), np.abs(f32(4)), is_training=False)[0]
        z = call("LeakyRelu", call("AddV2", z, y) * np.float32(0.5), alpha=0.3)
        z = call("MaxPool", z, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="VALID")
        flat = call("Reshape", z, [2, -1])
        size = int(flat.shape[1])
        out = call("Elu", call("BiasAdd", call("MatMul", flat, f32(size, 5)), f32(5)))
        call("Identity", out, name="out")
    return graph


def test_the_remapper_fuses_contractions_with_what_follows() -> None:
    graph, value = network(), f32(2, 9, 8, 3)
    made, rewrites = remapper(graph, {"x", "out"})
    assert [(r.rule, made.get_operation_by_name(f"{r.node}/fused").attrs["fused_ops"]) for r in rewrites] == [
        ("FuseContractionWithBiasAdd", ("BiasAdd", "Relu")),
        ("FuseContractionWithBiasAdd", ("BiasAdd", "Elu")),
    ]
    assert {"_FusedConv2D", "_FusedMatMul"} <= set(types(made))
    np.testing.assert_allclose(run(made, value), run(graph, value), rtol=2e-4, atol=1e-5)
    assert remapper(made, {"x", "out"}) == (made, [])


def test_a_bias_that_is_fetched_is_not_fused() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        bias = call("BiasAdd", call("MatMul", x, f32(3, 4)), f32(4), name="bias")
        call("Identity", call("Relu", bias), name="out")
    assert remapper(graph, {"bias", "out"}) == (graph, [])


@pytest.mark.parametrize("to", ["NCHW", "NHWC"])
def test_layouts_change_between_two_transposes(to: str) -> None:
    graph, value = network(), f32(2, 9, 8, 3)
    want = run(graph, value)
    made, rewrites = layout(graph, {"x", "out"}, (), "NCHW")
    assert {r.rule for r in rewrites} == {"ConvertLayout", "SinkTranspose", "RemoveIdentityTranspose"}
    assert types(made).count("Transpose") == 2  # of the image, and before the reshape
    formats = {op.attrs["data_format"] for op in made if "data_format" in op.attrs and op.outputs[0].shape.rank == 4}
    assert formats == {"NCHW"}
    pool = next(op for op in made if op.type == "MaxPool")
    assert (pool.attrs["ksize"], pool.attrs["strides"]) == ((1, 1, 3, 2), (1, 1, 2, 1))
    if to == "NHWC":
        made, _ = layout(made, {"x", "out"}, (), "NHWC")
        assert types(made) == types(graph)
        np.testing.assert_allclose(run(made, value), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(GraphValueError, match="expects NCHW or NHWC, got 'CHWN'"):
        layout(graph, (), (), "CHWN")


def test_transforms_tell_the_rewrites_with_their_reasons() -> None:
    trace = transform_trace(network(), ["x"], ["out"], ["layout(to=NCHW) remapper"])
    said = [(d.action, d.subject, d.predicates[0].name) for d in trace["remapper"].decisions]
    assert said[0][0] == "FuseContractionWithBiasAdd"
    assert said[0][2].endswith("are fused into it")
    assert any("the device prefers NCHW" in d.predicates[0].name for d in trace["layout"].decisions)


def test_the_flag_makes_them_passes_of_a_run() -> None:
    graph, value = network(), f32(2, 9, 8, 3)
    want = run(graph, value)
    with (
        tf.Session(graph=graph) as session,
        xlanb.flags("--xlanb_grappler=arithmetic_optimizer,remapper"),
    ):
        stages = {s.name: s for s in session.run_stages("out:0", {"x:0": value})}
        np.testing.assert_allclose(session.run("out:0", {"x:0": value}), want, rtol=2e-4, atol=1e-5)
    assert stages["remapper"].summary == "FuseContractionWithBiasAdd twice"
    assert stages["remapper"].decisions[0].subject == ("Relu",)
    with (
        tf.Session(graph=graph) as session,
        xlanb.flags("--xlanb_grappler=remaper"),
        pytest.raises(FlagError, match="did you mean 'remapper'"),
    ):
        session.run("out:0", {"x:0": value})
