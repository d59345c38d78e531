"""Order, live ranges, and one place in memory for every value."""
