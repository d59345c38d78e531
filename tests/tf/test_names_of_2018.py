"""Other names of programs of 2017 to 2019, besides layers and optimizers; and missing names.

Hooks, custom gradients, slim, Keras layers, sampled losses, images.
"""

import sys

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError, GraphValueError, UnimplementedError


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_gradients_of_ones_own():
    @tf.custom_gradient
    def safe(x):
        e = tf.exp(x)
        return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    @tf.custom_gradient
    def two(x, y):
        return (x * y, x + y), lambda a, b: (a * 10, b * 100)

    x, y = tf.constant(88.0), tf.constant(2.0)
    first, second = two(x, y)
    assert run(tf.gradients(safe(x), x)) == [1.0]
    assert run(tf.gradients([first, second], [x, y])) == [10.0, 100.0]
    assert run(first) == 176.0


def test_gradients_by_another_name(graph):
    @tf.RegisterGradient("StraightThroughOfThisTest")
    def _through(_op, grad):
        return grad * 3.0

    x = tf.constant([-1.0, 2.0])
    with graph.gradient_override_map({"Sign": "StraightThroughOfThisTest"}):
        found = tf.sign(x)
        other = tf.square(x)
    assert found.op.attrs["_gradient_op_type"] == "StraightThroughOfThisTest"
    assert "_gradient_op_type" not in other.op.attrs
    assert run(tf.gradients(found, x))[0].tolist() == [3, 3]
    with pytest.raises(GraphError, match="already has a gradient"):
        tf.RegisterGradient("StraightThroughOfThisTest")(_through)


class Counting(tf.train.SessionRunHook):
    def __init__(self, loss):
        self.loss, self.losses, self.ended = loss, [], False

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))

    def end(self, session):
        self.ended = True


def quadratic():
    step = tf.train.get_or_create_global_step()
    loss = tf.square(tf.get_variable("w", initializer=5.0))
    return step, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)


def test_a_monitored_session_stops_saves_and_goes_on(tmp_path):
    step, loss, train = quadratic()
    counting = Counting(loss)
    hooks = [
        counting,
        tf.train.StopAtStepHook(last_step=6),
        tf.train.NanTensorHook(loss),
        tf.train.LoggingTensorHook([loss], 2),
    ]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=3, hooks=hooks
    ) as session:
        while not session.should_stop():
            session.run(train)
    assert len(counting.losses) == 6
    assert counting.losses == sorted(counting.losses, reverse=True)
    assert counting.ended
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        assert session.run(step) == 6
    with tf.train.MonitoredSession() as session:
        assert session.run(step) == 0


def test_the_end_of_the_data_ends_a_monitored_session():
    element = tf.data.Dataset.range(3).make_one_shot_iterator().get_next()
    found = []
    with tf.train.MonitoredSession() as session:
        while not session.should_stop():
            found.append(int(session.run(element)))
    assert found == [0, 1, 2]


def test_a_loss_that_is_no_number_stops_the_training():
    loss = tf.log(tf.constant(-1.0))
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError),
        tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session,
    ):
        session.run(loss)


def test_slim_gives_arguments_by_scope():
    slim = tf.contrib.slim
    with (
        slim.arg_scope([slim.conv2d], padding="VALID", activation_fn=None) as scope,
        slim.arg_scope([slim.conv2d], num_outputs=2),
    ):
        first = slim.conv2d(tf.ones([1, 6, 6, 1]), kernel_size=3, scope="a")
    with slim.arg_scope(scope):
        second = slim.conv2d(tf.ones([1, 6, 6, 1]), 3, 3, scope="b", padding="SAME")
    third = slim.repeat(tf.ones([1, 6, 6, 1]), 2, slim.conv2d, 4, 3, scope="c")
    assert first.shape.as_list() == [1, 4, 4, 2]
    assert second.shape.as_list() == [1, 6, 6, 3]
    assert [v.op.name for v in slim.get_variables("c")] == [
        "c/c_1/weights",
        "c/c_1/biases",
        "c/c_2/weights",
        "c/c_2/biases",
    ]
    assert third.op.type == "Relu"
    with pytest.raises(GraphValueError, match="not decorated"), slim.arg_scope([len], a=1):
        pass


def test_slim_trains():
    slim = tf.contrib.slim
    x = tf.constant(np.random.default_rng(0).random((8, 4), np.float32))
    net = slim.stack(x, slim.fully_connected, [8, 4], normalizer_fn=slim.batch_norm, scope="fc")
    loss = tf.losses.mean_squared_error(tf.ones([8, 1]), slim.fully_connected(net, 1, activation_fn=None))
    train = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1), clip_gradient_norm=1.0)
    assert slim.learning.train(train, number_of_steps=30) < 0.5


