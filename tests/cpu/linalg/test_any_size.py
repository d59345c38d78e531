"""Routines for matrices of any size, batches and options, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xlanb.evaluator import evaluate

SIZES = st.integers(1, 40) | st.integers(90, 140)
BATCHES = st.lists(st.integers(1, 9), max_size=2).map(tuple)
LETTERS = st.sampled_from("sd")
FEW = st.integers(1, 12) | st.integers(13, 25)
PARTS = st.sampled_from("cz")
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def build(lapack, *call):
    return lapack(*call)


@pytest.fixture
def check(compiled_once):
    """check(call, arguments): compare a kernel with the interpreter."""

    def checked(call, *arguments):
        exe = compiled_once(build, *call)
        assert not exe.program.host
        found = [exe(*arguments), evaluate(exe.source_module, *arguments)]
        tolerance = 1e-3 if call[1] in "sc" else 1e-9
        for got, want in zip(*((v,) if isinstance(v, np.ndarray) else v for v in found), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    return checked


def numbers(rng, letter, *shape):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if letter in "cz" else x).astype(DTYPES[letter])


def check_potrf(check, rng, letter, batch, n, uplo):
    a = numbers(rng, letter, *batch, n, n) / 8 + n * np.eye(n)
    call = ("potrf", letter, batch, ((n, n),), ((n, n), ("s",)), f"uplo = {ord(uplo)} : ui8")
    check(call, (a + a.swapaxes(-1, -2).conj()).astype(DTYPES[letter]))


def check_getrf(check, rng, letter, batch, m, n):
    # A large diagonal, rotated by one row: nearly equal pivots would depend on rounding.
    a = numbers(rng, letter, *batch, m, n) + (m + n) * np.eye(m, n)[np.roll(np.arange(m), 1)]
    call = ("getrf", letter, batch, ((m, n),), ((m, n), ("s", min(m, n)), ("s",)), "")
    check(call, a.astype(DTYPES[letter]))


def check_trsm(check, rng, letter, batch, n, m, *options):
    side, *_ = options
    a = (numbers(rng, letter, *batch, n, n) / n + np.eye(n)).astype(DTYPES[letter])
    shape = (n, m) if side == "L" else (m, n)
    text = ", ".join(f"{k} = {ord(c)} : ui8" for k, c in zip(("side", "uplo", "trans_x", "diag"), options, strict=True))
    check(("trsm", letter, batch, ((n, n), shape), (shape,), text), a, numbers(rng, letter, *batch, *shape))


OPTIONS = [st.sampled_from(x) for x in ("LR", "LU", "NTC", "NU")]


@quick
@given(LETTERS, BATCHES, SIZES, st.sampled_from("LU"))
def test_potrf(check, rng, letter, batch, n, uplo):
    check_potrf(check, rng, letter, batch, n, uplo)


@quick
@given(LETTERS, BATCHES, SIZES, SIZES)
def test_getrf(check, rng, letter, batch, m, n):
    check_getrf(check, rng, letter, batch, m, n)


@quick
@given(LETTERS, BATCHES, SIZES, st.integers(1, 20), *OPTIONS)
def test_trsm(check, rng, letter, batch, n, m, side, uplo, trans, diag):
    check_trsm(check, rng, letter, batch, n, m, side, uplo, trans, diag)


@quick
@given(PARTS, BATCHES, FEW, st.sampled_from("LU"))
def test_complex_potrf(check, rng, letter, batch, n, uplo):
    check_potrf(check, rng, letter, batch, n, uplo)


@quick
@given(PARTS, BATCHES, FEW, FEW)
def test_complex_getrf(check, rng, letter, batch, m, n):
    check_getrf(check, rng, letter, batch, m, n)


@quick
@given(PARTS, BATCHES, FEW, FEW, *OPTIONS)
def test_complex_trsm(check, rng, letter, batch, n, m, side, uplo, trans, diag):
    check_trsm(check, rng, letter, batch, n, m, side, uplo, trans, diag)
