"""Fourier transforms against NumPy's in the widest type: all kinds, lengths and machines."""

from __future__ import annotations

import math
import platform
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlanb
from tests.cpu.conftest import NO_PASSES
from tests.cpu.guard_pages import run_guarded
from tests.cpu.test_targets import ARM, X86, complete
from xlanb.codegen import jit
from xlanb.cpu import Executable, compile_module, compiler, objects
from xlanb.cpu.codegen.program import emit_program
from xlanb.cpu.emitters.fft import tables
from xlanb.cpu.emitters.fft.plan import FftAxis, buffer_bytes, radices_of
from xlanb.cpu.emitters.fft.radices import BUTTERFLIES, LARGEST
from xlanb.errors import UnimplementedError
from xlanb.hlo import parse
from xlanb.hlo.opcode import HloOpcode as Op

KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]
CASES = [
    ((1,), 1), ((3,), 1), ((5, 1), 1), ((1, 8), 1), ((40, 64), 1), ((37, 60), 1), ((33, 143), 1), ((2, 1024), 1),
    ((1, 4096), 1), ((70, 17), 1), ((9, 16384), 1),
    ((3, 8, 6), 2), ((2, 16, 40), 2), ((1, 35, 66), 2), ((2, 34, 5), 2), ((3, 4, 5, 40), 3), ((2, 3, 8, 33), 3),
    ((0, 8), 1), ((300, 16), 1),
    ((16, 2048), 1), ((17, 1024), 1), ((1024, 16), 2), ((600, 24), 2), ((520, 3), 2), ((20, 101), 1), ((1, 1009), 1),
    ((2, 4093), 1), ((3, 40000), 1),
    ((1, 65536), 1), ((1, 65537), 1), ((5, 3125), 1), ((4, 2018), 1), ((5, 37, 3), 2), ((2, 9000, 2), 2),
    ((1, 8209, 3), 2), ((1, 40, 61, 3), 3), ((1, 118), 1),
    ((19, 257), 1), ((3, 1018), 1), ((2, 1042), 1), ((1, 263 * 3), 1), ((1, 257, 4), 2), ((2, 6, 521), 2),
    ((1, 41), 1), ((1, 94), 1), ((1, 16411), 1), ((257, 3), 2),
]  # fmt: skip


def shapes(shape: tuple[int, ...], kind: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    half = (*shape[:-1], shape[-1] // 2 + 1)
    return {"RFFT": (shape, half), "IRFFT": (half, shape)}.get(kind, (shape, shape))


def text(shape: tuple[int, ...], rank: int, kind: str, *, double: bool) -> str:
    before, after = (",".join(map(str, s)) for s in shapes(shape, kind))
    real, complex_ = ("f64", "c128") if double else ("f32", "c64")
    given_, made = (real if kind == "RFFT" else complex_), (real if kind == "IRFFT" else complex_)
    return (
        f"HloModule m\n\nENTRY e {{\n  x = {given_}[{before}] parameter(0)\n"
        f"  ROOT y = {made}[{after}] fft(x), fft_type={kind}, fft_length={{{','.join(map(str, shape[-rank:]))}}}\n}}\n"
    )


def argument(shape: tuple[int, ...], kind: str, *, double: bool, seed: int = 0) -> np.ndarray:
    rng, before = np.random.default_rng(seed), shapes(shape, kind)[0]
    x = rng.standard_normal(before)
    if kind == "RFFT":
        return x.astype(np.float64 if double else np.float32)
    return (x + 1j * rng.standard_normal(before)).astype(np.complex128 if double else np.complex64)


def wanted(x: np.ndarray, lengths: tuple[int, ...], kind: str) -> np.ndarray:
    """NumPy's result in its widest type."""
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    x = x.astype(np.clongdouble if np.iscomplexobj(x) else np.longdouble)
    return getattr(np.fft, kind.lower() + "n")(x, lengths, axes)


def check(exe: Executable, shape: tuple[int, ...], rank: int, kind: str, *, double: bool) -> None:
    """Results are as accurate as NumPy's in the type: a few roundings of the largest number.

    The bound does not depend on the length.
    """
    x = argument(shape, kind, double=double)
    got = exe(x)
    assert bool(exe.program.host) is (not x.size)
    assert got.shape == shapes(shape, kind)[1]
    if x.size:
        want = wanted(x, shape[-rank:], kind)
        eps = np.finfo(np.float64 if double else np.float32).eps
        assert got.dtype == (x.real.dtype if kind == "IRFFT" else np.result_type(x, np.complex64))
        assert np.abs(got - want).max() <= eps * 6 * max(float(np.abs(want).max()), 1e-30)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_transforms(backend, shape, rank, kind, double):
    check(backend(text(shape, rank, kind, double=double)), shape, rank, kind, double=double)


@settings(max_examples=80, deadline=None)
@given(
    shape=st.one_of(
        st.tuples(st.integers(1, 40), st.integers(1, 700)),
        st.tuples(st.integers(1, 3), st.integers(700, 6000)),
        st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)),
        st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30)),
        st.tuples(st.integers(1, 900), st.integers(1, 6)),
    ),
    rank=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    double=st.booleans(),
)
def test_any_shape(shape, rank, kind, double):
    rank = min(rank, len(shape))
    exe = compile_module(parse(text(shape, rank, kind, double=double)), NO_PASSES)
    check(exe, shape, rank, kind, double=double)


