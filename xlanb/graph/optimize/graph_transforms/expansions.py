"""Transforms that replace ops by others, or add some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlanb.graph.graphdef import graph_of_proto
from xlanb.graph.graphdef.attr_values import attr_to_proto, new_message
from xlanb.graph.optimize.graph_transforms.transform import TransformContext, rename_inputs, with_nodes
from xlanb.graph.optimize.graph_transforms.weights import _set_value


def insert_logging(proto: Any, context: TransformContext) -> Any:
    """A Print behind the first output of each node that is read; its readers read the Print."""
    transform = context.transform
    ops, prefixes = transform.parameters.get("op", ()), transform.parameters.get("prefix", ())
    graph = graph_of_proto(proto)
    logged: dict[str, str] = {}
    prints: dict[str, Any] = {}
    for op in graph:
        is_wanted = (not ops or op.type in ops) and (not prefixes or op.name.startswith(tuple(prefixes)))
        read = [t for t in op.outputs if t.uses]
        if not is_wanted or not read or op.outputs[0].dtype.is_ref_dtype or not op.outputs[0].dtype.has_numpy_dtype:
            continue
        node = new_message("NodeDef")
        node.name, node.op, node.device = f"{op.name}__print__", "Print", op.device
        node.input.extend([f"{op.name}:0", *(t.name for t in read)])
        said = (f";{op.type};" if transform.true("show_op") else "") + (
            f";{node.name};" if transform.true("show_name") else ""
        )
        attr_to_proto(said + transform.one("message", ""), node.attr["message"])
        attr_to_proto(transform.whole("first_n", -1), node.attr["first_n"])
        attr_to_proto(transform.whole("summarize", 1024), node.attr["summarize"])
        attr_to_proto(op.outputs[0].dtype.base_dtype, node.attr["T"])
        attr_to_proto(tuple(t.dtype.base_dtype for t in read), node.attr["U"])
        logged[op.name] = node.name
        prints[op.name] = node
    made = new_message("GraphDef")
    for node in proto.node:
        copy = made.node.add()
        copy.CopyFrom(node)
        rename_inputs([copy], lambda text: _logged(text, logged))
        if node.name in prints:
            made.node.add().CopyFrom(prints[node.name])
    return made


def _logged(text: str, logged: Mapping[str, str]) -> str:
    """The Print instead of a node's first output."""
    name, _, port = text.partition(":")
    return logged[name] if port in ("", "0") and name in logged else text


def flatten_atrous_conv(proto: Any, context: TransformContext) -> Any:
    """BatchToSpaceND(conv(SpaceToBatchND(x), W)) -> conv(x, W with zeros between), padding SAME."""
    graph = graph_of_proto(proto)
    nodes = {node.name: node for node in proto.node}
    made: dict[str, Any] = {}
    for op in graph:
        if op.type != "BatchToSpaceND" or op.inputs[0].op.type not in ("Conv2D", "DepthwiseConv2dNative"):
            continue
        conv = op.inputs[0].op
        spread = conv.inputs[0].op
        values = (
            [context.evaluate(t) for t in (conv.inputs[1], spread.inputs[1])] if spread.type == "SpaceToBatchND" else []
        )
        if len(values) < 2 or any(v is None for v in values) or values[1].shape != (2,):  # type: ignore[union-attr]
            continue
        weights, (high, wide) = values[0], (int(n) for n in values[1])  # type: ignore[union-attr]
        h, w, *rest = weights.shape  # type: ignore[union-attr]
        dilated = np.zeros(((h - 1) * high + 1, (w - 1) * wide + 1, *rest), weights.dtype)  # type: ignore[union-attr]
        dilated[::high, ::wide] = weights
        const = new_message("NodeDef")
        const.name, const.op = f"{op.name}/dilated_filter", "Const"
        _set_value(const, dilated, conv.inputs[1].dtype.base_dtype)
        flat = new_message("NodeDef")
        flat.CopyFrom(nodes[conv.name])
        flat.name = op.name
        del flat.input[:]
        flat.input.extend([spread.inputs[0].name.removesuffix(":0"), const.name])
        attr_to_proto("SAME", flat.attr["padding"])
        made[op.name] = (const, flat)
    found: list[Any] = []
    for node in proto.node:
        found += made.get(node.name, (node,))
    return with_nodes(proto, found)


def backport_concatv2(node: Any, _context: TransformContext) -> None:
    """ConcatV2(a, b, axis) -> Concat(axis, a, b)."""
    if node.op != "ConcatV2":
        return
    node.op = "Concat"
    data = [t for t in node.input if not t.startswith("^")]
    control = [t for t in node.input if t.startswith("^")]
    del node.input[:]
    node.input.extend([data[-1], *data[:-1], *control])
    if "Tidx" in node.attr:
        del node.attr["Tidx"]
