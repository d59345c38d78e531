"""Passes that order instructions and cut them into tasks."""
