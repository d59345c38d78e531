"""Shardy: from the shardings that a program names to one of every value (shardy/dialect/sdy/transforms)."""
