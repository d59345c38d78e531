"""Colours and sizes of pictures, and ops that are HLO by another name, against plain NumPy."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.op_library import call, call_n
from xlanb.runtime.graph_program import extract_module

PICTURE = np.random.default_rng(3).random((1, 4, 3, 3)).astype(np.float32)


def value(make: Any, *arrays: Any) -> Any:
    with tf.Graph().as_default():
        given = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        return xlanb.evaluate(extract_module([make(*given)]), *arrays)[0]


def by_pixel(function: Any, pictures: Any) -> Any:
    return np.array([function(*map(float, p)) for p in pictures.reshape(-1, 3)], np.float32).reshape(pictures.shape)


def test_hsv_and_back() -> None:
    hsv = value(lambda x: call("RGBToHSV", x), PICTURE)
    np.testing.assert_allclose(hsv, by_pixel(colorsys.rgb_to_hsv, PICTURE), 1e-5, 1e-6)
    np.testing.assert_allclose(value(lambda x: call("HSVToRGB", x), hsv), PICTURE, 1e-5, 1e-6)


def test_hue_saturation_contrast() -> None:
    turned = value(lambda x: call("AdjustHue", x, np.float32(0.3)), PICTURE)
    want = by_pixel(lambda h, s, v: ((h + 0.3) % 1, s, v), by_pixel(colorsys.rgb_to_hsv, PICTURE))
    np.testing.assert_allclose(turned, by_pixel(colorsys.hsv_to_rgb, want), 1e-4, 1e-5)
    grey = value(lambda x: call("AdjustSaturation", x, np.float32(0.0)), PICTURE)
    np.testing.assert_allclose(grey, np.repeat(PICTURE.max(-1, keepdims=True), 3, -1), 1e-5, 1e-6)
    mean = PICTURE.mean((1, 2), keepdims=True)
    flat = value(lambda x: call("AdjustContrastv2", x, np.float32(0.5)), PICTURE)
    np.testing.assert_allclose(flat, (PICTURE - mean) * 0.5 + mean, 1e-5, 1e-6)


def test_resizing_keeps_corners() -> None:
    size = np.array([7, 5], np.int32)
    made = value(lambda x: call("ResizeBilinear", x, size, align_corners=True), PICTURE)
    np.testing.assert_allclose(made[:, ::2, ::2], PICTURE, 1e-5, 1e-6)
    near = value(lambda x: call("ResizeNearestNeighbor", x, np.array([8, 6], np.int32)), PICTURE)
    np.testing.assert_array_equal(near, PICTURE.repeat(2, 1).repeat(2, 2))


@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeNearestNeighbor"])
def test_a_resize_and_its_gradient_are_adjoint(op: str) -> None:
    grads = np.random.default_rng(4).random((1, 7, 5, 3)).astype(np.float32)
    there = value(lambda x: call(op, x, np.array([7, 5], np.int32), half_pixel_centers=True), PICTURE)
    second = PICTURE if op == "ResizeBilinear" else np.array([4, 3], np.int32)
    back = value(lambda g: call(f"{op}Grad", g, second, half_pixel_centers=True), grads)
    np.testing.assert_allclose((there * grads).sum(), (PICTURE * back).sum(), 1e-4)


def test_three_colours_are_wanted() -> None:
    with tf.Graph().as_default(), pytest.raises(GraphError, match="three channels"):
        extract_module([call("RGBToHSV", tf.placeholder(tf.float32, [2, 4]))])


def test_grids_are_split_and_joined() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)

    def both(t: Any) -> Any:
        pieces = call_n("XlaSplitND", t, N=6, num_splits=(2, 3), paddings=(0, 0))
        assert [p.shape.as_list() for p in pieces] == [[2, 2]] * 6
        return call("XlaConcatND", list(pieces), num_concats=(2, 3), paddings=(1, 0))

    np.testing.assert_array_equal(value(both, x), x[:3])


@pytest.mark.parametrize("name", ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh"])
def test_complex_functions(name: str) -> None:
    z = np.array([0.3 + 0.2j, -0.4 + 0.7j, 0.5 - 1.5j, -1.2 - 0.1j], np.complex128)
    want = getattr(np, name.lower().replace("acos", "arccos").replace("asin", "arcsin").replace("atan", "arctan"))(z)
    np.testing.assert_allclose(value(lambda t: call(name, t), z), want, 1e-9, 1e-12)
