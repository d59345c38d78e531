"""Measurements, one command each: `python -m benchmarks text`.

Figures are medians, and ratios to an installed peer in the same run.
"""
