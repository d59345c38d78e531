"""Sorts and top_k: by the digits of keys, by counting, by merging, by selection."""
