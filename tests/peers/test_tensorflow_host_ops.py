"""Ops on boxes and images that run on the host, on random inputs, beside TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlanb import tf as own

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.peer
Case = tuple[Callable[..., Any], list[Any]]


def _crowd(rng: np.random.Generator, count: int, *rest: int) -> Any:
    """Boxes that overlap, some of them with swapped corners."""
    corner, size = rng.uniform(-0.2, 0.8, (count, *rest, 2)), rng.uniform(0, 0.5, (count, *rest, 2))
    boxes = np.concatenate([corner, corner + size], -1).astype(np.float32)
    boxes[::4] = boxes[::4][..., [2, 1, 0, 3]]
    return boxes


def _scores(rng: np.random.Generator, *shape: int) -> Any:
    return rng.uniform(0, 1, shape).astype(np.float32)


def _v2(rng: np.random.Generator) -> Case:
    count = int(rng.integers(0, 12))
    most, limit = int(rng.integers(0, 8)), np.float32(rng.uniform(0, 0.6))
    return lambda b, s: tf.raw_ops.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=most, iou_threshold=limit), [
        _crowd(rng, count),
        _scores(rng, count),
    ]


def _v4(rng: np.random.Generator) -> Case:
    count, most, is_padded = int(rng.integers(1, 12)), int(rng.integers(0, 8)), bool(rng.integers(2))
    return lambda b, s: tf.raw_ops.NonMaxSuppressionV4(
        boxes=b,
        scores=s,
        max_output_size=most,
        iou_threshold=0.2,
        score_threshold=0.3,
        pad_to_max_output_size=is_padded,
    ), [_crowd(rng, count), _scores(rng, count)]


def _v5(rng: np.random.Generator) -> Case:
    count, most, is_padded = int(rng.integers(1, 12)), int(rng.integers(0, 8)), bool(rng.integers(2))
    sigma, limit = float(rng.choice([0.0, 0.2, 1.0])), float(rng.choice([0.3, 1.0]))
    scores = np.round(_scores(rng, count), 1)  # with ties
    return lambda b, s: tf.raw_ops.NonMaxSuppressionV5(
        boxes=b, scores=s, max_output_size=most, iou_threshold=limit, score_threshold=0.1, soft_nms_sigma=sigma,
        pad_to_max_output_size=is_padded,
    ), [_crowd(rng, count), scores]  # fmt: skip


def _with_overlaps(rng: np.random.Generator) -> Case:
    count = int(rng.integers(1, 9))
    return lambda o, s: tf.raw_ops.NonMaxSuppressionWithOverlaps(
        overlaps=o, scores=s, max_output_size=4, overlap_threshold=0.6, score_threshold=0.2
    ), [_scores(rng, count, count), _scores(rng, count)]


def _combined(rng: np.random.Generator) -> Case:
    batch, count, kinds = (int(n) for n in rng.integers(1, 6, 3))
    boxes = _crowd(rng, batch * count, 1 if rng.integers(2) else kinds)
    attrs = {"pad_per_class": bool(rng.integers(2)), "clip_boxes": bool(rng.integers(2))}
    each, total = (int(n) for n in rng.integers(1, 7, 2))
    return lambda b, s: tf.raw_ops.CombinedNonMaxSuppression(
        boxes=b, scores=s, max_output_size_per_class=each, max_total_size=total, iou_threshold=0.3,
        score_threshold=0.2, **attrs,
    ), [boxes.reshape(batch, count, -1, 4), _scores(rng, batch, count, kinds)]  # fmt: skip


def _crop_inputs(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    image = _scores(rng, *rng.integers(1, 7, 4))
    count = int(rng.integers(1, 5))
    owners = rng.integers(0, len(image), count).astype(np.int32)
    grads = _scores(rng, count, *rng.integers(1, 6, 2), image.shape[3])
    return grads, image, rng.uniform(-0.3, 1.3, (count, 4)).astype(np.float32), owners


def _image_gradient(rng: np.random.Generator) -> Case:
    grads, image, boxes, owners = _crop_inputs(rng)
    method = ["bilinear", "nearest"][rng.integers(2)]
    return lambda g, b: tf.raw_ops.CropAndResizeGradImage(
        grads=g, boxes=b, box_ind=owners, image_size=image.shape, T=tf.float32, method=method
    ), [grads, boxes]


def _box_gradient(rng: np.random.Generator) -> Case:
    grads, image, boxes, owners = _crop_inputs(rng)
    return lambda g, i, b: tf.raw_ops.CropAndResizeGradBoxes(grads=g, image=i, boxes=b, box_ind=owners), [
        grads,
        image,
        boxes,
    ]


def _glimpses(rng: np.random.Generator) -> Case:
    image = _scores(rng, *rng.integers(1, 8, 4))
    is_old, is_normalized, centered = (bool(n) for n in rng.integers(2, size=3))
    scale = 1.5 if is_normalized else 6.0
    offsets = rng.uniform(-scale, scale, (len(image), 2)).astype(np.float32)
    size = [int(n) for n in rng.integers(1, 7, 2)]
    op = tf.raw_ops.ExtractGlimpse if is_old else tf.raw_ops.ExtractGlimpseV2
    return lambda x, o: op(
        input=x, size=size, offsets=o, centered=centered, normalized=is_normalized, uniform_noise=False, noise="zero"
    ), [image, offsets]


def _drawn(rng: np.random.Generator) -> Case:
    image = _scores(rng, *rng.integers(1, 9, 3), rng.choice([1, 3, 4]))
    boxes = rng.uniform(-0.5, 1.5, (len(image), rng.integers(0, 13), 4)).astype(np.float32)
    if rng.integers(2):
        return lambda x, b: tf.raw_ops.DrawBoundingBoxes(images=x, boxes=b), [image, boxes]
    colors = _scores(rng, rng.integers(0, 4), 4)
    return lambda x, b, c: tf.raw_ops.DrawBoundingBoxesV2(images=x, boxes=b, colors=c), [image, boxes, colors]


@pytest.mark.parametrize(
    "make",
    [_v2, _v4, _v5, _with_overlaps, _combined, _image_gradient, _box_gradient, _glimpses, _drawn],
)
def test_random_inputs(make: Callable[[np.random.Generator], Case]) -> None:
    for seed in range(25):
        build, arrays = make(np.random.default_rng(seed))
        function = tf.function(build)
        expected = tf.nest.flatten(function(*map(tf.constant, arrays)))
        graph = own.Graph.from_tensorflow(function, *arrays)
        with own.Session(graph) as session:
            got = session.run(list(graph.outputs), dict(zip(graph.inputs, arrays, strict=True)))
        for a, b in zip(got, expected, strict=True):
            assert (a.shape, a.dtype) == (tuple(b.shape), b.dtype.as_numpy_dtype), f"seed {seed}"
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"seed {seed}")
