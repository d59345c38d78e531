"""Eigenvalues of symmetric matrices, and their tridiagonal forms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.cpu import CompileOptions, compile_module
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

KINDS = {"s": (np.float32, 2.0**-23), "d": (np.float64, 2.0**-52)}
SIZES = [1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 41, 66]


def syevd(lapack, letter, batch, n, mode="V", uplo="L"):
    options = f"mode = {ord(mode)} : ui8, uplo = {ord(uplo)} : ui8"
    return lapack("syevd", letter, batch, [(n, n)], [(n, n), (n,), ("s",)], options)


def symmetric(rng, shape, dtype):
    a = rng.standard_normal(shape)
    return ((a + a.swapaxes(-1, -2)) / 2).astype(dtype)


def check(a, vectors, values, epsilon):
    """Check the eigenvectors and eigenvalues of one matrix."""
    n = len(a)
    largest = np.abs(a).max(initial=0) or 1.0
    a, values, vectors = (x.astype(np.float64) for x in (a / largest, values / largest, vectors))
    bound = (10 + n) * epsilon
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), rtol=0, atol=bound)
    np.testing.assert_allclose(a @ vectors, vectors * values, rtol=0, atol=bound * max(1.0, np.abs(values).max()))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=0, atol=bound * max(1.0, np.abs(values).max()))
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigenvectors(lapack, rng, letter, uplo):
    dtype, epsilon = KINDS[letter]
    for n in SIZES:
        batch = (n % 3,) if n % 3 else ()
        a = symmetric(rng, (*batch, n, n), dtype)
        exe = syevd(lapack, letter, batch, n, uplo=uplo)
        assert not exe.program.host
        other = np.tri(n, k=-1, dtype=bool)
        vectors, values, info = exe(np.where(other.T if uplo == "L" else other, np.float32(7), a).astype(dtype))
        assert not info.any()
        for m, v, w in zip(a.reshape(-1, n, n), vectors.reshape(-1, n, n), values.reshape(-1, n), strict=True):
            check(m, v, w, epsilon)


@pytest.mark.parametrize("letter", ["s", "d"])
def test_eigenvalues_alone(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for n in SIZES:
        a = symmetric(rng, (n, n), dtype)
        exe = syevd(lapack, letter, (), n, mode="N")
        assert not exe.program.host
        kept, values, info = exe(a)
        np.testing.assert_array_equal(kept, a)
        assert info == 0
        np.testing.assert_allclose(
            values, np.linalg.eigvalsh(a.astype(np.float64)), rtol=0, atol=(10 + n) * epsilon * np.sqrt(n)
        )


def special_matrices(n, dtype):
    """Matrices that are reducible, have multiple eigenvalues, or rows of very different size."""
    rng = np.random.default_rng(5)
    ramp = 10.0 ** -np.linspace(0, 28, n)
    general = symmetric(rng, (n, n), np.float64)
    return {
        "zeros": np.zeros((n, n)),
        "identity": np.eye(n),
        "ones": np.ones((n, n)),
        "diagonal": np.diag(np.arange(n) - 2.0),
        "one": np.diag(np.arange(n) == n // 2).astype(float),
        "exchange": np.eye(n)[::-1],
        "path": np.eye(n, k=1) + np.eye(n, k=-1),
        "Wilkinson": np.diag(np.abs(np.arange(n) - n // 2)) + np.eye(n, k=1) + np.eye(n, k=-1),
        "graded": general * np.sqrt(ramp[:, None] * ramp),
        "graded upwards": general * np.sqrt(ramp[::-1, None] * ramp[::-1]),
        "Hilbert": 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
        "tiny": general * float(np.finfo(dtype).tiny) * 16,
        "denormal": general * float(np.finfo(dtype).tiny) / 256,
        "huge": general * (float(np.finfo(dtype).max) / 64),
    }


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("n", [3, 16, 21])
def test_special_matrices(lapack, letter, n):
    dtype, epsilon = KINDS[letter]
    exe = syevd(lapack, letter, (), n)
    for name, a in special_matrices(n, dtype).items():
        a = a.astype(dtype)
        a = np.tril(a) + np.tril(a, -1).T
        vectors, values, info = exe(a)
        assert info == 0, name
        check(a, vectors, values, max(epsilon, 2 * float(np.nextafter(dtype(0), dtype(1))) / (np.abs(a).max() or 1)))


@pytest.mark.parametrize("mode", ["V", "N"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_has_no_eigenvalues(lapack, rng, mode, bad):
    a = symmetric(rng, (3, 9, 9), np.float32)
    exe = syevd(lapack, "s", (3,), 9, mode=mode)
    _, want, _ = exe(a)
    a[1, 5, 3] = bad
    vectors, values, info = exe(a)
    assert info.tolist() == [0, -4, 0]
    assert np.isnan(values[1]).all()
    np.testing.assert_array_equal(values[::2], want[::2])
    if mode == "V":
        assert np.isnan(vectors[1]).all()
        assert np.isfinite(vectors[::2]).all()


@pytest.mark.parametrize("letter", ["s", "d"])
def test_tridiagonal_form(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for n in SIZES[1:]:
        a = symmetric(rng, (n, n), dtype)
        exe = lapack(
            "sytrd", letter, (), [(n, n)], [(n, n), (n,), (n - 1,), (n - 1,), ("s",)], f"uplo = {ord('L')} : ui8"
        )
        assert not exe.program.host
        packed, d, e, scales, info = (x.astype(np.float64) for x in exe(a))
        assert info == 0
        np.testing.assert_array_equal(np.triu(packed, 1), np.triu(a, 1))
        np.testing.assert_array_equal(packed.diagonal(), d)
        np.testing.assert_array_equal(packed.diagonal(-1), e)
        q = np.eye(n)
        for k in reversed(range(n - 1)):
            v = np.concatenate([np.zeros(k + 1), [1.0], packed[k + 2 :, k]])
            q -= scales[k] * np.outer(v, v @ q)
        t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
        np.testing.assert_allclose(q @ t @ q.T, a, rtol=0, atol=40 * epsilon * np.sqrt(n))


def test_many_are_shared_by_threads(lapack, rng):
    exe = syevd(lapack, "d", (40,), 12)
    assert exe.program.is_parallel
    a = symmetric(rng, (40, 12, 12), np.float64)
    vectors, values, info = exe(a)
    assert not info.any()
    for m, v, w in zip(a, vectors, values, strict=True):
        check(m, v, w, 2.0**-52)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_matrix_of_any_rank(data, compiled_once):
    n = data.draw(st.sampled_from([1, 2, 5, 9, 18]))
    letter = data.draw(st.sampled_from("sd"))
    dtype, epsilon = KINDS[letter]
    rank = data.draw(st.integers(0, n))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.integers(-3, 4, (n, rank))
    a = (x * rng.choice([-1, 1], rank) @ x.T).astype(dtype)
    vectors, values, info = compiled_once(syevd, letter, (), n)(a)
    assert info == 0
    check(a, vectors, values, epsilon)


def hermitian_program(n, mode, uplo):
    matrix = f"c128[3,{n},{n}]{{1,2,0}}"
    shapes = f"{matrix}, f64[3,{n}]{{1,0}}, s32[3]{{0}}"
    options = f"mode = {ord(mode)} : ui8, uplo = {ord(uplo)} : ui8"
    exe = compile_module(
        parse(
            f"ENTRY e {{\n  p = {matrix} parameter(0)\n  ROOT c = ({shapes}) custom-call(p), "
            f'custom_call_target="lapack_zheevd_ffi", operand_layout_constraints={{{matrix}}}, '
            f"api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}\n}}\n"
        ),
        CompileOptions(pipeline=HloPassPipeline("none")),
    )
    assert not exe.program.host
    return exe


@pytest.mark.parametrize("n", [1, 2, 9, 40, 70])
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("mode", "VN")
def test_hermitian_matrices_of_which_a_triangle_is_read(rng, n, uplo, mode):
    x = rng.standard_normal((3, n, n)) + 1j * rng.standard_normal((3, n, n))
    a = x + x.conj().swapaxes(-1, -2)
    a[1, n - 1, n - 1] = np.inf
    other = np.tri(n, k=-1, dtype=bool)
    given = np.where(other.T if uplo == "L" else other, np.nan, a)
    vectors, values, info = hermitian_program(n, mode, uplo)(given)
    assert info.tolist() == [0, -4, 0]
    assert np.isnan(values[1]).all()
    for k in (0, 2):
        np.testing.assert_allclose(values[k], np.linalg.eigvalsh(a[k]), rtol=0, atol=1e-12 * n)
        if mode == "V":
            np.testing.assert_allclose(a[k] @ vectors[k], vectors[k] * values[k], rtol=0, atol=1e-12 * n)
    if mode == "N":
        np.testing.assert_array_equal(vectors, given)


def test_large_matrices_are_left_to_lapack(lapack, rng):
    exe = syevd(lapack, "d", (), 530)
    assert "lapack.dsyevd" in exe.llvm_ir
    a = symmetric(rng, (530, 530), np.float64)
    vectors, values, info = exe(a)
    assert info == 0
    check(a, vectors, values, 2.0**-52)
