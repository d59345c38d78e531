"""Layers, cells, optimizers, savers and their kin: what programs train with."""

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import FeedError, GraphTypeError, GraphValueError

RNG = np.random.default_rng(0)
SEQUENCES = RNG.random((4, 6, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def losses(loss, optimizer=None, feeds=None, steps=6):
    train = (optimizer or tf.train.AdamOptimizer(0.01)).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [float(session.run([loss, train], feeds)[0]) for _ in range(steps)]


def test_a_convolutional_network_of_layers():
    x = tf.placeholder(tf.float32, [None, 12, 12, 3])
    y, training = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.bool, [])
    regularizer = tf.contrib.layers.l2_regularizer(1e-3)
    h = tf.layers.conv2d(x, 8, 3, padding="same", activation=tf.nn.relu, kernel_regularizer=regularizer)
    h = tf.layers.max_pooling2d(tf.layers.batch_normalization(h, training=training), 2, 2)
    h = tf.layers.conv2d_transpose(tf.layers.separable_conv2d(h, 8, 3), 4, 3, 2)
    h = tf.layers.dropout(tf.layers.flatten(tf.layers.average_pooling2d(h, 2, 2)), 0.3, training=training)
    logits = tf.layers.dense(h, 5, name="out")
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits) + tf.add_n(tf.losses.get_regularization_losses())
    names = [v.name for v in tf.global_variables()]
    assert names[:6] == [
        "conv2d/kernel:0", "conv2d/bias:0", "batch_normalization/gamma:0", "batch_normalization/beta:0",
        "batch_normalization/moving_mean:0", "batch_normalization/moving_variance:0",
    ]  # fmt: skip
    assert names[-2:] == ["out/kernel:0", "out/bias:0"]
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    feeds = {x: RNG.random((8, 12, 12, 3)), y: RNG.integers(0, 5, 8), training: True}
    found = losses(loss, feeds=feeds, steps=12)
    assert found[-1] < 0.8 * found[0]


def test_moving_averages_move():
    x = tf.placeholder(tf.float32, [None, 3])
    tf.layers.batch_normalization(x, momentum=0.9, training=True)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    data = RNG.random((16, 3)).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(updates, {x: data})
        mean, variance = (session.read_variable(f"batch_normalization/moving_{n}") for n in ("mean", "variance"))
    assert np.allclose(mean, 0.1 * data.mean(0), atol=1e-6)
    assert np.allclose(variance, 0.9 + 0.1 * data.var(0), atol=1e-6)


def test_layers_share_variables_where_they_are_reused():
    x = tf.ones([2, 3])
    tf.layers.dense(x, 4, name="shared")
    tf.layers.dense(x, 4, name="shared", reuse=True)
    with pytest.raises(GraphValueError, match="already exists"):
        tf.layers.dense(x, 4, name="shared")
    with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
        tf.layers.dense(x, 4, name="d")
        tf.layers.dense(x, 4, name="d")
    layer = tf.layers.Dense(4)
    layer(x)
    layer(x)
    tf.layers.dense(x, 4)
    names = [v.op.name for v in tf.global_variables()]
    expected = ["shared", "tower/d", "dense", "dense_1"]
    assert names == [f"{n}/{part}" for n in expected for part in ("kernel", "bias")]


@pytest.mark.parametrize("name", ["BasicRNNCell", "BasicLSTMCell", "GRUCell", "LSTMCell"])
def test_recurrent_networks_learn(name):
    x, lengths = tf.placeholder(tf.float32, [None, 6, 5]), tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.MultiRNNCell([getattr(tf.nn.rnn_cell, name)(7) for _ in range(2)])
    outputs, _ = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
    assert outputs.shape.as_list() == [None, 6, 7]
    loss = tf.reduce_mean(tf.square(outputs - 1.0))
    feeds = {x: SEQUENCES, lengths: [6, 3, 1, 4]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(outputs, feeds)
    assert not found[1, 3:].any()
    assert found[1, 2].any()
    trained = losses(loss, tf.train.AdamOptimizer(0.05), feeds)
    assert trained[-1] < trained[0]


def test_lstm_step_is_the_formula():
    x = tf.placeholder(tf.float32, [2, 3])
    cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    state = tf.nn.rnn_cell.LSTMStateTuple(tf.fill([2, 4], 0.3), tf.fill([2, 4], -0.2))
    output, new = cell(x, state)
    data = RNG.random((2, 3)).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias = (session.read_variable(f"basic_lstm_cell/{n}") for n in ("kernel", "bias"))
        found = session.run([output, new.c], {x: data})
    i, j, f, o = np.split(np.concatenate([data, np.full((2, 4), -0.2)], 1) @ kernel + bias, 4, axis=1)

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    c = 0.3 * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    assert np.allclose(found[1], c, atol=1e-5)
    assert np.allclose(found[0], np.tanh(c) * sigmoid(o), atol=1e-5)


def test_static_and_dynamic_walks_agree():
    x = tf.constant(SEQUENCES)
    cell = tf.nn.rnn_cell.GRUCell(3)
    lengths = tf.constant([6, 2, 3, 1])
    with tf.variable_scope("walk", reuse=tf.AUTO_REUSE):
        dynamic, last = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32, scope="rnn")
        static, end = tf.nn.static_rnn(
            cell, tf.unstack(x, 6, 1), sequence_length=lengths, dtype=tf.float32, scope="rnn"
        )
    both, _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(3), tf.nn.rnn_cell.GRUCell(3), x, sequence_length=lengths, dtype=tf.float32
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        a, b, c, d, turned = session.run([dynamic, tf.stack(static, 1), last, end, both[1]])
    assert np.allclose(a, b, atol=1e-6)
    assert np.allclose(c, d, atol=1e-6)
    assert not turned[1, 2:].any()


