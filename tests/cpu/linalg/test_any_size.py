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
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def build(lapack, *call):
    return lapack(*call)


@pytest.fixture
def check(compiled_once):
    """check(call, arguments) -> whether a kernel makes of them what the interpreter makes."""

    def checked(call, *arguments):
        exe = compiled_once(build, *call)
        assert not exe.program.host
        found = [exe(*arguments), evaluate(exe.source_module, *arguments)]
        tolerance = 1e-3 if call[1] == "s" else 1e-9
        for got, want in zip(*((v,) if isinstance(v, np.ndarray) else v for v in found), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    return checked


def numbers(rng, letter, *shape):
    return rng.standard_normal(shape).astype(np.float32 if letter == "s" else np.float64)


@quick
@given(LETTERS, BATCHES, SIZES, st.sampled_from("LU"))
def test_potrf(check, rng, letter, batch, n, uplo):
    a = numbers(rng, letter, *batch, n, n) / 8 + n * np.eye(n, dtype=np.float32)
    call = ("potrf", letter, batch, ((n, n),), ((n, n), ("s",)), f"uplo = {ord(uplo)} : ui8")
    check(call, (a + a.swapaxes(-1, -2)).astype(a.dtype if letter == "d" else np.float32))


@quick
@given(LETTERS, BATCHES, SIZES, SIZES)
def test_getrf(check, rng, letter, batch, m, n):
    # A large diagonal: pivots that nearly tie would depend on roundings.
    a = numbers(rng, letter, *batch, m, n) + (m + n) * np.eye(m, n)[np.roll(np.arange(m), 1)]
    call = ("getrf", letter, batch, ((m, n),), ((m, n), ("s", min(m, n)), ("s",)), "")
    check(call, a.astype(np.float32 if letter == "s" else np.float64))


@quick
@given(LETTERS, BATCHES, SIZES, st.integers(1, 20), *(st.sampled_from(x) for x in ("LR", "LU", "NTC", "NU")))
def test_trsm(check, rng, letter, batch, n, m, side, uplo, trans, diag):
    a = numbers(rng, letter, *batch, n, n) / n + np.eye(n, dtype=np.float32)
    shape = (n, m) if side == "L" else (m, n)
    named = {"side": side, "uplo": uplo, "trans_x": trans, "diag": diag}
    options = ", ".join(f"{name} = {ord(c)} : ui8" for name, c in named.items())
    call = ("trsm", letter, batch, ((n, n), shape), (shape,), options)
    check(call, a.astype(np.float32 if letter == "s" else np.float64), numbers(rng, letter, *batch, *shape))
