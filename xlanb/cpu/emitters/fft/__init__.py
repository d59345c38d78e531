"""Fourier transforms."""

from __future__ import annotations

from xlanb.cpu.emitters.fft.kernel import has_kernel

__all__ = ["has_kernel"]