OPTIMIZERS = {
    "GradientDescent": {},
    "Momentum": {"momentum": 0.9, "use_nesterov": True},
    "Adam": {},
    "RMSProp": {},
    "Adagrad": {},
    "Adadelta": {"rho": 0.9},
    "Ftrl": {"l1_regularization_strength": 0.01},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_optimizers_descend(name, sparse):
    found = []
    for use_resource in (False, True):
        with tf.variable_scope(f"v{use_resource}"):
            w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer(), use_resource=use_resource)
        read = tf.nn.embedding_lookup(w, [1, 3, 1]) if sparse else w * [1.0, 2.0, 3.0]
        optimizer = getattr(tf.train, f"{name}Optimizer")(learning_rate=0.05, **OPTIMIZERS[name])
        with tf.Session() as session:
            train = optimizer.minimize(tf.reduce_sum(tf.square(read)), var_list=[w])
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                session.run(train)
            found.append(session.run(w))
    assert np.allclose(found[0], found[1], atol=1e-6)
    assert (found[0][1] < 1).all()
    assert np.isfinite(found[0]).all()
    if sparse and name != "Adam":
        assert (found[0][0] == 1).all()


def test_rates_decay():
    step = tf.placeholder(tf.int64, [])
    rates = [
        tf.train.exponential_decay(0.1, step, 10, 0.5), tf.train.exponential_decay(0.1, step, 10, 0.5, staircase=True),
        tf.train.polynomial_decay(0.1, step, 30, 0.01), tf.train.inverse_time_decay(0.1, step, 10, 0.5),
        tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1]), tf.train.cosine_decay(0.1, step, 30),
    ]  # fmt: skip
    with tf.Session() as session:
        found = session.run(rates, {step: 15})
    assert np.allclose(found, [0.1 * 0.5**1.5, 0.05, 0.055, 0.1 / 1.75, 0.5, 0.05], atol=1e-6)


def test_a_damaged_checkpoint_is_not_restored(tmp_path):
    w = tf.get_variable("w", [64], tf.bfloat16)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(w)
        path = saver.save(session, str(tmp_path / "model"))
        data = tmp_path / "model.data-00000-of-00001"
        whole = data.read_bytes()
        at = whole.index(before.tobytes())
        data.write_bytes(whole[:at] + b"\1\2" + whole[at + 2 :])
        with pytest.raises(tf.errors.DataLossError, match=r"model\.data.*'w' is damaged"):
            saver.restore(session, path)
        (tmp_path / "model.index").unlink()
        np.savez(tmp_path / "model.npz", **{"dtype:w": np.asarray("no type"), "w": before.view(np.uint16)})
        with pytest.raises(GraphValueError, match="'w' has values of the unsupported type 'no type'"):
            saver.restore(session, path)
        np.testing.assert_array_equal(session.run(w), before)


def test_a_saver_keeps_the_last(tmp_path):
    w, step = tf.get_variable("w", [3]), tf.train.create_global_step()
    count = tf.assign_add(step, 1)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(w)
        for _ in range(4):
            session.run(count)
            path = saver.save(session, str(tmp_path / "model.ckpt"), global_step=step)
    assert path.endswith("model.ckpt-4")
    kept = {f"model.ckpt-{n}.{ending}" for n in (3, 4) for ending in ("data-00000-of-00001", "index", "meta")}
    assert {p.name for p in tmp_path.iterdir()} == kept | {"checkpoint"}
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert tf.train.list_variables(path) == [("global_step", []), ("w", [3])]
    with tf.Session() as session:
        saver.restore(session, path)
        assert np.array_equal(session.run(w), before)
        assert tf.train.global_step(session, step) == 4
        with pytest.raises(FeedError, match="not a valid checkpoint"):
            saver.restore(session, str(tmp_path / "nothing"))
    tf.get_variable("other", [1])
    with tf.Session() as session, pytest.raises(FeedError, match="Key other not found"):
        tf.train.Saver().restore(session, path)


