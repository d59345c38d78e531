"""Passes that order instructions and split them into tasks."""
