"""The Python functions that programs call: pure_callback, io_callback, debug.print.

JAX names a function by its number in the module that calls it. For this backend the numbers are the process's own, as the
functions do not come with the program through the C API.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Callbacks:
    """All functions by number; they live as long as the process."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., Any]] = []
        self._lock = threading.Lock()

    def known(self) -> tuple[Callable[..., Any], ...]:
        """All that there are now."""
        with self._lock:
            return tuple(self.functions)


CALLBACKS = Callbacks()

__all__ = ["CALLBACKS", "Callbacks"]
