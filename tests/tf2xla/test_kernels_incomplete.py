"""Incomplete gamma and beta, zeta and polygamma functions against host computations; XLA's
products.

The products are given by their messages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.runtime.host.numeric import hurwitz_zeta, incomplete_beta, lower_gamma

A = np.array([0.3, 0.5, 2, 2, 7.5, 7.5, 40, 40])
X = np.array([0.1, 3, 0.5, 6, 3, 12, 30, 55])


def test_incomplete_gamma(run_op: Any) -> None:
    want = [lower_gamma(a, x) for a, x in zip(A, X, strict=True)]
    np.testing.assert_allclose(run_op("Igamma", A, X), want, rtol=1e-12)
    np.testing.assert_allclose(run_op("Igammac", A, X), 1 - np.array(want), rtol=1e-9)
    edges = run_op("Igamma", np.array([1.0, 1, 0, 1]), np.array([0.0, np.inf, 1, -1]))
    np.testing.assert_array_equal(edges, [0, 1, np.nan, np.nan])


def test_the_derivative_by_a_is_that_of_differences(run_op: Any) -> None:
    h = 1e-5
    want = [(lower_gamma(a + h, x) - lower_gamma(a - h, x)) / (2 * h) for a, x in zip(A, X, strict=True)]
    by_a = run_op("IgammaGradA", A, X)
    np.testing.assert_allclose(by_a, want, rtol=1e-6, atol=1e-9)
    density = [math.exp((a - 1) * math.log(x) - x - math.lgamma(a)) for a, x in zip(A, X, strict=True)]
    np.testing.assert_allclose(run_op("RandomGammaGrad", A, X), -by_a / density, rtol=1e-9)


def test_incomplete_beta(run_op: Any) -> None:
    a, b, x = (
        np.array([0.5, 2, 2, 30, 1, 1, 1]),
        np.array([0.5, 3, 3, 4, 1, 1, -1]),
        np.array([0.2, 0.1, 0.9, 0.9, 0, 1, 0.5]),
    )
    want = [incomplete_beta(*v) for v in zip(a, b, x, strict=True)]
    np.testing.assert_allclose(run_op("Betainc", a, b, x), want, rtol=1e-11)


def test_zeta_and_polygamma(run_op: Any) -> None:
    s, q = np.array([2.0, 1.5, 3, 2, 1, 2, 0.5]), np.array([1.0, 20, 0.25, -1.5, 1, -2, 1])
    np.testing.assert_allclose(run_op("Zeta", s, q), [hurwitz_zeta(*v) for v in zip(s, q, strict=True)], rtol=1e-12)
    assert run_op("Polygamma", np.array([1.0]), np.array([1.0]))[0] == pytest.approx(math.pi**2 / 6)
    assert np.isnan(run_op("Polygamma", np.array([0.5]), np.array([1.0]))[0])


def test_dot_takes_its_dimension_numbers_from_a_message(run_op: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    numbers = SCHEMA.DotDimensionNumbers(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[1])
    got = run_op("XlaDot", x, x, dimension_numbers=numbers.SerializeToString(), precision_config="")
    np.testing.assert_array_equal(got, x @ x.T)
    with pytest.raises(GraphError, match=r"'node'.*is not a DotDimensionNumbers"):
        run_op("XlaDot", x, x, dimension_numbers=b"\xff", precision_config="")
