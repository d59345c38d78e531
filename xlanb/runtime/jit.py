"""`jit`: a Python function over arrays, traced through xlanb.tf, compiled once per signature and cached; and `compile`, the same at once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xlanb.cpu.executable import Executable
from xlanb.runtime.compiler import compiled
from xlanb.runtime.program import to_module, trace_function


def compile(x: Any, *args: Any, **named: Any) -> Executable:  # noqa: A001 - the face's own name
    """Compile a program: an HloModule, HLO text, tensors of a graph, or a function with example arguments.

    Parameters of a graph's executable are its placeholders and variables in the order of the graph; give arrays by name where the graph leaves a shape open.

    Raises:
        XlanbError: the program is malformed or cannot be compiled; the message shows where.
    """
    module = to_module(x, *args, **named)
    return compiled(module)


class Jit:
    """A compiled function: one executable for each signature of shapes and dtypes, made at its first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._compiled: dict[tuple[Any, ...], tuple[Executable, Any]] = {}
        self._lock = threading.RLock()

    def executable(self, *args: Any) -> Executable:
        """The executable for arguments like these."""
        return self._find(args)[0]

    def __call__(self, *args: Any) -> Any:
        """Run on arrays; results as the function gave them back: an array, a tuple or a list."""
        executable, structure = self._find(args)
        results = executable(*(np.asarray(a) for a in args))
        if isinstance(structure, list | tuple):
            return type(structure)(results)
        return results[0]

    def _find(self, args: tuple[Any, ...]) -> tuple[Executable, Any]:
        arrays = [np.asarray(a) for a in args]
        signature = tuple((a.dtype, a.shape) for a in arrays)
        with self._lock:
            found = self._compiled.get(signature)
            if found is None:
                module, structure = trace_function(self._function, arrays)
                executable = compiled(module)
                found = self._compiled[signature] = (executable, structure)
            return found

    def __repr__(self) -> str:
        return f"<xlanb.jit of {getattr(self, '__name__', 'function')}: {len(self._compiled)} signatures compiled>"


def jit(function: Callable[..., Any]) -> Jit:
    """Decorator: compile a function over arrays, written with xlanb.tf, per shape."""
    return Jit(function)
