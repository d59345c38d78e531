"""A transform with its parameters, its context, and what transforms of GraphDefs share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import graph_of_proto, graph_to_proto
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.optimize.grappler import Rewrite
from xlanb.graph.optimize.steps import Evaluate


@dataclass(frozen=True)
class Transform:
    """One transform with its parameters, each a list: `remove_nodes(op=Identity, op=Print)`."""

    name: str
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        said = ", ".join(f"{k}={_shown(v)}" for k, values in self.parameters.items() for v in values)
        return f"{self.name}({said})" if said else self.name

    def one(self, name: str, otherwise: str | None = None) -> str:
        """Return the value of a parameter that occurs once, or `otherwise`.

        Raises:
            GraphValueError: it occurs several times, or not at all and `otherwise` is None.
        """
        values = self.parameters.get(name, ())
        if len(values) > 1:
            raise GraphValueError(f"{self.name} takes one {name!r}, got {len(values)}")
        if not values and otherwise is None:
            raise GraphValueError(f"{self.name} needs the parameter {name!r}: {self.name}({name}=...)")
        return values[0] if values else str(otherwise)

    def whole(self, name: str, otherwise: int) -> int:
        """The value of a parameter that is a whole number."""
        text = self.one(name, str(otherwise))
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise GraphValueError(f"{self.name}({name}=...) expects an integer, got {text!r}")
        return int(text)

    def true(self, name: str, otherwise: bool = False) -> bool:
        """The value of a parameter that is true or false."""
        text = self.one(name, str(otherwise)).lower()
        if text not in ("true", "false"):
            raise GraphValueError(f"{self.name}({name}=...) expects true or false, got {text!r}")
        return text == "true"


def _shown(value: str) -> str:
    return value if re.fullmatch(r"[\w./:-]+", value) else f'"{value}"'


@dataclass(frozen=True)
class TransformContext:
    """The context of all transforms of a call: the names of the graph's inputs and outputs, and the
    evaluator of constants.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    transform: Transform
    evaluate: Evaluate
    rewrites: list[Rewrite] = field(default_factory=list)
    """The changes made by a Grappler transform, with reasons, added while it runs."""

    @property
    def keep(self) -> frozenset[str]:
        """The nodes that keep their names: inputs and outputs."""
        return frozenset(map(node_name, (*self.inputs, *self.outputs)))


def node_name(text: str) -> str:
    """The node of "name", "name:1" or "^name"."""
    return text.removeprefix("^").partition(":")[0]


def copied(proto: Any) -> Any:
    """A copy of a GraphDef."""
    made = new_message("GraphDef")
    made.CopyFrom(proto)
    return made


def with_nodes(proto: Any, nodes: Iterable[Any]) -> Any:
    """A GraphDef of these nodes."""
    made = new_message("GraphDef")
    made.node.extend(nodes)
    return made


def each_node(change: Callable[[Any, TransformContext], None]) -> Callable[[Any, TransformContext], Any]:
    """Make a transform that changes every node independently."""

    def transform(proto: Any, context: TransformContext) -> Any:
        made = copied(proto)
        for node in made.node:
            change(node, context)
        return made

    return transform


def as_graph(change: Callable[[Graph, TransformContext], Graph]) -> Callable[[Any, TransformContext], Any]:
    """A transform of the graph that a GraphDef holds."""

    def transform(proto: Any, context: TransformContext) -> Any:
        return graph_to_proto(change(graph_of_proto(proto), context))

    return transform


def rename_inputs(nodes: Iterable[Any], new: Callable[[str], str]) -> None:
    """Give each input another text; control inputs keep their ^."""
    for node in nodes:
        for k, text in enumerate(node.input):
            node.input[k] = new(text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """An input's text with its node renamed."""
    caret = "^" if text.startswith("^") else ""
    name, colon, port = text.removeprefix("^").partition(":")
    return caret + names.get(name, name) + colon + port
