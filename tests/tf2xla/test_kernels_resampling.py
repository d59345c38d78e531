"""Resizing by wide kernels, box crops and shuffled rows against TensorFlow's numbers and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError, UnknownOpError
from xlanb.graph.builders.functional_control import cond_v2
from xlanb.graph.op_library import call
from xlanb.runtime.graph_program import extract_module

COLUMN = np.array([1, 4, 2, 8, 5], np.float32)[None, :, None, None]
IMAGES = np.random.default_rng(3).random((2, 5, 4, 3)).astype(np.float32)
# What TensorFlow 2.21 makes of COLUMN.
RESIZED: dict[str, tuple[dict[str, Any], list[float]]] = {
    "legacy bicubic": ({}, [1, 3.425851, 3.0023603, 2.6063733, 7.485314, 6.7324386, 4.671916]),
    "bicubic": ({"half_pixel_centers": True}, [0.8255174, 2.811085, 3.5584891, 2, 6.7055883, 7.0769644, 4.8255177]),
    "corners": ({"align_corners": True}, [1, 3.2788355, 3.371564, 2, 6.3356113, 7.7232795, 5]),
}
TRANSLATED = {
    "lanczos3": [1.7880157, 3.3190522, 6.3398275],
    "gaussian": [1.9828272, 3.4620602, 5.9836957],
    "box": [1, 3, 6.5],
    "triangle": [1.8571428, 3.5, 6.125001],
    "keyscubic": [1.8154747, 3.2816901, 6.3521128],
    "mitchellcubic": [1.9156288, 3.3989992, 6.1470594],
}


def value(make: Any, *arrays: Any) -> Any:
    with tf.Graph().as_default():
        given = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        return xlanb.evaluate(extract_module([make(*given)]), *arrays)[0]


@pytest.mark.parametrize("name", RESIZED)
def test_bicubic(name: str) -> None:
    attrs, expected = RESIZED[name]
    made = value(lambda x: call("ResizeBicubic", x, [7, 1], **attrs), COLUMN)
    np.testing.assert_allclose(made.ravel(), expected, 1e-5)


def test_area() -> None:
    one = value(lambda x: call("ResizeArea", x, [3, 2], align_corners=True), COLUMN[:, :1])
    np.testing.assert_array_equal(one, np.ones((1, 3, 2, 1)))
    made = value(lambda x: call("ResizeArea", x, [3, 1]), COLUMN)
    np.testing.assert_allclose(made.ravel(), [2.2, 3.6, 6.2], 1e-5)


@pytest.mark.parametrize("kernel", TRANSLATED)
def test_scale_and_translate(kernel: str) -> None:
    scale, shift = np.float32([0.6, 1.0]), np.float32([0.2, 0.0])
    made = value(lambda x: call("ScaleAndTranslate", x, [3, 1], scale, shift, kernel_type=kernel), COLUMN)
    np.testing.assert_allclose(made.ravel(), TRANSLATED[kernel], 1e-5)


@pytest.mark.parametrize("kernel", ["lanczos5", "triangle"])
def test_a_kernel_and_its_gradient_are_adjoint(kernel: str) -> None:
    scale, shift = np.float32([1.4, 0.7]), np.float32([0.5, -0.2])
    grads = np.random.default_rng(4).random((2, 7, 3, 3)).astype(np.float32)
    there = value(lambda x: call("ScaleAndTranslate", x, [7, 3], scale, shift, kernel_type=kernel), IMAGES)
    back = value(lambda g: call("ScaleAndTranslateGrad", g, IMAGES, scale, shift, kernel_type=kernel), grads)
    assert np.vdot(there, grads) == pytest.approx(np.vdot(IMAGES, back), rel=1e-5)


def test_bicubic_and_its_gradient_are_adjoint() -> None:
    grads = np.random.default_rng(4).random((2, 7, 3, 3)).astype(np.float32)
    there = value(lambda x: call("ResizeBicubic", x, [7, 3], half_pixel_centers=True), IMAGES)
    back = value(lambda g: call("ResizeBicubicGrad", g, IMAGES, half_pixel_centers=True), grads)
    assert np.vdot(there, grads) == pytest.approx(np.vdot(IMAGES, back), rel=1e-5)


def test_an_unknown_kernel_is_named() -> None:
    with pytest.raises(GraphError, match="kernel_type 'cubic' is unknown: expected one of lanczos1"):
        value(lambda x: call("ScaleAndTranslate", x, [3, 1], [1.0, 1.0], [0.0, 0.0], kernel_type="cubic"), COLUMN)


# -------------------------------------------------------------------------------------------- crops

BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], [0.3, 0.3, 0.4, 1.2], [0, 0, 1, 1], [0, 0, 1, 1]], np.float32)
OWNERS = np.array([0, 1, 0, -1, 7], np.int32)


def _cropped(sizes: tuple[int, int], method: str, outside: float) -> Any:
    """One point after the other, as the op's documentation has it."""
    _, height, width, _ = IMAGES.shape
    out = np.full((len(BOXES), *sizes, 3), outside, np.float32)
    for n, ((y1, x1, y2, x2), owner) in enumerate(zip(BOXES, OWNERS, strict=True)):
        if not 0 <= owner < len(IMAGES):
            continue
        for i in range(sizes[0]):
            for j in range(sizes[1]):
                y = (y1 + i * (y2 - y1) / (sizes[0] - 1) if sizes[0] > 1 else (y1 + y2) / 2) * (height - 1)
                x = (x1 + j * (x2 - x1) / (sizes[1] - 1) if sizes[1] > 1 else (x1 + x2) / 2) * (width - 1)
                if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                    continue
                if method == "nearest":
                    out[n, i, j] = IMAGES[owner, int(y + 0.5), int(x + 0.5)]
                    continue
                top, left = int(y), int(x)
                low, right = int(np.ceil(y)), int(np.ceil(x))
                rows = [
                    IMAGES[owner, r, left] * (1 - x + left) + IMAGES[owner, r, right] * (x - left) for r in (top, low)
                ]
                out[n, i, j] = rows[0] * (1 - y + top) + rows[1] * (y - top)
    return out


