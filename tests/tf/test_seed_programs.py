"""The programs that people ran in 2017, unmodified but for their import lines."""

import json
import sys

import numpy as np
import pytest

from xlanb import tf
from xlanb.tf.examples.tutorials.mnist import input_data
from xlanb.tf.python.client import timeline


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("dtype", [tf.int16, tf.int32], ids=lambda t: t.name)
def test_add_and_multiply_in_a_jit_scope(dtype):
    a = tf.placeholder(dtype)
    b = tf.placeholder(dtype)
    jit_scope = tf.contrib.compiler.jit.experimental_jit_scope
    with jit_scope():
        add = tf.add(a, b)
        mul = tf.multiply(add, b)
    with tf.Session() as sess:
        assert "Addition with variables: %i" % sess.run(add, feed_dict={a: 2, b: 3}) == "Addition with variables: 5"  # noqa: UP031 - as it was
        assert sess.run(mul, feed_dict={a: 2, b: 3}) == 15


def test_an_op_on_xla_cpu():
    with tf.device("/job:localhost/replica:0/task:0/device:XLA_CPU:0"):
        output = tf.add(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    assert output.op.device == "/job:localhost/replica:0/task:0/device:XLA_CPU:0"
    with tf.Session() as sess:
        assert sess.run(output).tolist() == [4.0, 6.0]


@pytest.mark.parametrize("xla", [True, False])
def test_mnist_softmax(xla, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(input_data.DataWarning, match="no MNIST files"):
        mnist = input_data.read_data_sets(str(tmp_path), one_hot=True, seed=1)
    x = tf.placeholder(tf.float32, [None, 784])
    w = tf.Variable(tf.zeros([784, 10]))
    b = tf.Variable(tf.zeros([10]))
    y = tf.matmul(x, w) + b
    y_ = tf.placeholder(tf.float32, [None, 10])
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
    train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1 if xla else 0
    run_metadata = tf.RunMetadata()
    sess = tf.Session(config=config)
    tf.global_variables_initializer().run(session=sess)
    train_loops = 60
    for i in range(train_loops):
        batch_xs, batch_ys = mnist.train.next_batch(100)
        if i == train_loops - 1:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys}, options=options, run_metadata=run_metadata)
            trace = timeline.Timeline(step_stats=run_metadata.step_stats)
            with open("timeline.ctf.json", "w") as trace_file:  # noqa: PTH123 - as it was
                trace_file.write(trace.generate_chrome_trace_format())
        else:
            sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys})
    correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    assert sess.run(accuracy, feed_dict={x: mnist.test.images, y_: mnist.test.labels}) > 0.85
    sess.close()
    assert json.loads((tmp_path / "timeline.ctf.json").read_text())["traceEvents"]


def test_app_run_hands_over_what_is_left(monkeypatch):
    monkeypatch.setattr(tf.flags, "FLAGS", type(tf.flags.FLAGS)())
    tf.app.flags.DEFINE_integer("steps", 10, "how many")
    tf.app.flags.DEFINE_boolean("xla", True, "whether")
    tf.app.flags.DEFINE_string("data_dir", "data", "where")
    seen = []
    with pytest.raises(SystemExit) as left:
        tf.app.run(main=lambda argv: seen.append(argv) or 3, argv=["program", "--steps=5", "--noxla", "rest"])
    flags = tf.flags.FLAGS
    assert (left.value.code, seen, flags.steps, flags.xla, flags.data_dir) == (
        3,
        [["program", "rest"]],
        5,
        False,
        "data",
    )
    with pytest.raises(AttributeError, match="flag 'speed' is not defined"):
        flags.speed  # noqa: B018 - reading it is the test
    assert sys.argv  # untouched