@pytest.mark.parametrize("n", [*(r for r in range(2, 68) if radices_of(r) == (r,)), LARGEST])
def test_each_radix(backend, n):
    for shape in ((17, n), (3, n * 16)):
        check(backend(text(shape, 1, "FFT", double=False)), shape, 1, "FFT", double=False)


def test_lengths_are_products_of_radices():
    assert radices_of(LARGEST) == (LARGEST,)
    assert radices_of(257 * 8) is None
    assert all(math.prod(radices_of(n) or (0,)) == n for n in range(2, LARGEST))
    assert buffer_bytes(5) % (16 * 128) == 0


@pytest.mark.parametrize("dims", ["262147,1", "40009,2", "70000,2"])
def test_scipy_transforms_lengths_without_a_way(backend, rng, dims):
    """A prime factor too large for tables, or interleaved lines too long for scratch memory."""
    shape = tuple(map(int, dims.split(",")))
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    exe = backend(
        f"ENTRY e {{ x = c128[{dims}] parameter(0) ROOT y = c128[{dims}] fft(x), fft_type=FFT, fft_length={{{dims}}} }}"
    )
    assert [i.opcode for i in exe.program.host.values()] == [Op.FFT]
    np.testing.assert_allclose(exe(x), np.fft.fftn(x), atol=1e-11)


@pytest.mark.parametrize(("shape", "is_convolved"), [((64, 257), True), ((1, 61), True), ((64, 61), False)])
def test_a_large_prime_is_convolved_if_that_is_cheaper(shape, is_convolved):
    lines, n = shape
    axis = FftAxis(n, lines, 1, (n, n), 4, inverse=False, is_real=False).planned()
    assert axis is not None
    assert bool(axis.convolved) is is_convolved
    assert ("convolved" in str(axis.choice).splitlines()[0]) is is_convolved
    assert axis.convolved >= (2 * n - 1) * is_convolved


def test_no_factors_are_sought_of_lengths_beyond_memory():
    n = 10**18 + 9  # a prime
    assert FftAxis(n, 1, 1, (n, n), 4, inverse=False, is_real=False).planned() is None


def test_export_refuses_a_length_without_a_way(backend, tmp_path):
    exe = backend(text((1, 262147), 1, "FFT", double=False))
    with pytest.raises(UnimplementedError, match="which exported C code cannot"):
        exe.export_c(tmp_path, "f")


def test_the_imaginary_part_of_what_is_real_counts_for_nothing(backend):
    """The first number of a half spectrum, and the last one of an even line, as in NumPy."""
    for shape in ((3, 8), (3, 9), (2, 1024), (1, 1025), (1, 4094)):
        x = argument(shape, "IRFFT", double=True)
        x[:, 0] += 5j
        if shape[1] % 2 == 0:
            x[:, -1] -= 7j
        got = backend(text(shape, 1, "IRFFT", double=True))(x)
        np.testing.assert_allclose(got, np.fft.irfft(x, shape[1]), atol=1e-14)


