"""Ops with value-dependent result sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph import dtypes
from xlanb.graph.op_library import call_n


def test_indices_of_what_is_not_zero(run_op: Any) -> None:
    for x in (np.array([[0, 2, 0], [3, 0, 4]]), np.array([True, False]), np.zeros((0, 2)), np.float32(3)):
        got = run_op("Where", x, outputs=[np.int64])
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, np.argwhere(x))


def test_unique_values_in_their_order(run_op: Any, rng: np.random.Generator) -> None:
    types = {"outputs": [np.float32, np.int64], "out_idx": dtypes.int64}
    x = rng.integers(-3, 3, 40).astype(np.float32)
    x[3] = -0.0
    values, places = run_op("Unique", x, **types)
    assert values.tolist() == list(dict.fromkeys(x.tolist()))
    np.testing.assert_array_equal(values[places], x)
    assert [len(v) for v in run_op("Unique", x[:0], **types)] == [0, 0]
    rows = x.reshape(20, 2)
    values, places = run_op("UniqueV2", rows, np.array([0]), **types)
    assert len(values) == len(np.unique(rows, axis=0))
    np.testing.assert_array_equal(values[places], rows)
    with pytest.raises(GraphError, match="expects a 1D vector"):
        run_op("Unique", rows, **types)
    with pytest.raises(GraphError, match="too many"):
        run_op("UniqueV2", np.zeros((5000, 2), np.float32), np.array([0]), **types)


def test_partitions(run_op: Any) -> None:
    data, parts = np.arange(12.0).reshape(2, 3, 2), np.array([[1, 0, 5], [1, 1, 0]], np.int32)
    got = run_op("DynamicPartition", data, parts, outputs=[np.float64] * 3, num_partitions=3)
    for number, part in enumerate(got):
        np.testing.assert_array_equal(part, data[parts == number])
    with pytest.raises(GraphError, match="no prefix"):
        run_op("DynamicPartition", data, parts[:1], outputs=[np.float64], num_partitions=1)


def test_boxes_of_unknown_number(run_op: Any) -> None:
    boxes = np.array([[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, 2, 1, 3], [0, 2, 1, 3]], np.float32)
    scores = np.array([0.75, 0.9, 0.6, -1], np.float32)
    given = (boxes, scores, np.int32(3), np.float32(0.5), np.float32(0))
    assert run_op("NonMaxSuppressionV3", *given, outputs=[np.int32]).tolist() == [1, 2]
    chosen, count = run_op("NonMaxSuppressionV4", *given, outputs=[np.int32, np.int32])
    assert (chosen.tolist(), int(count)) == ([1, 2], 2)


def test_compiled_code_and_sessions_give_what_the_evaluator_gives(rng: np.random.Generator) -> None:
    x = rng.integers(0, 4, (9, 2)).astype(np.float32)

    def f(x: Any) -> Any:
        taken = tf.boolean_mask(x, x[:, 0] > 1)
        return tf.reduce_mean(taken), tf.shape(taken), taken * 2.0, tf.where(taken > 1)

    compiled = xlanb.compile(f, x)
    for arrays in (x, np.zeros_like(x), np.full_like(x, 3)):
        kept = arrays[arrays[:, 0] > 1]
        got = compiled(arrays)
        with np.errstate(invalid="ignore"):
            mean = np.float32(kept.sum()) / np.float32(kept.size)
        for a, b in zip(got, (mean, kept.shape, kept * 2, np.argwhere(kept > 1)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    with tf.Graph().as_default(), xlanb.flags("--tf_xla_auto_jit=2 --tf_xla_min_cluster_size=1"):
        p = tf.placeholder(tf.float32, [9, 2])
        results = tf.Session().run(list(f(p)), {p: x})
    for a, b in zip(results, compiled(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_branches_of_different_sizes() -> None:
    def f(x: Any) -> Any:
        return tf.cond(x[0] > 1, lambda: tf.boolean_mask(x, x > 0), lambda: x[:2] * 2)

    compiled = xlanb.compile(f, np.zeros(5, np.int32))
    assert compiled(np.array([2, 0, 1, 0, 5], np.int32))[0].tolist() == [2, 1, 5]
    assert compiled(np.array([1, 4, 1, 0, 5], np.int32))[0].tolist() == [2, 8]


def test_sizes_with_a_bound() -> None:
    def f(n: Any) -> Any:
        bounded = call_n("XlaSetBound", n, np.int32(4))[0]
        return tf.range(bounded), tf.fill([bounded], 7)

    compiled = xlanb.compile(f, np.int32(3))
    for n in (0, 3, 4):
        numbers, sevens = compiled(np.int32(n))
        assert (numbers.tolist(), sevens.tolist()) == (list(range(n)), [7] * n)
    assert [len(v) for v in compiled(np.int32(9))] == [4, 4]  # never beyond the bound


def test_dynamic_dimensions_of_different_bounds_meet() -> None:
    def f(x: Any, y: Any) -> Any:
        return tf.boolean_mask(x, x > 0) * tf.boolean_mask(y, y > 0)

    compiled = xlanb.compile(f, np.zeros(7, np.int32), np.zeros(4, np.int32))
    x, y = np.array([0, 2, 0, 0, 3, 4, 0], np.int32), np.array([5, 6, 0, 7], np.int32)
    assert compiled(x, y)[0].tolist() == [10, 18, 28]
    assert compiled(x - 3, y - 6)[0].tolist() == [1]
