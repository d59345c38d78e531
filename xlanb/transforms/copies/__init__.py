"""Passes that decide which values share memory."""
