"""Graphs and functions over `xlanb.tf` as one HloModule.

Placeholders and variables become its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError, FunctionResultError, GraphError
from xlanb.graph import dtypes
from xlanb.graph.binding import python_signature
from xlanb.graph.builders.nest import flatten
from xlanb.graph.foreign import feeds_of, graph_of, is_foreign
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.graph.tensor_shape import TensorShape
from xlanb.hlo import HloModule
from xlanb.runtime.foreign_calling import calling_of
from xlanb.runtime.function_calling import calling_of as function_calling_of
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import Argument, CompilationResult, argument_of, lower

_SOURCES = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
VARIABLES = frozenset({"VariableV2", "Variable", "VarHandleOp"})


def foreign_module(
    x: Any,
    args: Sequence[Any],
    named: Mapping[str, Any],
    batch: int | None = None,
    *,
    freezes_weights: bool = True,
) -> HloModule:
    """The module of a TensorFlow program.

    Its arguments are the first parameters, its variables the others; new values of variables follow
    the results. The weights of a Keras model are constants of the module if `freezes_weights`. The
    module of a function or model has its calling convention: called like the Python function, it
    reads and assigns the variables.
    """
    graph, values = _foreign_graph(x, args, named, batch)
    if not graph.outputs and graph.binding is None:
        raise ArgumentError(
            f"a {type(x).__name__} does not specify what to compute: pass tensors of it, or "
            "Graph.from_tensorflow(...) and tensors of that graph"
        )
    fetches: list[Tensor | Operation] = [*graph.outputs]
    if graph.binding is not None:
        fetches += [graph.get_operation_by_name(name) for name in graph.binding.targets]
    read = {t.op.name for t in inputs_of(fetches)} if fetches else set()
    weights = {n: v for n, v in graph.initial_values.items() if n in read}
    every = {**weights, **values}
    is_bound = graph.binding is not None and not (freezes_weights and graph.binding.freezes_weights)
    literals = set() if is_bound else set(weights)
    feeds, result = extract_result(fetches, every, literals=literals, inputs=graph.inputs)
    if result.updates and literals:
        written = {feeds[i].op.name for i in result.updates}
        feeds, result = extract_result(fetches, every, literals=literals - written, inputs=graph.inputs)
    result.module.calling = calling_of(graph, feeds, result)
    return result.module


def _foreign_graph(
    x: Any, args: Sequence[Any], named: Mapping[str, Any], batch: int | None
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a TensorFlow program, and arrays by the name of placeholders.

    The arrays are those of `args`, and those in `named` that are not arguments of the program.
    """
    own = {k: v for k, v in named.items() if _takes(x, k)}
    graph = graph_of(x, *args, named=own, batch=batch, is_compiled=True)
    fed = {t.op.name: v for t, v in feeds_of(graph, args, own).items()}
    return graph, {**{k: v for k, v in named.items() if k not in own}, **fed}


def _takes(program: Any, name: str) -> bool:
    """Whether a tf.function has a parameter of this name."""
    function = getattr(program, "python_function", None)
    signature = None if function is None else python_signature(function)
    if signature is None:
        return False
    parameters = signature.parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def fetches_of(x: Any) -> list[Tensor | Operation]:
    """A tensor, an operation, or a list or tuple of them, as a list; empty for anything else."""
    items = list(x) if isinstance(x, list | tuple) else [x]
    return items if all(isinstance(t, Tensor | Operation) for t in items) else []


def inputs_of(fetches: Sequence[Tensor | Operation]) -> list[Tensor]:
    """The placeholders and variables that fetches depend on, in the order of the graph."""
    tensors, targets = _split(fetches)
    needed = needed_by([*(t.op for t in tensors), *targets])
    graph = fetches[0].graph
    return [op.outputs[0] for op in graph.get_operations() if op in needed and op.type in _SOURCES | VARIABLES]


def extract_module(
    fetches: Sequence[Tensor | Operation], values: Mapping[str, Any] | None = None, name: str | None = None
) -> HloModule:
    """The module of `extract_result`."""
    return extract_result(fetches, values, name)[1].module


