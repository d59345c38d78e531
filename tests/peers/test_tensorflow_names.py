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


def namespaces(tf):
    """Functions that only a namespace has: tf.math, tf.linalg, tf.strings, tf.signal, tf.random."""
    x, signal = tf.constant(PICTURES[0, 0]), tf.constant(PICTURES[:, :, :, 0])
    square = tf.matmul(x, x, transpose_a=True) + tf.eye(3)
    bands = tf.constant([[1.0, 2, 3, 0], [5, 6, 7, 8], [0, 3, 2, 1]])
    m, la, st, seed = tf.math, tf.linalg, tf.strings, tf.constant([3, 5])
    quantized = tf.quantization.fake_quant_with_min_max_vars(x, 0.1, 0.8)
    return [
        m.reduce_variance(x, 1), m.reduce_std(x), m.reduce_euclidean_norm(x, 0, keepdims=True), m.reduce_euclidean_norm(x),
        m.polyval([1.0, 2.0, 3.0], x), m.reciprocal_no_nan(tf.constant([0.0, 2.0])), m.erfcinv(x), m.softplus(x), m.softsign(x),
        m.unsorted_segment_sqrt_n(x, [0, 1, 0, 1, 3, 3, 3, 0, 0, 0], 4), m.cumulative_logsumexp(x, 1, exclusive=True), m.l2_normalize(x, 1),
        m.bessel_i0(x), m.confusion_matrix([0, 1, 1], [1, 1, 0]), m.reduce_any(x > 0.5, 1), m.zero_fraction(x - x), m.top_k(x, 2).indices,
        la.adjoint(x), *la.eigh(square)[:1], la.logdet(square), *la.slogdet(square), la.matvec(x, x[0]), *la.normalize(x, axis=1),
        la.matrix_rank(x), la.pinv(x), la.lstsq(x, x[:, :1]), la.lstsq(x, x[:, :1], l2_regularizer=0.5), la.lstsq(tf.transpose(x), x[:3, :1]),
        la.lstsq(x, x[:, :1], fast=False), la.tridiagonal_solve(bands, tf.constant([1.0, 2, 3, 4])), la.tensor_diag([1.0, 2.0]), la.svd(x)[0],
        la.tridiagonal_solve([tf.constant(v) for v in ([1.0, 2, 0], [5.0, 6, 7], [0.0, 3, 2])], x[:3], diagonals_format="sequence"),
        la.tridiagonal_solve(square, x[:2], diagonals_format="matrix", transpose_rhs=True),
        st.lower(["Ab"]), st.upper(["Ab"]), st.length(["abc", ""]), st.split(["a b", "c"]).values, st.split(["a,b", "c"], ",").indices,
        st.format("{} and {}", [tf.constant([1, 2]), x[0, :2]]), st.substr(["hello"], 1, 3), st.regex_full_match(["ab"], "a."),
        tf.signal.rfft(signal), tf.signal.rfft(signal, [16]), tf.signal.irfft(tf.signal.rfft(signal)), tf.signal.rfft2d(signal, [6, 12]),
        tf.signal.irfft2d(tf.signal.rfft2d(signal)), tf.signal.fftshift(signal), tf.signal.ifftshift(signal, 1), tf.bitwise.bitwise_and([6], [3]),
        tf.bitwise.left_shift([1], [3]), tf.dtypes.cast(x, tf.int32), tf.dtypes.saturate_cast(x * 1000.0, tf.uint8), quantized,
        *tf.gradients(quantized, x), tf.random.stateless_uniform([5], seed, 1.0, 3.0), tf.random.stateless_normal([5], seed, 1.0, 3.0),
        tf.random.stateless_uniform([5], seed, 1, 30, tf.int32), tf.debugging.check_numerics(x, "x"), tf.manip.roll(x, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("program", [pictures, sparse, data, numbers, namespaces], ids=lambda p: p.__name__)
def test_values(tf1, program):  # noqa: F811 - the fixture
    from xlanb import tf

    found = []
    for library in (tf1, tf):
        with library.Graph().as_default(), library.Session() as session:
            found.append([np.asarray(session.run(f)) for f in program(library)])
    for index, (theirs, ours) in enumerate(zip(*found, strict=True)):
        assert theirs.dtype == ours.dtype, index
        if theirs.dtype.kind in "OS":
            assert np.array_equal(theirs, ours), index
        else:
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
