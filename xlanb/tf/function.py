"""tf.function: a function that is compiled as a whole for arrays, or added to the graph for
tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.builders.nest import flatten
from xlanb.graph.builders.variables import Variable
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.runtime.graph_program import trace_function, traced_graph
from xlanb.runtime.jit import Jit
from xlanb.tf.contrib.compiler.jit import experimental_jit_scope


@dataclass(frozen=True)
class TensorSpec:
    """The shape, element type and name of an argument."""

    shape: Any = None
    dtype: Any = "float32"
    name: str | None = None

    def example(self) -> np.ndarray[Any, Any]:
        """Return an array of zeros of this spec. Raises GraphValueError if a size is open."""
        dims = TensorShape(self.shape).as_tuple()
        if dims is None or None in dims:
            raise GraphValueError(
                f"{self!r}: the shape must be fully known, because a function is compiled for its sizes"
            )
        return np.zeros([d for d in dims if d is not None], as_dtype(self.dtype).as_numpy_dtype)


@dataclass(frozen=True)
class ConcreteFunction:
    """A function for arguments of given shapes: its `graph`, with its `inputs` and `outputs`."""

    graph: Graph
    inputs: list[Tensor]
    outputs: list[Tensor]
    _call: Callable[..., Any] = field(repr=False)

    def __call__(self, *args: Any) -> Any:
        """Run it, compiled."""
        return self._call(*args)


class TensorFlowFunction:
    """A Python function wrapped by tf.function.

    Called with tensors or variables, it adds its nodes to the graph, in a jit scope if jit_compile
    is set. Called with arrays, it is compiled for their shapes, as by xlanb.jit, and run.
    """

    def __init__(self, python_function: Callable[..., Any], input_signature: Any, *, jit_compile: bool) -> None:
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self.input_signature = input_signature
        self.jit_compile = jit_compile
        self._compiled = Jit(python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result: tensors of tensors, arrays of arrays."""
        is_in_graph = any(isinstance(a, Tensor | Variable) for a in flatten([*args, kwargs]))
        if not is_in_graph and not kwargs and args and all(not isinstance(a, str) for a in args):
            return self._compiled(*args)
        if not self.jit_compile:
            return self.python_function(*args, **kwargs)
        with experimental_jit_scope():
            return self.python_function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def get_concrete_function(self, *args: Any) -> ConcreteFunction:
        """Return the function for TensorSpecs or arrays, by default those of the input signature.

        Raises:
            GraphValueError: a spec has unknown sizes.
        """
        given = args or tuple(self.input_signature or ())
        arrays = [a.example() if isinstance(a, TensorSpec) else np.asarray(a) for a in given]
        graph, inputs, result = traced_graph(self.python_function, arrays)
        return ConcreteFunction(graph, inputs, flatten(result), self._compiled)

    def experimental_get_compiler_ir(self, *args: Any) -> Callable[..., str]:
        """Return a function of a stage that returns its text.

        Stages: "hlo", "optimized_hlo", "optimized_hlo_dot".
        """
        arrays = [a.example() if isinstance(a, TensorSpec) else np.asarray(a) for a in args]

        def text(stage: str = "hlo") -> str:
            if stage in {"hlo", "hlo_no_metadata"}:
                return str(trace_function(self.python_function, arrays))
            if stage == "optimized_hlo":
                return str(self._compiled.executable(*arrays).hlo_module)
            raise GraphValueError(f"unknown stage {stage!r}: expected 'hlo' or 'optimized_hlo'")

        return text


def function(
    func: Any = None, input_signature: Any = None, autograph: bool = True, jit_compile: bool | None = None,
    experimental_compile: bool | None = None, reduce_retracing: bool = False, **_ignored: Any,
) -> Any:  # fmt: skip
    """Decorator, with or without arguments: see `TensorFlowFunction`.

    Python's own if and while are not converted to graph control flow.
    """
    compiled = bool(jit_compile if jit_compile is not None else experimental_compile)
    if func is not None:
        return TensorFlowFunction(func, input_signature, jit_compile=compiled)
    return lambda f: TensorFlowFunction(f, input_signature, jit_compile=compiled)
