"""Programs of layers, losses, branches, loops and recurrent networks against TensorFlow.

Graphs are equal node for node, and values over several steps.
"""

# ruff: noqa: ARG005 - loops hand all variables to both functions

import numpy as np
import pytest

from tests.peers.test_tensorflow_graphs import facts, tf1  # noqa: F401 - a fixture

pytestmark = pytest.mark.peer


def loop(tf):
    x, w = tf.placeholder(tf.float32, [3]), tf.get_variable("w", [3])
    y = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.tanh(a * w) + x), [0, x])[1]
    tf.gradients(y, [x, w])


def nested_loops(tf):
    x, w = tf.placeholder(tf.float32, [3]), tf.get_variable("w", [3])

    def body(i, a):
        return i + 1, tf.while_loop(lambda j, b: j < i + 1, lambda j, b: (j + 1, tf.sin(b * w)), [0, a])[1]

    tf.gradients(tf.while_loop(lambda i, a: i < 3, body, [0, x])[1], [x, w])


def branch_in_a_loop(tf):
    x, w = tf.placeholder(tf.float32, [None]), tf.get_variable("w", [])

    def body(i, a):
        return i + 1, tf.cond(tf.equal(i, 1), lambda: a * w, lambda: tf.sin(a * x))

    tf.gradients(tf.while_loop(lambda i, a: i < 3, body, [0, x])[1], [x, w])


def branches(tf):
    x, p = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [])
    w = tf.get_variable("w", [3], use_resource=True)
    tf.gradients(tf.cond(p, lambda: [x * w, w + 1], lambda: [tf.exp(x), w]), [x, w])
    y = tf.placeholder(tf.float32, [])
    tf.case([(y < 1, lambda: y * 2), (y < 2, lambda: tf.exp(y))], default=lambda: y)
    tf.case([(y < 1, lambda: y * 2), (y < 2, lambda: tf.exp(y))], exclusive=True)
    tf.Assert(y > 0, ["text"])


def loop_in_a_branch(tf):
    x, w, p = tf.placeholder(tf.float32, [3]), tf.get_variable("w", [3]), tf.placeholder(tf.bool, [])

    def looped():
        return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.tanh(a * w) + x), [0, x])[1]

    tf.gradients(tf.cond(p, looped, lambda: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: w)), [x, w])


def gather_in_a_loop(tf, use_resource=False):
    w, ids = tf.get_variable("w", [5, 3], use_resource=use_resource), tf.placeholder(tf.int32, [None])
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.reduce_sum(tf.gather(w, ids))), [0, 0.0])[1]
    tf.gradients(y, [w])


def gather_resource_in_a_loop(tf):
    gather_in_a_loop(tf, use_resource=True)


def bounded_loop(tf):
    x = tf.placeholder(tf.float32, [None, 3])
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
    tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, tf.concat([a, a], 0)], [0, x], shapes, maximum_iterations=5)


def functional(tf):
    x, w = tf.placeholder(tf.float32, [3]), tf.get_variable("w", [3])
    tf.gradients(tf.scan(lambda a, e: a * w + e, tf.ones([5, 3]), x), [x, w])
    y = tf.placeholder(tf.float32, [None, 3])
    tf.gradients(tf.map_fn(lambda e: e * w, y), [y, w])
    tf.map_fn(lambda e: (e[0] * e[1], tf.cast(e[0], tf.int32)), (x, x + 1), dtype=(tf.float32, tf.int32))
    tf.foldl(lambda a, e: a + e * e, x)
    tf.foldr(lambda a, e: a + e * e, x, initializer=0.0)


def losses(tf):
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    k, w = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [4, 3])
    for name in ("mean_squared_error", "absolute_difference", "huber_loss", "log_loss", "hinge_loss"):
        getattr(tf.losses, name)(y, x)
    tf.losses.sigmoid_cross_entropy(y, x, label_smoothing=0.1)
    tf.losses.softmax_cross_entropy(y, x, label_smoothing=0.1)
    tf.losses.sparse_softmax_cross_entropy(k, x)
    tf.losses.mean_squared_error(w, w, weights=w)
    tf.losses.cosine_distance(y, x, axis=1)
    tf.losses.get_total_loss()
    for reduction in ("none", "weighted_sum", "weighted_mean", "weighted_sum_over_batch_size"):
        tf.losses.mean_squared_error(w, w, weights=2.0, reduction=reduction)


