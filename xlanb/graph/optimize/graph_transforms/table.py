"""All transforms by name: parse what a user asks for, and apply it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from xlanb.errors import GraphValueError, nearest
from xlanb.graph.optimize.graph_transforms.expansions import backport_concatv2, flatten_atrous_conv, insert_logging
from xlanb.graph.optimize.graph_transforms.graphs import (
    change_layout,
    fold_all_constants,
    fold_norms,
    inline_all_calls,
    merge_duplicates,
    optimize_arithmetic,
    remap,
)
from xlanb.graph.optimize.graph_transforms.names import obfuscate_names, rename_node
from xlanb.graph.optimize.graph_transforms.nodes import (
    add_default_attributes,
    remove_attribute,
    remove_control_dependencies,
    remove_device,
    remove_nodes,
    rename_attribute,
    rename_op,
    set_device,
    sort_by_execution_order,
    strip_unused_nodes,
)
from xlanb.graph.optimize.graph_transforms.transform import Transform, TransformContext, as_graph, each_node, node_name
from xlanb.graph.optimize.graph_transforms.weights import quantize_weights, round_weights

_TRANSFORM: Final = re.compile(r"\s*(?P<name>\w+)(?P<open>\()?")
_PARAMETER: Final = re.compile(r"[\s,]*(?P<name>\w+)=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<plain>[\w./:-]+))['\"]?")
_CLOSE: Final = re.compile(r"[\s,]*\)")


def parse_transforms(texts: Iterable[str]) -> list[Transform]:
    """Parse transforms in the tool's syntax: names with parameters in parentheses.

    Values with commas are quoted.

    Raises:
        GraphValueError: a syntax error, or an unknown or unimplemented name; the message says why.
    """
    found: list[Transform] = []
    text = " ".join(texts)
    at = 0
    while text[at:].strip():
        head = _TRANSFORM.match(text, at)
        if head is None:
            raise GraphValueError(f"expected the name of a transform, got {text[at : at + 40]!r}")
        at = head.end()
        parameters: dict[str, tuple[str, ...]] = {}
        if head["open"]:
            while (close := _CLOSE.match(text, at)) is None:
                found_one = _PARAMETER.match(text, at)
                if found_one is None:
                    raise GraphValueError(
                        f"{head['name']}: expected name=value or a closing parenthesis, got {text[at : at + 40]!r}"
                    )
                quoted = found_one["quoted"]
                value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found_one["plain"]
                parameters[found_one["name"]] = (*parameters.get(found_one["name"], ()), value)
                at = found_one.end()
            at = close.end()
        _check_name(head["name"])
        found.append(Transform(head["name"], parameters))
    return found


def _check_name(name: str) -> None:
    if name in REFUSED:
        raise GraphValueError(f"transform {name!r} is not implemented: {REFUSED[name]}")
    if name not in TRANSFORMS:
        raise GraphValueError(f"transform {name!r} is not recognized{nearest(name, [*TRANSFORMS, *REFUSED])}")


def apply_transform(proto: Any, context: TransformContext) -> Any:
    """Apply one transform to a GraphDef; with ignore_errors=true, return it unchanged on failure.

    Raises:
        GraphError: the transform rejects the graph or its parameters, or leaves an incomplete
            graph.
    """
    transform = context.transform
    ignores = transform.true("ignore_errors")
    try:
        made = TRANSFORMS[transform.name](proto, context)
        made.library.CopyFrom(proto.library)
        if not made.library.ListFields():
            made.ClearField("library")
        made.versions.CopyFrom(proto.versions)
        _check_whole(made, transform)
    except GraphValueError:
        if ignores:
            return proto
        raise
    return made


def _check_whole(proto: Any, transform: Transform) -> None:
    names: set[str] = set()
    for node in proto.node:
        if node.name in names:
            raise GraphValueError(f"{transform} leaves two nodes named {node.name!r}")
        names.add(node.name)
    for node in proto.node:
        for text in node.input:
            if node_name(text) not in names:
                raise GraphValueError(f"{transform} leaves {node.name!r} with the input {text!r}, which was removed")


TRANSFORMS: Final[dict[str, Callable[[Any, TransformContext], Any]]] = {
    "add_default_attributes": each_node(add_default_attributes),
    "arithmetic_optimizer": as_graph(optimize_arithmetic),
    "backport_concatv2": each_node(backport_concatv2),
    "flatten_atrous_conv": flatten_atrous_conv,
    "fold_batch_norms": as_graph(fold_norms),
    "fold_constants": as_graph(fold_all_constants),
    "fold_old_batch_norms": as_graph(fold_norms),
    "fold_subdivmul_batch_norms": as_graph(fold_norms),
    "inline_partitionedcall": as_graph(inline_all_calls),
    "insert_logging": insert_logging,
    "layout": as_graph(change_layout),
    "merge_duplicate_nodes": as_graph(merge_duplicates),
    "obfuscate_names": obfuscate_names,
    "obsfucate_names": obfuscate_names,
    "quantize_weights": quantize_weights,
    "remapper": as_graph(remap),
    "remove_attribute": each_node(remove_attribute),
    "remove_control_dependencies": each_node(remove_control_dependencies),
    "remove_device": each_node(remove_device),
    "remove_nodes": remove_nodes,
    "rename_attribute": each_node(rename_attribute),
    "rename_node": rename_node,
    "rename_op": each_node(rename_op),
    "round_weights": each_node(round_weights),
    "set_device": each_node(set_device),
    "sort_by_execution_order": sort_by_execution_order,
    "strip_unused_nodes": strip_unused_nodes,
}
"""The implemented transforms by the tool's names, and three of Grappler's.

Grappler's are arithmetic_optimizer, layout and remapper.
"""


_EIGHT_BITS: Final = "it creates 8-bit kernels, which XLA does not have; use quantize_weights for 8-bit weights"
_FUSED: Final = "XLA already fuses padding and resizing into their users, and the fused op has no kernel here"
REFUSED: Final[dict[str, str]] = {
    "quantize_nodes": _EIGHT_BITS,
    "quantize_placeholders": _EIGHT_BITS,
    "freeze_requantization_ranges": _EIGHT_BITS,
    "fuse_quantized_conv_and_requantize": _EIGHT_BITS,
    "merge_adjacent_requantizes": _EIGHT_BITS,
    "hoist_fake_quants": _EIGHT_BITS,
    "fake_quantize_training": _EIGHT_BITS,
    "fuse_pad_and_conv": _FUSED,
    "fuse_resize_and_conv": _FUSED,
    "fuse_resize_pad_and_conv": _FUSED,
    "backport_tensor_array_v3": "it creates ops of TensorFlow before 1.0",
    "sparsify_gather": "it creates hash tables that are initialized from files",
}
"""Transforms of the tool that are not implemented, with the reason."""
