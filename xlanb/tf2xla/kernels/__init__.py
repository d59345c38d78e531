"""Lowerings by subject; all modules here are loaded when the first lowering is needed."""