def decays(tf):
    s = tf.Variable(0, trainable=False)
    tf.train.exponential_decay(0.1, s, 100, 0.9, staircase=True)
    tf.train.natural_exp_decay(0.1, s, 100, 0.9)
    tf.train.inverse_time_decay(0.1, s, 100, 0.9)
    tf.train.polynomial_decay(0.1, s, 100)
    tf.train.polynomial_decay(0.1, s, 100, cycle=True, power=2.0)
    tf.train.cosine_decay(0.1, s, 100, alpha=0.1)
    tf.train.linear_cosine_decay(0.1, s, 100)
    tf.train.piecewise_constant(s, [10, 20], [1.0, 0.5, 0.1])


def optimizers(tf):
    x = tf.placeholder(tf.float32, [8, 3])
    for use_resource in (False, True):
        with tf.variable_scope(f"v{use_resource}", use_resource=use_resource):
            w = tf.get_variable("w", [3, 4])
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        step = tf.train.get_or_create_global_step()
        for optimizer in (
            tf.train.AdagradOptimizer(0.1), tf.train.AdadeltaOptimizer(0.1), tf.train.RMSPropOptimizer(0.1),
            tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), tf.train.RMSPropOptimizer(0.1, centered=True, name="Centered"),
        ):  # fmt: skip
            optimizer.minimize(loss, global_step=step, var_list=[w])


GRAPHS = [
    loop, nested_loops, branch_in_a_loop, branches, loop_in_a_branch, gather_in_a_loop, gather_resource_in_a_loop, bounded_loop, functional,
    losses, decays, optimizers,
]  # fmt: skip


@pytest.mark.parametrize("program", GRAPHS, ids=lambda p: p.__name__)
def test_graph(tf1, program):  # noqa: F811 - the fixture
    from xlanb import tf

    with tf1.Graph().as_default() as theirs:
        program(tf1)
    ours = tf.Graph()
    with ours.as_default():
        program(tf)
    read = tf.Graph.from_graphdef(theirs.as_graph_def().SerializeToString())
    assert facts(ours) == facts(read)


# ------------------------------------------------------------------------------------------- values


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dense(tf, x, units, name, activation=None):
    """A layer by hand, with the same initial values in both libraries."""
    size = x.shape.as_list()[-1]
    w = tf.get_variable(f"{name}_w", initializer=values(len(name) + size, size, units) * 0.3)
    b = tf.get_variable(f"{name}_b", [units], initializer=tf.zeros_initializer())
    y = tf.matmul(x, w) + b
    return y if activation is None else activation(y)


def classifier(loss_name, optimizer):
    def build(tf):
        x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int32, [None])
        logits = dense(tf, dense(tf, x, 8, "a", tf.nn.relu), 4, "b")
        hot = tf.one_hot(y, 4)
        if loss_name == "sparse":
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        elif loss_name == "sigmoid":
            loss = tf.losses.sigmoid_cross_entropy(hot, logits)
        elif loss_name == "huber":
            loss = tf.losses.huber_loss(hot, tf.nn.softmax(logits))
        else:
            loss = tf.losses.softmax_cross_entropy(hot, logits, label_smoothing=0.1)
        return loss, optimizer(tf), {x: values(1, 16, 6), y: np.arange(16) % 4}

    return build


def activation(name):
    def build(tf):
        x = tf.placeholder(tf.float32, [None, 6])
        y = dense(tf, dense(tf, x, 8, "a", getattr(tf.nn, name)), 1, "b")
        return tf.reduce_mean(tf.square(y - 1.0)), tf.train.AdamOptimizer(0.02), {x: values(1, 16, 6)}

    return build


def convolution(tf):
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    k = tf.get_variable("k", initializer=values(2, 3, 3, 3, 4) * 0.2)
    d = tf.get_variable("d", initializer=values(3, 3, 3, 4, 1) * 0.2)
    h = tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(x, k, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.nn.lrn(tf.nn.depthwise_conv2d(h, d, [1, 1, 1, 1], "SAME"), 2)
    mean, variance = tf.nn.moments(h, [0, 1, 2])
    h = tf.nn.batch_normalization(h, mean, variance, tf.zeros([4]), tf.ones([4]), 1e-3)
    h = tf.nn.avg_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return (
        tf.reduce_mean(tf.square(tf.reduce_sum(h, [1, 2, 3]) - 1)),
        tf.train.MomentumOptimizer(0.01, 0.9),
        {x: values(1, 4, 8, 8, 3)},
    )


def embedding(tf):
    ids, table = tf.placeholder(tf.int32, [None, 3]), tf.get_variable("t", initializer=values(5, 10, 4))
    return (
        tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids))),
        tf.train.AdagradOptimizer(0.3),
        {ids: [[1, 2, 2], [9, 1, 0]]},
    )


def looped(tf):
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.get_variable("w", initializer=values(6, 4, 4) * 0.4)
    y = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w))), [0, x])[1]
    return tf.reduce_mean(tf.square(y - 0.5)), tf.train.AdamOptimizer(0.05), {x: values(1, 6, 4)}


