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
