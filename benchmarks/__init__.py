"""Measurements, one command each: `python -m benchmarks text`. Figures are medians, and ratios against a peer in the same run where one is installed."""
