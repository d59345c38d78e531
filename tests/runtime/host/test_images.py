"""Crops, glimpses and boxes drawn on the host, against finite differences and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n

RNG = np.random.default_rng(3)
IMAGE = RNG.uniform(0, 1, (2, 5, 4, 3)).astype(np.float32)
BOXES = np.array([[0.1, 0.2, 0.77, 0.95], [-0.2, 0.3, 0.6, 1.3], [0.9, 0.15, 0.3, 0.55]], np.float32)
OWNERS = np.array([0, 1, 0], np.int32)


def run(op_type: str, *inputs: Any, **attrs: Any) -> Any:
    with Graph().as_default() as graph:
        outputs = call_n(op_type, *inputs, **attrs)
        with tf.Session(graph=graph) as session:
            return session.run(outputs)[0]


def crops(image: Any, boxes: Any, size: tuple[int, int], method: str) -> Any:
    return run("CropAndResize", image, boxes, OWNERS, np.array(size, np.int32), method=method)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 2)])
def test_image_gradient_of_crops_is_the_transpose_of_the_crop(method: str, size: tuple[int, int]) -> None:
    grads = RNG.uniform(0, 1, (3, *size, 3)).astype(np.float32)
    dims = np.array(IMAGE.shape, np.int32)
    found = run("CropAndResizeGradImage", grads, BOXES, OWNERS, dims, T=tf.float32, method=method)
    assert (found * IMAGE).sum() == pytest.approx((grads * crops(IMAGE, BOXES, size, method)).sum(), rel=1e-5)
    assert np.abs(found).sum() > 1


@pytest.mark.parametrize("size", [(3, 4), (1, 2)])
def test_box_gradient_of_crops_is_the_difference_of_moved_boxes(size: tuple[int, int]) -> None:
    grads = RNG.uniform(0, 1, (3, *size, 3)).astype(np.float32)
    found = run("CropAndResizeGradBoxes", grads, IMAGE, BOXES, OWNERS)
    for place in np.ndindex(BOXES.shape):
        ends = []
        for change in (-2e-3, 2e-3):
            moved = BOXES.copy()
            moved[place] += change
            ends.append((grads * crops(IMAGE, moved, size, "bilinear")).sum(dtype=np.float64))
        assert found[place] == pytest.approx((ends[1] - ends[0]) / 4e-3, abs=0.02)


def test_crops_of_images_that_do_not_exist_are_refused() -> None:
    with pytest.raises(GraphError, match=r"CropAndResizeGradBoxes.*outside of \[0, 2\)"):
        run("CropAndResizeGradBoxes", np.ones((3, 1, 1, 3), np.float32), IMAGE, BOXES, np.array([0, 1, 2], np.int32))


def _glimpse(offset: tuple[float, float], **attrs: Any) -> Any:
    image = np.arange(1, 21, dtype=np.float32).reshape(1, 4, 5, 1)
    given = (image, np.array([2, 3], np.int32), np.array([offset], np.float32))
    return run("ExtractGlimpseV2", *given, uniform_noise=False, **{"noise": "zero", **attrs})[0, :, :, 0].tolist()


def test_glimpses_are_cut_out_and_filled_with_noise() -> None:
    assert _glimpse((0, 0)) == [[7, 8, 9], [12, 13, 14]]
    assert _glimpse((1, 2), centered=False, normalized=False) == [[8, 9, 10], [13, 14, 15]]
    assert _glimpse((-1, 3), centered=False, normalized=False) == [[0, 0, 0], [4, 5, 0]]
    assert _glimpse((9, 9), centered=False, normalized=False) == [[0, 0, 0], [0, 0, 0]]
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        noisy = session.run(tf.image.extract_glimpse(IMAGE, [9, 9], [[0.0, 0.0]] * 2))
    assert noisy.min() >= IMAGE.min()
    assert noisy.max() <= IMAGE.max()
    assert len(np.unique(noisy)) > IMAGE.size
    with pytest.raises(GraphError, match="noise 'pink' is unknown: expected uniform, gaussian or zero"):
        _glimpse((9, 9), noise="pink")


def test_outlines_of_boxes_are_drawn() -> None:
    image = np.zeros((1, 5, 5, 1), np.float32)
    boxes = np.array([[[0.25, 0.25, 0.75, 0.75], [0.5, 0.9, 2, 3]]], np.float32)
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        found = session.run(tf.image.draw_bounding_boxes(image, boxes))[0, :, :, 0]
    assert found.tolist() == [[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 0, 1, 1], [0, 1, 1, 1, 0], [0, 0, 0, 1, 0]]
    picture = np.zeros((1, 3, 3, 3), np.float32)
    given = np.array([[[0, 0, 0, 1], [1, 0, 1, 1]]], np.float32)
    assert run("DrawBoundingBoxes", picture, given)[0, :, 0].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    drawn = run("DrawBoundingBoxesV2", picture, given, np.array([[0.5, 0.25, 0, 1]], np.float32))
    assert drawn[0, :, 0].tolist() == [[0.5, 0.25, 0], [0, 0, 0], [0.5, 0.25, 0]]
    with pytest.raises(GraphError, match=r"expected colors \[n, 3 or more\]"):
        run("DrawBoundingBoxesV2", picture, given, np.ones((1, 2), np.float32))


def test_drawing_leaves_its_input_alone() -> None:
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        held = call("Identity", tf.constant(IMAGE))
        drawn = call("DrawBoundingBoxes", held, np.zeros((2, 1, 4), np.float32))
        before, after = session.run([held, drawn])
    np.testing.assert_array_equal(before, IMAGE)
    assert (after[:, 0, 0] != before[:, 0, 0]).any()
