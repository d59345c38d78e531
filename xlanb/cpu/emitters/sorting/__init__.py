"""Sort and top-k: by digits of keys, by counting, by merging, by selection."""
