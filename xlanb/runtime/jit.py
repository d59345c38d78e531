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
    """Compile a program for the CPU: `exe = xlanb.compile(x); exe(*arrays)`.

    Code is made for the shapes and element types given here. Parameters of a graph's executable are its placeholders and variables, in the order of the graph.

    Args:
        x: an HloModule; HLO text; a function over `xlanb.tf`; tensors of a graph; or a program of TensorFlow as `Graph.from_tensorflow` takes it. What is JAX's goes through `xlanb.from_jax` first.
        *args: of a function, example arguments: arrays (or numbers) whose shapes and dtypes count, not their values.
        **named: of a graph, arrays by the name of a placeholder or variable whose shape the graph leaves open.

    Returns:
        The Executable: called with one array for each parameter it gives a fresh array, or a tuple as the program's result is one.

    Raises:
        HloParseError: the text is not HLO.
        HloVerifierError: the module breaks a rule of HLO; the message shows the instruction.
        GraphError: a node has no lowering, or is malformed; the message names it.
        CompilationError: no machine code can be made.
        XlanbError: the base of these.
        TypeError: `x` is none of these.
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
    """Decorator: a function over arrays, written with `xlanb.tf`, that is compiled for each signature of shapes and dtypes when it is first called with one, and then cached.

        @xlanb.jit
        def layer(x, w):
            return tf.nn.relu(tf.matmul(x, w))

    Calls take arrays, or what `np.asarray` makes arrays of, and give what the function gives: an array, a tuple or a list. `layer.executable(x, w)` is the Executable for such arguments.
    Python in the function runs once per signature: it may branch on shapes, not on values.

    Raises:
        XlanbError: a call raises it where the function cannot be traced or compiled.
    """
    return Jit(function)
