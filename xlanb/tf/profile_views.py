"""The views of tf.profiler: by scope, op type, graph and code.

Source: tensorflow/core/profiler/internal/tfprof_{scope,op,graph,code}.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.hlo.attributes import StackFrame
from xlanb.hlo.python_lines import place_text, source_text, users_frames

_ROOT = "_TFProfRoot"
_UNKNOWN = "(unknown line)"
_GRADIENT = re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+)_grad(?:_\d+)?/")


@dataclass
class ProfileNode:
    """A scope, an op, an op type or a Python line: its own figures, and totals with all below it.

    Times are in microseconds; `shape` is that of a variable. The other fields are called as in
    TensorFlow's GraphNodeProto and MultiGraphNodeProto.
    """

    name: str
    exec_micros: int = 0
    requested_bytes: int = 0
    parameters: int = 0
    float_ops: int = 0
    run_count: int = 0
    total_exec_micros: int = 0
    total_requested_bytes: int = 0
    total_parameters: int = 0
    total_float_ops: int = 0
    total_run_count: int = 0
    shape: str = ""
    children: list[ProfileNode] = field(default_factory=list)
    ops: list[ProfileNode] = field(default_factory=list)

    @property
    def graph_nodes(self) -> list[ProfileNode]:
        """The ops of this type or of this Python line, as MultiGraphNodeProto calls them."""
        return self.ops or self.children


def _short(value: int) -> str:
    for unit, name in ((10**9, "b"), (10**6, "m"), (10**3, "k")):
        if value >= unit:
            return f"{value / unit:.2f}{name}"
    return str(value)


def _time(micros: int) -> str:
    for unit, name in ((10**6, "sec"), (10**3, "ms")):
        if micros >= unit:
            return f"{micros / unit:.2f}{name}"
    return f"{micros}us"


# Of each `select`: the field, the column's title, the least value's option, and how it is written.
COLUMNS: dict[str, tuple[str, str, str, Callable[[int], str]]] = {
    "params": ("parameters", "# parameters", "min_params", lambda v: f"{_short(v)} params"),
    "float_ops": ("float_ops", "# float_ops", "min_float_ops", lambda v: f"{_short(v)} flops"),
    "bytes": ("requested_bytes", "requested bytes", "min_bytes", lambda v: f"{_short(v)}B"),
    "micros": ("exec_micros", "total execution time", "min_micros", _time),
    "occurrence": ("run_count", "op occurrence (run|defined)", "min_occurrence", str),
}
FIGURES = ("exec_micros", "requested_bytes", "parameters", "float_ops", "run_count")


@dataclass
class Figure:
    """A node of the graph that counts, with its figures."""

    node: ProfileNode
    kind: str


def matches(texts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches the whole of one of the texts."""
    return any(re.fullmatch(p, t) for p in patterns for t in texts)


def _is_shown(node: ProfileNode, options: Mapping[str, Any]) -> bool:
    enough = all(getattr(node, f"total_{name}") >= options[least] for name, _, least, _ in COLUMNS.values())
    by_name = matches([node.name], options["show_name_regexes"]) and not matches(
        [node.name], options["hide_name_regexes"]
    )
    return enough and by_name


def _order(nodes: list[ProfileNode], options: Mapping[str, Any]) -> list[ProfileNode]:
    if options["order_by"] == "name":
        return sorted(nodes, key=lambda n: n.name)
    attribute = f"total_{COLUMNS[options['order_by']][0]}"
    return sorted(nodes, key=lambda n: (-getattr(n, attribute), n.name))


def _total(node: ProfileNode, children: Sequence[ProfileNode]) -> None:
    for name in FIGURES:
        setattr(node, f"total_{name}", getattr(node, name) + sum(getattr(c, f"total_{name}") for c in children))


# ----------------------------------------------------------------------------------------- by scope


def by_scope(figures: Sequence[Figure], options: Mapping[str, Any]) -> ProfileNode:
    """The hierarchy of names."""
    nodes = {f.node.name: f.node for f in figures}
    root = ProfileNode(_ROOT)
    placed: set[str] = set()
    for name in list(nodes):
        at = root
        parts = name.split("/")
        for path in ("/".join(parts[: i + 1]) for i in range(len(parts))):
            inner = nodes.setdefault(path, ProfileNode(path))
            if path not in placed:
                placed.add(path)
                at.children.append(inner)
            at = inner
    return _displayed(root, options)


# ----------------------------------------------------------------------------------------- trees


def _displayed(root: ProfileNode, options: Mapping[str, Any]) -> ProfileNode:
    """Total up a tree, and leave what the options ask for.

    Children take the place of a node that is not shown. With `account_displayed_op_only`, such a
    node does not count either.
    """
    root.children = _started(root.children, options)
    order = [root]
    for node in order:
        order += node.children
    for node in reversed(order):
        _total(node, node.children)
    hidden = {id(node) for node in order if not _is_shown(node, options)}
    for node in reversed(order):
        kept = [k for c in node.children for k in (c.children if id(c) in hidden else [c])]
        if options["account_displayed_op_only"]:
            _total(node, kept)
        node.children = _order(kept, options)
    level = [root]
    for _ in range(options["max_depth"]):
        level = [child for node in level for child in node.children]
        if not level:
            break
    for node in level:
        node.children = []
    return root


def _started(nodes: Iterable[ProfileNode], options: Mapping[str, Any]) -> list[ProfileNode]:
    """The first nodes, from above, whose names match `start_name_regexes`."""
    found, pending = [], list(reversed(list(nodes)))
    while pending:
        node = pending.pop()
        if matches([node.name], options["start_name_regexes"]):
            found.append(node)
        else:
            pending += reversed(node.children)
    return found


