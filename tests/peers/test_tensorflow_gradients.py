"""Gradients of some op types of each kind against TensorFlow's, both orders.

`python -m tests.peers.gradient_sweep` tests all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tests.peers.gradient_sweep import compare

pytestmark = pytest.mark.peer
SOME = (
    "Exp",
    "Pow",
    "MatrixSolve",
    "MatrixDiagV3",
    "Einsum",
    "RFFT",
    "TensorScatterMax",
    "UnsortedSegmentProd",
    "ClipByValue",
    "Conv3D",
    "MaxPoolV2",
    "Qr",
    "Svd",
    "FusedBatchNormV2",
    "RGBToHSV",
    "ExtractImagePatches",
    "TridiagonalSolve",
    "ApproxTopK",
)


@pytest.mark.parametrize("name", SOME)
def test_gradient(name: str) -> None:
    assert compare(name).status == "ok", compare(name).text


def _branches(tf: Any, x: Any, w: Any) -> Any:
    chosen = tf.switch_case(tf.cast(x[1], tf.int32), [lambda: x * w, lambda: x + 1.0, lambda: tf.sin(x) * w])
    return tf.cond(x[0] > 0.5, lambda: chosen * w * x, lambda: tf.exp(w))


def _call(tf: Any, x: Any, w: Any) -> Any:
    @tf.function  # type: ignore[misc]
    def callee(a: Any, b: Any) -> Any:
        return tf.sin(a * b) + a

    return callee(x, w) * x


def _loop(tf: Any, x: Any, w: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        inner = tf.while_loop(lambda j, _: j < 3, lambda j, b: (j + 1, tf.sin(b) * w + a), [0, a])[1]
        return i + 1, tf.cond(i > 1, lambda: inner * x, lambda: inner)

    return tf.while_loop(lambda i, _: i < 4, body, [0, x])[1]


def _open_loop(tf: Any, x: Any, w: Any) -> Any:
    return tf.while_loop(lambda _, a: tf.reduce_sum(a) < 50.0, lambda i, a: (i + 1, a * 1.5 + w * w), [0, x])[1]


def _scan(tf: Any, x: Any, w: Any) -> Any:
    return tf.scan(lambda a, e: a * w[0] + tf.sin(e), x, initializer=tf.constant(1.0, tf.float64))


def _mapped(tf: Any, x: Any, w: Any) -> Any:
    return tf.map_fn(lambda e: tf.exp(e) * w, x)


def _ragged(tf: Any, x: Any, w: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(x, [0, 2, 2, 3]).to_tensor(w[0]) ** 2.0


@pytest.mark.parametrize("build", [_branches, _call, _loop, _open_loop, _scan, _mapped, _ragged])
def test_gradient_of_functions(build: Callable[..., Any]) -> None:
    """TensorFlow differentiates its own graph; xlanb reads the forward graph and differentiates
    that.
    """
    import tensorflow as tf

    from xlanb import tf as own
    from xlanb.graph.gradients import gradients

    v1 = tf.compat.v1
    arrays = [np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.2, -0.3])]
    with tf.Graph().as_default() as graph:
        xs = [v1.placeholder(tf.float64, [3]) for _ in arrays]
        y = build(tf, *xs)
        forward = graph.as_graph_def().SerializeToString()
        slopes = [tf.convert_to_tensor(g) for g in v1.gradients(y, xs)]
        with v1.Session(graph=graph) as session:
            expected = session.run([y, *slopes], dict(zip(xs, arrays, strict=True)))
    read = own.Graph.from_graphdef(forward)
    with read.as_default(), own.Session(graph=read) as session:
        given = [read.get_tensor_by_name(x.name) for x in xs]
        result = read.get_tensor_by_name(y.name)
        got = session.run([result, *gradients(result, given)], dict(zip(given, arrays, strict=True)))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
