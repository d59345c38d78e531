"""Eigenvalues, Schur and Hessenberg forms of general matrices, by calls of SciPy's LAPACK."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.linalg

import xlanb
from tests.cpu.linalg.conftest import call
from xlanb.cpu import lapack, lapack_calls

TOLERANCES = {"s": 2e-4, "d": 1e-11, "c": 2e-4, "z": 1e-11}
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
NAMES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
COMPLEX = {"s": "c64", "d": "c128", "c": "c64", "z": "c128"}


def program(routine: str, letter: str, batch: tuple[int, ...], n: int, results: str, options: str):
    """A custom-call with results given as "m v M i": matrix, vector, complex matrix, integer."""
    rank = len(batch)
    matrix_layout = ",".join(str(d) for d in (rank, rank + 1, *reversed(range(rank))))
    vector_layout = ",".join(str(d) for d in reversed(range(rank + 1)))
    number_layout = ",".join(str(d) for d in reversed(range(rank)))
    lead = "".join(f"{b}," for b in batch)
    matrix = f"[{lead}{n},{n}]{{{matrix_layout}}}"
    texts = {
        "m": f"{NAMES[letter]}{matrix}",
        "M": f"{COMPLEX[letter]}{matrix}",
        "v": f"{NAMES[letter]}[{lead}{n}]{{{vector_layout}}}",
        "w": f"{NAMES[letter]}[{lead}{n - 1}]{{{vector_layout}}}",
        "i": f"s32[{lead.rstrip(',')}]{{{number_layout}}}" if batch else "s32[]",
    }
    shape = ", ".join(texts[k] for k in results.split())
    call = f'custom-call(a), custom_call_target="lapack_{letter}{routine}_ffi", operand_layout_constraints={{{texts["m"]}}}'
    config = f'backend_config="{{{options}}}", api_version=API_VERSION_TYPED_FFI'
    head = f"HloModule m, entry_computation_layout={{({texts['m']})->({shape})}}"
    exe = xlanb.compile(
        f"{head}\nENTRY e {{\n  a = {texts['m']} parameter(0)\n  ROOT r = ({shape}) {call}, {config}\n}}"
    )
    assert not exe.program.host
    return exe


def matrices(rng, letter, batch, n):
    a = rng.standard_normal((*batch, n, n))
    return (a + 1j * rng.standard_normal(a.shape) if letter in "cz" else a).astype(DTYPES[letter])


def eig(letter, batch, n, left="V", right="V"):
    results = "v M M i" if letter in "cz" else "v v M M i"
    options = f"compute_left = {ord(left)} : ui8, compute_right = {ord(right)} : ui8"
    return program("geev", letter, batch, n, results, options)


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize(("batch", "n"), [((), 1), ((), 2), ((), 7), ((3,), 4), ((2, 2), 5), ((), 33)])
def test_eigenvectors(rng, letter, batch, n):
    a = matrices(rng, letter, batch, n)
    *values, left, right, info = eig(letter, batch, n)(a)
    values = values[0] if letter in "cz" else values[0] + 1j * values[1]
    assert not info.any()
    bound = TOLERANCES[letter] * n
    np.testing.assert_allclose(a @ right, right * values[..., None, :], rtol=0, atol=bound)
    adjoint = left.swapaxes(-1, -2).conj()
    np.testing.assert_allclose(adjoint @ a, adjoint * values[..., :, None], rtol=0, atol=bound)
    np.testing.assert_allclose(np.linalg.norm(right, axis=-2), 1, rtol=0, atol=bound)


def test_vectors_that_are_not_wanted_are_zeros(rng):
    a = matrices(rng, "d", (), 6)
    *_, left, right, info = eig("d", (), 6, left="N")(a)
    assert not left.any()
    assert right.all()
    assert info == 0


@pytest.mark.parametrize("letter", DTYPES)
def test_what_is_not_wanted_is_zeros_of_matrices_that_are_not_finite(rng, letter):
    a = matrices(rng, letter, (3,), 4)
    a[1, 2, 2] = np.inf
    *values, left, right, info = eig(letter, (3,), 4, left="N")(a)
    assert info.tolist() == [0, -4, 0]
    assert all(np.isnan(x[1]).all() for x in (*values, right))
    assert not left.any()
    results, options = "m m v i i" if letter in "cz" else "m m v v i i", f"mode = {ord('N')} : ui8, sort = 78 : ui8"
    t, z, *values, selected, info = program("gees", letter, (3,), 4, results, options)(a)
    assert info.tolist() == [0, -4, 0]
    assert all(np.isnan(x[1]).all() for x in (t, *values))
    assert not z.any()
    assert not selected.any()


@pytest.mark.parametrize("letter", DTYPES)
def test_matrices_that_are_not_finite_fail_alone(rng, letter):
    a = matrices(rng, letter, (3,), 4)
    a[1, 2, 2] = np.inf
    *values, left, right, info = eig(letter, (3,), 4)(a)
    assert info.tolist() == [0, -4, 0]
    assert np.isnan(values[0][1]).all()
    assert np.isnan(left[1]).all()
    assert np.isfinite(right[[0, 2]]).all()


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize(("batch", "n"), [((), 1), ((), 6), ((3,), 4), ((), 40)])
def test_schur_forms(rng, letter, batch, n):
    a = matrices(rng, letter, batch, n)
    results = "m m v i i" if letter in "cz" else "m m v v i i"
    t, z, *_, info = program("gees", letter, batch, n, results, f"mode = {ord('V')} : ui8, sort = {ord('N')} : ui8")(a)
    assert not info.any()
    bound = TOLERANCES[letter] * n
    np.testing.assert_allclose(z @ t @ z.swapaxes(-1, -2).conj(), a, rtol=0, atol=bound)
    np.testing.assert_allclose(z @ z.swapaxes(-1, -2).conj(), np.broadcast_to(np.eye(n), a.shape), rtol=0, atol=bound)
    assert not np.tril(t, -2).any()


@pytest.mark.parametrize("letter", DTYPES)
def test_hessenberg_forms(rng, letter):
    n = 9
    a = matrices(rng, letter, (), n)
    options = f"low = 1 : i32, high = {n} : i32"
    packed, _, info = program("gehrd", letter, (), n, "m w i", options)(a)
    wanted = scipy.linalg.hessenberg(a)
    assert info == 0
    np.testing.assert_allclose(np.triu(packed, -1), wanted, rtol=0, atol=TOLERANCES[letter] * n)


def test_programs_are_saved_with_the_names_of_routines(rng, tmp_path):
    a = matrices(rng, "d", (), 5)
    exe = eig("d", (), 5)
    exe.save(tmp_path / "eig")
    for found, wanted in zip(xlanb.load(tmp_path / "eig")(a), exe(a), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_thread_is_kept_in_a_routine_alone(monkeypatch):
    """A routine that reads OpenBLAS's thread count."""
    found = lapack_calls.openblas()
    threads = ctypes.CFUNCTYPE(ctypes.c_int)(found[lapack_calls.GET]) if found else lambda: 1
    counts, before = [], threads()

    @ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
    def potrf(*_):
        counts.append(threads())

    monkeypatch.setattr(lapack, "address", lambda _: ctypes.cast(potrf, ctypes.c_void_p).value)
    lapack_calls.entry.cache_clear()
    call("potrf", "d", (), [(200, 200)], [(200, 200), ("s",)], "uplo = 76 : ui8")(np.eye(200))
    assert counts == [1]
    call("potrf", "d", (), [(1300, 1300)], [(1300, 1300), ("s",)], "uplo = 76 : ui8")(np.eye(1300))
    lapack_calls.entry.cache_clear()
    assert counts == [1, before]
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_finds_the_lock_of_openblas_free():
    exe = call("potrf", "d", (), [(70, 70)], [(70, 70), ("s",)], "uplo = 76 : ui8")
    want = exe(4 * np.eye(70))
    lapack_calls.LIMIT[:2] = 1
    with warnings.catch_warnings():
        for category in (DeprecationWarning, RuntimeWarning):  # warnings of Python and JAX about forks with threads
            warnings.simplefilter("ignore", category)
        child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(int(not np.array_equal(exe(4 * np.eye(70))[0], want[0])))
    lapack_calls.LIMIT[:2] = 0
    assert os.waitpid(child, 0)[1] == 0


