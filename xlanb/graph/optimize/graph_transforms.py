"""The transforms of TensorFlow's Graph Transform Tool, by name, on GraphDefs.

    transforms = parse_transforms(["strip_unused_nodes", "remove_nodes(op=Identity, op=Snapshot)"])

Each takes a GraphDef message and returns a new one. Source of the semantics: the README and the
sources of tensorflow/tools/graph_transforms, which was in TensorFlow 1.0 to 2.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphError, GraphValueError, nearest
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import graph_of_proto, graph_to_proto
from xlanb.graph.graphdef.attr_values import attr_to_proto, new_message, tensor_from_proto, tensor_to_proto
from xlanb.graph.ops import find_op
from xlanb.graph.optimize.fold_batch_norms import fold_batch_norms
from xlanb.graph.optimize.grappler import Rewrite, arithmetic_optimizer, layout, remapper
from xlanb.graph.optimize.inline import inline_calls
from xlanb.graph.optimize.steps import Evaluate, fold_constants, merge_common_subgraphs
from xlanb.graph.tensor_shape import TensorShape

_TRANSFORM: Final = re.compile(r"\s*(?P<name>\w+)(?P<open>\()?")
_PARAMETER: Final = re.compile(r"[\s,]*(?P<name>\w+)=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<plain>[\w./:-]+))['\"]?")
_CLOSE: Final = re.compile(r"[\s,]*\)")
_SMALLEST: Final = 16
"""Constants with fewer elements are not rounded."""


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


# ---------------------------------------------------------------------- transforms, by what they do


def _copy(proto: Any) -> Any:
    made = new_message("GraphDef")
    made.CopyFrom(proto)
    return made


def _with_nodes(proto: Any, nodes: Iterable[Any]) -> Any:
    made = new_message("GraphDef")
    made.node.extend(nodes)
    return made


def _each(change: Callable[[Any, TransformContext], None]) -> Callable[[Any, TransformContext], Any]:
    """Make a transform that changes every node independently."""

    def transform(proto: Any, context: TransformContext) -> Any:
        made = _copy(proto)
        for node in made.node:
            change(node, context)
        return made

    return transform


def _as_graph(change: Callable[[Graph, TransformContext], Graph]) -> Callable[[Any, TransformContext], Any]:
    """A transform of the graph that a GraphDef holds."""

    def transform(proto: Any, context: TransformContext) -> Any:
        return graph_to_proto(change(graph_of_proto(proto), context))

    return transform


def _rename_inputs(nodes: Iterable[Any], new: Callable[[str], str]) -> None:
    """Give each input another text; control inputs keep their ^."""
    for node in nodes:
        for k, text in enumerate(node.input):
            node.input[k] = new(text)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    caret = "^" if text.startswith("^") else ""
    name, colon, port = text.removeprefix("^").partition(":")
    return caret + names.get(name, name) + colon + port


def _add_default_attributes(node: Any, _context: TransformContext) -> None:
    definition = find_op(node.op)
    for attr in definition.attrs if definition is not None else ():
        if attr.has_default and attr.name not in node.attr:
            attr_to_proto(attr.default, node.attr[attr.name])


def _folded_norms(graph: Graph, context: TransformContext) -> Graph:
    return fold_batch_norms(graph, context.keep)


def _folded_constants(graph: Graph, context: TransformContext) -> Graph:
    fed = {node_name(name) for name in context.inputs}
    folded = fold_constants(graph, context.keep, fed, context.evaluate, identities=True)
    if context.transform.true("clear_output_shapes", True) and any("_output_shapes" in op.attrs for op in folded):
        folded = folded.copy()
        for op in folded:
            if "_output_shapes" in op.attrs:
                op.remove_attr("_output_shapes")
    return folded


def _merged(graph: Graph, context: TransformContext) -> Graph:
    fed = {node_name(name) for name in context.inputs}
    while (merged := merge_common_subgraphs(graph, context.keep, fed)) is not graph:
        graph = merged
    return graph


def _fed(context: TransformContext) -> frozenset[str]:
    return frozenset(map(node_name, context.inputs))


def _arithmetic(graph: Graph, context: TransformContext) -> Graph:
    made, rewrites = arithmetic_optimizer(graph, context.keep, _fed(context))
    context.rewrites.extend(rewrites)
    return made


def _remapped(graph: Graph, context: TransformContext) -> Graph:
    made, rewrites = remapper(graph, context.keep, _fed(context))
    context.rewrites.extend(rewrites)
    return made


def _laid_out(graph: Graph, context: TransformContext) -> Graph:
    made, rewrites = layout(graph, context.keep, _fed(context), context.transform.one("to", "NCHW"))
    context.rewrites.extend(rewrites)
    return made


def _inlined(graph: Graph, _context: TransformContext) -> Graph:
    copy = graph.copy()
    inline_calls(copy)
    return copy


def _strip_unused_nodes(proto: Any, context: TransformContext) -> Any:
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
    return _with_nodes(proto, (_placeholder(n, context) if n.name in fed else n for n in nodes))


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


def _remove_nodes(proto: Any, context: TransformContext) -> Any:
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

    made = _with_nodes(proto, (node for node in proto.node if node.name not in gone))
    _rename_inputs(made.node, source)
    return made


def _remove_attribute(node: Any, context: TransformContext) -> None:
    name, op = context.transform.one("attribute_name"), context.transform.one("op_name", "")
    if op in ("", node.op) and name in node.attr:
        del node.attr[name]


def _rename_attribute(node: Any, context: TransformContext) -> None:
    transform = context.transform
    old, new = transform.one("old_attribute_name"), transform.one("new_attribute_name")
    if transform.one("op_name", "") in ("", "*", node.op) and old in node.attr:
        node.attr[new].CopyFrom(node.attr[old])
        del node.attr[old]


def _rename_op(node: Any, context: TransformContext) -> None:
    old, new = context.transform.one("old_op_name"), context.transform.one("new_op_name")
    if node.op == old:
        node.op = new


def _rename_node(proto: Any, context: TransformContext) -> Any:
    old, new = context.transform.one("old_node_name"), context.transform.one("new_node_name")
    names = {node.name for node in proto.node}
    if old not in names:
        raise GraphValueError(f"the graph has no operation named {old!r}{nearest(old, names)}")
    return _with_names(proto, {old: new})


def _with_names(proto: Any, names: Mapping[str, str]) -> Any:
    made = _copy(proto)
    for node in made.node:
        node.name = names.get(node.name, node.name)
        if "_class" in node.attr:  # colocated with a node, by its name
            places = node.attr["_class"].list.s
            for k, place in enumerate(places):
                kept = place.decode("utf-8", "surrogateescape").removeprefix("loc:@")
                if kept in names:
                    places[k] = f"loc:@{names[kept]}".encode()
    _rename_inputs(made.node, lambda text: _renamed(text, names))
    return made


def _obfuscate_names(proto: Any, context: TransformContext) -> Any:
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


def _remove_device(node: Any, _context: TransformContext) -> None:
    node.device = ""


def _set_device(node: Any, context: TransformContext) -> None:
    if not (context.transform.true("if_default") and node.device):
        node.device = context.transform.one("device", "")


def _remove_control_dependencies(node: Any, _context: TransformContext) -> None:
    kept = [text for text in node.input if not text.startswith("^")]
    del node.input[:]
    node.input.extend(kept)


def _sort_by_execution_order(proto: Any, _context: TransformContext) -> Any:
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
    return _with_nodes(proto, (by_name[name] for name in order))


def _large_floats(node: Any, smallest: int) -> np.ndarray[Any, Any] | None:
    """The value of a float Const with at least this many elements."""
    if node.op != "Const" or node.attr["value"].tensor.dtype != as_dtype("float32").as_datatype_enum:
        return None
    value = tensor_from_proto(node.attr["value"].tensor)
    return value if value.size >= smallest and np.all(np.isfinite(value)) else None


def _range(value: np.ndarray[Any, Any]) -> tuple[float, float]:
    low, high = float(value.min()), float(value.max())
    if low < high:
        return low, high
    if abs(low) < 1e-6:
        return low, low + 1
    return (low, 2 * low) if low > 0 else (2 * high, high)


def _round_weights(node: Any, context: TransformContext) -> None:
    """Round each value of a large constant to the middle of one of num_steps equal steps of its
    range.
    """
    steps = context.transform.whole("num_steps", 256)
    if steps < 1:
        raise GraphValueError(f"round_weights(num_steps=...) expects a positive number, got {steps}")
    value = _large_floats(node, _SMALLEST)
    if value is None:
        return
    low, high = _range(value)
    width = np.float32((high - low) / steps)
    bucket = np.minimum(np.floor((value - np.float32(low)) / width), np.float32(steps - 1))
    rounded = np.float32(low) + width * (bucket + np.float32(0.5))
    _set_value(node, rounded.astype(np.float32), as_dtype("float32"))


def _set_value(node: Any, value: np.ndarray[Any, Any], dtype: DType) -> None:
    node.attr["value"].tensor.Clear()
    tensor_to_proto(value, dtype, node.attr["value"].tensor)
    attr_to_proto(dtype, node.attr["dtype"])


def _quantize_weights(proto: Any, context: TransformContext) -> Any:
    """Large float constants become eight bits and a Dequantize of their name."""
    smallest = context.transform.whole("minimum_size", 1024)
    made = new_message("GraphDef")
    for node in proto.node:
        value = _large_floats(node, smallest)
        if value is None:
            made.node.add().CopyFrom(node)
            continue
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        high = high if low < high else 1.0
        steps = 255 / (high - low)
        codes = np.clip(np.round(value * steps) - np.round(low * steps), 0, 255).astype(np.uint8)
        parts = {"const": (codes, "quint8"), "min": (np.float32(low), "float32"), "max": (np.float32(high), "float32")}
        for what, (part, dtype) in parts.items():
            const = made.node.add()
            const.name, const.op, const.device = f"{node.name}_quantized_{what}", "Const", node.device
            _set_value(const, np.asarray(part), as_dtype(dtype))
        back = made.node.add()
        back.name, back.op, back.device = node.name, "Dequantize", node.device
        back.input.extend(f"{node.name}_quantized_{what}" for what in parts)
        attr_to_proto(as_dtype("quint8"), back.attr["T"])
        attr_to_proto("MIN_FIRST", back.attr["mode"])
    return made


def _insert_logging(proto: Any, context: TransformContext) -> Any:
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
        _rename_inputs([copy], lambda text: _logged(text, logged))
        if node.name in prints:
            made.node.add().CopyFrom(prints[node.name])
    return made


def _logged(text: str, logged: Mapping[str, str]) -> str:
    """The Print instead of a node's first output."""
    name, _, port = text.partition(":")
    return logged[name] if port in ("", "0") and name in logged else text