def tree_lines(root: ProfileNode, options: Mapping[str, Any]) -> list[str]:
    """A line for each node, below its parent: name, own figures and totals."""
    columns = [COLUMNS[s] for s in options["select"]]
    lines = [" | ".join(["node name", *(title for _, title, _, _ in columns)])]

    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        parts = [node.shape] if node.shape and "params" in options["select"] else []
        for name, _, _, write in columns:
            mine = write(getattr(node, name)).split(" ")[0] if getattr(node, name) else "--"
            parts.append(f"{mine}/{write(getattr(node, f'total_{name}'))}")
        lines.append(f"{'  ' * depth}{node.name} ({', '.join(parts)})")
        pending += [(child, depth + 1) for child in reversed(node.children)]
    return lines


# --------------------------------------------------------------------------------------- by op type


def by_type(figures: Sequence[Figure], options: Mapping[str, Any]) -> ProfileNode:
    """The op types, each with its ops."""
    kinds: dict[str, ProfileNode] = {}
    for f in figures:
        node = kinds.setdefault(f.kind, ProfileNode(f.kind))
        node.children.append(f.node)
        for name in FIGURES:
            setattr(node, name, getattr(node, name) + getattr(f.node, name))
    for node in kinds.values():
        _total(node, ())
    shown = [n for n in kinds.values() if _is_shown(n, options)]
    root = ProfileNode(_ROOT)
    _total(root, shown if options["account_displayed_op_only"] else list(kinds.values()))
    root.children = _order(shown, options)
    return root


def table_lines(root: ProfileNode, options: Mapping[str, Any]) -> list[str]:
    """Of each column the value, the share of this row and those below, and its own share."""
    columns = [COLUMNS[s] for s in options["select"]]
    lines = [" | ".join(["node name", *(title for _, title, _, _ in columns)])]
    left = {name: getattr(root, f"total_{name}") for name, *_ in columns}
    width = max((len(n.name) for n in root.children), default=0)
    for node in root.children:
        parts = []
        for name, _, _, write in columns:
            whole, value = getattr(root, f"total_{name}") or 1, getattr(node, name)
            parts.append(f"{write(value):>16} ({left[name] / whole:.2%}, {value / whole:.2%})")
            left[name] -= value
        lines.append(f"{node.name:<{width}} {', '.join(parts)}")
    return lines


# ----------------------------------------------------------------------------------------- by graph


def by_graph(graph: Graph, figures: Sequence[Figure], options: Mapping[str, Any]) -> ProfileNode:
    """Each op with the ops that it reads below it, each op once.

    The first level has the ops that no other op reads, or those whose names match
    `start_name_regexes`.
    """
    own = {f.node.name: f.node for f in figures}
    nodes = {op: own.pop(op.name, ProfileNode(op.name)) for op in graph}
    if options["start_name_regexes"] == [".*"]:
        starts = [op for op in nodes if not any(t.uses for t in op.outputs) and not op.control_outputs]
    else:
        starts = [op for op in nodes if matches([op.name], options["start_name_regexes"])]
    below = _visited_once(starts, options)
    for op in reversed(below):  # what an op reads comes after it
        nodes[op].children = [nodes[read] for read in below[op]]
    root = ProfileNode(_ROOT, children=[*(nodes[op] for op in starts if op in below), *own.values()])
    return _displayed(root, {**options, "start_name_regexes": [".*"]})


def _visited_once(starts: Sequence[Operation], options: Mapping[str, Any]) -> dict[Operation, list[Operation]]:
    """Of each op that is reached, in depth-first order, those ops below it that were not before."""
    below: dict[Operation, list[Operation]] = {}
    seen = set(starts)
    pending = list(reversed(starts))
    while pending:
        op = pending.pop()
        if op in below or matches([op.name], options["trim_name_regexes"]):
            continue
        reads = dict.fromkeys([*(t.op for t in op.inputs), *op.control_inputs])
        below[op] = [r for r in reads if r not in seen and not matches([r.name], options["trim_name_regexes"])]
        seen.update(below[op])
        pending += reversed(below[op])
    return below


# ------------------------------------------------------------------------------------------ by code


def by_code(graph: Graph, figures: Sequence[Figure], options: Mapping[str, Any]) -> ProfileNode:
    """The Python lines that made the ops, as "file.py:12:function:text", below their callers.

    Ops that `tf.gradients` made count for the line of the op that they differentiate, as its
    "(gradient)". Ops of unknown lines, as of a GraphDef, are one node.
    """
    root = ProfileNode(_ROOT)
    for figure in figures:
        at = root
        for name in _lines_of(graph, figure.node.name):
            at = next((c for c in at.children if c.name == name), None) or _child(at, name)
        at.ops.append(figure.node)
        for name in FIGURES:
            setattr(at, name, getattr(at, name) + getattr(figure.node, name))
    return _displayed(root, options)


def _child(node: ProfileNode, name: str) -> ProfileNode:
    node.children.append(ProfileNode(name))
    return node.children[-1]


def _lines_of(graph: Graph, name: str) -> list[str]:
    """The lines that made an op, outermost first."""
    forward = _GRADIENT.search(name)
    is_gradient = forward is not None and forward[1] in graph
    op_name = forward[1] if forward is not None and is_gradient else name
    stack = graph.get_operation_by_name(op_name).stack if op_name in graph else ()
    frames = reversed(users_frames([StackFrame(file, function, line) for file, line, function in stack]))
    lines = [_line_name(f) for f in frames] or [_UNKNOWN]
    return [*lines[:-1], f"{lines[-1]} (gradient)"] if is_gradient else lines


def _line_name(frame: StackFrame) -> str:
    file, _, line = place_text(frame.file, frame.line).rpartition(":")
    return f"{Path(file).name}:{line}:{frame.function}:{source_text(frame.file, frame.line)}"