def scanned(tf):
    x = tf.placeholder(tf.float32, [7, 4])
    w = tf.get_variable("w", initializer=values(6, 4, 4) * 0.4)
    y = tf.scan(lambda a, e: tf.tanh(tf.matmul(a[None, :], w)[0] + e), x, tf.zeros([4]))
    z = tf.map_fn(lambda e: tf.reduce_sum(e * e), y)
    return tf.reduce_mean(z) + tf.reduce_mean(tf.square(y - 0.3)), tf.train.RMSPropOptimizer(0.02), {x: values(1, 7, 4)}


def branched(tf):
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.get_variable("w", initializer=values(6, 4, 4) * 0.4)
    y = tf.cond(tf.reduce_sum(w) > 0, lambda: tf.matmul(x, w), lambda: tf.nn.elu(tf.matmul(x, -w)))
    clipped = tf.clip_by_norm(y, 3.0)
    return tf.reduce_mean(tf.square(clipped - 0.5)), tf.train.GradientDescentOptimizer(0.2), {x: values(1, 6, 4)}


def recurrent(tf):
    """A cell by hand under dynamic_rnn, with lengths."""
    x, lengths = tf.placeholder(tf.float32, [None, 6, 5]), tf.placeholder(tf.int32, [None])
    w = tf.get_variable("w", initializer=values(7, 9, 4) * 0.4)

    class Cell:
        state_size = output_size = 4

        def zero_state(self, batch_size, dtype):
            return tf.zeros([batch_size, 4], dtype)

        def __call__(self, inputs, state, scope=None):
            new = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), w))
            return new, new

    outputs, _ = tf.nn.dynamic_rnn(Cell(), x, sequence_length=lengths, dtype=tf.float32)
    feeds = {x: values(1, 3, 6, 5), lengths: [6, 2, 4]}
    return tf.reduce_mean(tf.square(outputs - 0.5)), tf.train.AdamOptimizer(0.05), feeds


def clipped_gradients(tf):
    x = tf.placeholder(tf.float32, [None, 6])
    loss = tf.reduce_mean(tf.square(dense(tf, x, 3, "a") - 5.0))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(tf.train.exponential_decay(0.3, step, 2, 0.5))
    slopes, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    slopes, _ = tf.clip_by_global_norm(slopes, 1.0)
    return loss, optimizer.apply_gradients(zip(slopes, variables, strict=True), global_step=step), {x: values(1, 8, 6)}


VALUES = {
    **{f"{loss}": classifier(loss, lambda tf: tf.train.GradientDescentOptimizer(0.3)) for loss in ("sparse", "sigmoid", "huber", "smooth")},
    "momentum": classifier("sparse", lambda tf: tf.train.MomentumOptimizer(0.1, 0.9)),
    "nesterov": classifier("sparse", lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
    "adam": classifier("sparse", lambda tf: tf.train.AdamOptimizer(0.05)),
    "rmsprop": classifier("sparse", lambda tf: tf.train.RMSPropOptimizer(0.02, momentum=0.5)),
    "centered": classifier("sparse", lambda tf: tf.train.RMSPropOptimizer(0.02, centered=True)),
    "adagrad": classifier("sparse", lambda tf: tf.train.AdagradOptimizer(0.2)),
    "adadelta": classifier("sparse", lambda tf: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-3)),
    "ftrl": classifier("sparse", lambda tf: tf.train.FtrlOptimizer(0.2, l1_regularization_strength=0.01)),
    **{name: activation(name) for name in ("elu", "selu", "relu6", "softplus", "softsign", "tanh", "sigmoid", "leaky_relu")},
    "convolution": convolution, "embedding": embedding, "looped": looped, "scanned": scanned, "branched": branched, "recurrent": recurrent,
    "clipped_gradients": clipped_gradients,
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(tf1, name):  # noqa: F811 - the fixture
    from xlanb import tf

    found = []
    for library in (tf1, tf):
        with library.Graph().as_default():
            loss, optimizer, feeds = VALUES[name](library)
            train = optimizer.minimize(loss) if hasattr(optimizer, "minimize") else optimizer
            with library.Session() as session:
                session.run(library.global_variables_initializer())
                steps = [session.run([loss, train], feeds)[0] for _ in range(6)]
                found.append((steps, session.run(library.trainable_variables())))
    assert np.allclose(found[0][0], found[1][0], rtol=2e-4, atol=1e-5)
    for theirs, ours in zip(found[0][1], found[1][1], strict=True):
        assert np.allclose(theirs, ours, rtol=2e-3, atol=2e-4)
