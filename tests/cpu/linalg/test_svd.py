"""Singular values and vectors, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.cpu import CompileOptions, compile_module
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

KINDS = {"s": (np.float32, 2.0**-23), "d": (np.float64, 2.0**-52)}
SIZES = [(1, 1), (2, 2), (1, 5), (5, 1), (4, 3), (3, 4), (8, 8), (17, 16), (9, 33), (40, 12), (50, 50)]


def gesdd(lapack, letter, batch, m, n, mode="A", routine="gesdd"):
    k = min(m, n)
    u, vt = ((m, k), (k, n)) if mode == "S" else ((m, m), (n, n))
    return lapack(routine, letter, batch, [(m, n)], [(m, n), (k,), u, vt, ("s",)], f"mode = {ord(mode)} : ui8")


def check(a, s, u, vt, epsilon):
    """Check the singular values and vectors of one matrix."""
    k, largest = min(a.shape), np.abs(a).max(initial=0) or 1.0
    a, s, u, vt = (x.astype(np.float64) for x in (a / largest, s / largest, u, vt))
    bound = (20 + max(a.shape)) * epsilon
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), rtol=0, atol=bound)
    np.testing.assert_allclose(vt @ vt.T, np.eye(vt.shape[0]), rtol=0, atol=bound)
    norm = max(1.0, s[0])
    np.testing.assert_allclose(u[:, :k] * s @ vt[:k], a, rtol=0, atol=bound * norm)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=0, atol=bound * norm)
    assert (s >= 0).all()
    assert (np.diff(s) <= 0).all()


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("mode", ["A", "S"])
def test_singular_vectors(lapack, rng, letter, mode):
    dtype, epsilon = KINDS[letter]
    for m, n in SIZES:
        batch = (n % 3,) if n % 3 else ()
        a = rng.standard_normal((*batch, m, n)).astype(dtype)
        exe = gesdd(lapack, letter, batch, m, n, mode)
        assert not exe.program.host
        kept, s, u, vt, info = exe(a)
        np.testing.assert_array_equal(kept, a)
        assert not info.any()
        for each in np.ndindex(batch):
            check(a[each], s[each], u[each], vt[each], epsilon)


@pytest.mark.parametrize("letter", ["s", "d"])
def test_singular_values_alone(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for m, n in SIZES:
        a = rng.standard_normal((m, n)).astype(dtype)
        exe = gesdd(lapack, letter, (), m, n, "N")
        assert not exe.program.host
        kept, s, u, vt, info = exe(a)
        np.testing.assert_array_equal(kept, a)
        assert info == 0
        assert not u.any()
        assert not vt.any()
        want = np.linalg.svd(a.astype(np.float64), compute_uv=False)
        np.testing.assert_allclose(s, want, rtol=0, atol=(10 + max(m, n)) * epsilon * want[0])


def test_gesvd_is_the_same(lapack, rng):
    a = rng.standard_normal((7, 4)).astype(np.float32)
    for ours, other in zip(
        gesdd(lapack, "s", (), 7, 4)(a), gesdd(lapack, "s", (), 7, 4, routine="gesvd")(a), strict=True
    ):
        np.testing.assert_array_equal(ours, other)


def special_matrices(m, n, dtype):
    """Matrices that are rank-deficient, reducible, or badly scaled in rows or columns."""
    rng = np.random.default_rng(3)
    general, half = rng.standard_normal((m, n)), min(m, n) // 2
    rows, columns = (10.0 ** -np.linspace(0, 28, k) for k in (m, n))
    return {
        "zeros": np.zeros((m, n)),
        "identity": np.eye(m, n),
        "ones": np.ones((m, n)),
        "half the rank": general[:, :half] @ rng.standard_normal((half, n)),
        "one row": np.where(np.arange(m)[:, None] == 1, general, 0),
        "one column": np.where(np.arange(n) == 1, general, 0),
        "zeros in the diagonal": np.eye(m, n, 1),
        "bidiagonal": np.triu(np.tril(general, 1)),
        "bidiagonal with zeros": np.triu(np.tril(general, 1)) * (np.arange(n) % 3 != 1),
        "small integers": rng.integers(-1, 2, (m, n)),
        "rows of any size": general * rows[:, None],
        "growing rows": general * rows[::-1, None],
        "columns of any size": general * columns,
        "growing columns": general * columns[::-1],
        "upper": np.triu(general),
        "Kahan": np.triu(-0.3 * np.ones((m, n))) + 1.3 * np.eye(m, n),
        "tiny": general * float(np.finfo(dtype).tiny) * 16,
        "denormal": general * float(np.finfo(dtype).tiny) / 256,
        "huge": general * (float(np.finfo(dtype).max) / 64),
    }


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize(("m", "n"), [(3, 3), (16, 9), (9, 16), (21, 21)])
def test_special_matrices(lapack, letter, m, n):
    dtype, epsilon = KINDS[letter]
    exe = gesdd(lapack, letter, (), m, n)
    for name, a in special_matrices(m, n, dtype).items():
        a = a.astype(dtype)
        _, s, u, vt, info = exe(a)
        assert info == 0, name
        check(a, s, u, vt, max(epsilon, 2 * float(np.nextafter(dtype(0), dtype(1))) / (np.abs(a).max() or 1)))


@pytest.mark.parametrize("mode", ["A", "N"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_has_no_singular_values(lapack, rng, mode, bad):
    a = rng.standard_normal((3, 9, 5)).astype(np.float32)
    exe = gesdd(lapack, "s", (3,), 9, 5, mode)
    want = exe(a)[1]
    a[1, 8, 3] = bad
    _, s, u, vt, info = exe(a)
    assert info.tolist() == [0, -4, 0]
    assert np.isnan(s[1]).all()
    np.testing.assert_array_equal(s[::2], want[::2])
    if mode == "A":
        assert np.isnan(u[1]).all()
        assert np.isnan(vt[1]).all()
        assert np.isfinite(u[::2]).all()


def test_results_of_other_sizes_are_left_to_the_runtime(lapack):
    results = [(5, 3), (3,), (5, 4), (3, 3), ("s",)]
    exe = lapack("gesdd", "s", (), [(5, 3)], results, f"mode = {ord('A')} : ui8")
    assert exe.program.host


def test_many_are_shared_by_threads(lapack, rng):
    exe = gesdd(lapack, "d", (30,), 10, 10)
    assert exe.program.is_parallel
    a = rng.standard_normal((30, 10, 10))
    _, s, u, vt, info = exe(a)
    assert not info.any()
    for each in range(30):
        check(a[each], s[each], u[each], vt[each], 2.0**-52)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_matrix_of_any_rank(data, compiled_once, matrix_of_any_rank):
    letter, a = matrix_of_any_rank(data)
    _, s, u, vt, info = compiled_once(gesdd, letter, (), *a.shape)(a)
    assert info == 0
    check(a, s, u, vt, KINDS[letter][1])


def test_vectors_that_nobody_reads_are_not_written(lapack):
    text = """HloModule m