def test_turns_are_exact_to_the_last_place():
    for n in (8, 97, 1000, 2**20, 3**11):
        k = np.arange(0, 3 * n, max(1, n // 333))
        angle = -8 * np.arctan(np.longdouble(1)) * (k % n) / n
        assert np.abs(tables.turns(k, n) - (np.cos(angle) + 1j * np.sin(angle))).max() < 2.5e-16


def test_infinities_and_nans_go_through(backend):
    exe = backend(text((4, 16), 1, "FFT", double=False))
    x = argument((4, 16), "FFT", double=False)
    x[1, 3], x[2, 5] = np.inf, np.nan
    got = exe(x)
    assert np.isfinite(got[[0, 3]]).all()
    assert not np.isfinite(got[[1, 2]]).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [(20, 60), (18, 45), (40, 101), (5, 999), (3, 2000), (4, 2021), (2, 40000), (20, 257), (2, 1021)]
)
def test_lines_have_nothing_to_do_with_each_other(backend, shape, kind):
    """Large numbers, infinities and NaN in a line do not affect the results of others."""
    exe = backend(text(shape, 1, kind, double=False))
    x = argument(shape, kind, double=False)
    other = x.copy()
    other[1] *= 1e30
    other[1, 3] = np.nan
    kept = [line for line in range(shape[0]) if line != 1]
    np.testing.assert_array_equal(exe(x)[kept], exe(other)[kept])


@pytest.mark.parametrize("layouts", ["{0,1}", "{1,0}"])
def test_layouts(backend, rng, layouts):
    x = (rng.standard_normal((20, 12)) + 1j * rng.standard_normal((20, 12))).astype(np.complex64)
    module = f"HloModule m\n\nENTRY e {{\n  x = c64[20,12]{layouts} parameter(0)\n  ROOT y = c64[20,12]{layouts} fft(x), fft_type=FFT, fft_length={{12}}\n}}\n"
    np.testing.assert_allclose(backend(module)(x), np.fft.fft(x), atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 2048), (600, 100), (1, 2**17), (40, 227), (64, 1021), (1, 65537)])
def test_threads_give_what_one_thread_gives(backend, monkeypatch, shape):
    x, results = argument(shape, "FFT", double=True), []
    for threads in (1, 4):
        target = replace(jit.host(), threads=threads)
        monkeypatch.setattr(compiler, "_target", lambda _, target=target: target)
        exe = backend(text(shape, 1, "FFT", double=True))
        assert exe.program.is_parallel is (threads > 1)
        results.append(exe(x))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "rank"),
    [
        ((19, 45), 1),
        ((3, 101), 1),
        ((1, 1022), 1),
        ((1, 2021), 1),
        ((5, 19, 21), 2),
        ((9, 5, 3), 2),
        ((19, 257), 1),
        ((1, 2 * 521), 1),
        ((1, 521), 1),
    ],
)
def test_nothing_is_touched_that_is_not_an_array(backend, shape, rank, kind):
    exe = backend(text(shape, rank, kind, double=False))
    for at_end in (True, False):
        run_guarded(exe, [argument(shape, kind, double=False)], at_end=at_end)


def test_routines_serve_all_lengths(backend):
    """A length with known radices needs only its kernel; each table has its length."""

    def routines(n: int) -> dict[str, str]:
        program = backend(text((64, n), 1, "FFT", double=False)).program
        return {u.shared: u.text for u in program.units() if u.shared}

    known = routines(512) | routines(1024)
    assert {name: known[name] for name in routines(8192)} == routines(8192)
    assert len(known) <= len(BUTTERFLIES)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="runs code for x86-64")
@pytest.mark.parametrize("features", ["", "+sse4.2,+avx,+avx2,+fma"])
@pytest.mark.parametrize(
    ("shape", "kind"), [((33, 60), "FFT"), ((5, 1022), "RFFT"), ((20, 47), "IRFFT"), ((9, 6, 3), "IFFT")]
)
def test_other_machines(backend, monkeypatch, shape, kind, features):
    if not set(features.replace("+", "").split(",")) - {""} <= jit.host().enabled:
        pytest.skip("this machine cannot run it")
    target = complete(replace(X86, triple=jit.host().triple, features=features))
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    exe = backend(text(shape, 1, kind, double=False))
    assert exe.target.vector_bits == (256 if features else 128)
    check(exe, shape, 1, kind, double=False)


def test_aarch64_takes_it(backend):
    target = complete(ARM)
    for kind in ("FFT", "RFFT", "IRFFT"):
        exe = backend(text((33, 2 * 17 * 31), 1, kind, double=False))
        for unit in emit_program(exe.buffer_assignment, target).units():
            assert objects.compile_unit(unit, target, relocation="pic").startswith(b"\x7fELF")


def test_llvm_takes_the_debug_locations_of_a_traced_transform(capfd):
    text = (
        "HloModule m\nENTRY e { x = c64[8,64] parameter(0) ROOT r = c64[8,64] fft(x), fft_type=FFT, fft_length={64} }\n"
    )
    optimized = {s.name: s for s in xlanb.trace(text).stages}["llvm_ir_optimized"]
    assert capfd.readouterr().err == ""
    assert optimized.after.lines
    assert "!DILocation" in optimized.after.text
