"""Passes over gathers, scatters and dynamic slices."""