def test_keras_layers_are_called_with_tensors():
    layers = tf.keras.layers
    x = tf.keras.Input([8, 8, 3])
    h = layers.Conv2D(4, 3, activation="relu", padding="same", name="first")(x)
    h = layers.Flatten()(layers.MaxPooling2D()(h))
    model = tf.keras.Model(x, layers.Dense(2, kernel_initializer="he_normal")(h))
    again = model(tf.ones([1, 8, 8, 3]))
    stack = tf.keras.Sequential([layers.Dense(4, activation="tanh"), layers.Dropout(0.5), layers.Dense(1)])
    results = stack(tf.ones([3, 5]), training=True)
    assert [v.op.name for v in model.variables] == ["first/kernel", "first/bias", "dense/kernel", "dense/bias"]
    assert len(stack.trainable_variables) == 4
    picture = np.ones((1, 8, 8, 3), np.float32)
    found, direct, _ = run([model.outputs, again, results], {x: picture})
    assert np.allclose(found, direct)
    with pytest.raises(UnimplementedError, match=r"tf\.train"):
        model.fit(picture)
    with pytest.raises(GraphValueError, match="Unknown activation function: 'rellu'"):
        layers.Dense(1, activation="rellu")


def test_a_function_is_compiled_for_arrays_and_part_of_the_graph_for_tensors():
    @tf.function(jit_compile=True)
    def affine(x, w):
        return tf.nn.relu(tf.matmul(x, w) - 1.0)

    eye = np.eye(2, dtype=np.float32)
    assert affine(eye, 3 * eye).tolist() == [[2, 0], [0, 2]]
    x = tf.placeholder(tf.float32, [2, 2])
    y = affine(x, x)
    assert y.op.attrs["_XlaCompile"] is True
    assert run([y, *tf.gradients(y, x)], {x: 2 * eye})[1].shape == (2, 2)
    spec = tf.TensorSpec([2, 2], tf.float32)
    concrete = affine.get_concrete_function(spec, spec)
    assert [op.type for op in concrete.graph][-1] == "Relu"
    assert "dot(" in affine.experimental_get_compiler_ir(eye, eye)(stage="hlo")
    with pytest.raises(GraphValueError, match="fully known"):
        affine.get_concrete_function(tf.TensorSpec([None, 2]), spec)


@pytest.mark.parametrize("name", ["nce_loss", "sampled_softmax_loss"])
def test_sampled_losses_learn(name):
    table = tf.get_variable("table", [30, 8])
    weights, biases = (
        tf.get_variable("weights", [30, 8]),
        tf.get_variable("biases", [30], initializer=tf.zeros_initializer()),
    )
    ids = np.arange(16)
    inputs = tf.nn.embedding_lookup(table, ids)
    loss = tf.reduce_mean(getattr(tf.nn, name)(weights, biases, ((ids + 1) % 30)[:, None], inputs, 10, 30))
    step = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = np.mean([session.run(loss) for _ in range(5)])
        for _ in range(60):
            session.run(step)
        assert np.mean([session.run(loss) for _ in range(5)]) < 0.6 * before


def test_candidates_are_drawn_by_their_chances():
    drawn, of_true, expected = tf.nn.log_uniform_candidate_sampler(np.array([[0], [9]]), 1, 5, True, 10, seed=3)
    with tf.Session() as session:
        counts = np.zeros(10)
        for _ in range(200):
            classes, true, chance = session.run([drawn, of_true, expected])
            assert len(set(classes.tolist())) == 5
            counts[classes] += 1
    assert counts[0] > counts[5] > counts[9]
    assert true[0] > true[1]
    assert (chance > 0).all()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="11 distinct candidates from 10"):
        session.run(tf.nn.uniform_candidate_sampler(np.array([[0]]), 1, 11, True, 10)[0])


