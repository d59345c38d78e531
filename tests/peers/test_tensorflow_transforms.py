"""TensorFlow accepts the graphs of TransformGraph, and computes the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.tf.tools.graph_transforms import TransformGraph

pytestmark = pytest.mark.peer
RNG = np.random.default_rng(11)
DEPLOY = (
    'strip_unused_nodes(type=float, shape="2,16,16,3") remove_nodes(op=Identity, op=CheckNumerics) '
    "fold_constants(ignore_errors=true) fold_batch_norms fold_old_batch_norms"
)


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def small_network(tf: Any) -> Any:
    """Convolutions with each form of batch normalization that TensorFlow 1 wrote."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [2, 16, 16, 3], name="x")
        y = tf.nn.conv2d(x, f32(3, 3, 3, 8), 1, "SAME")
        y, *_ = v1.nn.fused_batch_norm(y, f32(8), f32(8), f32(8), np.abs(f32(8)), is_training=False)
        y = tf.nn.relu(y)
        y = tf.nn.depthwise_conv2d(y, f32(3, 3, 8, 1), [1, 2, 2, 1], "SAME")
        y = tf.nn.batch_normalization(y, f32(8), np.abs(f32(8)), f32(8), f32(8), 1e-3)
        y = tf.nn.relu(tf.identity(y))
        y = tf.nn.conv2d(y, f32(3, 3, 8, 8), 1, "VALID", dilations=2)
        mean, variance, gamma, beta = f32(8), np.abs(f32(8)), f32(8), f32(8)
        y = (y - mean) * (tf.math.rsqrt(tf.constant(variance) + 1e-3) * gamma) + beta
        y = tf.reshape(tf.nn.relu(y), [2, -1])
        y = tf.matmul(y, f32(int(y.shape[1]), 5)) * f32(5) + f32(5)
        tf.nn.softmax(v1.check_numerics(y, "bad") * 0.01, name="out")
        tf.reduce_sum(x, name="unused")
    return graph.as_graph_def()


@pytest.fixture(scope="module")
def tensorflow() -> Any:
    return pytest.importorskip("tensorflow")


def run(tf: Any, proto: Any, value: Any, feed: str = "x:0") -> Any:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run("out:0", {feed: value})


TRANSFORMS = [
    DEPLOY,
    "add_default_attributes",
    "fold_constants",
    "fold_batch_norms",
    "merge_duplicate_nodes",
    "obfuscate_names",
    "sort_by_execution_order strip_unused_nodes",
    "insert_logging(op=Relu, first_n=0)",
    "flatten_atrous_conv",
    "arithmetic_optimizer",
    "remapper",
    "layout(to=NCHW) layout(to=NHWC) arithmetic_optimizer fold_batch_norms remapper",
    'remove_control_dependencies remove_device set_device(device="/cpu:0")',
]


@pytest.mark.parametrize("transforms", TRANSFORMS)
def test_tensorflow_computes_the_same(tensorflow: Any, transforms: str) -> None:
    proto, value = small_network(tensorflow), f32(2, 16, 16, 3)
    made = TransformGraph(proto, ["x"], ["out"], [transforms])
    assert type(made) is type(proto)
    want = run(tensorflow, proto, value)
    assert want.std() > 1e-3
    np.testing.assert_allclose(run(tensorflow, made, value), want, rtol=2e-3, atol=2e-5)
    if transforms == DEPLOY:
        assert {n.op for n in made.node} <= {
            "Placeholder", "Const", "Conv2D", "DepthwiseConv2dNative", "BiasAdd", "Relu", "Reshape", "MatMul", "Mul",
            "Softmax", "SpaceToBatchND", "BatchToSpaceND",
        }  # fmt: skip
        assert len(made.node) < 0.7 * len(proto.node)


def test_weights_of_eight_bits_are_those_that_tensorflow_reads(tensorflow: Any) -> None:
    import xlanb

    tf = tensorflow
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4, 64], name="x")
        tf.matmul(x, f32(64, 32) * np.float32(3) + np.float32(0.7), name="out")
    made = TransformGraph(graph.as_graph_def(), ["x"], ["out"], ["quantize_weights"])
    value = f32(4, 64)
    want = run(tf, made, value)
    ours = xlanb.tf.Graph.from_graphdef(made.SerializeToString())
    with xlanb.tf.Session(graph=ours) as session:
        np.testing.assert_allclose(session.run("out:0", {"x:0": value}), want, rtol=1e-5, atol=1e-4)
    exact = run(tf, graph.as_graph_def(), value)
    assert 0 < np.abs(want - exact).max() < 0.05 * np.abs(exact).max()


def test_a_keras_model_folds(tensorflow: Any) -> None:
    tf = tensorflow
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((16, 16, 3), batch_size=2), layers.Conv2D(8, 3, use_bias=False), layers.BatchNormalization()]
    )
    model.set_weights([np.abs(f32(*w.shape)) + 0.1 for w in model.get_weights()])
    value = f32(2, 16, 16, 3)
    function = tf.function(lambda x: tf.identity(model(x, training=False), name="out"))
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(function.get_concrete_function(tf.TensorSpec(value.shape, name="x")))
    proto = frozen.graph.as_graph_def()
    made = TransformGraph(proto, ["x"], [proto.node[-1].name], ["inline_partitionedcall", DEPLOY])
    assert not any("BatchNorm" in n.op or n.op in ("Mul", "Rsqrt") for n in made.node)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(made, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            got = session.run(f"{proto.node[-1].name}:0", {"x:0": value})
    np.testing.assert_allclose(got, model(value, training=False).numpy(), rtol=2e-3, atol=2e-4)
