"""Cholesky factors by kernels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import evaluate

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 50, 67, 97, 128, 201]


def potrf(lapack, letter, batch, n, uplo):
    return lapack("potrf", letter, batch, [(n, n)], [(n, n), ("s",)], f"uplo = {ord(uplo)} : ui8")


def reference(a, uplo):
    """The factor of a matrix given by one triangle; the other triangle is unchanged."""
    half = np.tril(a) if uplo == "L" else np.triu(a).swapaxes(-1, -2)
    diagonal = np.einsum("...ii->...i", half)[..., None] * np.eye(a.shape[-1])
    factor = np.linalg.cholesky((half + half.swapaxes(-1, -2) - diagonal).astype(np.float64))
    mine = np.tri(a.shape[-1], dtype=bool)
    return np.where(mine, factor, a) if uplo == "L" else np.where(mine.T, factor.swapaxes(-1, -2), a)


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("uplo", "LU")
def test_factor(lapack, positive, rng, letter, uplo):
    dtype, tolerance = (np.float32, 2e-6) if letter == "s" else (np.float64, 4e-15)
    batches = [(n, (n % 4,) if n % 4 else ()) for n in SIZES]
    for n, batch in [*batches, (1, (40,)), (2, (3, 5)), (4, (16,)), (5, (33,)), (11, (9,)), (32, (17,))]:
        a = positive(batch, n, dtype)
        other = np.tri(n, k=-1, dtype=bool)
        a = np.where(other.T if uplo == "L" else other, np.nan, a).astype(dtype)
        exe = potrf(lapack, letter, batch, n, uplo)
        assert not exe.program.host
        factor, info = exe(a)
        assert factor.dtype == dtype
        assert info.shape == batch
        assert not info.any()
        want = reference(a, uplo)
        np.testing.assert_allclose(factor, want, rtol=0, atol=tolerance * np.nanmax(abs(want)) * (1 + n / 16))


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize(
    ("n", "wrong"),
    [(1, 0), (5, 0), (5, 4), (20, 3), (20, 9), (40, 39), (40, 17), (40, 32), (150, 5), (150, 70), (150, 140)],
)
def test_info_is_the_first_minor_that_is_not_positive(lapack, positive, n, wrong, uplo):
    exe = potrf(lapack, "s", (4,), n, uplo)
    a = positive((4,), n, np.float32)
    a[1, wrong, wrong] = -1
    a[2, wrong, wrong] = np.nan
    factor, info = exe(a)
    assert info.tolist() == [0, wrong + 1, 0, 0]
    np.testing.assert_allclose(factor[::3], reference(a[::3], uplo), rtol=2e-5, atol=1e-5)
    zero = exe(np.zeros_like(a))
    assert zero[1].tolist() == [1] * 4


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize(("batch", "n"), [(1, 5), (1, 40), (40, 5)])
@pytest.mark.parametrize("bad", [-5, np.nan])
def test_what_cannot_be_factored_is_left_as_the_evaluator_leaves_it(lapack, positive, batch, n, uplo, bad):
    exe = potrf(lapack, "s", (batch,), n, uplo)
    a = positive((batch,), n, np.float32)
    a[0, n // 2, n // 2] = bad
    got, want = exe(a), evaluate(exe.hlo_module, a)
    np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)
    assert np.isnan(got[0][0]).any()


def test_many_are_shared_by_threads(lapack, positive):
    exe = potrf(lapack, "d", (50, 7), 24, "L")
    assert exe.program.is_parallel
    a = positive((50, 7), 24, np.float64)
    factor, info = exe(a)
    assert info.shape == (50, 7)
    np.testing.assert_allclose(factor, reference(a, "L"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("uplo", "LU")
def test_a_large_one_is_lapacks(lapack, positive, uplo):
    exe = potrf(lapack, "s", (), 300, uplo)
    assert "lapack.serial.spotrf" in exe.llvm_ir
    a = positive((), 300, np.float32)
    a[250, 250] = -1
    factor, info = exe(a)
    assert info == 251
    a[250, 250] = 400
    factor, info = exe(a)
    assert info == 0
    np.testing.assert_allclose(factor, reference(a, uplo), rtol=0, atol=2e-4)


def test_empty_matrices_are_calls_of_the_runtime(lapack):
    empty = potrf(lapack, "s", (3,), 0, "L")
    assert empty.program.host
    factor, info = empty(np.zeros((3, 0, 0), np.float32))
    assert factor.shape == (3, 0, 0)
    assert info.tolist() == [0, 0, 0]


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize(("letter", "n"), [("z", 64), ("c", 50), ("z", 1), ("d", 700)])
def test_a_large_or_complex_factor_is_lapacks(lapack, rng, letter, n, uplo):
    x = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if letter in "cz" else 0)
    a = (x @ x.conj().T + n * np.eye(n)).astype({"z": np.complex128, "c": np.complex64, "d": np.float64}[letter])
    exe = potrf(lapack, letter, (), n, uplo)
    assert not exe.program.host
    factor, info = exe(a)
    assert info == 0
    want = np.linalg.cholesky(a)
    half, other = (np.tril, np.triu) if uplo == "L" else (np.triu, np.tril)
    want = want if uplo == "L" else want.conj().T
    np.testing.assert_allclose(half(factor), want, rtol=0, atol=np.finfo(a.dtype).eps * 20 * n)
    np.testing.assert_array_equal(other(factor, 1 if uplo == "L" else -1), other(a, 1 if uplo == "L" else -1))


def test_a_complex_matrix_that_is_not_positive_definite_has_no_factor(lapack):
    a = np.eye(40, dtype=np.complex64)
    a[20, 20] = -1
    factor, info = potrf(lapack, "c", (), 40, "L")(a)
    assert info == 21
    assert np.isnan(factor.real[np.tril_indices(40)]).all()
    assert not factor.imag.any()
    assert not factor[np.triu_indices(40, 1)].any()


@pytest.mark.parametrize("uplo", [-1, 0, 1 << 30])
def test_an_option_that_is_no_letter_is_left_to_the_runtime(lapack, uplo):
    exe = lapack("potrf", "s", (), [(3, 3)], [(3, 3), ("s",)], f"uplo = {uplo} : i32")
    assert exe.program.host