def test_averages_follow():
    w = tf.Variable(1.0, name="w")
    average = tf.train.ExponentialMovingAverage(0.9)
    follow, change = average.apply([w]), w.assign(2.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(change)
        session.run(follow)
        assert np.isclose(session.run(average.average(w)), 1.1)
    assert average.average(w).op.name == "w/ExponentialMovingAverage"


def test_losses_are_weighted_means():
    x, y = tf.constant([[1.0], [2.0], [4.0]]), tf.constant([[0.0], [2.0], [2.0]])
    found = [
        tf.losses.mean_squared_error(y, x), tf.losses.mean_squared_error(y, x, weights=[[0.0], [1.0], [2.0]]),
        tf.losses.absolute_difference(y, x), tf.losses.huber_loss(y, x),
        tf.losses.mean_squared_error(y, x, reduction=tf.losses.Reduction.SUM),
    ]  # fmt: skip
    total = tf.losses.get_total_loss()
    with tf.Session() as session:
        values, together = session.run([found, total])
    assert np.allclose(values, [5 / 3, 4, 1, 2 / 3, 5])
    assert np.isclose(together, sum(values))
    with pytest.raises(GraphValueError, match="can not be broadcast"):
        tf.losses.mean_squared_error(y, x, weights=[1.0, 2.0])


def test_metrics_gather_batches():
    labels, predictions = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    made = [
        getattr(tf.metrics, n)(labels, predictions)
        for n in ("accuracy", "precision", "recall", "root_mean_squared_error")
    ]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for batch in (([1, 0, 1], [1, 1, 1]), ([1, 1], [0, 1])):
            session.run([m[1] for m in made], {labels: batch[0], predictions: batch[1]})
        assert np.allclose(session.run([m[0] for m in made]), [0.6, 0.75, 0.75, np.sqrt(0.4)])


def test_a_frozen_graph_computes_the_same():
    x = tf.placeholder(tf.float32, [2], name="x")
    w, r = tf.get_variable("w", [2]), tf.get_variable("r", [2], use_resource=True)
    y = tf.identity(x * w + r, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(y, {x: [1.0, 2.0]})
        definition = tf.graph_util.convert_variables_to_constants(
            session, tf.graph_util.as_graph_def(tf.get_default_graph()), ["y"]
        )
    with tf.Graph().as_default(), tf.Session() as session:
        (again,) = tf.import_graph_def(definition, return_elements=["y:0"])
        assert np.allclose(session.run(again, {"import/x:0": [1.0, 2.0]}), before)


def test_threads_stop_together():
    coordinator = tf.train.Coordinator()
    seen = []

    def work():
        with coordinator.stop_on_exception():
            seen.append(1)
            raise GraphTypeError("no more")

    with tf.Session() as session:
        assert tf.train.start_queue_runners(session, coordinator) == []
    import threading

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(GraphTypeError, match="no more"):
        coordinator.join([thread])
    assert coordinator.should_stop()
    assert seen == [1]


def test_templates_share():
    scale = tf.make_template("scale", lambda x: x * tf.get_variable("w", [], initializer=tf.ones_initializer()))
    scale(1.0)
    scale(2.0)
    assert [v.name for v in tf.global_variables()] == ["scale/w:0"]


def test_functions_of_python_are_nodes():
    x = tf.placeholder(tf.float32, [2])
    doubled = tf.py_func(lambda a: a * 2, [x], tf.float32)
    pair = tf.py_func(lambda a: (a + 1, np.int64(a.size)), [x], [tf.float32, tf.int64])
    with tf.Session() as session:
        a, (b, c) = session.run([doubled, pair], {x: [1.0, 2.0]})
    assert (a.tolist(), b.tolist(), c) == ([2.0, 4.0], [2.0, 3.0], 2)


def test_checks_fail_when_they_should():
    x = tf.placeholder(tf.float32, [None])
    with tf.control_dependencies([tf.assert_positive(x), tf.assert_less(x, 10.0)]):
        y = tf.identity(x)
    with tf.Session() as session:
        assert session.run(y, {x: [1.0]}) == [1.0]
        for bad in (-1.0, 11.0):
            with pytest.raises(Exception, match="assertion failed"):
                session.run(y, {x: [bad]})
    with pytest.raises(GraphValueError, match="did not hold"):
        tf.assert_equal(1, 2)
    with pytest.raises(GraphValueError, match="must have rank"):
        tf.assert_rank(tf.zeros([2]), 2)
