"""Indices, gathers, scatters, sequences, blocks, bits, special functions: against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError
from xlanb.graph import dtypes

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 4, 3))
ROWS = np.array([[0, 3], [4, 4]])


def test_ranges_and_one_hot(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("Range", np.int32(3), np.int32(20), np.int32(4)), np.arange(3, 20, 4))
    np.testing.assert_allclose(run_op("LinSpace", np.float64(1), np.float64(2), np.int32(7)), np.linspace(1, 2, 7))
    hot = run_op(
        "OneHot", np.array([2, -1, 0]), np.int32(3), np.float32(5), np.float32(1), outputs=[np.float32], axis=0
    )
    np.testing.assert_array_equal(hot, [[1, 1, 5], [1, 1, 1], [5, 1, 1]])
    with pytest.raises(GraphError, match="cannot have the step"):
        run_op("Range", np.int32(3), np.int32(0), np.int32(4))


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_the_first_of_equal_elements_and_nan_before_all(run_op: Any, name: str) -> None:
    x = np.array([[1.0, 3, 3, 0, 0], [2, math.nan, 9, -9, 1]])
    got = run_op(name, x, np.int32(1), outputs=[np.int64])
    assert got.tolist() == [1 if name == "ArgMax" else 3, 1]


def test_the_k_largest(run_op: Any) -> None:
    values, places = run_op("TopKV2", np.array([[1.0, 5, 5, 2]]), np.int32(3), outputs=[np.float64, np.int32])
    assert (values.tolist(), places.tolist()) == ([[5, 5, 2]], [[1, 2, 3]])
    with pytest.raises(GraphError, match="does not have 5"):
        run_op("TopKV2", np.array([[1.0, 5, 5, 2]]), np.int32(5), outputs=[np.float64, np.int32])


def test_gathers(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("GatherV2", X, np.array([[3, 0]]), np.int32(1)), X[:, [[3, 0]]])
    batched = rng.integers(0, 3, (5, 4, 2))
    got = run_op("GatherV2", X, batched, np.int32(2), batch_dims=2)
    np.testing.assert_array_equal(got, np.take_along_axis(X, batched, 2))
    np.testing.assert_array_equal(run_op("GatherNd", X, ROWS[:, :1]), X[ROWS[:, 0]])
    np.testing.assert_array_equal(
        run_op("ResourceGather", ROWS, variables=[X], outputs=[np.float64], dtype=np.float64), X
    )


SCATTERS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Div": np.divide,
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_combine_all_that_come_to_one_row(run_op: Any, name: str) -> None:
    updates = rng.normal(size=(2, 2, 4, 3))
    want = X.copy()
    SCATTERS[name].at(want, ROWS, updates)
    np.testing.assert_allclose(run_op(f"ResourceScatter{name}", ROWS, updates, variables=[X]), want)
    if name in ("Add", "Sub", "Max", "Min"):
        got = run_op(f"TensorScatter{name}", X, ROWS[..., None], updates)
        np.testing.assert_allclose(got, want)


def test_scatter_into_zeros_and_what_is_out_of_bounds_is_left_out(run_op: Any) -> None:
    got = run_op("ScatterNd", np.array([[1], [1], [7]]), np.array([2.0, 3, 4]), np.array([3]), outputs=[np.float64])
    np.testing.assert_array_equal(got, [0, 5, 0])
    np.testing.assert_array_equal(run_op("InvertPermutation", np.array([2, 0, 1])), [1, 2, 0])


def test_segments(run_op: Any) -> None:
    data, ids = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([2, -1, 2])
    np.testing.assert_array_equal(run_op("UnsortedSegmentSum", data, ids, np.int32(3)), [[0, 0], [0, 0], [6, 8]])
    np.testing.assert_array_equal(
        run_op("UnsortedSegmentMax", data, ids, np.int32(3))[[0, 2]], [[-np.finfo(float).max] * 2, [5, 6]]
    )
    assert run_op("Bincount", np.array([1, 1, 9, 0]), np.int32(3), np.zeros(0), outputs=[np.float64]).tolist() == [
        1,
        2,
        0,
    ]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_running_sums_products_and_logarithms_of_sums(run_op: Any, exclusive: bool, is_reversed: bool) -> None:
    def running(function: Any, x: Any, start: float) -> Any:
        x = x[:, ::-1] if is_reversed else x
        y = function(x, axis=1)
        if exclusive:
            y = np.concatenate([np.full_like(y[:, :1], start), y[:, :-1]], 1)
        return y[:, ::-1] if is_reversed else y

    attrs = {"exclusive": exclusive, "reverse": is_reversed}
    np.testing.assert_allclose(run_op("Cumsum", X, np.int32(1), **attrs), running(np.cumsum, X, 0), atol=1e-12)
    np.testing.assert_allclose(run_op("Cumprod", X, np.int32(-2), **attrs), running(np.cumprod, X, 1), atol=1e-12)
    got = run_op("CumulativeLogsumexp", X, np.int32(1), **attrs)
    np.testing.assert_allclose(got, running(np.logaddexp.accumulate, X, -np.inf), atol=1e-12)


def test_reversing_and_rolling(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("ReverseV2", X, np.array([0, -1])), X[::-1, :, ::-1])
    np.testing.assert_array_equal(run_op("Roll", X, np.array([2, -7]), np.array([1, 0])), np.roll(X, (2, -7), (1, 0)))
    lengths = np.array([0, 4, 2, 1, 3])
    want = np.stack([np.concatenate([x[:n][::-1], x[n:]]) for x, n in zip(X, lengths, strict=True)])
    np.testing.assert_array_equal(run_op("ReverseSequence", X, lengths, seq_dim=1, batch_dim=0), want)


def test_blocks_go_there_and_back(run_op: Any) -> None:
    x = rng.normal(size=(2, 4, 6, 3))
    block, nothing = np.array([2, 3]), np.zeros((2, 2), np.int64)
    moved = run_op("SpaceToBatchND", x, block, nothing)
    np.testing.assert_array_equal(moved[:2], x[:, ::2, ::3])
    np.testing.assert_array_equal(run_op("BatchToSpaceND", moved, block, nothing), x)
    deep = run_op("SpaceToDepth", x, block_size=2)
    np.testing.assert_array_equal(deep[..., :3], x[:, ::2, ::2])
    np.testing.assert_array_equal(run_op("DepthToSpace", deep, block_size=2), x)


def test_bits(run_op: Any) -> None:
    assert run_op("RightShift", np.array([-8, 8]), np.array([1, 2])).tolist() == [-4, 2]
    assert run_op("PopulationCount", np.array([-1, 5], np.int32), outputs=[np.uint8]).tolist() == [32, 2]
    x = np.array([1.5, -2.0], np.float32)
    got = run_op("Bitcast", x, outputs=[np.uint8], type=dtypes.uint8)
    np.testing.assert_array_equal(got, x.view(np.uint8).reshape(2, 4))
    ends = run_op("NextAfter", np.array([1.0, 0, -1]), np.array([2.0, -1, 5]))
    np.testing.assert_array_equal(ends, np.nextafter([1.0, 0, -1], [2.0, -1, 5]))


def test_special_functions(run_op: Any) -> None:
    x = np.array([-5.5, -2.2, -0.7, 0.2, 0.9, 1, 1.5, 3.3, 9, 20])
    np.testing.assert_allclose(run_op("Erfc", x), [math.erfc(v) for v in x], rtol=1e-12)
    np.testing.assert_allclose(run_op("Lgamma", x), [math.lgamma(v) for v in x], rtol=1e-10, atol=1e-12)
    slopes = [(math.lgamma(v + 1e-6) - math.lgamma(v - 1e-6)) / 2e-6 for v in x]
    np.testing.assert_allclose(run_op("Digamma", x), slopes, rtol=1e-6, atol=1e-7)
    order0 = [np.i0(v) * math.exp(-abs(v)) for v in x]
    np.testing.assert_allclose(run_op("BesselI0e", x), order0, rtol=1e-12)
    small = np.array([-0.9, -0.1, 0.0, 0.5, 0.99])
    np.testing.assert_allclose([math.erf(v) for v in run_op("Erfinv", small)], small, rtol=1e-6)


def test_products_and_quotients_where_zero_wins(run_op: Any) -> None:
    x, y = np.array([0.0, 2, np.inf]), np.array([0.0, 4, 0])
    assert run_op("DivNoNan", x, y).tolist() == [0, 0.5, 0]
    assert run_op("MulNoNan", x, y).tolist() == [0, 8, 0]
    assert run_op("Xlogy", y, x).tolist() == [0, 4 * math.log(2), 0]
