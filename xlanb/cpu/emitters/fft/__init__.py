"""Fourier transforms (see kernel.py)."""
