"""Assign each node of a TensorFlow graph to a layer, by the names of nodes and variables.

net/dense/MatMul                                 ->  ("net", "dense")
while, if there is while/Identity                ->  ("while",)
gradients/net/dense/MatMul_grad/MatMul           ->  ("backward", "net", "dense")
net/dense/kernel/Initializer/random_uniform/max  ->  ("initializers", "net", "dense", "kernel", ...)
add_7, a user of the variable block0/bias        ->  ("block0",)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from xlanb.graph.records import NodeRecord
from xlanb.view.outline.ops import INLINED, SHOWN
from xlanb.view.outline.scopes import BACKWARD, INITIALIZERS, Path, is_gradient, scope_path
from xlanb.view.parts.families import VARIABLE_OPS


class GraphScopes:
    """The scopes of one graph's nodes; `operands` are positions, `roles` those of `Ops`.

    `paths` has one for each node, None if no name determines it; `initial` says which only set up
    variables.
    """

    def __init__(self, nodes: Sequence[NodeRecord], operands: Sequence[Sequence[int]], roles: str) -> None:
        self._nodes = nodes
        self._operands = operands
        self._roles = roles
        self._at = {n.name: k for k, n in enumerate(nodes)}
        self._users: list[list[int]] = [[] for _ in nodes]
        for k, given in enumerate(operands):
            for o in given:
                self._users[o].append(k)
        scopes = {n.name[:cut] for n in nodes for cut in _slashes(n.name)}
        self._own = [self._named(n.name, scopes) for n in nodes]
        self.initial = self._initial()
        self.paths = self._paths()

    @staticmethod
    def _named(name: str, scopes: set[str]) -> Path:
        """Return the scopes in a name; a node with the name of a scope is in it."""
        if is_gradient(name):
            return scope_path(name, is_node=True) or ()
        parts = tuple(name.split("/"))
        return parts if name in scopes else parts[:-1]

    def _initial(self) -> list[bool]:
        variables = {n.name for n in self._nodes if n.op in VARIABLE_OPS}
        found = [
            n.op not in VARIABLE_OPS and not variables.isdisjoint(n.name[:cut] for cut in _slashes(n.name))
            for n in self._nodes
        ]
        for k in range(len(found) - 1, -1, -1):  # what only initializers read
            users = self._users[k]
            if not found[k] and self._roles[k] == SHOWN and users and all(found[u] for u in users):
                found[k] = True
        return found

    def _paths(self) -> list[Path | None]:
        layers = self._layers()
        paths: list[Path | None] = [None] * len(self._nodes)
        for k, n in enumerate(self._nodes):
            if self.initial[k]:
                paths[k] = (INITIALIZERS, *self._own[k])
            elif not is_gradient(n.name):
                paths[k] = (*layers.get(self._unit(k), ()), *self._own[k])
        for k, n in enumerate(self._nodes):
            if is_gradient(n.name) and not self.initial[k]:
                paths[k] = self._backward(n.name, self._own[k], paths)
        for order in (reversed(range(len(paths))), range(len(paths))):
            for k in order:  # a sum of gradients lies with the layer that it goes to, else with one that it comes from
                if paths[k] is None:
                    near = self._users[k] or self._operands[k]
                    paths[k] = _most(p for o in near if (p := paths[o]) and p[0] == BACKWARD)
        return [
            (BACKWARD,) if p is None and is_gradient(n.name) else p for n, p in zip(self._nodes, paths, strict=True)
        ]

    def _backward(self, name: str, own: Path, paths: Sequence[Path | None]) -> Path | None:
        """The layer of the node that a gradient is of, going backward."""
        parts = name.split("/")
        for k in range(1, len(parts)):
            if parts[k].endswith("_grad"):
                forward = self._at.get("/".join((*parts[1:k], parts[k].removesuffix("_grad"))))
                return (BACKWARD, *(paths[forward] or ())) if forward is not None else own
        return own if len(own) > 1 else None

    # -- layers by variables -----------------------------------------------------------------------

    def _unit(self, k: int) -> str:
        """Return the outermost scope of a node, or its name."""
        return self._own[k][0] if self._own[k] else self._nodes[k].name

    def _computing(self, k: int) -> bool:
        return self._roles[k] == SHOWN and not self.initial[k] and not is_gradient(self._nodes[k].name)

    def _layers(self) -> dict[str, Path]:
        """The scope of variables that each outermost scope, or node without one, belongs to."""
        taken = {self._unit(k) for k in range(len(self._nodes)) if self._computing(k) and "/" in self._nodes[k].name}
        reads = self._reads(taken)
        found = {unit: next(iter(layers)) for unit, layers in reads.items() if len(layers) == 1}
        if len(set(found.values())) < 2:
            return {}
        several = {unit for unit, layers in reads.items() if len(layers) > 1}
        flat = {self._nodes[k].name for k in range(len(self._nodes)) if self._computing(k) and not self._own[k]}
        users, operands = self._neighbours()
        units = list(dict.fromkeys(self._unit(k) for k in range(len(self._nodes)) if self._computing(k)))
        for unit in reversed(units):
            if unit in found or unit in several:
                continue
            near = [found.get(u) for u in users[unit]]
            if near and (unit in flat or (None not in near and len(set(near)) == 1)):
                found |= {unit: layer} if (layer := _most(p for p in near if p)) else {}
        for unit in units:
            if unit in flat and unit not in found and (layer := _most(found[o] for o in operands[unit] if o in found)):
                found[unit] = layer
        return found

    def _reads(self, taken: set[str]) -> dict[str, set[Path]]:
        """By unit the scopes, other than `taken` ones, of the variables that it reads."""
        layer: list[set[Path]] = [set() for _ in self._nodes]
        found: dict[str, set[Path]] = defaultdict(set)
        for k, n in enumerate(self._nodes):
            if n.op in VARIABLE_OPS:
                scope = tuple(n.name.split("/")[:-1])
                layer[k] = {scope} if scope and scope[0] not in taken else set()
            elif self._roles[k] == INLINED:
                layer[k] = {p for o in self._operands[k] for p in layer[o]}
            elif self._computing(k):
                found[self._unit(k)] |= {p for o in self._operands[k] if self._roles[o] == INLINED for p in layer[o]}
        return found

    def _neighbours(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """By unit the other units that read it, and that it reads."""
        users: dict[str, list[str]] = defaultdict(list)
        operands: dict[str, list[str]] = defaultdict(list)
        for k, given in enumerate(self._operands):
            for o in given:
                if self._computing(k) and self._computing(o) and self._unit(k) != self._unit(o):
                    users[self._unit(o)].append(self._unit(k))
                    operands[self._unit(k)].append(self._unit(o))
        return users, operands


def _slashes(name: str) -> list[int]:
    return [k for k, letter in enumerate(name) if letter == "/"]


def _most(paths: Iterable[Path]) -> Path | None:
    """The path that is there most often, of several the first; None of none."""
    known = list(paths)
    return max(dict.fromkeys(known), key=known.count) if known else None
