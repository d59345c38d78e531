"""Passes that choose layouts, and change shapes and layouts."""
