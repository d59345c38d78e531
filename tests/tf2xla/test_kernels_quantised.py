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
