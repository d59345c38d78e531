"""Passes over calls, maps and conditionals."""
