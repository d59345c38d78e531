"""Passes over dimensions of dynamic size."""
