"""Programs with value-dependent array sizes, against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb

pytestmark = pytest.mark.filterwarnings("ignore:.*___pyct_anno:DeprecationWarning")
rng = np.random.default_rng(1)
X = np.array([3, 1, 3, 0, 2, 1, 0, 0], np.int32)
F = rng.random((8, 3)).astype(np.float32)
M = F > 0.5


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("tensorflow")


def programs(tf):
    def some(x, m):
        return tf.boolean_mask(x, m[:, 0])

    def sums_of_groups(x):
        unique = tf.unique(x)
        return tf.math.unsorted_segment_sum(tf.ones_like(x), unique.idx, tf.size(unique.y))

    def of_a_loop(x):
        def body(i, s):
            return i + 1, s + tf.reduce_sum(tf.boolean_mask(x, x > i))

        return tf.while_loop(lambda i, _: i < 3, body, [0, 0])[1]

    def boxes(f):
        corners = tf.concat([f, f[:, :1] + 0.1], 1)
        return tf.image.non_max_suppression(corners, f[:, 0], 5)

    return {
        "where": (tf.where, M),
        "where of a vector cut": (lambda x: tf.where(tf.boolean_mask(x, x > 0) > 1), X),
        "unique": (tf.unique, X),
        "unique of a vector cut": (lambda x: tf.unique(tf.boolean_mask(x, x > 0)), X),
        "unique rows": (lambda m: tf.raw_ops.UniqueV2(x=m, axis=[0])[:2], M),
        "unique columns": (lambda m: tf.raw_ops.UniqueV2(x=m, axis=[1])[:2], M[:2]),
        "mask": (some, F, M),
        "mask of all elements": (lambda f, m: tf.reduce_sum(tf.boolean_mask(f, m) * 2), F, M),
        "partition": (lambda f, x: tf.dynamic_partition(f, x, 4), F, X),
        "fill": (lambda x: tf.ones([tf.shape(tf.unique(x)[0])[0], 2]), X),
        "sizes": (lambda x: (tf.size(tf.unique(x)[0]), tf.shape(tf.where(x > 1))), X),
        "mean": (lambda f, m: tf.reduce_mean(some(f, m), 0), F, M),
        "matmul": (lambda f, m: tf.matmul(some(f, m), f, transpose_b=True), F, M),
        "scatter": (
            lambda f, m: tf.tensor_scatter_nd_update(f, tf.where(m), -tf.boolean_mask(f, m)),
            F,
            M,
        ),
        "groups": (sums_of_groups, X),
        "reshape": (lambda f, m: tf.reshape(some(f, m), [-1]), F, M),
        "concat": (lambda f, m: tf.concat([some(f, m), f[:2]], 0), F, M),
        "softmax": (lambda f, m: tf.nn.softmax(some(f[:, 0], m)), F, M),
        "sort": (lambda f, m: tf.sort(some(f[:, 0], m)), F, M),
        "without the first": (lambda x: tf.unique(x)[0][1:], X),
        "the last": (lambda x: tf.unique(x)[0][-1], X),
        "the last two": (lambda x: tf.unique(x)[0][-2:], X),
        "without the last": (lambda x: tf.unique(x)[0][:-1], X),
        "gradient": (
            lambda f, m: tf.gradients(tf.reduce_sum(tf.boolean_mask(f, m) ** 2), f)[0],
            F,
            M,
        ),
        "loop": (of_a_loop, X),
        "branch": (lambda x: tf.cond(x[0] > 1, lambda: tf.boolean_mask(x, x > 0), lambda: x), X),
        "other branch": (
            lambda x: tf.cond(x[0] > 9, lambda: tf.boolean_mask(x, x > 0), lambda: x[:3]),
            X,
        ),
        "boxes": (boxes, F),
        "tile": (lambda x: tf.tile(tf.unique(x)[0], [2]), X),
        "range": (lambda x: tf.range(tf.size(tf.unique(x)[0])), X),
    }


@pytest.fixture(scope="module")
def by_name(real):
    return programs(real)


class _Names:
    """A substitute for TensorFlow, to get the names of the programs."""

    where = unique = None


@pytest.mark.parametrize("name", programs(_Names))
def test_program(real, by_name, name):
    program, *args = by_name[name]
    function = real.function(program)
    wanted = [v.numpy() for v in real.nest.flatten(function(*args))]
    for run in (xlanb.compile(function, *args), lambda *a: xlanb.evaluate(function, *a)):
        got = real.nest.flatten(run(*args))
        assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in wanted]
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)


def test_sizes_that_the_program_sets(real):
    from tensorflow.compiler.tf2xla.python import xla

    @real.function(jit_compile=True)
    def total(f, n):
        cut = xla.set_dynamic_dimension_size(f, 0, n)
        return real.reduce_sum(cut), real.shape(cut)[0], xla.remove_dynamic_dimension_size(cut, 0)

    for n in (0, 3, 8):
        wanted, got = total(F, real.constant(n)), xlanb.jit(total)(F, np.int32(n))
        np.testing.assert_allclose(got[0], wanted[0].numpy(), rtol=1e-6)
        assert got[1] == wanted[1].numpy() == n
        np.testing.assert_array_equal(got[2][:n], F[:n])
        assert got[2].shape == wanted[2].shape == (8, 3)
