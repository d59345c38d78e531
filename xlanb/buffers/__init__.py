"""Schedules, live ranges, and buffer assignment."""
