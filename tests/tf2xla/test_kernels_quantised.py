"""Fake quantisation, image formats, shapes that are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError
from xlanb.graph.tensor_shape import TensorShape

X = np.array([-9, -3.1, -0.2, 0, 0.13, 3, 9], np.float32)


def test_fake_quantisation_has_few_values_and_zero_among_them(run_op: Any) -> None:
    got = run_op("FakeQuantWithMinMaxArgs", X, min=-3.0, max=5.0, num_bits=2)
    step = 8 / 3
    np.testing.assert_allclose(got, [-step, -step, 0, 0, 0, step, 2 * step], rtol=1e-6)
    with pytest.raises(GraphError, match="num_bits must be 2 to 16"):
        run_op("FakeQuantWithMinMaxArgs", X, num_bits=1)


def test_gradients_beyond_the_bounds_go_to_the_bounds(run_op: Any) -> None:
    gradient = np.arange(1, 8, dtype=np.float32)
    outs = [np.float32] * 3
    by_x, by_low, by_high = run_op(
        "FakeQuantWithMinMaxVarsGradient", gradient, X, np.float32(-3), np.float32(5), outputs=outs
    )
    np.testing.assert_array_equal(by_x, [0, 0, 3, 4, 5, 6, 0])
    assert (by_low, by_high) == (3, 7)


def test_image_formats(run_op: Any) -> None:
    assert run_op("DataFormatDimMap", np.array([0, 1, 2, 3, -1])).tolist() == [0, 2, 3, 1, 1]
    assert run_op("DataFormatVecPermute", np.array([7, 4, 9, 3])).tolist() == [7, 3, 4, 9]


def test_a_shape_that_is_not_the_wanted_one_names_the_node(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("EnsureShape", X, shape=TensorShape([None])), X)
    with pytest.raises(GraphError, match=r"'node'.*shape \[7\] is not compatible"):
        run_op("EnsureShape", X, shape=TensorShape([8]))
    assert run_op("BroadcastArgs", np.array([2, 1, 3]), np.array([4, 1])).tolist() == [2, 4, 3]


def _quantised(**attrs: Any) -> dict[str, Any]:
    """Attributes of an op of quantised numbers: bounds of all three, no axes."""
    bounds = {"lhs": (-128, 127), "rhs": (-128, 127), "output": (-20, 20)}
    named = {
        f"{side}_quantization_{end}_val": value
        for side, pair in bounds.items()
        for end, value in zip(("min", "max"), pair, strict=True)
    }
    return {**named, "outputs": [np.int32], **attrs}


def test_arithmetic_of_quantised_numbers(run_op: Any) -> None:
    f, i = np.float32, np.int32
    scales = (f(0.5), i(1), f(0.25), i(2), f(0.5), i(0))
    left, right = np.array([[1, 2, 3], [9, -9, 50]], i), np.array([4, 5, 6], i)
    got = run_op("UniformQuantizedAdd", left, right, *scales, **_quantised())
    # numbers as TensorFlow 2.21 gives them
    np.testing.assert_array_equal(got, [[1, 3, 4], [9, -8, 20]])
    clip = (np.array([[1, 2], [30, 4]], i), np.array([0, 3], i), np.array([5, 6], i))
    got = run_op("UniformQuantizedClipByValue", *clip, f([0.5, 0.5]), i([1, 1]), quantization_axis=1)
    np.testing.assert_array_equal(got, [[1, 3], [5, 4]])
    left, right = np.array([[1, 2], [3, 4], [-5, -3]], np.int8), np.array([[1, 2], [3, 4]], np.int8)
    each = (f(0.5), i(1), f([0.25, 0.5]), i([2, 1]), f(0.5), i(3))
    got = run_op("UniformQuantizedDot", left, right, *each, **_quantised(rhs_quantization_axis=1))
    np.testing.assert_array_equal(got, [[3, 5], [3, 9], [4, -6]])
    with pytest.raises(GraphError, match="lhs scales and zero points must be scalars"):
        run_op("UniformQuantizedDot", left, right, f([1, 1]), *each[1:], **_quantised())
    short = (*each[:3], i([2, 1, 0]), *each[4:])
    with pytest.raises(GraphError, match="does not give axis 1"):
        run_op("UniformQuantizedDot", left, right, *short, **_quantised(rhs_quantization_axis=1))


def test_convolutions_of_quantised_numbers(run_op: Any) -> None:
    x = np.arange(16, dtype=np.int8).reshape(1, 4, 4, 1)
    kernel = np.array([[1, 2], [0, -1]], np.int8).reshape(2, 2, 1, 1)
    scales = (np.float32(0.5), np.int32(1), np.float32(0.25), np.int32(0), np.float32(0.5), np.int32(0))
    # fields 2, 3, 4, 5, 6, 8 and 9: NHWC and HWIO
    labels = bytes([0x10, 3, 0x1A, 2, 1, 2, 0x20, 2, 0x28, 3, 0x32, 2, 0, 1, 0x40, 3, 0x4A, 2, 1, 2])
    attrs = _quantised(padding="VALID", dimension_numbers=labels)
    got = run_op("UniformQuantizedConvolution", x, kernel, *scales, **attrs)
    np.testing.assert_array_equal(got[0, :, :, 0], [[-1, -1, 0], [1, 1, 2], [3, 3, 4]])
    padded = np.pad(x[..., 0].astype(np.int32) - 1, ((0, 0), (0, 1), (0, 1)))
    sums = sum(padded[:, i : i + 4, j : j + 4] * int(kernel[i, j, 0, 0]) for i in (0, 1) for j in (0, 1))
    same = run_op("UniformQuantizedConvolution", x, kernel, *scales, **attrs | {"padding": "SAME"})
    np.testing.assert_array_equal(same[..., 0], np.clip(np.floor(sums * 0.25 + 0.5), -20, 20))
    for wrong in (b"\x10", b"\x1a\x02\x01", b"\x0d\x00", b"\x10\x09"):
        with pytest.raises(GraphError, match="dimension_numbers"):
            run_op("UniformQuantizedConvolution", x, kernel, *scales, **attrs | {"dimension_numbers": wrong})
