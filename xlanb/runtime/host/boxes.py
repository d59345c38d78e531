"""Selection of boxes without overlaps (core/kernels/image/non_max_suppression_op.cc)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]
Similarity = Callable[[int, int], float]


@dataclass(frozen=True)
class _Limits:
    """What a selection may hold.

    Where `sigma` is above 0, soft suppression lowers scores and `similarity` is ignored.
    """

    count: int
    similarity: float
    score: float = -np.inf
    sigma: float = 0.0


def _select(scores: Array, similarity: Similarity, limits: _Limits) -> tuple[list[int], list[float]]:
    """Select indices by descending score; ties go to the smaller index.

    Returns:
        The indices, and their scores after soft suppression.
    """
    waiting = [(-float(s), i, 0) for i, s in enumerate(scores) if s > limits.score]
    heapq.heapify(waiting)
    taken: list[int] = []
    found: list[float] = []
    while waiting and len(taken) < limits.count:
        before, index, begin = heapq.heappop(waiting)
        score = _suppressed(-before, [similarity(index, j) for j in reversed(taken[begin:])], limits)
        if score == -before:
            taken.append(index)
            found.append(score)
        elif score is not None and score > limits.score:
            heapq.heappush(waiting, (-score, index, len(taken)))
    return taken, found


def _suppressed(score: float, similarities: Sequence[float], limits: _Limits) -> float | None:
    """The score after the selected boxes lowered it; None if one of them excludes the box."""
    for similarity in similarities:
        if limits.sigma <= 0:
            if similarity > limits.similarity:
                return None
            continue
        score *= float(np.exp(-0.5 / limits.sigma * similarity * similarity))
        if score <= limits.score:
            break
    return score


def _overlap(boxes: Array, i: int, j: int) -> float:
    """Intersection over union of two boxes, whose corners may be in any order."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    inner = np.prod(np.maximum(np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]), 0))
    areas = [np.prod(high[k] - low[k]) for k in (i, j)]
    return 0.0 if min(areas) <= 0 else float(inner / (sum(areas) - inner))


def _checked(op: Operation, boxes: Array, scores: Array, count: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise fault(
            op, f"expected boxes [n, 4] and scores [n], got shapes {list(boxes.shape)} and {list(scores.shape)}"
        )
    if count < 0:
        raise fault(op, f"max_output_size must not be negative, got {count}")


@host("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
def _non_max(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Boxes by descending score, without those that overlap a selected one.

    Each box may have its corners in any order. V5 lowers scores by soft suppression.
    """
    boxes, scores, count = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64), int(inputs[2])
    _checked(op, boxes, scores, count)
    given = [float(v) for v in inputs[3:]] or [float(op.attrs.get("iou_threshold", 0.5))]
    taken, found = _select(scores, partial(_overlap, boxes), _Limits(count, *given))
    chosen, marks = np.asarray(taken, np.int32), np.asarray(found, op.inputs[1].dtype.numpy_dtype)
    if op.attrs.get("pad_to_max_output_size"):
        chosen, marks = (np.pad(v, (0, count - len(taken))) for v in (chosen, marks))
    results = {"4": [chosen], "5": [chosen, marks]}.get(op.type[-1])
    return [chosen] if results is None else [*results, np.asarray(len(taken), np.int32)]


@host("NonMaxSuppressionWithOverlaps")
def _with_overlaps(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Indices by descending score, without those whose overlap with a selected one is too large."""
    overlaps, scores = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    if overlaps.ndim != 2 or overlaps.shape != (len(scores), len(scores)):
        raise fault(op, f"overlaps must be square, one row for each of {len(scores)} scores: {list(overlaps.shape)}")
    if int(inputs[2]) < 0:
        raise fault(op, f"max_output_size must not be negative, got {int(inputs[2])}")
    limits = _Limits(int(inputs[2]), float(inputs[3]), float(inputs[4]))
    return [np.asarray(_select(scores, lambda i, j: float(overlaps[i, j]), limits)[0], np.int32)]


@host("CombinedNonMaxSuppression")
def _combined(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Select boxes for each class of each image, and keep the best of all classes.

    Returns:
        Boxes [batch, size, 4], scores and classes [batch, size], padded with zeros, and the number
        of valid boxes [batch].
    """
    boxes, scores = np.asarray(inputs[0]), np.asarray(inputs[1])
    if boxes.ndim != 4 or boxes.shape[3] != 4 or scores.ndim != 3 or boxes.shape[:2] != scores.shape[:2]:
        raise fault(
            op,
            "expected boxes [batch, n, classes or 1, 4] and scores [batch, n, classes], "
            f"got shapes {list(boxes.shape)} and {list(scores.shape)}",
        )
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise fault(op, f"{boxes.shape[2]} boxes do not fit {scores.shape[2]} classes: expected 1 or as many")
    each, total = int(inputs[2]), int(inputs[3])
    if each <= 0 or total <= 0:
        raise fault(op, f"the sizes must be positive, got {each} for each class and {total} in total")
    limits = _Limits(each, float(inputs[4]), float(inputs[5]))
    size = min(total, each * scores.shape[2]) if op.attrs.get("pad_per_class") else total
    batch = len(boxes)
    held = np.zeros((batch, size, 4), np.float32), np.zeros((batch, size), np.float32)
    classes, counts = np.zeros((batch, size), np.float32), np.zeros(batch, np.int32)
    for b in range(batch):
        best = _best(boxes[b], scores[b], limits)[:size]
        counts[b] = len(best)
        for place, (mark, kind, index) in enumerate(best):
            held[0][b, place] = boxes[b, index, kind if boxes.shape[2] > 1 else 0]
            held[1][b, place], classes[b, place] = mark, kind
    clip = op.attrs.get("clip_boxes", True)
    return [np.clip(held[0], 0, 1) if clip else held[0], held[1], classes, counts]


def _best(boxes: Array, scores: Array, limits: _Limits) -> list[tuple[float, int, int]]:
    """Score, class and index of the selected boxes of all classes, by descending score."""
    found = []
    for kind in range(scores.shape[1]):
        own = np.asarray(boxes[:, kind if boxes.shape[1] > 1 else 0], np.float64)
        taken, marks = _select(scores[:, kind], partial(_overlap, own), limits)
        found += [(mark, kind, index) for mark, index in zip(marks, taken, strict=True)]
    return sorted(found, key=lambda f: -f[0])
