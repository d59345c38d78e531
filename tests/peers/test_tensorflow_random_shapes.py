"""Ops that TensorFlow compiles nowhere, at random shapes, beside its own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf as own

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.peer
KERNELS = "lanczos1 lanczos3 lanczos5 gaussian box triangle keyscubic mitchellcubic".split()
Case = tuple[Callable[..., Any], list[Any]]


def _image(rng: np.random.Generator) -> Any:
    return rng.uniform(0, 1, (*rng.integers(1, 9, 3), 2)).astype(np.float32)


def _sizes(rng: np.random.Generator) -> list[int]:
    return [int(v) for v in rng.integers(1, 12, 2)]


def _bicubic(rng: np.random.Generator) -> Case:
    size = _sizes(rng)
    mode = [{}, {"align_corners": True}, {"half_pixel_centers": True}][rng.integers(3)]
    return lambda x: tf.raw_ops.ResizeBicubic(images=x, size=size, **mode), [_image(rng)]


def _area(rng: np.random.Generator) -> Case:
    size, corners = _sizes(rng), bool(rng.integers(2))
    return lambda x: tf.raw_ops.ResizeArea(images=x, size=size, align_corners=corners), [_image(rng)]


def _translated(rng: np.random.Generator) -> Case:
    size, kind, antialias = _sizes(rng), KERNELS[rng.integers(len(KERNELS))], bool(rng.integers(2))
    scale, shift = rng.uniform(0.3, 2.5, 2).astype(np.float32), rng.uniform(-2, 2, 2).astype(np.float32)

    def build(x: Any) -> Any:
        return tf.raw_ops.ScaleAndTranslate(
            images=x, size=size, scale=scale, translation=shift, kernel_type=kind, antialias=antialias
        )

    return build, [_image(rng)]


def _crops(rng: np.random.Generator) -> Case:
    images, count = _image(rng), int(rng.integers(1, 5))
    boxes = rng.uniform(-0.3, 1.3, (count, 4)).astype(np.float32)
    owners = rng.integers(0, len(images), count).astype(np.int32)
    size, method = _sizes(rng), ["bilinear", "nearest"][rng.integers(2)]
    return lambda x, b: tf.image.crop_and_resize(x, b, owners, size, method, 0.5), [images, boxes]


def _shuffled(rng: np.random.Generator) -> Case:
    value = rng.uniform(0, 1, (int(rng.integers(1, 40)), *rng.integers(1, 4, rng.integers(3)))).astype(np.float32)
    seed = [int(v) for v in rng.integers(0, 1000, 2)]
    return lambda x: tf.random.experimental.stateless_shuffle(x, seed), [value]


def _decomposed(rng: np.random.Generator) -> Case:
    """The gradient by the matrix of what does not depend on the signs of vectors."""
    rows, columns = (int(v) for v in rng.integers(2, 6, 2))
    x = rng.normal(size=(rows, columns)) + 3 * np.eye(rows, columns)

    def build(x: Any) -> Any:
        s, u, v = tf.linalg.svd(x)
        q, r = tf.linalg.qr(x)
        total = tf.reduce_sum(tf.sin(s)) + tf.reduce_sum(tf.matmul(u * s * s, v, adjoint_b=True) ** 2.0)
        return tf.gradients(total + tf.reduce_sum(tf.cos(q)) + tf.reduce_sum(r * r * r), x)[0]

    return build, [x]


@pytest.mark.parametrize("make", [_bicubic, _area, _translated, _crops, _shuffled, _decomposed])
def test_random_shapes(make: Callable[[np.random.Generator], Case]) -> None:
    for seed in range(12):
        build, arrays = make(np.random.default_rng(seed))
        function = tf.function(build)
        expected, got = np.asarray(function(*map(tf.constant, arrays))), np.asarray(xlanb.jit(function)(*arrays))
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed}")


def _dense_rows(splits: Any, shape: list[int | None]) -> Callable[[Any, Any], Any]:
    def build(x: Any, default: Any) -> Any:
        ragged = tf.RaggedTensor.from_row_splits(x, splits)
        return ragged.to_tensor(default, shape=None if shape == [None] else shape + [None] * (len(x.shape) - 1))

    return build


def test_random_ragged_rows() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        splits = np.concatenate([[0], np.cumsum(rng.integers(0, 4, rng.integers(1, 6)))])
        values = rng.normal(size=(splits[-1], *rng.integers(1, 3, rng.integers(3))))
        shape = [[None], [len(splits) - 1, 2], [len(splits) + 2, 5]][rng.integers(3)]

        function, fill = tf.function(_dense_rows(splits, shape)), np.array(9.0)
        expected = function(tf.constant(values), tf.constant(fill)).numpy()
        graph = own.Graph.from_tensorflow(function, values, fill)
        with own.Session(graph) as session:
            (got,) = session.run(list(graph.outputs), dict(zip(graph.inputs, [values, fill], strict=True)))
        np.testing.assert_array_equal(got, expected, err_msg=f"seed {seed}")