def extract_result(
    fetches: Sequence[Tensor | Operation],
    values: Mapping[str, Any] | None = None,
    name: str | None = None,
    literals: Collection[str] = (),
    inputs: Sequence[Tensor] = (),
) -> tuple[list[Tensor], CompilationResult]:
    """The program that computes `fetches`, as one module.

    Placeholders and variables are its parameters, in the order of the graph; its root is a tuple of
    the fetched tensors and the new values of variables that the program writes. Shapes come from
    the graph, or from
    `values`, arrays by name, if they are unknown in the graph. Variables named in `literals` become
    constants with their value in `values`. Also returns the tensors that the module was lowered
    for, in the order of the arguments; `inputs` come first among them, used or not.

    Raises:
        GraphError: A shape is unknown, or a node cannot be lowered; names the node.
    """
    values = dict(values or {})
    tensors, targets = _split(fetches)
    sources = dict.fromkeys([*inputs, *inputs_of(fetches)])
    feeds = [(t, _argument(t, values, is_literal=t.op.name in literals)) for t in sources]
    if values:
        raise ArgumentError(
            f"no placeholder or variable named {', '.join(map(repr, values))}; the program reads "
            f"{', '.join(t.op.name for t, _ in feeds)}"
        )
    return [t for t, _ in feeds], lower(name or fetches[0].graph.name, feeds, tensors, targets)


def trace_function(function: Callable[..., Any], args: Sequence[Any]) -> HloModule:
    """Trace `function` with placeholders of the shapes and dtypes of `args`.

    The module's root is a tuple of the tensors in the function's result.

    Raises:
        GraphError: A result is not a tensor.
    """
    arrays = [np.asarray(a) for a in args]
    graph, inputs, result = traced_graph(function, arrays)
    feeds = [(t, argument_of(a)) for t, a in zip(inputs, arrays, strict=True)]
    module = lower(graph.name, feeds, flatten(result)).module
    names = [p.name for p in module.entry_computation.parameters]
    module.calling = function_calling_of(graph.name, names, result)
    return module


def traced_graph(
    function: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]
) -> tuple[Graph, list[Tensor], Any]:
    """Trace `function` to a graph with placeholders of the shapes and dtypes of `arrays`.

    Returns the graph, the placeholders, and the function's result.

    Raises:
        GraphError: A result is not a tensor.
    """
    name = getattr(function, "__name__", "function").strip("<>")
    graph = Graph(name)
    graph.builds_function = True
    with graph.as_default():
        inputs = [
            graph.create_op(
                "Placeholder",
                (),
                [dtypes.as_dtype(a.dtype)],
                {"dtype": dtypes.as_dtype(a.dtype), "shape": TensorShape(a.shape)},
                f"arg{i}",
            ).outputs[0]
            for i, a in enumerate(arrays)
        ]
        result = function(*inputs)
    for output in flatten(result):
        if not isinstance(output, Tensor) or output.graph is not graph:
            message = f"function {name!r} must return tensors computed from its arguments, not {output!r}"
            raise FunctionResultError(message, holds_tensors=any(isinstance(t, Tensor) for t in flatten(result)))
    return graph, inputs, result


def _split(fetches: Sequence[Tensor | Operation]) -> tuple[list[Tensor], list[Operation]]:
    return [f for f in fetches if isinstance(f, Tensor)], [f for f in fetches if isinstance(f, Operation)]


def _argument(tensor: Tensor, values: dict[str, Any], *, is_literal: bool = False) -> Argument:
    is_variable = tensor.op.type in VARIABLES
    kind = "variable" if is_variable else "parameter"
    dtype = tensor.op.attrs["dtype"] if tensor.op.type == "VarHandleOp" else tensor.dtype.base_dtype
    shape = (tensor.op.attrs.get("shape") or TensorShape(None)) if is_variable else tensor.shape
    if not is_variable and dtype.name == "string":
        raise GraphError(
            f"{tensor.op.name!r} is a {dtype.name}, which XLA has no type for. A session runs its ops on the host, and "
            "compiles the nodes around them: xlanb.tf.Session(xlanb.tf.Graph.from_tensorflow(function, ...))"
        )
    given = values.pop(tensor.op.name, None)
    if given is not None:
        value = np.asarray(given, dtype.as_numpy_dtype)
        if not shape.is_compatible_with(value.shape):
            raise ArgumentError(f"{tensor.op.name!r} has shape {shape}, not {list(value.shape)}")
        found = argument_of(value, kind=kind, name=tensor.op.name)
        return replace(found, value=value) if is_literal else found
    dims = shape.as_tuple()
    if dims is None or None in dims:
        raise GraphError(
            f"the shape {shape} of {tensor.op.name!r} is unknown: pass an array for it by name, {tensor.op.name}=..."
        )
    return Argument(
        kind, array(from_dtype(dtype.as_numpy_dtype), [int(d) for d in dims if d is not None]), None, tensor.op.name
    )


__all__ = [
    "VARIABLES",
    "extract_module",
    "extract_result",
    "fetches_of",
    "foreign_module",
    "inputs_of",
    "is_foreign",
    "trace_function",
    "traced_graph",
]
