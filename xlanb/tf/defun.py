"""Python functions as functions of a graph's library, for data sets and tf.function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlanb.graph.builders.functional_control import Traced, function_of_nodes
from xlanb.graph.builders.nest import flatten
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.graph.tensor_shape import TensorShape


@dataclass(frozen=True)
class ArgumentSpec:
    """The element type and shape of a tensor that is still to come."""

    dtype: Any
    shape: TensorShape


@dataclass(frozen=True)
class Defined:
    """A function made from Python: its name, the outside tensors it takes after its arguments, its
    results.

    `given` is the Python function's return value; the results' specs are kept too.
    """

    ref: FunctionRef
    captures: tuple[Tensor, ...]
    given: Any
    results: tuple[ArgumentSpec, ...]


def define(label: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Defined:
    """Trace `function` with tensors for the specs in `arguments`, and make a library function of
    its nodes.

    `arguments` are structures of specs. Except for its library, the default graph is unchanged; its
    tensors and variables that the function reads are captures.

    Raises:
        GraphError: the return value is not a structure of tensors.
    """
    graph = get_default_graph()
    names = dict(graph.names.in_use)
    specs = flatten(tuple(arguments))
    try:
        with graph.name_scope(None), graph.control_dependencies(None):
            tensors = [_argument(graph, s, i) for i, s in enumerate(specs)]
            traced = Traced(graph, function, tensors, tuple(arguments))
            results = tuple(ArgumentSpec(t.dtype.base_dtype, t.shape) for t in traced.results)
            ref = traced.move(label, [*tensors, *traced.captures], traced.results)
            traced.drop()
            graph.remove_ops([t.op for t in tensors])
    finally:
        graph.names.in_use = names
    return Defined(ref, tuple(traced.captures), traced.given, results)


def _argument(graph: Graph, spec: ArgumentSpec, index: int) -> Tensor:
    attrs = {"dtype": spec.dtype, "shape": spec.shape}
    return graph.create_op("Placeholder", (), [spec.dtype], attrs, f"args_{index}").outputs[0]


def closed_function(label: str, result: Tensor) -> FunctionRef:
    """Make a function without arguments that computes a tensor, from copies of all nodes it
    needs.
    """
    needed = needed_by([result.op])
    ordered = [op for op in result.graph if op in set(needed)]
    return function_of_nodes(result.graph, label, ordered, (), (result,))


def label_of(function: Callable[..., Any]) -> str:
    """A function's name as a node may be called: lambdas are "lambda"."""
    found = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"\W", "", found) or "function"