def test_pictures():
    picture = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    x = tf.constant(picture)
    results = run({
        "left": tf.image.flip_left_right(x), "up": tf.image.flip_up_down(x), "turned": tf.image.rot90(x),
        "cut": tf.image.resize_image_with_crop_or_pad(x, 3, 9), "standard": tf.image.per_image_standardization(x),
        "bytes": tf.image.convert_image_dtype(x, tf.uint8, saturate=True), "same": tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(x)),
        "grey": tf.image.rgb_to_grayscale(x), "large": tf.image.resize_images(x, [10, 14], tf.image.ResizeMethod.NEAREST_NEIGHBOR),
        "contrast": tf.image.adjust_contrast(x, 2.0),
    })  # fmt: skip
    assert np.array_equal(results["left"], picture[:, ::-1])
    assert np.array_equal(results["up"], picture[::-1])
    assert np.array_equal(results["turned"], np.rot90(picture))
    assert np.array_equal(results["cut"][:, 1:8], picture[1:4])
    assert not results["cut"][:, [0, 8]].any()
    assert abs(results["standard"].mean()) < 1e-5
    assert abs(results["standard"].std() - 1) < 1e-4
    assert np.array_equal(results["bytes"], np.minimum(picture * 255.5, 255).astype(np.uint8))
    assert np.allclose(results["same"], picture, atol=1e-5)
    assert np.allclose(results["grey"][..., 0], picture @ [0.2989, 0.587, 0.114], atol=1e-6)
    assert np.array_equal(results["large"], picture.repeat(2, 0).repeat(2, 1))
    mean = picture.mean((0, 1))
    assert np.allclose(results["contrast"], mean + 2 * (picture - mean), atol=1e-5)


def test_distributions():
    normal, other = tf.distributions.Normal(0.0, 1.0), tf.distributions.Normal(1.0, 2.0)
    choice = tf.distributions.Categorical(logits=[0.0, 0.0])
    values = run(
        [
            normal.log_prob(0.5),
            tf.distributions.kl_divergence(normal, other),
            choice.entropy(),
            normal.sample([1000], seed=1),
            choice.sample([50]),
        ]
    )
    assert np.isclose(values[0], -0.5 * np.log(2 * np.pi) - 0.125)
    assert np.isclose(values[1], np.log(2) + 2 / 8 - 0.5)
    assert np.isclose(values[2], np.log(2))
    assert abs(values[3].std() - 1) < 0.1
    assert set(values[4].tolist()) == {0, 1}
    with pytest.raises(UnimplementedError, match="the KL divergence"):
        tf.distributions.kl_divergence(normal, choice)


def test_shapes_follow_sizes_that_are_partly_known():
    x = tf.placeholder(tf.float32, [None, 4, 5])
    count = tf.shape(x)[0]
    wanted = {
        (None, 20): tf.reshape(x, [count, 20]), (None, 7): tf.zeros([count, 7]), (None, 3): tf.random_normal([count, 3]),
        (None, 4, 10): tf.tile(x, [1, 1, 2]), (None, 2, 5): tf.slice(x, [0, 0, 0], [-1, 2, tf.shape(x)[2]]),
        (None, 4): tf.broadcast_to(tf.ones([1, 4]), tf.stack([count, 4])), (None, 20, 1): tf.reshape(x, tf.concat([tf.shape(x)[:1], [20, 1]], 0)),
    }  # fmt: skip
    assert {k: v.shape.as_tuple() for k, v in wanted.items()} == {k: k for k in wanted}
    assert tf.layers.dense(tf.reshape(x, [count, 20]), 3).shape.as_list() == [None, 3]
    assert tf.layers.dense(tf.zeros([count, tf.shape(x)[1], 6]), 3).shape.as_list() == [None, 4, 3]


def test_missing_names_say_what_is_near_or_why():
    with pytest.raises(AttributeError, match=r"nearest: .*tf\.reduce_mean"):
        tf.reduce_meen  # noqa: B018 - reading it is the test
    with pytest.raises(AttributeError, match=r"tf\.feature_column is not in xlanb: .*model function"):
        tf.feature_column  # noqa: B018
    with pytest.raises(AttributeError, match=r"tf\.nn\.max_poool.*tf\.nn\.max_pool"):
        tf.nn.max_poool  # noqa: B018
    with pytest.raises(AttributeError, match="read them as arrays"):
        tf.image.decode_jpeg  # noqa: B018
    with pytest.raises(AttributeError, match=r"tf\.contrib has compiler, framework"):
        tf.contrib.contrib  # noqa: B018
    assert not hasattr(tf, "GradientTape")


def test_names_by_way_of_compat():
    import xlanb.tf.compat.v1 as old

    assert old is tf
    assert tf.compat.v1.Session is tf.Session
    assert tf.compat.as_text(tf.compat.as_bytes("ä")) == "ä"


def test_printing_and_checks(capfd):
    x = tf.placeholder(tf.float32, [2])
    shown = tf.print("sum:", tf.reduce_sum(x), output_stream=sys.stderr)
    near = tf.assert_near(x, [1.0, 2.0])
    with tf.Session() as session:
        session.run([shown, near], {x: [1, 2]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(near, {x: [1, 3]})
    assert "sum: 3" in capfd.readouterr().err
