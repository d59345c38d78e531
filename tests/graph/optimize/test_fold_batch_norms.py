"""Batch normalizations folded into the weights before them: fewer nodes, the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n
from xlanb.graph.optimize.fold_batch_norms import fold_batch_norms

RNG = np.random.default_rng(5)


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def norm(x: Any, channels: int, *, training: bool = False) -> Any:
    statistics = [f32(channels), f32(channels), f32(channels), np.abs(f32(channels)) + 0.5]
    return call_n("FusedBatchNormV3", x, *statistics, is_training=training, epsilon=1e-3)[0]


def layers(kind: str) -> tuple[Graph, Any, Any]:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3], name="x")
        conv = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        if kind == "depthwise":
            y = norm(call("DepthwiseConv2dNative", x, f32(3, 3, 3, 2), **conv), 6)
        elif kind == "factor":
            y = call("Mul", call("Conv2D", x, f32(3, 3, 3, 4), **conv), f32(4))
        else:
            y = call("Conv2D", x, f32(3, 3, 3, 4), **conv)
            y = norm(call("BiasAdd", y, f32(4)) if kind == "bias" else y, 4)
        out = call("Relu", y, name="out")
    return graph, x, out


@pytest.mark.parametrize("kind", ["plain", "bias", "depthwise", "factor"])
def test_the_values_stay(kind: str) -> None:
    graph, x, out = layers(kind)
    value = f32(2, 5, 5, 3)
    with tf.Session(graph=graph) as session:
        want = session.run(out, {x: value})
    folded = fold_batch_norms(graph, {"out"})
    assert not any(op.type in {"FusedBatchNormV3", "Mul"} for op in folded)
    assert len(folded) < len(graph)
    with tf.Session(graph=folded) as session:
        np.testing.assert_allclose(session.run("out:0", {"x:0": value}), want, rtol=1e-4, atol=1e-5)
    assert fold_batch_norms(folded, {"out"}) is folded


def test_what_is_trained_or_read_elsewhere_stays() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3])
        conv = call("Conv2D", x, f32(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME", name="conv")
        call("Relu", conv)
        norm(conv, 4)
        variable = tf.Variable(f32(1, 1, 3, 4))
        norm(call("Conv2D", x, variable, strides=[1, 1, 1, 1], padding="SAME"), 4)
        norm(call("Conv2D", x, f32(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME"), 4, training=True)
    assert fold_batch_norms(graph) is graph


def test_the_flag_makes_it_a_pass_of_a_run() -> None:
    graph, x, out = layers("bias")
    value = f32(2, 5, 5, 3)
    with tf.Session(graph=graph) as session:
        want = session.run(out, {x: value})
        with xlanb.flags(xlanb_fold_batch_norms=True):
            stages = [s for s in session.run_stages(out, {x: value}) if s.name == "fold_batch_norms"]
            np.testing.assert_allclose(session.run(out, {x: value}), want, rtol=1e-4, atol=1e-5)
    assert len(stages) == 1


def linear(kind: str, x: Any) -> tuple[Any, int]:
    """A convolution or product of a kind over x, and its channels."""
    conv = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    if kind == "depthwise":
        return call("DepthwiseConv2dNative", x, f32(3, 3, 3, 2), **conv), 6
    if kind == "matmul":
        return call("MatMul", call("Reshape", x, [50, 3]), f32(3, 4)), 4
    if kind == "transposed":
        return call("MatMul", call("Reshape", x, [50, 3]), f32(4, 3), transpose_b=True), 4
    if kind == "conv3d":
        return call(
            "Conv3D", call("Reshape", x, [1, 2, 5, 5, 3]), f32(1, 2, 2, 3, 4), strides=[1] * 5, padding="SAME"
        ), 4
    return call("Conv2D", x, f32(3, 3, 3, 4), **conv), 4


def rsqrt(value: Any) -> Any:
    return call("Rsqrt", call("Add", value, np.float32(1e-3)))


def written_out(form: str, y: Any, n: int) -> Any:
    mean, gamma, beta, variance = f32(n), f32(n), f32(n), np.abs(f32(n)) + 0.5
    if form == "as in a paper":
        return (y - mean) * (rsqrt(variance) * gamma) + beta
    if form == "tf.nn.batch_normalization":
        factor = rsqrt(variance) * gamma
        return y * factor + (beta - mean * factor)
    if form == "sub, div, mul, bias":
        return call("BiasAdd", call("RealDiv", y - mean, np.sqrt(variance)) * gamma, beta)
    if form == "from the other side":
        return mean - y * np.float32(2.5)
    if form == "old op":
        return call(
            "BatchNormWithGlobalNormalization", y, mean, variance, beta, gamma,
            variance_epsilon=1e-3, scale_after_normalization=True,
        )  # fmt: skip
    shaped = [v.reshape((1,) * (y.shape.rank - 1) + (n,)) for v in (gamma, beta)]
    return call("Identity", y * shaped[0]) + shaped[1]


FORMS = ["as in a paper", "tf.nn.batch_normalization", "sub, div, mul, bias", "from the other side", "ranked"]


@pytest.mark.parametrize("kind", ["conv", "depthwise", "matmul", "transposed", "conv3d"])
@pytest.mark.parametrize("form", [*FORMS, "old op"])
def test_written_out_forms_fold(kind: str, form: str) -> None:
    if form == "old op" and kind not in ("conv", "depthwise"):
        return  # the op takes four dimensions
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3], name="x")
        out = call("Relu", written_out(form, *linear(kind, x)), name="out")
    value = f32(2, 5, 5, 3)
    with tf.Session(graph=graph) as session:
        want = session.run(out, {x: value})
    folded = fold_batch_norms(graph, {"out"})
    left = {op.type for op in folded} - {"Placeholder", "Const", "Reshape", "BiasAdd", "Identity", "Relu"}
    assert left == {{"conv": "Conv2D", "depthwise": "DepthwiseConv2dNative", "conv3d": "Conv3D"}.get(kind, "MatMul")}
    with tf.Session(graph=folded) as session:
        np.testing.assert_allclose(session.run("out:0", {"x:0": value}), want, rtol=2e-4, atol=2e-5)
    assert fold_batch_norms(folded, {"out"}) is folded


def test_a_dilated_convolution_folds_through_its_batches() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [1, 6, 6, 3], name="x")
        spread = call("SpaceToBatchND", x, np.array([2, 2], np.int32), np.array([[2, 2], [2, 2]], np.int32))
        y = call("Conv2D", spread, f32(3, 3, 3, 4), strides=[1, 1, 1, 1], padding="VALID")
        back = call("BatchToSpaceND", y, np.array([2, 2], np.int32), np.array([[0, 0], [0, 0]], np.int32))
        call("Relu", norm(back, 4), name="out")
    value = f32(1, 6, 6, 3)
    folded = fold_batch_norms(graph, {"out"})
    assert "FusedBatchNormV3" not in {op.type for op in folded}
    results = []
    for g in (graph, folded):
        with tf.Session(graph=g) as session:
            results.append(session.run("out:0", {"x:0": value}))
    np.testing.assert_allclose(results[1], results[0], rtol=2e-4, atol=2e-5)


def chain(graph: Graph, scale: Any, offset: Any, **attrs: Any) -> None:
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2, 3, 5, 5] if attrs else [2, 5, 5, 3], name="x")
        y = call("Conv2D", x, f32(3, 3, 3, 4), strides=[1, 1, 1, 1], padding="SAME", name="conv", **attrs)
        call("Relu", y * scale + offset, name="out")


def test_channels_first_wants_its_constants_there() -> None:
    graph, other = Graph(), Graph()
    chain(graph, f32(4, 1, 1), f32(1, 4, 1, 1), data_format="NCHW")
    folded = fold_batch_norms(graph, {"out"})
    assert [op.attrs["data_format"] for op in folded if op.type == "BiasAdd"] == ["NCHW"]
    chain(other, f32(5), f32(5), data_format="NCHW")  # a number for each column
    assert fold_batch_norms(other, {"out"}) is other


@pytest.mark.parametrize("shape", [(5, 4), (2, 1, 1, 4), (5, 5, 1)])
def test_factors_that_are_not_by_channel_stay(shape: tuple[int, ...]) -> None:
    graph = Graph()
    chain(graph, f32(*shape), f32(4))
    assert fold_batch_norms(graph, {"out"}) is graph


def test_offsets_alone_and_division_by_zero_stay() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3])
        y = call("Conv2D", x, f32(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME")
        call("Relu", y + f32(4) - f32(4), name="out")
        z = call("Conv2D", x, f32(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME")
        call("Relu", call("RealDiv", z, np.zeros(4, np.float32)))
    assert fold_batch_norms(graph) is graph


def test_a_node_in_the_chain_that_is_fetched_keeps_its_value() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3], name="x")
        y = call("Conv2D", x, f32(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME")
        middle = call("Mul", y, f32(4), name="middle")
        call("Mul", middle, f32(4), name="out")
    value = f32(2, 5, 5, 3)
    folded = fold_batch_norms(graph, {"middle", "out"})
    assert [op.type for op in folded if op.name in ("middle", "out")] == ["Identity", "Mul"]
    for name in ("middle:0", "out:0"):
        results = []
        for g in (graph, folded):
            with tf.Session(graph=g) as session:
                results.append(session.run(name, {"x:0": value}))
        np.testing.assert_allclose(results[1], results[0], rtol=2e-4, atol=2e-5)
