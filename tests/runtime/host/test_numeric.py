"""Special functions and image ops on the host, against known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call
from xlanb.runtime.host.numeric import hurwitz_zeta, incomplete_beta, lower_gamma


def run(op_type: str, *inputs: Any, **attrs: Any) -> Any:
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        return session.run(call(op_type, *inputs, **attrs))


@pytest.mark.parametrize("x", [0.0, 0.1, 1.0, 3.0, 30.0])
def test_incomplete_gamma_of_whole_numbers_is_a_sum(x: float) -> None:
    for a in (1, 2, 5):
        want = 1 - math.exp(-x) * sum(x**k / math.factorial(k) for k in range(a))
        assert lower_gamma(a, x) == pytest.approx(want, abs=1e-14)
    assert lower_gamma(0.5, x) == pytest.approx(math.erf(math.sqrt(x)), abs=1e-14)


def test_incomplete_beta_is_symmetric_and_a_binomial_sum() -> None:
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(1 - incomplete_beta(3, 2, 0.6), abs=1e-15)
    want = sum(math.comb(4, k) * 0.4**k * 0.6 ** (4 - k) for k in range(2, 5))
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(want, abs=1e-14)


def test_zeta_and_its_relatives() -> None:
    assert hurwitz_zeta(2, 1) == pytest.approx(math.pi**2 / 6, rel=1e-14)
    assert hurwitz_zeta(4, 0.5) == pytest.approx(15 * math.pi**4 / 90, rel=1e-13)
    found = run("Polygamma", np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(found, [-0.5772156649015329, math.pi**2 / 6], rtol=1e-12)


def test_determinants_and_dilation() -> None:
    assert run("MatrixDeterminant", np.array([[2.0, 1], [1, 3]], np.float32)) == pytest.approx(5)
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    flat = np.zeros((2, 2, 1), np.float32)
    attrs = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1]}
    np.testing.assert_array_equal(run("Dilation2D", x, flat, padding="VALID", **attrs)[0, :, :, 0], [[4, 5], [7, 8]])


def test_resized_pictures() -> None:
    x = np.array([[0, 2], [4, 6]], np.float32).reshape(1, 2, 2, 1)
    size = np.array([4, 4], np.int32)
    nearest = run("ResizeNearestNeighbor", x, size)
    np.testing.assert_array_equal(nearest[0, :, :, 0], np.kron([[0, 2], [4, 6]], np.ones((2, 2))))
    corners = run("ResizeBilinear", x, np.array([3, 3], np.int32), align_corners=True)
    np.testing.assert_array_equal(corners[0, :, :, 0], [[0, 1, 2], [2, 3, 4], [4, 5, 6]])
