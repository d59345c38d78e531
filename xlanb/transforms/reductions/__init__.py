"""Passes over reductions, windows and scans."""