@pytest.mark.parametrize("sizes", [(4, 3), (1, 1), (1, 6)])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_crops(method: str, sizes: tuple[int, int]) -> None:
    attrs = {"method": method, "extrapolation_value": 9.0}
    made = value(lambda x, b, o: call("CropAndResize", x, b, o, list(sizes), **attrs), IMAGES, BOXES, OWNERS)
    np.testing.assert_allclose(made, _cropped(sizes, method, 9.0), 1e-4, 1e-5)


def test_gradients_of_crops() -> None:
    weights = np.random.default_rng(5).random((3, 4, 3, 3)).astype(np.float32)
    boxes = BOXES[:3].copy()
    boxes[1] = [0.9, 0.8, 0.15, 0.2]
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x, b = tf.placeholder(tf.float32, IMAGES.shape), tf.placeholder(tf.float32, [3, 4])
        crops = call("CropAndResize", x, b, OWNERS[:3], [4, 3])
        total = tf.reduce_sum(crops * tf.constant(weights))
        by_images, by_boxes = session.run(tf.gradients(total, [x, b]), {x: IMAGES, b: boxes})
        way, step = np.random.default_rng(6).uniform(-1, 1, (3, 4)), 1e-3
        high, low = (session.run(total, {x: IMAGES, b: boxes + s * step * way}) for s in (1, -1))
        whole = session.run(total, {x: IMAGES, b: boxes})
    assert np.vdot(by_images, IMAGES) == pytest.approx(whole, rel=1e-4)  # linear in the images
    assert np.vdot(by_boxes, way) == pytest.approx((high - low) / (2 * step), rel=2e-2)


# ------------------------------------------------------------------------------------------ shuffle


def test_a_shuffle_is_that_of_tensorflow() -> None:
    key, counter = np.array([7], np.uint64), np.array([1, 2], np.uint64)
    rows = np.stack([np.arange(9), np.arange(9) * 2], 1)
    made = value(lambda x, k, c: call("StatelessShuffle", x, k, c, np.int32(1)), rows, key, counter)
    np.testing.assert_array_equal(made, rows[[6, 2, 3, 0, 7, 8, 5, 1, 4]])
    alone = value(lambda x, k, c: call("StatelessShuffle", x, k, c, np.int32(3)), rows[:1], key, counter)
    np.testing.assert_array_equal(alone, rows[:1])


# ----------------------------------------------------------------------------- branches and reasons


def test_a_branch_that_is_known_not_to_run_is_not_lowered() -> None:
    """As in tf.image.rot90 of a constant number of turns, whose branches have different shapes."""

    def glimpse(x: Any) -> Any:
        return call("ExtractGlimpse", x, [5, 4], np.zeros((2, 2), np.float32))

    def turn(x: Any, *, flag: bool) -> Any:
        return cond_v2(tf.constant(1) > (0 if flag else 2), lambda: glimpse(x), lambda: x * 2.0, None)

    np.testing.assert_array_equal(value(lambda x: turn(x, flag=False), IMAGES), IMAGES * 2)
    with pytest.raises(UnknownOpError, match="ExtractGlimpse"):
        value(lambda x: turn(x, flag=True), IMAGES)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("Lu", r"'Lu' \(TensorFlow: No registered 'Lu' OpKernel for XLA_CPU_JIT"),
        ("SegmentProd", "'SegmentProd'; it runs on the host .*A session runs it"),
    ],
)
def test_an_op_without_lowering_says_why(op: str, message: str) -> None:
    inputs = {
        "Lu": (np.eye(2, dtype=np.float32),),
        "SegmentProd": (IMAGES, np.array([0, 0], np.int32)),
    }[op]
    with tf.Graph().as_default(), pytest.raises(UnknownOpError, match=message):
        extract_module([call(op, *inputs)])
