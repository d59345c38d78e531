"""Passes over dots and convolutions."""
