"""Passes that choose layouts, or change shapes and layouts."""
