"""Lowerings by subject; every module here is loaded when the first lowering is asked for."""
