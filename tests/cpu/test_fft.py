"""Fourier transforms that are kernels, and those that the runtime does, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

CASES = [
    ((3,), 1), ((5, 1), 1), ((1, 8), 1), ((40, 64), 1), ((37, 60), 1), ((33, 143), 1), ((2, 1024), 1), ((1, 4096), 1), ((70, 17), 1), ((9, 16384), 1),
    ((3, 8, 6), 2), ((2, 16, 40), 2), ((1, 35, 66), 2), ((2, 34, 5), 2), ((3, 4, 5, 40), 3), ((2, 3, 8, 33), 3), ((0, 8), 1), ((300, 16), 1),
    ((16, 2048), 1), ((17, 1024), 1), ((1024, 16), 2), ((600, 24), 2), ((520, 3), 2),
]  # fmt: skip


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_transforms(backend, rng, shape, rank, kind, double):
    lengths = shape[-rank:]
    half = (*shape[:-1], shape[-1] // 2 + 1)
    axes = tuple(range(len(shape) - rank, len(shape)))
    before, after = {"RFFT": (shape, half), "IRFFT": (half, shape)}.get(kind, (shape, shape))
    x = rng.standard_normal(before)
    if kind != "RFFT":
        x = x + 1j * rng.standard_normal(before)
    real, complex_ = ("f64", "c128") if double else ("f32", "c64")
    given, made = (real if kind == "RFFT" else complex_), (real if kind == "IRFFT" else complex_)
    x = x.astype({"f32": np.float32, "c64": np.complex64}.get(given, x.dtype))
    text = (
        f"HloModule m\n\nENTRY e {{\n  x = {given}[{','.join(map(str, before))}] parameter(0)\n"
        f"  ROOT y = {made}[{','.join(map(str, after))}] fft(x), fft_type={kind}, fft_length={{{','.join(map(str, lengths))}}}\n}}\n"
    )
    got = backend(text)(x)
    if not x.size:
        assert got.shape == after
        return
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    if kind == "FFT":
        want = np.fft.fftn(wide, axes=axes)
    elif kind == "IFFT":
        want = np.fft.ifftn(wide, axes=axes)
    else:
        want = np.fft.rfftn(wide, lengths, axes) if kind == "RFFT" else np.fft.irfftn(wide, lengths, axes)
    assert got.dtype == {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}[made]
    np.testing.assert_allclose(got, want, rtol=0, atol=np.abs(want).max() * (1e-15 if double else 6e-7) * 4)


def test_short_lines_are_kernels_and_long_ones_calls(backend):
    text = "HloModule m\n\nENTRY e {{\n  x = c64[8,{0}] parameter(0)\n  ROOT y = c64[8,{0}] fft(x), fft_type=FFT, fft_length={{{0}}}\n}}\n"
    assert not backend(text.format(60)).program.host
    for length in (17, 8192):
        assert backend(text.format(length)).program.host


@pytest.mark.parametrize("layouts", ["{0,1}", "{1,0}"])
def test_layouts(backend, rng, layouts):
    x = (rng.standard_normal((20, 12)) + 1j * rng.standard_normal((20, 12))).astype(np.complex64)
    text = f"HloModule m\n\nENTRY e {{\n  x = c64[20,12]{layouts} parameter(0)\n  ROOT y = c64[20,12]{layouts} fft(x), fft_type=FFT, fft_length={{12}}\n}}\n"
    np.testing.assert_allclose(backend(text)(x), np.fft.fft(x), atol=1e-5)


def test_each_thread_has_scratch_of_its_own(backend, rng):
    """Sixteen long lines of doubles are two vectors, for two threads, or one of floats."""
    for kind in ("c64", "c128"):
        text = f"HloModule m\n\nENTRY e {{\n  x = {kind}[16,2048] parameter(0)\n  ROOT y = {kind}[16,2048] fft(x), fft_type=FFT, fft_length={{2048}}\n}}\n"
        exe = backend(text)
        each = 4 * 2048 * 16 * (4 if kind == "c64" else 8)
        assert exe.buffer_assignment.temp_size >= each * (exe.target.threads if exe.program.is_parallel else 1)
