"""Rows stitched by index, boxes, tridiagonal matrices, quantized numbers, generators in
variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError
from xlanb.graph import dtypes

STATE = np.array([2**63 - 1, -1, 3], np.int64)


def test_the_last_of_several_rows_is_taken_and_gaps_are_zero(run_op: Any) -> None:
    first, second = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6]], np.float32)
    got = run_op(
        "DynamicStitch", np.array([3, 0], np.int32), np.array([3], np.int32), first, second, outputs=[np.float32]
    )
    np.testing.assert_array_equal(got, [[3, 4], [0, 0], [0, 0], [5, 6]])
    with pytest.raises(GraphError, match="out of range for 1 rows"):
        run_op("DynamicStitch", np.array([2**30], np.int32), second, outputs=[np.float32])


def test_differences_of_lists_and_sparse_values(run_op: Any) -> None:
    kept, places = run_op(
        "ListDiff", np.array([4, 1, 4, 2]), np.array([1]), outputs=[np.int64, np.int32], out_idx=dtypes.int32
    )
    assert (kept.tolist(), places.tolist()) == ([4, 4, 2], [0, 2, 3])
    got = run_op(
        "SparseToDense",
        np.array([[0, 1], [1, 0]]),
        np.array([2, 2]),
        np.float32([7, 8]),
        np.float32(-1),
        outputs=[np.float32],
    )
    np.testing.assert_array_equal(got, [[-1, 7], [8, -1]])


def test_boxes_that_overlap_a_better_one_are_left_out(run_op: Any) -> None:
    boxes = np.array([[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, 2, 1, 3], [0, 2, 1, 3]], np.float32)
    scores = np.array([0.75, 0.9, 0.6, -1], np.float32)
    attrs = {"outputs": [np.int32, np.int32], "pad_to_max_output_size": True}
    chosen, count = run_op("NonMaxSuppressionV4", boxes, scores, np.int32(3), np.float32(0.5), np.float32(0), **attrs)
    assert (chosen.tolist(), int(count)) == ([1, 2, 0], 2)


def test_tridiagonal_products_and_solutions(run_op: Any) -> None:
    rng = np.random.default_rng(0)
    above, main, below = (rng.uniform(1, 2, (2, 1, 5)) + (4 if i == 1 else 0) for i in range(3))
    x = rng.standard_normal((2, 5, 3))
    product = run_op("TridiagonalMatMul", above, main, below, x)
    diagonals = np.concatenate([above, main, below], 1)
    whole = np.stack([np.diag(d[1]) + np.diag(d[0, :-1], 1) + np.diag(d[2, 1:], -1) for d in diagonals])
    np.testing.assert_allclose(product, whole @ x, rtol=1e-12)
    np.testing.assert_allclose(run_op("TridiagonalSolve", diagonals, product, partial_pivoting=False), x, rtol=1e-9)
    with pytest.raises(GraphError, match="partial_pivoting"):
        run_op("TridiagonalSolve", diagonals, product, partial_pivoting=True)


def test_there_and_back_through_few_values(run_op: Any) -> None:
    x = np.array([-3, -0.26, 0, 0.6, 1.4], np.float32)
    got = run_op("QuantizeAndDequantizeV2", x, np.float32(-1), np.float32(1), num_bits=3, range_given=True)
    # the smaller scale, 3 / 1 and not 4 / 1, counts: the lower bound moves to -4 / 3
    np.testing.assert_allclose(got, [-4 / 3, -1 / 3, 0, 2 / 3, 1], rtol=1e-6)
    rows = run_op(
        "QuantizeAndDequantizeV2", x[None], np.float32(0), np.float32(0), num_bits=8, range_given=False, axis=0
    )
    assert np.abs(rows - x).max() <= 3 / 255
    back = run_op("Dequantize", np.array([-128, 127], np.int8), np.float32(-1), np.float32(2), outputs=[np.float32])
    np.testing.assert_allclose(back, [-1, 2], rtol=1e-6)


def test_a_generator_in_a_variable_moves_on_with_carry(run_op: Any) -> None:
    after = run_op("RngSkip", np.int64(1), np.int64(2**55), variables=[STATE])
    assert after.tolist() == [-1, -1, 3]
    after = run_op("RngSkip", np.int64(1), np.int64(1), variables=[np.array([-1, 5, 3], np.int64)])
    assert after.tolist() == [255, 6, 3]
    with pytest.raises(GraphError, match="random algorithm 7"):
        run_op("RngSkip", np.int64(7), np.int64(1), variables=[STATE])


def test_classes_are_drawn_as_often_as_their_logits_say(run_op: Any) -> None:
    logits = np.log([[0.1, 0.2, 0.7], [1.0, 1e-30, 1e-30]])
    drawn = run_op(
        "StatelessMultinomial", logits, np.int32(4000), np.array([5, 9]), outputs=[np.int64], output_dtype=dtypes.int64
    )
    np.testing.assert_allclose(np.bincount(drawn[0]) / 4000, [0.1, 0.2, 0.7], atol=0.03)
    assert not drawn[1].any()


def test_stochastic_rounding_is_right_on_average_and_saturates(run_op: Any) -> None:
    x = np.full(4000, 1.25, np.float32)
    x[:3] = [1e9, -1e9, np.nan]
    key, counter = np.array([3], np.uint64), np.array([1, 2], np.uint64)
    got = run_op("StochasticCastToInt", x, key, counter, np.int32(1), outputs=[np.int8], Tout=dtypes.int8)
    assert got[:3].tolist() == [127, -128, 0]
    assert set(got[3:].tolist()) == {1, 2}
    assert got[3:].mean() == pytest.approx(1.25, abs=0.03)
