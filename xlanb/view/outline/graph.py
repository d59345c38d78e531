"""TensorFlow graphs in outline."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.view.outline.graph_scopes import GraphScopes
from xlanb.view.outline.ops import INLINED, INPUT, PASSED, RESULT, SHOWN, Ops
from xlanb.view.outline.program import Part, ProgramOutline
from xlanb.view.outline.scopes import is_gradient
from xlanb.view.parts.families import VARIABLE_OPS, tf_family
from xlanb.view.parts.items import operand_name

_SHAPE = re.compile(r"(\w+)\[([\d,?]*)\]")
_HEAVY = frozenset(("tf-matrix", "tf-launch"))
_CALLING = frozenset(
    ("While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall", "StatefulPartitionedCall")
)
_INPUTS = frozenset(("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"))
_LEAVES = VARIABLE_OPS | {"Const", "HostConst"}
_READS = frozenset(("ReadVariableOp", "Identity"))  # drawn inside their users if their inputs are
_ENDS = frozenset(("Identity", "NoOp"))  # results if unused
_SIZES = {text: t.byte_size for text, t in BY_TEXT.items()}


class GraphOutlines:
    """Outlines of graphs; shared parts are made once."""

    def __init__(self, function_of: Callable[[NodeRecord, Sequence[str]], str]) -> None:
        self._function_of = function_of
        self._parts: dict[int, tuple[GraphRecord, Part]] = {}

    def program(self, graph: GraphRecord) -> ProgramOutline:
        """The graph, and the functions that its nodes call."""
        functions = {f.name: f for f in graph.functions}
        # a function may bear the graph's name: the graph is known as ""
        parts = {name: self._part(name, f, functions, frozenset((name,))) for name, f in functions.items()}
        parts[""] = self._part("", graph, functions, frozenset())
        return ProgramOutline("", parts)

    def _part(
        self, name: str, graph: GraphRecord, functions: Mapping[str, GraphRecord], inside: AbstractSet[str]
    ) -> Part:
        """One graph; `inside` are the functions around it, which it may call again."""
        _, part = self._parts.get(id(graph), (None, None))
        if part is None:
            called = {
                k: f
                for k, n in enumerate(graph.nodes if functions else ())
                if (f := self._function_of(n, tuple(functions)))
            }
            inner = {
                k: sum(size for _, size in self._part(f, functions[f], functions, inside | {f}).costs)
                for k, f in called.items()
                if f not in inside
            }
            ops, costs = _ops(graph, inner, is_entry=not name)
            part = Part(name, ops, {k: (f,) for k, f in called.items()}, costs, [int(size) for _, size in costs])
            self._parts[id(graph)] = (graph, part)
        return part


def _ops(graph: GraphRecord, inner: Mapping[int, float], *, is_entry: bool) -> tuple[Ops, list[tuple[float, float]]]:
    """Return a graph's ops and costs; `inner` has the bytes inside called functions, by
    position.
    """
    nodes = graph.nodes
    at = {n.name: k for k, n in enumerate(nodes)}
    operands = [[at[o] for o in map(operand_name, n.inputs) if o in at] for n in nodes]
    roles = _roles(nodes, operands, is_entry)
    scopes = GraphScopes(nodes, operands, roles)
    families = [tf_family(n.op) for n in nodes]
    costs = [
        (0.0, 0.0 if once else float(_byte_size(n.outputs)) + inner.get(k, 0.0))
        for k, (n, once) in enumerate(zip(nodes, scopes.initial, strict=True))
    ]
    ops = Ops(
        names=[n.name for n in nodes],
        words=[n.op for n in nodes],
        tokens=[f"{n.op} {' '.join(n.outputs)}" for n in nodes],
        operands=operands,
        paths=scopes.paths,
        weights=[
            0.0 if once or role == INLINED else size + 1
            for (_, size), once, role in zip(costs, scopes.initial, roles, strict=True)
        ],
        roles=roles,
        heavy=[f in _HEAVY or n.op in _CALLING for n, f in zip(nodes, families, strict=True)],
        clusters=[n.cluster for n in nodes],
    )
    return ops, costs


def _roles(nodes: Sequence[NodeRecord], operands: Sequence[Sequence[int]], is_entry: bool) -> str:
    """Return how each node is drawn: constants and variables inside their users."""
    used = [False] * len(nodes)
    for given in operands:
        for o in given:
            used[o] = True
    roles: list[str] = []
    for k, n in enumerate(nodes):
        if n.op in _INPUTS:
            role = INPUT
        elif n.op == "_Retval":
            role = RESULT
        elif not used[k]:
            role = _end_role(n, [nodes[o].name for o in operands[k]]) if is_entry else SHOWN
        elif n.op in _LEAVES or (
            n.op in _READS and operands[k] and all(o < k and roles[o] == INLINED for o in operands[k])
        ):
            role = INLINED
        else:
            role = PASSED if n.op == "NoOp" else SHOWN
        roles.append(role)
    return "".join(roles)


def _end_role(node: NodeRecord, operands: Sequence[str]) -> str:
    """Return how an unused node is drawn: an unused loop element, or gradient, is an edge."""
    if node.op not in _ENDS:
        return SHOWN
    return PASSED if is_gradient(node.name) or node.name.rpartition("/")[0] in operands else RESULT


def _byte_size(outputs: Sequence[str]) -> int:
    """Return the bytes of tensors given as "f32[?,3]"; unknown sizes count as one."""
    total = 0
    for kind, sizes in (found for text in outputs for found in _SHAPE.findall(text)):
        count = 1
        for size in sizes.split(","):
            count *= int(size) if size.isdigit() else 1
        total += count * _SIZES.get(kind, 4)
    return total
