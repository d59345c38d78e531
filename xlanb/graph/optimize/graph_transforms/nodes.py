"""Transforms that remove, change or order nodes."""

from __future__ import annotations

import re
from typing import Any

from xlanb.errors import GraphError, GraphValueError, nearest
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graphdef.attr_values import attr_to_proto, new_message
from xlanb.graph.ops import find_op
from xlanb.graph.optimize.graph_transforms.transform import (
    Transform,
    TransformContext,
    node_name,
    rename_inputs,
    with_nodes,
)
from xlanb.graph.tensor_shape import TensorShape


def add_default_attributes(node: Any, _context: TransformContext) -> None:
    """Add the attributes that a node leaves to its op's defaults."""
    definition = find_op(node.op)
    for attr in definition.attrs if definition is not None else ():
        if attr.has_default and attr.name not in node.attr:
            attr_to_proto(attr.default, node.attr[attr.name])


def strip_unused_nodes(proto: Any, context: TransformContext) -> Any:
    """Keep the nodes that the outputs need; fed inputs become Placeholders."""
    fed = {node_name(name) for name in context.inputs}
    by_name = {node.name: node for node in proto.node}
    needed: set[str] = set()
    waiting = [node_name(name) for name in context.outputs]
    if not waiting:
        raise GraphValueError("strip_unused_nodes needs at least one output name")
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        if name not in by_name:
            raise GraphValueError(f"the graph has no operation named {name!r}{nearest(name, by_name)}")
        needed.add(name)
        if name not in fed:
            waiting += map(node_name, by_name[name].input)
    nodes = (node for node in proto.node if node.name in needed | fed)
    return with_nodes(proto, (_placeholder(n, context) if n.name in fed else n for n in nodes))


def _placeholder(node: Any, context: TransformContext) -> Any:
    if node.op == "Placeholder":
        return node
    transform = context.transform
    shape, dtype = transform.one("shape", ""), transform.one("type", "float")
    names = transform.parameters.get("name", ())
    for what in ("type_for_name", "shape_for_name"):
        given = transform.parameters.get(what, ())
        if given and len(given) != len(names):
            raise GraphValueError(
                f"{transform.name} needs one {what!r} per 'name': expected {len(names)}, got {len(given)}"
            )
        if given and node.name in names:
            value = given[names.index(node.name)]
            dtype, shape = (value, shape) if what == "type_for_name" else (dtype, value)
    made = new_message("NodeDef")
    made.name, made.op, made.device = node.name, "Placeholder", node.device
    attr_to_proto(_type(dtype), made.attr["dtype"])
    attr_to_proto(TensorShape(_dimensions(shape, transform)), made.attr["shape"])
    return made


def _type(text: str) -> DType:
    try:
        return as_dtype({"float": "float32", "double": "float64", "half": "float16"}.get(text, text))
    except GraphError:
        raise GraphValueError(f"{text!r} is not an element type such as float, int32, quint8") from None


def _dimensions(text: str, transform: Transform) -> list[int]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not all(re.fullmatch(r"-?\d{1,18}", p) for p in parts):
        raise GraphValueError(f'{transform.name}(shape=...) expects dimensions as in "1,299,299,3", got {text!r}')
    return [int(p) for p in parts]


def remove_nodes(proto: Any, context: TransformContext) -> Any:
    """Nodes of these ops with one input (or up to max_inputs) give way to their first input."""
    ops = context.transform.parameters.get("op", ())
    if not ops:
        raise GraphValueError("remove_nodes needs at least one op: remove_nodes(op=Identity)")
    most = context.transform.whole("max_inputs", 1)
    gone = {
        node.name: node.input[0]
        for node in proto.node
        if node.op in ops
        and node.name not in context.keep
        and 1 <= len(node.input) <= most
        and not node.input[0].startswith("^")
    }

    def source(text: str) -> str:
        is_control = text.startswith("^")
        seen: set[str] = set()
        while (name := node_name(text)) in gone and name not in seen:
            seen.add(name)
            text = gone[name]
        return f"^{node_name(text)}" if is_control else text

    made = with_nodes(proto, (node for node in proto.node if node.name not in gone))
    rename_inputs(made.node, source)
    return made


def remove_attribute(node: Any, context: TransformContext) -> None:
    """Remove the attribute `attribute_name` from all nodes, or from those of `op_name`."""
    name, op = context.transform.one("attribute_name"), context.transform.one("op_name", "")
    if op in ("", node.op) and name in node.attr:
        del node.attr[name]


def rename_attribute(node: Any, context: TransformContext) -> None:
    """Rename `old_attribute_name` to `new_attribute_name`, everywhere or in nodes of `op_name`."""
    transform = context.transform
    old, new = transform.one("old_attribute_name"), transform.one("new_attribute_name")
    if transform.one("op_name", "") in ("", "*", node.op) and old in node.attr:
        node.attr[new].CopyFrom(node.attr[old])
        del node.attr[old]


def rename_op(node: Any, context: TransformContext) -> None:
    """Replace the op `old_op_name` by `new_op_name`."""
    old, new = context.transform.one("old_op_name"), context.transform.one("new_op_name")
    if node.op == old:
        node.op = new


def remove_device(node: Any, _context: TransformContext) -> None:
    """Clear a node's device."""
    node.device = ""


def set_device(node: Any, context: TransformContext) -> None:
    """Set the `device` of a node; with `if_default` only where it has none."""
    if not (context.transform.true("if_default") and node.device):
        node.device = context.transform.one("device", "")


def remove_control_dependencies(node: Any, _context: TransformContext) -> None:
    """Remove a node's control inputs."""
    kept = [text for text in node.input if not text.startswith("^")]
    del node.input[:]
    node.input.extend(kept)


def sort_by_execution_order(proto: Any, _context: TransformContext) -> Any:
    """Each node after its inputs; the back edges of loops are not waited for."""
    by_name = {node.name: node for node in proto.node}
    back = {n.name for n in proto.node if n.op in ("NextIteration", "RefNextIteration")}
    needs = {
        n.name: {node_name(t) for t in n.input} - (back if n.op in ("Merge", "RefMerge") else set()) for n in proto.node
    }
    readers: dict[str, list[str]] = {}
    for name, inputs in needs.items():
        for source in inputs:
            readers.setdefault(source, []).append(name)
    order = [name for name, inputs in needs.items() if not inputs]
    for name in order:
        for reader in readers.get(name, ()):
            needs[reader].discard(name)
            if not needs[reader]:
                order.append(reader)
    if len(order) < len(by_name):
        raise GraphValueError("sort_by_execution_order: the graph has a cycle outside of loops")
    return with_nodes(proto, (by_name[name] for name in order))