def test_routines_are_called_without_importing_scipy_linalg():
    shape = "f64[5,5]{0,1}"
    text = (
        f"HloModule m, entry_computation_layout={{({shape})->({shape}, s32[])}}\nENTRY e {{\n  a = {shape} parameter(0)\n"
        f'  ROOT r = ({shape}, s32[]) custom-call(a), custom_call_target="lapack_dpotrf_ffi", '
        f'operand_layout_constraints={{{shape}}}, backend_config="{{uplo = 76 : ui8}}", '
        "api_version=API_VERSION_TYPED_FFI\n}"
    )
    program = (
        f"import sys, numpy as np, xlanb\nprint(*xlanb.compile({text!r})(4 * np.eye(5)))\n"
        "print('scipy.linalg' in sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] == str(lapack.library() is None)


@pytest.mark.skipif(lapack.library() is None, reason="SciPy has another library")
def test_without_the_wheels_library_routines_are_scipy_s_capsules(monkeypatch):
    a = matrices(np.random.default_rng(0), "d", (), 5)
    wanted, near = eig("d", (), 5)(a), lapack.address("dgeev")
    monkeypatch.setattr(lapack, "library", lambda: None)
    for kept in (lapack.address, lapack_calls.entry):
        kept.cache_clear()
    try:
        found = eig("d", (), 5)(a)
        assert lapack.address("dgeev") != near
    finally:
        for kept in (lapack.address, lapack_calls.entry):
            kept.cache_clear()
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_routine_that_scipy_lacks_is_named():
    with pytest.raises(KeyError, match="routine dnothing"):
        lapack.address("dnothing")
