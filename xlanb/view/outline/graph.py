"""TensorFlow graphs in outline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.view.outline.ops import INLINED, INPUT, RESULT, SHOWN, Ops
from xlanb.view.outline.program import Part, Program
from xlanb.view.outline.scopes import BACKWARD, Path, scope_path
from xlanb.view.parts.families import tf_family
from xlanb.view.parts.items import operand_name

_SHAPE = re.compile(r"(\w+)\[([\d,?]*)\]")
_HEAVY = frozenset(("tf-matrix", "tf-launch"))
_CALLING = frozenset(
    ("While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall", "StatefulPartitionedCall")
)
_VARIABLES = "variables"
_SETTING = frozenset(("Identity", "VarIsInitializedOp", "IsVariableInitialized", "NoOp"))
_SIZES = {text: t.byte_size for text, t in BY_TEXT.items()}


class GraphOutlines:
    """Outlines of graphs; what two of them share is made once."""

    def __init__(self, function_of: Callable[[NodeRecord, Sequence[str]], str]) -> None:
        self._function_of = function_of
        self._parts: dict[int, tuple[GraphRecord, Part]] = {}

    def program(self, graph: GraphRecord) -> Program:
        """The graph, and the functions that its nodes call."""
        functions = {f.name: f for f in graph.functions}
        names = tuple(functions)
        # a function may bear the graph's name: the graph is known as ""
        parts = {name: self._part(name, f, names) for name, f in functions.items()}
        parts[""] = self._part("", graph, names)
        return Program("", parts)

    def _part(self, name: str, graph: GraphRecord, functions: Sequence[str]) -> Part:
        _, part = self._parts.get(id(graph), (None, None))
        if part is None:
            ops, costs = _ops(graph)
            calls = (
                {k: (f,) for k, n in enumerate(graph.nodes) if (f := self._function_of(n, functions))}
                if functions
                else {}
            )
            part = Part(name, ops, calls, costs, [int(size) for _, size in costs])
            self._parts[id(graph)] = (graph, part)
        return part


def _ops(graph: GraphRecord) -> tuple[Ops, list[tuple[float, float]]]:
    nodes = graph.nodes
    at = {n.name: k for k, n in enumerate(nodes)}
    operands = [[at[o] for o in map(operand_name, n.inputs) if o in at] for n in nodes]
    costs = [(0.0, float(_byte_size(n.outputs))) for n in nodes]
    families = [tf_family(n.op) for n in nodes]
    ops = Ops(
        names=[n.name for n in nodes],
        words=[n.op for n in nodes],
        tokens=[f"{n.op} {' '.join(n.outputs)}" for n in nodes],
        operands=operands,
        paths=_paths(nodes, operands),
        weights=[size + 1 for _, size in costs],
        roles="".join(_role(n, users) for n, users in zip(nodes, _used(operands), strict=True)),
        heavy=[f in _HEAVY or n.op in _CALLING for n, f in zip(nodes, families, strict=True)],
        clusters=[n.cluster for n in nodes],
    )
    return ops, costs


def _used(operands: Sequence[Sequence[int]]) -> list[bool]:
    used = [False] * len(operands)
    for given in operands:
        for o in given:
            used[o] = True
    return used


def _role(node: NodeRecord, is_used: bool) -> str:
    if node.op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"):
        return INPUT
    if node.op == "_Retval":
        return RESULT
    return INLINED if node.op in ("Const", "HostConst") and is_used else SHOWN


def _byte_size(outputs: Sequence[str]) -> int:
    """Bytes of tensors as "f32[?,3]"; what is unknown counts as one."""
    total = 0
    for kind, sizes in (found for text in outputs for found in _SHAPE.findall(text)):
        count = 1
        for size in sizes.split(","):
            count *= int(size) if size.isdigit() else 1
        total += count * _SIZES.get(kind, 4)
    return total


def _paths(nodes: Sequence[NodeRecord], operands: Sequence[Sequence[int]]) -> list[Path | None]:
    """Where each node lies, by its name.

    A scope that only makes and sets variables is no layer: what a layer reads lies with that layer, the rest among
    the variables. An optimizer, which sets them by what the backward pass found, is one.
    """
    own = [scope_path(n.name, is_node=True) or () for n in nodes]
    computing = {
        n.name.split("/", 1)[0]
        for n, given in zip(nodes, operands, strict=True)
        if given and (_computes(n) or any(own[o][:1] == (BACKWARD,) for o in given))
    }
    readers: list[list[int]] = [[] for _ in nodes]
    for k, given in enumerate(operands):
        for o in given:
            readers[o].append(k)
    paths: list[Path | None] = []
    for k, n in enumerate(nodes):
        scope = n.name.split("/", 1)[0]
        if not own[k] or scope in computing:
            paths.append(own[k])
            continue
        outside = [own[r] for r in readers[k] if own[r] and nodes[r].name.split("/", 1)[0] != scope]
        forward = [p for p in outside if p[0] != BACKWARD] or outside
        paths.append(_common(forward) if forward and not operands[k] else (_VARIABLES, *own[k]))
    return paths


def _computes(node: NodeRecord) -> bool:
    return tf_family(node.op) != "tf-variable" and node.op not in _SETTING and "/Initializer/" not in node.name


def _common(paths: Sequence[Path]) -> Path:
    """The innermost scope around all of these."""
    first, last = min(paths), max(paths)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]
