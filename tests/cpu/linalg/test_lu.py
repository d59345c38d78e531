"""LU factors by kernels, against their product and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator.factorizations import each_matrix, lu

SIZES = [
    (1, 1), (2, 2), (3, 3), (4, 7), (7, 4), (5, 5), (8, 8), (9, 9), (16, 16), (17, 20), (20, 17), (1, 9), (9, 1),
    (33, 33), (31, 50), (70, 64),
    (97, 97), (130, 130), (200, 110), (110, 200),
]  # fmt: skip


def getrf(lapack, letter, batch, m, n):
    return lapack("getrf", letter, batch, [(m, n)], [(m, n), ("s", min(m, n)), ("s",)], "")


def product(packed, pivots):
    """P L U of one matrix."""
    m, n = packed.shape
    k = min(m, n)
    made = (np.tril(packed[:, :k], -1) + np.eye(m, k)) @ np.triu(packed[:k])
    for row, other in reversed(list(enumerate(pivots - 1))):
        made[[row, other]] = made[[other, row]]
    return made


@pytest.mark.parametrize("letter", ["s", "d"])
def test_factors(lapack, rng, letter):
    dtype, tolerance = (np.float32, 1e-6) if letter == "s" else (np.float64, 2e-15)
    small = [
        (1, 1, (40,)),
        (2, 5, (3, 5)),
        (4, 4, (16,)),
        (5, 3, (33,)),
        (11, 11, (9,)),
        (32, 32, (17,)),
        (3, 32, (20,)),
    ]
    for m, n, batch in [*((m, n, (m % 3,) if m % 3 else ()) for m, n in SIZES), *small]:
        a = rng.standard_normal((*batch, m, n)).astype(dtype)
        exe = getrf(lapack, letter, batch, m, n)
        assert not exe.program.host
        packed, pivots, info = exe(a)
        assert packed.dtype == dtype
        assert pivots.shape == (*batch, min(m, n))
        assert info.shape == batch
        assert not info.any()
        for one, way, given in zip(
            packed.reshape(-1, m, n), pivots.reshape(-1, min(m, n)), a.reshape(-1, m, n), strict=True
        ):
            assert np.abs(np.tril(one[:, : min(m, n)], -1)).max(initial=0) <= 1
            np.testing.assert_allclose(product(one.astype(np.float64), way), given, rtol=0, atol=tolerance * (8 + m))


def test_integers_are_factored_as_the_interpreter_does(lapack, rng):
    """Exact numbers with frequent ties: the first of the largest is the pivot."""
    for m, n in [(2, 2), (3, 5), (3, 3), (2, 40), (40, 2)]:
        a = rng.integers(-1, 2, (40, m, n)).astype(np.float64)
        packed, pivots, info = getrf(lapack, "d", (40,), m, n)(a)
        for got, want in zip((packed, pivots, info), each_matrix(lu, a), strict=True):
            np.testing.assert_array_equal(got, want)


def test_info_is_the_first_zero_pivot(lapack):
    a = np.eye(130, dtype=np.float32)[None].repeat(3, 0)
    a[1, 17, 17] = a[1, 100, 100] = 0
    a[2] = 0
    packed, pivots, info = getrf(lapack, "s", (3,), 130, 130)(a)
    assert info.tolist() == [0, 18, 1]
    np.testing.assert_array_equal(pivots, np.arange(1, 131)[None].repeat(3, 0))
    np.testing.assert_array_equal(packed, a)


def test_info_of_small_matrices(lapack):
    a = np.eye(6)[None].repeat(20, 0)
    a[3, 2, 2] = a[3, 4, 4] = a[19, 5, 5] = 0
    _, pivots, info = getrf(lapack, "d", (20,), 6, 6)(a)
    assert info.tolist() == [0, 0, 0, 3, *[0] * 15, 6]
    np.testing.assert_array_equal(pivots, np.arange(1, 7)[None].repeat(20, 0))


def test_nan_spreads_and_stays_in_its_matrix(lapack, rng):
    a = rng.standard_normal((3, 20, 20)).astype(np.float32)
    a[1, 4, 3] = np.nan
    packed, pivots, _ = getrf(lapack, "s", (3,), 20, 20)(a)
    assert np.isnan(packed[1]).any()
    assert not np.isnan(packed[::2]).any()
    assert ((pivots >= np.arange(1, 21)) & (pivots <= 20)).all()


def test_many_are_shared_by_threads(lapack, rng):
    a = rng.standard_normal((200, 24, 24))
    exe = getrf(lapack, "d", (200,), 24, 24)
    assert exe.program.is_parallel
    packed, pivots, _ = exe(a)
    for got, want in zip((packed, pivots), each_matrix(lu, a), strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("m", "n"), [(300, 300), (260, 330), (330, 260)])
def test_a_large_one_is_lapacks(lapack, rng, m, n):
    a = rng.standard_normal((m, n))
    exe = getrf(lapack, "d", (), m, n)
    assert "lapack.serial.dgetrf" in exe.llvm_ir
    packed, pivots, info = exe(a)
    assert info == 0
    assert np.abs(np.tril(packed[:, : min(m, n)], -1)).max() <= 1
    np.testing.assert_allclose(product(packed, pivots), a, rtol=0, atol=1e-12)
