"""Fourier transforms."""

from __future__ import annotations

from xlanb.cpu.codegen.fft.kernel import has_kernel

__all__ = ["has_kernel"]
