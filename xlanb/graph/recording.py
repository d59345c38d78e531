"""Graphs as frozen records and as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.dtypes import DType
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.graph.tensor_shape import TensorShape

_LONGEST_TENSOR = 16  # elements shown of a tensor attribute


def record_graph(graph: Graph) -> GraphRecord:
    """A snapshot of the graph and of its functions' bodies."""
    # a body is recorded without its library, which is this very one: functions may call each other, and themselves
    functions = tuple(f.record() for f in graph.functions.values())
    return GraphRecord(graph.name, tuple(record_node(op) for op in graph), functions)


def record_node(op: Operation) -> NodeRecord:
    """A snapshot of one node. Attributes `_XlaCluster` and `_xla_why_not` become `cluster` and `reason`."""
    attributes = {k: attribute_text(v) for k, v in op.attrs.items() if k != "_xla_why_not"}
    outputs = tuple(t.describe() for t in op.outputs)
    return NodeRecord(
        op.name, op.type, op.node_inputs, attributes, outputs, op.device,
        str(op.attrs.get("_XlaCluster", "")), str(op.attrs.get("_xla_why_not", "")), op.source_file, op.source_line,
    )  # fmt: skip


def attribute_text(value: Any) -> str:
    """An attribute's value for people: "float32", "[?,3]", "[1 2]", "padding"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, TensorShape):
        dims = value.as_tuple()
        return "*" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"
    if isinstance(value, np.ndarray):
        return _tensor_text(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(attribute_text(v) for v in value) + "]"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return str(value)


def _tensor_text(value: np.ndarray[Any, Any]) -> str:
    if value.size <= _LONGEST_TENSOR:
        return " ".join(str(value.tolist() if value.dtype.kind == "O" else value).split())
    return f"{value.dtype}[{','.join(map(str, value.shape))}] {{{', '.join(str(v) for v in value.flat[:4])}, ...}}"


def graph_text(graph: Graph) -> str:
    """One line a node: name, op, inputs, output types and shapes."""
    lines = [repr(graph)]
    for op in graph:
        outputs = ", ".join(t.describe() for t in op.outputs)
        lines.append(f"  {op.name} = {op.type}({', '.join(op.node_inputs)})" + (f" -> {outputs}" if outputs else ""))
    return "\n".join(lines)


def node_text(op: Operation) -> str:
    """One node with all its attributes, several lines."""
    try:
        head = op.describe()
    except GraphError as error:
        head = f"node {op.name!r} = {op.type} ({error})"
    return "\n".join([head, *(f"    {name}: {attribute_text(value)}" for name, value in sorted(op.attrs.items()))])
