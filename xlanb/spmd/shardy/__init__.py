"""Shardy: propagate a program's shardings to every value (shardy/dialect/sdy/transforms)."""
