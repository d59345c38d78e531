"""Triangular systems by kernels, against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

SIZES = [
    (1, 1),
    (2, 3),
    (3, 1),
    (5, 8),
    (7, 9),
    (8, 8),
    (9, 17),
    (15, 2),
    (16, 16),
    (17, 1),
    (24, 7),
    (31, 33),
    (33, 31),
    (64, 5),
    (70, 40),
]


def trsm(lapack, letter, batch, a, b, side, uplo, trans, diag):
    given = {"side": side, "uplo": uplo, "trans_x": trans, "diag": diag}
    options = ", ".join(f"{name} = {ord(c)} : ui8" for name, c in given.items())
    return lapack("trsm", letter, batch, [a, b], [b], options)


def system(rng, batch, n, uplo, diag, dtype):
    """A well-conditioned triangular matrix, with NaN where it must not be read."""
    a = rng.standard_normal((*batch, n, n)) / n
    half = np.tri(n, dtype=bool)
    a = np.where(half if uplo == "L" else half.T, a, np.nan) + np.eye(n)
    if diag == "U":
        np.einsum("...ii->...i", a)[...] = np.nan
    return a.astype(dtype)


def residual(a, x, b, side, uplo, trans, diag):
    """The residual of op(a) x = b, with zeros in the other triangle."""
    a = np.nan_to_num(a.astype(np.float64))
    if diag == "U":
        a += np.eye(a.shape[-1])
    if trans != "N":
        a = a.swapaxes(-1, -2)
    return np.abs((a @ x if side == "L" else x @ a) - b).max()


SMALL = [(1, 1, (40,)), (2, 5, (3, 5)), (4, 4, (16,)), (5, 1, (33,)), (11, 8, (9,)), (32, 32, (17,)), (3, 32, (20,))]
SYSTEMS = list(enumerate(product("LR", "LU", "NT", "NU")))


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize(("number", "kind"), SYSTEMS)
def test_all_systems(lapack, rng, letter, number, kind):
    side, uplo, trans, diag = kind
    dtype, tolerance = (np.float32, 2e-6) if letter == "s" else (np.float64, 4e-15)
    cases = [*((n, m, (n % 3,) if n % 3 else ()) for n, m in SIZES), *SMALL]
    for n, m, batch in cases[(number * 3 + number // 4) % 4 :: 4]:
        a = system(rng, batch, n, uplo, diag, dtype)
        shape = (n, m) if side == "L" else (m, n)
        b = rng.standard_normal((*batch, *shape)).astype(dtype)
        exe = trsm(lapack, letter, batch, (n, n), shape, side, uplo, trans, diag)
        assert not exe.program.host
        x = exe(a, b)
        assert x.dtype == dtype
        assert residual(a, x, b, side, uplo, trans, diag) < tolerance * (4 + np.abs(x).max()), (n, m)


def test_adjoint_is_transpose(lapack, rng):
    a, b = system(rng, (), 9, "L", "N", np.float32), rng.standard_normal((9, 3)).astype(np.float32)
    made = [trsm(lapack, "s", (), (9, 9), (9, 3), "L", "L", t, "N")(a, b) for t in "TC"]
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("side", "LR")
def test_a_zero_on_the_diagonal_spoils_what_depends_on_it(lapack, side):
    a, b = np.eye(20, dtype=np.float32), np.ones((20, 20), np.float32)
    a[17, 17] = 0
    x = trsm(lapack, "s", (), (20, 20), (20, 20), side, "L" if side == "L" else "U", "N", "N")(a, b)
    x = x if side == "L" else x.T
    assert (x[:17] == 1).all()
    assert np.isinf(x[17]).all()


def test_many_are_shared_by_threads(lapack, rng):
    a, b = system(rng, (300,), 20, "U", "N", np.float64), rng.standard_normal((300, 20, 6))
    exe = trsm(lapack, "d", (300,), (20, 20), (20, 6), "L", "U", "T", "N")
    assert exe.program.is_parallel
    assert residual(a, exe(a, b), b, "L", "U", "T", "N") < 1e-13


@pytest.mark.parametrize(("side", "uplo", "trans"), list(product("LR", "LU", "NT")))
def test_a_large_one_is_lapacks(lapack, rng, side, uplo, trans):
    a = system(rng, (), 200, uplo, "N", np.float64)
    b = rng.standard_normal((200, 101) if side == "L" else (101, 200))
    exe = trsm(lapack, "d", (), a.shape, b.shape, side, uplo, trans, "N")
    assert "lapack.serial.dtrsm" in exe.llvm_ir
    assert residual(a, exe(a, b), b, side, uplo, trans, "N") < 1e-12


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize(("n", "m"), [(4, 30_000), (17, 9_000)])
def test_many_right_hand_sides_of_a_small_matrix(lapack, rng, letter, n, m):
    dtype = {"s": np.float32, "d": np.float64}[letter]
    a, b = system(rng, (), n, "L", "N", dtype), rng.standard_normal((m, n)).astype(dtype)
    x = trsm(lapack, letter, (), (n, n), (m, n), "R", "L", "N", "N")(a, b)
    assert residual(a, x, b, "R", "L", "N", "N") < (1e-4 if letter == "s" else 1e-12)
