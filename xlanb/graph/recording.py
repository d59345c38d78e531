"""Graphs as frozen records and as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.dtypes import DType
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph
    from xlanb.graph.operation import Operation

_LONGEST_TENSOR = 16  # elements shown of a tensor attribute


def record_graph(graph: Graph) -> GraphRecord:
    """A snapshot of the graph and of its functions' bodies."""
    # A body is recorded without its library, which is this one: functions may be recursive.
    functions = tuple(f.record() for f in graph.functions.values())
    return GraphRecord(graph.name, tuple(record_node(op) for op in graph), functions)


def record_node(op: Operation) -> NodeRecord:
    """Take a snapshot of a node; `_XlaCluster` and `_xla_why_not` become `cluster` and `reason`."""
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


_MOST_LINES = 200


def graph_text(graph: Graph) -> str:
    """Print one line a node: name, op, inputs, output types and shapes.

    With more than 200 nodes, name scopes are folded until 200 lines suffice.
    """
    ops = graph.get_operations()
    if len(ops) <= _MOST_LINES:
        return "\n".join([repr(graph), *map(_line, ops)])
    depth = max(op.name.count("/") for op in ops)
    while depth and len(_folded(ops, depth)) > _MOST_LINES:
        depth -= 1
    folded = _folded(ops, depth)
    lines = [_line(v[0]) if len(v) == 1 else _scope_line(k, v) for k, v in folded.items()]
    rest = [f"  ... and {len(lines) - _MOST_LINES:,} more"] if len(lines) > _MOST_LINES else []
    hint = "scopes are folded; graph.subgraph('scope/') and graph.search('regex') show parts"
    return "\n".join([f"{graph!r} ({hint})", *lines[:_MOST_LINES], *rest])


def _line(op: Operation) -> str:
    outputs = ", ".join(t.describe() for t in op.outputs)
    return f"  {op.name} = {op.type}({', '.join(op.node_inputs)})" + (f" -> {outputs}" if outputs else "")


def _folded(ops: list[Operation], depth: int) -> dict[str, list[Operation]]:
    """Group operations by the first `depth` parts of their names; shorter names are not grouped."""
    found: dict[str, list[Operation]] = {}
    for op in ops:
        parts = op.name.split("/")
        found.setdefault("/".join(parts[:depth]) + "/" if depth and len(parts) > depth else op.name, []).append(op)
    return found


def _scope_line(scope: str, inside: list[Operation]) -> str:
    """Summarize a scope: numbers of nodes and variables, frequent op types, and its outputs."""
    kinds = Counter(op.type for op in inside)
    variables = sum(kinds[t] for t in ("VariableV2", "Variable", "VarHandleOp"))
    common = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(3))
    own = set(inside)
    leaving = [t for op in inside for t in op.outputs if any(r not in own for r in t.uses)]
    outputs = f" -> {', '.join(t.describe() for t in leaving[:2])}" if leaving else ""
    of_variables = f", {variables} variables" if variables else ""
    return f"  {scope}  ({len(inside)} nodes{of_variables}: {common}, ...){outputs}"


def node_text(op: Operation) -> str:
    """One node with all its attributes, several lines."""
    try:
        head = op.describe()
    except GraphError as error:
        head = f"node {op.name!r} = {op.type} ({error})"
    return "\n".join([head, *(f"    {name}: {attribute_text(value)}" for name, value in sorted(op.attrs.items()))])
