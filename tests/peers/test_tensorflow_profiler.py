"""Float operations of nodes beside those that TensorFlow counts."""

from __future__ import annotations

import pytest

from xlanb import tf as own
from xlanb.tf.float_operations import float_operations

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.peer


def test_counts_are_those_of_tensorflow() -> None:
    from tensorflow.python.framework import ops

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 8, 8, 3])
        k, d = v1.placeholder(tf.float32, [3, 3, 3, 4]), v1.placeholder(tf.float32, [3, 3, 3, 2])
        y = tf.nn.conv2d(x, k, [1, 2, 2, 1], "SAME")
        y = tf.nn.bias_add(y, v1.placeholder(tf.float32, [4]))
        y = tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "VALID") + tf.nn.avg_pool2d(y, 2, 2, "VALID")
        flat = tf.reshape(y, [2, -1])
        w = v1.placeholder(tf.float32, [16, 5])
        logits = tf.matmul(flat, w) / 2.0
        z = tf.nn.softmax(logits) - tf.math.rsqrt(tf.square(logits) + 1.0) * tf.maximum(-logits, 1.0)
        total = tf.reduce_mean(z) + tf.reduce_sum(tf.math.squared_difference(z, 1.0)) + tf.nn.l2_loss(w)
        tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME")
        tf.argmax(logits, 1)
        v1.gradients(total, [x, k, w])
        expected = {
            o.name: ops.get_stats_for_node_def(graph, o.node_def, "flops").value or 0 for o in graph.get_operations()
        }
        data = graph.as_graph_def().SerializeToString()
    read = own.Graph.from_graphdef(data)
    different = {
        (op.name, op.type): (float_operations(op), expected[op.name])
        for op in read
        if float_operations(op) != expected[op.name]
    }
    assert not different
