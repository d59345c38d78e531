"""Selection of boxes on the host, against selections worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call_n

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 3, 0, 2]], np.float32)  # the last with swapped corners
SCORES = np.array([0.5, 0.9, 0.7], np.float32)
OVERLAP = 0.9 / 1.1


def run(op_type: str, *inputs: Any, **attrs: Any) -> list[Any]:
    with Graph().as_default() as graph:
        outputs = call_n(op_type, *inputs, **attrs)
        with tf.Session(graph=graph) as session:
            return list(session.run(outputs))


@pytest.mark.parametrize("op_type", ["NonMaxSuppressionV2", "NonMaxSuppressionV3"])
def test_boxes_that_overlap_are_left_out(op_type: str) -> None:
    given = [BOXES, SCORES, np.int32(3), np.float32(0.5), np.float32(0)][: 4 if op_type.endswith("2") else 5]
    assert run(op_type, *given)[0].tolist() == [1, 2]
    given[3] = np.float32(0.95)
    assert run(op_type, *given)[0].tolist() == [1, 2, 0]


def test_equal_scores_go_by_index_and_padding_is_zero() -> None:
    far = np.array([[0, 0, 1, 1], [0, 2, 1, 3], [0, 4, 1, 5]], np.float32)
    same = np.full(3, 0.5, np.float32)
    limits = np.int32(4), np.float32(0.5), np.float32(0)
    chosen, count = run("NonMaxSuppressionV4", far, same, *limits, pad_to_max_output_size=True)
    assert (chosen.tolist(), count) == ([0, 1, 2, 0], 3)


def test_soft_suppression_lowers_scores_by_a_gaussian() -> None:
    limits = np.int32(3), np.float32(0.5), np.float32(0), np.float32(0.5)
    chosen, scores, count = run("NonMaxSuppressionV5", BOXES, SCORES, *limits)
    assert (chosen.tolist(), count) == ([1, 2, 0], 3)
    np.testing.assert_allclose(scores, [0.9, 0.7, 0.5 * np.exp(-(OVERLAP**2))], rtol=1e-6)
    hard = run("NonMaxSuppressionV5", BOXES, SCORES, *limits[:3], np.float32(0), pad_to_max_output_size=True)
    assert hard[0].tolist() == [1, 2, 0]
    np.testing.assert_allclose(hard[1], [0.9, 0.7, 0], rtol=1e-6)
    assert hard[2] == 2


def test_overlaps_may_be_given() -> None:
    overlaps = np.array([[1, 0.6, 0.1], [0.6, 1, 0.2], [0.1, 0.2, 1]], np.float32)
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        assert session.run(tf.image.non_max_suppression_overlaps(overlaps, SCORES, 3)).tolist() == [1, 2]


def test_classes_are_selected_apart_and_the_best_are_kept() -> None:
    scores = np.stack([SCORES, [0.8, 0.1, 0.95]], 1).astype(np.float32)
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        found = tf.image.combined_non_max_suppression(BOXES[None, :, None], scores[None], 2, 5, score_threshold=0.2)
        boxes, marks, kinds, counts = session.run(found)
    assert counts.tolist() == [4]
    np.testing.assert_allclose(marks[0], [0.95, 0.9, 0.8, 0.7, 0], rtol=1e-6)
    assert kinds[0].tolist() == [1, 0, 1, 0, 0]
    np.testing.assert_array_equal(boxes[0, 0], [1, 1, 0, 1])  # clipped to [0, 1]
    np.testing.assert_array_equal(boxes[0, 4], 0)


def test_wrong_shapes_are_refused() -> None:
    limits = np.int32(3), np.float32(0.5), np.float32(0)
    with pytest.raises(GraphError, match=r"expected one score for each of 3 boxes, not f32\[2\]"):
        run("NonMaxSuppressionV3", BOXES, SCORES[:2], *limits)
    with pytest.raises(GraphError, match=r"NonMaxSuppressionV2.*boxes \[n, 4\] and scores \[n\]"):
        run("NonMaxSuppressionV2", BOXES, SCORES[:2], *limits[:2])
    with pytest.raises(GraphError, match=r"max_output_size must not be negative, got -1"):
        run("NonMaxSuppressionV2", BOXES, SCORES, np.int32(-1), limits[1])
    with pytest.raises(GraphError, match="overlaps must be square"):
        run("NonMaxSuppressionWithOverlaps", np.ones((2, 3), np.float32), SCORES[:2], *limits)
    sizes = np.int32(2), np.int32(2), np.float32(0.5), np.float32(0)
    with pytest.raises(GraphError, match="3 boxes do not fit 2 classes: expected 1 or as many"):
        run("CombinedNonMaxSuppression", np.ones((1, 2, 3, 4), np.float32), np.ones((1, 2, 2), np.float32), *sizes)
