"""Graphs of the same programs by TensorFlow and xlanb: equal nodes, names, inputs and
attributes.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def tf1():
    """TensorFlow with the names and the behaviour of version 1."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("tensorflow").compat.v1
        module.disable_v2_behavior()
    module.logging.set_verbosity(module.logging.ERROR)
    return module


def linear_regression(tf, use_resource=None):
    W = tf.get_variable(shape=[], name="weights", use_resource=use_resource)
    b = tf.get_variable(shape=[], name="bias", use_resource=use_resource)
    x = tf.placeholder(shape=[None], dtype=tf.float32, name="x_observed")
    y = tf.placeholder(shape=[None], dtype=tf.float32, name="y_observed")
    loss = tf.reduce_mean(tf.square(W * x + b - y))
    tf.train.GradientDescentOptimizer(0.025).minimize(loss)
    tf.global_variables_initializer()


def linear_regression_resource(tf):
    linear_regression(tf, use_resource=True)


def relu_layer(tf):
    x, w = tf.placeholder(tf.float32, [None, 4], name="x"), tf.placeholder(tf.float32, [4, 3], name="w")
    b = tf.placeholder(tf.float32, [3], name="b")
    tf.gradients(tf.nn.relu(x @ w + b), [x, w, b])


def adam(tf, use_resource=False):
    with tf.variable_scope("layer", use_resource=use_resource):
        w, b = tf.get_variable("w", [3, 4]), tf.get_variable("b", [4], initializer=tf.zeros_initializer())
    x = tf.placeholder(tf.float32, [8, 3])
    y = tf.nn.relu(tf.matmul(x, w) + b)
    tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(y * y))


def adam_resource(tf):
    adam(tf, use_resource=True)


def momentum(tf):
    w = tf.Variable(tf.truncated_normal([3, 4], stddev=0.1, seed=3), name="w")
    x, step = tf.placeholder(tf.float32, [None, 3]), tf.Variable(0, trainable=False, name="step")
    loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, w))) + 0.1 * tf.reduce_sum(w * w)
    tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, global_step=step)


def scopes(tf):
    with tf.name_scope("a") as scope:
        x, y = tf.constant(1.0, name="x"), tf.constant(2.0, name="x")
        with tf.name_scope("b"):
            tf.group(x + y, x + y)
    with tf.name_scope("a"):
        tf.constant(1)
    with tf.name_scope(scope):
        tf.constant(2, name="back")
    with tf.control_dependencies([x]):
        tf.identity(y)
        tf.no_op()
    with tf.device("/cpu:0"):
        tf.constant(1.0)
    tf.tuple([x, y])
    with tf.variable_scope("v") as variables:
        a = tf.get_variable("a", [2])
    with tf.variable_scope(variables, reuse=True):
        tf.get_variable("a", [2])
    with tf.variable_scope("v", reuse=tf.AUTO_REUSE):
        tf.get_variable("n", [2], dtype=tf.int32)
        tf.get_variable("c", initializer=tf.constant(1.0))
    a.assign([1.0, 2.0])
    a.assign_add([1.0, 2.0])
    tf.Variable(3.0)
    tf.clip_by_global_norm([x, y], 1.0)


def operators(tf):
    x, y = tf.placeholder(tf.float32, [2, 3], name="x"), tf.placeholder(tf.float32, [3], name="y")
    results = [
        x + 1,
        1 - x,
        x * 2,
        2 / x,
        x / y,
        x**2,
        -x,
        x % y,
        x // y,
        2.0**x,
        x @ tf.transpose(x),
        tf.maximum(x, y),
        tf.exp(x),
        tf.log(x),
        x - y,
    ]
    for result in results:
        tf.gradients(result, [x, y])


PROGRAMS = [linear_regression, linear_regression_resource, relu_layer, adam, adam_resource, momentum, scopes, operators]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_graph(tf1, program):
    from xlanb import tf

    with tf1.Graph().as_default() as theirs:
        program(tf1)
    ours = tf.Graph()
    with ours.as_default():
        program(tf)
    read = tf.Graph.from_graphdef(theirs.as_graph_def().SerializeToString())
    assert facts(ours) == facts(read)


def facts(graph):
    return [(op.name, op.type, op.node_inputs, op.device, {k: _plain(v) for k, v in op.attrs.items()}) for op in graph]


def _plain(value):
    """Floats as the 32 bits that a GraphDef has, arrays as something to compare."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tolist() if value.dtype == object else value.tobytes()
    return float(np.float32(value)) if isinstance(value, float) else value


def test_the_op_table_is_tensorflows(tf1):
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    from xlanb.graph.ops import get_op, op_names

    definitions = op_def_pb2.OpList()
    definitions.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    theirs = {d.name: d for d in definitions.op}
    for name in op_names():
        op, definition = get_op(name), theirs[name]
        for side in ("input", "output"):
            mine = [(a.name, a.type_attr, a.number_attr, a.type_list_attr, a.is_ref) for a in getattr(op, f"{side}s")]
            assert mine == [
                (a.name, a.type_attr, a.number_attr, a.type_list_attr, a.is_ref)
                for a in getattr(definition, f"{side}_arg")
            ], name
        mine = [(a.name, a.kind, a.has_default) for a in op.attrs if a.name != "bad_color"]
        assert mine == [
            (a.name, a.type, a.HasField("default_value")) for a in definition.attr if a.name != "bad_color"
        ], name
        assert op.is_stateful == definition.is_stateful, name
