"""Names that programs of 2017 to 2019 use: values and graphs against TensorFlow's."""

import numpy as np
import pytest

from tests.peers.test_tensorflow_graphs import facts, tf1  # noqa: F401 - a fixture

pytestmark = pytest.mark.peer
PICTURES = np.random.default_rng(0).random((2, 8, 10, 3)).astype(np.float32)


def pictures(tf):
    x, u, im = tf.constant(PICTURES), tf.constant((PICTURES[0] * 255).astype(np.uint8)), tf.image
    return [
        im.resize_images(x, [4, 5]), im.resize_images(x, [16, 20], 1), im.flip_left_right(x), im.resize_image_with_crop_or_pad(x, 12, 6),
        im.central_crop(x[0], 0.5), im.per_image_standardization(x[0]), im.adjust_brightness(u, 0.2), im.adjust_contrast(x, 2.0),
        im.rgb_to_grayscale(u), im.rgb_to_hsv(x), im.hsv_to_rgb(im.rgb_to_hsv(x)), im.adjust_saturation(x, 0.5), im.adjust_hue(x, 0.3),
        im.convert_image_dtype(u, tf.float32), im.rot90(x[0]), im.total_variation(x), im.psnr(x, x * 0.9, 1.0),
        im.non_max_suppression([[0.0, 0, 1, 1], [0, 0, 1, 0.9], [1, 1, 2, 2]], [0.9, 0.8, 0.7], 3),
    ]  # fmt: skip


def sparse(tf):
    a = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0], [2, 3])
    dense, w = tf.constant(PICTURES[0, 0, :3, :2]), tf.constant(PICTURES[0, :3, 0])
    y = tf.sparse_tensor_dense_matmul(a, dense)
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 0], tf.int64), [2, 2])
    return [
        y, *tf.gradients(y * y, [a.values, dense]), tf.sparse_tensor_to_dense(a), tf.sparse_reduce_sum(a, 1), tf.sparse_tensor_to_dense(tf.sparse_transpose(a)),
        tf.sparse_softmax(a).values, tf.nn.embedding_lookup_sparse(w, ids, None, combiner="sqrtn"), tf.sparse_to_dense([1, 3], [5], 1),
        tf.sparse_tensor_to_dense(tf.sparse_reorder(tf.SparseTensor([[1, 0], [0, 1]], [1, 2], [2, 2]))),
    ]  # fmt: skip


def data(tf):
    rows = tf.data.Dataset.from_tensor_slices({"x": PICTURES[:, 0, 0], "y": [1, 2]}).map(
        lambda d: (d["x"] * 2.0, tf.one_hot(d["y"], 3))
    )
    batches = rows.repeat(3).skip(1).batch(4)
    ranges = (
        tf.data.Dataset.range(3)
        .interleave(lambda v: tf.data.Dataset.range(v, v + 3), cycle_length=2, block_length=2)
        .batch(9)
    )
    padded = tf.data.Dataset.range(4).map(lambda v: tf.fill([tf.cast(v, tf.int32)], v)).padded_batch(3, [None])
    found = [d.make_one_shot_iterator().get_next() for d in (batches, ranges, padded)]
    return [*found[0], *found[1:]]


def numbers(tf):
    x = tf.constant(PICTURES[0, 0])
    clipped = tf.clip_by_average_norm(x, 0.001)
    distributions = tf.distributions
    return [
        clipped, tf.bincount([1, 1, 2, 5]), tf.histogram_fixed_width(x, [0.0, 1.0], 5), tf.histogram_fixed_width_bins(x, [0.0, 1.0], 5),
        tf.lbeta(x), tf.tensordot(x, x, [[1], [1]]), tf.nn.top_k(x, 2).values, tf.unique([3, 1, 3]).idx, tf.is_non_decreasing([1, 1, 2]),
        distributions.Normal(0.0, 2.0).log_prob(x), distributions.Bernoulli(logits=x).entropy(), distributions.Categorical(logits=x).entropy(),
        distributions.kl_divergence(distributions.Normal(0.0, 1.0), distributions.Normal(x, 2.0)), tf.nn.zero_fraction(x - x),
        tf.unsorted_segment_mean(x, [0, 1, 0, 1, 3, 3, 3, 0, 0, 0], 4), tf.self_adjoint_eigvals(tf.matmul(x, x, transpose_a=True)),
        tf.cholesky_solve(tf.cholesky(tf.eye(3) * 4.0), x[:3]),
    ]  # fmt: skip


@pytest.mark.parametrize("program", [pictures, sparse, data, numbers], ids=lambda p: p.__name__)
def test_values(tf1, program):  # noqa: F811 - the fixture
    from xlanb import tf

    found = []
    for library in (tf1, tf):
        with library.Graph().as_default(), library.Session() as session:
            found.append([np.asarray(session.run(f)) for f in program(library)])
    for index, (theirs, ours) in enumerate(zip(*found, strict=True)):
        assert theirs.dtype == ours.dtype, index
        assert np.allclose(theirs, ours, rtol=2e-4, atol=2e-5), index


def shapes(tf):
    x = tf.placeholder(tf.float32, [None, 4, 5])
    count = tf.shape(x)[0]
    return [
        tf.reshape(x, [count, 20]), tf.zeros([count, 7]), tf.random_normal([count, 3]), tf.tile(x, [1, count, 2]),
        tf.reshape(x, tf.concat([tf.shape(x)[:1], [20]], 0)), tf.reshape(x, tf.stack([count, 4, -1])), tf.slice(x, [0, 0, 0], [-1, 2, tf.shape(x)[2]]),
        tf.broadcast_to(tf.ones([1, 4]), [count, 4]), tf.fill(tf.shape(x)[1:], 1.0), tf.reshape(x, [count, -1]), tf.reshape(tf.ones([4, 6]), [tf.shape(tf.ones([3]))[0], -1]),
        tf.nn.conv2d_transpose(tf.placeholder(tf.float32, [None, 4, 4, 8]), tf.ones([3, 3, 6, 8]), tf.stack([count, 8, 8, 6]), [1, 2, 2, 1]),
    ]  # fmt: skip


def test_static_shapes(tf1):  # noqa: F811 - the fixture
    from xlanb import tf

    with tf1.Graph().as_default():
        theirs = [t.shape.as_list() if t.shape.rank is not None else None for t in shapes(tf1)]
    with tf.Graph().as_default():
        ours = [t.shape.as_list() if t.shape.rank is not None else None for t in shapes(tf)]
    assert ours == theirs


def overridden(tf):
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.get_default_graph().gradient_override_map({"Sign": "Tanh"}):
        tf.sign(x)


def queue(tf):
    held = tf.FIFOQueue(5, [tf.float32, tf.int32], shapes=[[2], []])
    held.enqueue([tf.zeros([2]), 1])
    held.dequeue()
    held.close()


@pytest.mark.parametrize("program", [overridden, queue], ids=lambda p: p.__name__)
def test_graph(tf1, program):  # noqa: F811 - the fixture
    from xlanb import tf

    with tf1.Graph().as_default() as theirs:
        program(tf1)
    with tf.Graph().as_default() as ours:
        program(tf)
    assert facts(ours) == facts(tf.Graph.from_graphdef(theirs.as_graph_def().SerializeToString()))
