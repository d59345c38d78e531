"""Transforms that rename nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xlanb.errors import GraphValueError, nearest
from xlanb.graph.optimize.graph_transforms.transform import TransformContext, copied, rename_inputs, renamed


def rename_node(proto: Any, context: TransformContext) -> Any:
    """Rename the node `old_node_name` to `new_node_name`."""
    old, new = context.transform.one("old_node_name"), context.transform.one("new_node_name")
    names = {node.name for node in proto.node}
    if old not in names:
        raise GraphValueError(f"the graph has no operation named {old!r}{nearest(old, names)}")
    return _with_names(proto, {old: new})


def _with_names(proto: Any, names: Mapping[str, str]) -> Any:
    made = copied(proto)
    for node in made.node:
        node.name = names.get(node.name, node.name)
        if "_class" in node.attr:  # colocated with a node, by its name
            places = node.attr["_class"].list.s
            for k, place in enumerate(places):
                kept = place.decode("utf-8", "surrogateescape").removeprefix("loc:@")
                if kept in names:
                    places[k] = f"loc:@{names[kept]}".encode()
    rename_inputs(made.node, lambda text: renamed(text, names))
    return made


def obfuscate_names(proto: Any, context: TransformContext) -> Any:
    """Short names, "a", "b", ..., for all nodes but inputs and outputs."""
    fresh = (name for name in _short_names() if name not in context.keep)
    return _with_names(proto, {n.name: next(fresh) for n in proto.node if n.name not in context.keep})


def _short_names() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    number = 0
    while True:
        name, rest = letters[number % 26], number // 26
        while rest:
            name, rest = letters[(rest - 1) % 26] + name, (rest - 1) // 26
        yield name
        number += 1