ENTRY e {
  p = f32[40,8]{0,1} parameter(0)
  c = (f32[40,8]{0,1}, f32[8]{0}, f32[40,40]{0,1}, f32[8,8]{0,1}, s32[]) custom-call(p), custom_call_target="lapack_sgesdd_ffi", operand_layout_constraints={f32[40,8]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={mode = 78 : ui8}
  ROOT s = f32[8]{0} get-tuple-element(c), index=1
}
"""
    exe = compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))
    zeros = ", i8 0, i64 6400"
    assert zeros not in exe.llvm_ir
    np.testing.assert_array_equal(exe(np.eye(40, 8, dtype=np.float32)), np.ones(8))
    assert zeros in gesdd(lapack, "s", (), 40, 8, "N").llvm_ir


@pytest.mark.parametrize("n", [5, 170])
def test_vectors_that_are_not_wanted_are_zeros_even_if_a_matrix_is_not_finite(lapack, n):
    exe = gesdd(lapack, "s", (), n, n, "N")
    for _ in range(2):  # the second run finds the first one's memory
        _, s, u, vt, info = exe(np.full((n, n), np.inf, np.float32))
        assert info == -4
        assert np.isnan(s).all()
        assert not u.any()
        assert not vt.any()
        u[:], vt[:] = 1, 1
        del u, vt


def test_large_matrices_are_left_to_lapack(lapack, rng):
    exe = gesdd(lapack, "d", (), 600, 520, "S")
    assert "lapack.dgesdd" in exe.llvm_ir
    a = rng.standard_normal((600, 520))
    kept, s, u, vt, info = exe(a)
    assert info == 0
    np.testing.assert_array_equal(kept, a)
    check(a, s, u, vt, 2.0**-52)


@pytest.mark.parametrize("mode", ["A", "S", "N"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (6, 4), (4, 6), (30, 30)])
def test_complex_matrices(lapack, rng, mode, m, n):
    a = (rng.standard_normal((2, m, n)) + 1j * rng.standard_normal((2, m, n))).astype(np.complex64)
    a[1, 0, 0] = np.nan
    exe = complex_gesdd(m, n, mode)
    _, s, u, vt, info = exe(a)
    assert info.tolist() == [0, -4]
    assert np.isnan(s[1]).all()
    np.testing.assert_allclose(s[0], np.linalg.svd(a[0], compute_uv=False), rtol=1e-5, atol=1e-5)
    if mode == "N":
        assert not u[0].any()
    else:
        k = min(m, n)
        np.testing.assert_allclose((u[0][:, :k] * s[0]) @ vt[0][:k], a[0], rtol=0, atol=1e-4)
        assert np.isnan(u[1]).all()


def complex_gesdd(m, n, mode):
    k = min(m, n)
    u, vt = ((m, k), (k, n)) if mode == "S" else ((m, m), (n, n))
    matrix = f"c64[2,{m},{n}]{{1,2,0}}"
    shapes = f"{matrix}, f32[2,{k}]{{1,0}}, c64[2,{u[0]},{u[1]}]{{1,2,0}}, c64[2,{vt[0]},{vt[1]}]{{1,2,0}}, s32[2]{{0}}"
    exe = compile_module(
        parse(
            f"ENTRY e {{\n  p = {matrix} parameter(0)\n  ROOT c = ({shapes}) custom-call(p), "
            f'custom_call_target="lapack_cgesdd_ffi", operand_layout_constraints={{{matrix}}}, '
            f"api_version=API_VERSION_TYPED_FFI, backend_config={{mode = {ord(mode)} : ui8}}\n}}\n"
        ),
        CompileOptions(pipeline=HloPassPipeline("none")),
    )
    assert not exe.program.host
    return exe