def test_convolution_batch_normalisation_relu():
    images = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    normal = tf.layers.batch_normalization(tf.layers.conv2d(x, 4, 3, padding="same", use_bias=False), training=False)
    result = tf.nn.relu(normal)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        mean, variance = (v for v in tf.global_variables() if "moving" in v.name)
        sess.run([mean.assign([0.1, 0.2, 0.3, 0.4]), variance.assign([0.5, 1.0, 1.5, 2.0])])
        convolved, found = sess.run([x.graph.get_tensor_by_name("conv2d/Conv2D:0"), result], {x: images})
    scale = 1 / np.sqrt(np.array([0.5, 1.0, 1.5, 2.0]) + 1e-3)
    assert np.allclose(found, np.maximum((convolved - [0.1, 0.2, 0.3, 0.4]) * scale, 0), atol=1e-5)


def alexnet(images):
    """AlexNet as the benchmark of 2015 wrote it (v2), over smaller images."""

    def conv(x, size, inputs, outputs, stride, padding, name):
        with tf.name_scope(name) as scope:
            kernel = tf.Variable(
                tf.truncated_normal([size, size, inputs, outputs], dtype=tf.float32, stddev=1e-1), name="weights"
            )
            convolved = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], padding=padding)
            biases = tf.Variable(tf.constant(0.0, shape=[outputs], dtype=tf.float32), trainable=True, name="biases")
            return tf.nn.relu(tf.nn.bias_add(convolved, biases), name=scope)

    def pool(x, name):
        return tf.nn.max_pool(x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="VALID", name=name)

    x = conv(images, 11, 3, 8, 4, "SAME", "conv1")
    x = pool(tf.nn.lrn(x, alpha=1e-4, beta=0.75, depth_radius=2, bias=2.0), "pool1")
    x = pool(conv(x, 5, 8, 12, 1, "SAME", "conv2"), "pool2")
    x = conv(x, 3, 12, 16, 1, "SAME", "conv3")
    x = conv(conv(x, 3, 16, 16, 1, "SAME", "conv4"), 3, 16, 8, 1, "SAME", "conv5")
    x = tf.reshape(pool(x, "pool5"), [-1, 8])
    for index, (inputs, outputs) in enumerate([(8, 16), (16, 10)]):
        with tf.name_scope(f"affine{index}"):
            weights = tf.Variable(tf.truncated_normal([inputs, outputs], stddev=1e-1), name="weights")
            biases = tf.Variable(tf.zeros([outputs]), name="biases")
            x = tf.nn.relu_layer(x, weights, biases)
    return x


def test_alexnet_forward_and_backward():
    tf.set_random_seed(1)
    images = tf.Variable(tf.random_normal([2, 63, 63, 3], dtype=tf.float32, stddev=1e-1))
    last = alexnet(images)
    objective = tf.nn.l2_loss(last)
    grad = tf.gradients(objective, tf.trainable_variables())
    values = []
    for level in (0, tf.OptimizerOptions.ON_1):
        config = tf.ConfigProto()
        config.graph_options.optimizer_options.global_jit_level = level
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            values.append(sess.run([last, *grad]))
    for plain, compiled in zip(*values, strict=True):
        assert np.isfinite(plain).all()
        assert np.allclose(plain, compiled, rtol=1e-4, atol=1e-6)


def test_digits_come_from_idx_files(tmp_path):
    images = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
    labels = np.array([7, 0, 3], np.uint8)
    for part in ("train", "t10k"):
        header = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in images.shape)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x03" + labels.tobytes())
    mnist = input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=1)
    assert (mnist.train.num_examples, mnist.validation.num_examples, mnist.test.num_examples) == (2, 1, 3)
    assert np.allclose(mnist.test.images, images.reshape(3, -1) / 255)
    assert mnist.test.labels.argmax(1).tolist() == [7, 0, 3]
    seen = np.concatenate([mnist.train.next_batch(1)[1].argmax(1) for _ in range(2)])
    assert sorted(seen) == [0, 3]
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x09" + labels.tobytes())
    with pytest.raises(input_data.DataError, match="has 3 elements"):
        input_data.read_data_sets(str(tmp_path))
    fake = input_data.read_data_sets(str(tmp_path), fake_data=True, one_hot=True).train.next_batch(4)
    assert np.shape(fake[0]) == (4, 784)
    assert np.shape(fake[1]) == (4, 10)
