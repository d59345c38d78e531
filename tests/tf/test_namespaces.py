"""Namespaces such as tf.math and tf.linalg: members, missing names, composed functions."""

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphValueError

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(*fetches):
    with tf.Session() as session:
        return session.run(list(fetches))


def test_members_of_the_top_level_are_the_same_objects():
    assert tf.math.reduce_all is tf.reduce_all
    assert tf.linalg.svd is tf.svd
    assert tf.dtypes.cast is tf.cast
    assert tf.nn.softplus is tf.math.softplus


@pytest.mark.parametrize(
    ("namespace", "name", "near"),
    [("math", "reduce_varianc", "tf.math.reduce_variance"), ("linalg", "lstq", "tf.linalg.lstsq"), ("dtypes", "caast", "tf.dtypes.cast")],
)  # fmt: skip
def test_a_missing_name_tells_the_nearest(namespace, name, near):
    with pytest.raises(AttributeError, match=f"tf.{namespace}.{name} is not in xlanb: nearest: .*{near}"):
        getattr(getattr(tf, namespace), name)


def test_a_missing_name_tells_the_reason():
    with pytest.raises(AttributeError, match=r"tf.io.parse_single_example is not in xlanb: TFRecord files"):
        _ = tf.io.parse_single_example


def test_statistics():
    variance, deviation, length = run(
        tf.math.reduce_variance(X, 0), tf.math.reduce_std(X), tf.math.reduce_euclidean_norm(X, 1)
    )
    assert np.allclose(variance, X.var(0))
    assert np.allclose(deviation, X.std())
    assert np.allclose(length, np.linalg.norm(X, axis=1))
    with pytest.raises(GraphValueError, match="floating-point"):
        tf.math.reduce_variance(tf.constant([1, 2]))


def test_polynomial():
    (value,) = run(tf.math.polyval([2.0, 0.0, -1.0], X))
    assert np.allclose(value, np.polyval([2, 0, -1], X), atol=1e-6)
    with pytest.raises(GraphValueError, match="list of coefficients"):
        tf.math.polyval(2.0, X)


@pytest.mark.parametrize("fast", [True, False])
def test_least_squares(fast):
    y = X @ np.ones((3, 2), np.float32) + 0.1
    tall, wide = run(tf.linalg.lstsq(X, y, fast=fast), tf.linalg.lstsq(np.ascontiguousarray(X.T), y[:3], fast=fast))
    assert np.allclose(tall, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)
    assert np.allclose(wide, np.linalg.lstsq(X.T, y[:3], rcond=None)[0], atol=1e-3)


def test_rank_and_inverse_of_a_singular_matrix():
    singular = np.concatenate([X, X[:, :1]], 1)
    rank, inverse = run(tf.linalg.matrix_rank(singular), tf.linalg.pinv(singular))
    assert rank == 3
    assert np.allclose(inverse, np.linalg.pinv(singular, rcond=1e-5), atol=1e-4)


@pytest.mark.parametrize("pivoting", [True, False])
def test_tridiagonal_systems(pivoting):
    matrix = np.diag([5.0, 6, 7, 8]) + np.diag([1.0, 2, 3], 1) + np.diag([3.0, 2, 1], -1)
    y = np.arange(8, dtype=np.float64).reshape(4, 2)
    bands = np.array([[1.0, 2, 3, 0], [5, 6, 7, 8], [0, 3, 2, 1]])
    found = run(
        tf.linalg.tridiagonal_solve(bands, y, partial_pivoting=pivoting),
        tf.linalg.tridiagonal_solve(bands, y[:, 0], partial_pivoting=pivoting),
        tf.linalg.tridiagonal_solve(tf.constant(matrix), y.T, "matrix", transpose_rhs=True, partial_pivoting=pivoting),
    )
    expected = np.linalg.solve(matrix, y)
    assert all(np.allclose(f, e) for f, e in zip(found, (expected, expected[:, 0], expected), strict=True))
    with pytest.raises(GraphValueError, match="diagonals_format"):
        tf.linalg.tridiagonal_solve(bands, y, "dense")


@pytest.mark.parametrize("length", [None, 4, 8])
def test_transforms_of_real_signals(length):
    given = None if length is None else [length]
    forward, back = run(tf.signal.rfft(X.T, given), tf.signal.irfft(tf.signal.rfft(X.T, [6]), given))
    assert np.allclose(forward, np.fft.rfft(X.T, length), atol=1e-5)
    assert np.allclose(back, np.fft.irfft(np.fft.rfft(X.T, 6), length), atol=1e-5)


def test_an_unknown_size_needs_fft_length():
    x = tf.placeholder(tf.float32, [None])
    with pytest.raises(GraphValueError, match="give fft_length"):
        tf.signal.rfft(x)


def test_shifts_of_an_unknown_size():
    x = tf.placeholder(tf.float32, [None, 3])
    with tf.Session() as session:
        found, back = session.run([tf.signal.fftshift(x), tf.signal.ifftshift(x, 0)], {x: X})
    assert np.array_equal(found, np.fft.fftshift(X))
    assert np.array_equal(back, np.fft.ifftshift(X, 0))


def test_stateless_numbers_depend_on_the_seed_only():
    first, again, other = run(*(tf.random.stateless_uniform([6], seed, 2.0, 3.0) for seed in ([1, 2], [1, 2], [2, 2])))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert ((first >= 2) & (first < 3)).all()
    with pytest.raises(GraphValueError, match="needs maxval"):
        tf.random.stateless_uniform([6], [1, 2], dtype=tf.int32)


def test_texts():
    lower, parts, text = run(
        tf.strings.lower(["Ab"]),
        tf.strings.split(["a,b", "c"], ",").values,
        tf.strings.format("x = {}", tf.constant([1, 2])),
    )
    assert (lower.tolist(), parts.tolist(), text) == ([b"ab"], [b"a", b"b", b"c"], b"x = [1 2]")