def _flatten_atrous_conv(proto: Any, context: TransformContext) -> Any:
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
    return _with_nodes(proto, found)


def _backport_concatv2(node: Any, _context: TransformContext) -> None:
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


TRANSFORMS: Final[dict[str, Callable[[Any, TransformContext], Any]]] = {
    "add_default_attributes": _each(_add_default_attributes),
    "arithmetic_optimizer": _as_graph(_arithmetic),
    "backport_concatv2": _each(_backport_concatv2),
    "flatten_atrous_conv": _flatten_atrous_conv,
    "fold_batch_norms": _as_graph(_folded_norms),
    "fold_constants": _as_graph(_folded_constants),
    "fold_old_batch_norms": _as_graph(_folded_norms),
    "fold_subdivmul_batch_norms": _as_graph(_folded_norms),
    "inline_partitionedcall": _as_graph(_inlined),
    "insert_logging": _insert_logging,
    "layout": _as_graph(_laid_out),
    "merge_duplicate_nodes": _as_graph(_merged),
    "obfuscate_names": _obfuscate_names,
    "obsfucate_names": _obfuscate_names,
    "quantize_weights": _quantize_weights,
    "remapper": _as_graph(_remapped),
    "remove_attribute": _each(_remove_attribute),
    "remove_control_dependencies": _each(_remove_control_dependencies),
    "remove_device": _each(_remove_device),
    "remove_nodes": _remove_nodes,
    "rename_attribute": _each(_rename_attribute),
    "rename_node": _rename_node,
    "rename_op": _each(_rename_op),
    "round_weights": _each(_round_weights),
    "set_device": _each(_set_device),
    "sort_by_execution_order": _sort_by_execution_order,
    "strip_unused_nodes": _strip_unused_nodes,
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
