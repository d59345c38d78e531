"""Read a GraphDef, binary or text, also inside a MetaGraphDef, SavedModel or FunctionDef."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from xlanb.boundary import boundary
from xlanb.errors import GraphError, GraphValueError
from xlanb.files import is_file, is_folder, read_regular
from xlanb.graph import extensions
from xlanb.graph.dtypes import DType
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import attr_from_proto, data_type, new_message
from xlanb.graph.graphdef.function_body import body_nodes, read_function
from xlanb.graph.graphdef.node_check import (
    MOST_TENSORS,
    check_constant,
    check_count,
    check_inputs,
    check_kind,
    complete_attrs,
)
from xlanb.graph.limits import LARGEST_FILE
from xlanb.graph.names import is_output_number
from xlanb.graph.op_library import output_dtypes
from xlanb.graph.operation import Operation
from xlanb.graph.ops import find_op


@boundary("read a GraphDef")
def read_graphdef(source: Any, name: str = "graph") -> Graph:
    """Read a graph from a path to .pb or .pbtxt, bytes, or text (see `parse_graphdef`).

    Raises:
        GraphError: no file, not a GraphDef, or a malformed graph: duplicate names, missing inputs,
            invalid attributes.
    """
    return graph_of_proto(parse_graphdef(source), name)


@boundary("read a GraphDef")
def graph_of_proto(proto: Any, name: str = "graph") -> Graph:
    """Make a graph of a GraphDef message, or of a FunctionDef's body.

    Raises GraphError if malformed.
    """
    if proto.DESCRIPTOR.name == "FunctionDef":
        return read_function(proto, Graph(name), _body).body
    graph = Graph(name)
    for function in proto.library.function:
        found = read_function(function, graph, _body)
        if found.name in graph.functions:
            raise GraphValueError(f"the library has two functions named {found.name!r}")
        graph.functions[found.name] = found
    rest = new_message("GraphDef")
    rest.CopyFrom(proto)
    rest.ClearField("node")
    if rest.HasField("library"):
        rest.library.ClearField("function")
    graph.graphdef_rest = rest.SerializeToString()
    add_nodes(graph, proto.node)
    return graph


@boundary("read a function of a graph")
def _body(serialized: bytes, library: Graph) -> Graph:
    proto = new_message("FunctionDef")
    proto.ParseFromString(serialized)
    name = proto.signature.name
    graph = Graph(name)
    graph.functions = library.functions
    try:
        add_nodes(graph, body_nodes(proto, graph))
    except GraphError as error:
        raise GraphValueError(f"in function {name!r}: {error}") from error
    return graph


def parse_graphdef(source: Any) -> Any:
    """Read a GraphDef or FunctionDef message from a path, bytes or text.

    Of a MetaGraphDef or SavedModel (or its folder) it reads the first graph. Text may have the
    prefixes of log lines.

    Raises:
        GraphError: it cannot be read.
    """
    data, where = _contents(source)
    if isinstance(data, str) or _looks_like_text(data):
        return _parse_text(data.decode("utf-8", "replace") if isinstance(data, bytes) else data, where)
    return _parse_binary(data, where)


def parse_meta_graphs(source: Any) -> list[Any]:
    """The MetaGraphDef messages of a SavedModel, or of one MetaGraphDef. Raises GraphError."""
    data, where = _contents(source)
    if isinstance(data, str) or _looks_like_text(data):
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        model = _text_as("SavedModel", text)
        if isinstance(model, str):
            raise GraphError(f"{where} is not a SavedModel in text form: {model}")
        return list(model.meta_graphs)
    for name in ("SavedModel", "MetaGraphDef"):
        proto = _binary_as(name, data)
        metas = [] if proto is None else list(proto.meta_graphs) if name == "SavedModel" else [proto]
        if any(_is_graph(m.graph_def) for m in metas):
            return metas
    raise GraphError(f"{where} is not a SavedModel or MetaGraphDef: {len(data)} bytes that begin with {data[:16]!r}")


def _contents(source: Any) -> tuple[bytes | str, str]:
    """The bytes or text to parse, and a name for it."""
    if isinstance(source, Message):
        source = source.SerializeToString()
    if isinstance(source, bytes):
        return source, "the graph"
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and "{" not in source):
        path = Path(source)
        if is_folder(path):
            path = next((p for p in (path / "saved_model.pb", path / "saved_model.pbtxt") if is_file(p)), path)
        try:
            data = read_regular(path, LARGEST_FILE)
        except OSError as error:
            raise GraphError(f"cannot read the graph {str(path)!r}: {error.strerror or error}") from error
        except ValueError as error:  # a null byte, or half of a surrogate pair
            raise GraphError(f"{str(path)!r} is neither a path nor the text of a graph: {error}") from error
        if len(data) > LARGEST_FILE:
            raise GraphError(f"the graph {str(path)!r} is larger than the limit of {LARGEST_FILE:,} bytes")
        return data, str(path)
    if not isinstance(source, str):
        raise GraphError(f"expected a path, bytes or text to read a graph from, got {type(source).__name__}")
    return source, "the graph"


_FIELDS = (b"node", b"library", b"version", b"#", b"signature", b"meta_info_def", b"graph_def", b"saved_model_schema")
# Prefixes of log lines: absl's, TensorFlow's of 2017, Python's.
_LOG_PREFIX = re.compile(r"^(?:[IWEF]\d{4} |\d{4}-\d\d-\d\d |\[?(?:INFO|WARNING|ERROR|DEBUG)\b).*?\] ?", re.MULTILINE)
_FIRST_FIELD = re.compile(r"^(?:node|library|versions|signature|meta_info_def|graph_def) *\{", re.MULTILINE)


def _looks_like_text(data: bytes) -> bool:
    """Whether this is text: it begins with a field name, a comment or a log prefix.

    A binary GraphDef has a field tag and a length there.
    """
    if b"\x00" in data[:1024]:
        return False
    head = data[:64].lstrip()
    return head.startswith(_FIELDS) or _LOG_PREFIX.match(data[:256].decode("latin-1")) is not None


def _binary_as(name: str, data: bytes) -> Any:
    """Parse a message of this kind; None if the bytes are not one."""
    proto = new_message(name)
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return None  # that is the answer
    return proto


def _is_graph(proto: Any) -> bool:
    """Whether a GraphDef's nodes look like nodes: other messages read as a GraphDef do not."""
    return bool(proto.node or proto.library.function) and all(_OP_TYPE.fullmatch(n.op) for n in proto.node)


_OP_TYPE = re.compile(r"[A-Za-z0-9_.>-]+")


def _parse_binary(data: bytes, where: str) -> Any:
    proto = new_message("GraphDef")
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        other = _other_kind(data)
        if other is not None:
            return other
        raise GraphError(
            f"{where} is not a binary GraphDef ({error}): {len(data)} bytes that begin with {data[:16]!r}"
        ) from error
    if data and not _is_graph(proto) and (other := _other_kind(data)) is not None:
        return other
    return proto


def _other_kind(data: bytes) -> Any:
    """Return the graph of a SavedModel, MetaGraphDef or FunctionDef, or None."""
    model = _binary_as("SavedModel", data)
    for meta in model.meta_graphs if model is not None else ():
        if _is_graph(meta.graph_def):
            return meta.graph_def
    meta = _binary_as("MetaGraphDef", data)
    if meta is not None and _is_graph(meta.graph_def):
        return meta.graph_def
    function = _binary_as("FunctionDef", data)
    is_function = function is not None and function.signature.name and function.node_def
    return function if is_function and all(_OP_TYPE.fullmatch(n.op) for n in function.node_def) else None


def _text_as(name: str, text: str) -> Any:
    """Parse a message, or return the error in the text."""
    proto = new_message(name)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        return f"line {line}: {text[error.start]!r} is half of a surrogate pair, which UTF-8 cannot encode"
    try:
        text_format.Parse(text, proto, allow_unknown_field=True)
    except (text_format.ParseError, ValueError) as error:  # a number out of its field's range is a ValueError
        return str(error)
    except RecursionError:
        return "messages are nested too deeply"
    return proto


def _parse_text(text: str, where: str) -> Any:
    text = _LOG_PREFIX.sub("", text)
    first = _FIRST_FIELD.search(text)
    if first is not None and not text.lstrip().startswith(tuple(f.decode() for f in _FIELDS)):
        text = text[first.start() :]
    head = text.lstrip()
    kind = "FunctionDef" if head.startswith("signature") else "GraphDef"
    kind = "MetaGraphDef" if head.startswith(("meta_info_def", "graph_def")) else kind
    kind = "SavedModel" if head.startswith("saved_model_schema") else kind
    proto = _text_as(kind, text)
    if isinstance(proto, str):
        raise GraphError(f"{where} is not a {kind} in text form: {proto}")
    if kind == "SavedModel":
        if not proto.meta_graphs:
            raise GraphError(f"{where} is a SavedModel without a graph")
        return proto.meta_graphs[0].graph_def
    return proto.graph_def if kind == "MetaGraphDef" else proto


def add_nodes(graph: Graph, nodes: Iterable[Any]) -> None:
    """Make the nodes of NodeDef messages. Inputs may come after their users, as in loops.

    Raises:
        GraphValueError: as for `read_graphdef`; the message names the node.
    """
    protos = list(nodes)
    arity = _outputs_read(protos)
    for proto in protos:
        _make(graph, proto, arity.get(proto.name, 0))
    for proto in protos:
        _connect(graph, proto)
    for op in graph:
        op.graph.names.mark_scopes(op.name)


def _outputs_read(protos: list[Any]) -> dict[str, int]:
    """The number of outputs of each node that are used: a lower bound for ops that the table does
    not contain.
    """
    found: dict[str, int] = {}
    for proto in protos:
        for text in proto.input:
            if not text.startswith("^"):
                name, index = _input(text, proto.name)
                found[name] = max(found.get(name, 0), index + 1)
    return found


def _input(text: str, reader: str) -> tuple[str, int]:
    name, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    if not is_output_number(index) or int(index) >= MOST_TENSORS:
        raise GraphValueError(f"node {reader!r} has the malformed input {text!r}")
    return name, int(index)


def _make(graph: Graph, proto: Any, read: int) -> Operation:
    attrs: dict[str, Any] = {}
    raw: dict[str, tuple[Any, bytes | None]] = {}
    op_def = find_op(proto.op)
    definitions = op_def.attr_defs if op_def is not None else {}
    for key, message in proto.attr.items():
        check_kind(proto, key, message, definitions.get(key))
        try:
            attrs[key] = attr_from_proto(message)
        except GraphError as error:
            raise GraphValueError(f"node {proto.name!r} (op {proto.op}): attribute {key!r}: {error}") from error
        raw[key] = (attrs[key], message.SerializeToString())
    if op_def is not None:
        check_constant(proto, f"node {proto.name!r} (op {proto.op})")
        check_count(op_def, attrs, f"node {proto.name!r} (op {proto.op})")
        for key in complete_attrs(op_def, attrs, f"node {proto.name!r} (op {proto.op})"):
            raw[key] = (attrs[key], None)
    try:
        types = _types(graph, proto, attrs, read)
    except GraphError as error:
        raise GraphValueError(f"node {proto.name!r} (op {proto.op}): {error}") from error
    op = graph.add_op(proto.op, proto.name, (), types, attrs, device=proto.device)
    op.raw_attrs = raw
    if proto.HasField("experimental_debug_info") or proto.experimental_type:
        rest = new_message("NodeDef")
        rest.CopyFrom(proto)
        for field in ("name", "op", "input", "device", "attr"):
            rest.ClearField(field)
        op.raw_attrs[""] = (None, rest.SerializeToString())
    return op


def _types(graph: Graph, proto: Any, attrs: dict[str, Any], read: int) -> list[DType]:
    """Return the outputs' types; for unknown ops, one per used output, of an attribute's type."""
    if proto.op in graph.functions or find_op(proto.op) is not None:
        return output_dtypes(proto.op, attrs, (), proto.name, graph)
    listed = next(
        (attrs[k] for k in ("Tout", "output_types", "out_types", "_output_types") if isinstance(attrs.get(k), tuple)),
        None,
    )
    if listed is not None and all(isinstance(t, DType) for t in listed):
        return list(listed)
    named = next(
        (attrs[k] for k in ("dtype", "T", "out_type", "DstT", "Tout") if isinstance(attrs.get(k), DType)), data_type(21)
    )
    return [named] * read


def _connect(graph: Graph, proto: Any) -> None:
    op = graph.get_operation_by_name(proto.name)
    for text in proto.input:
        if text.startswith("^"):
            op.add_control_input(_source(graph, text[1:], proto.name))
            continue
        name, index = _input(text, proto.name)
        source = _source(graph, name, proto.name)
        if index >= len(source.outputs):
            raise GraphValueError(
                f"node {proto.name!r} uses output {index} of {source!r}, which has {len(source.outputs)} outputs"
            )
        op.add_input(source.outputs[index])
    check_inputs(op)


def _source(graph: Graph, name: str, reader: str) -> Operation:
    if name not in graph:
        raise GraphValueError(f"node {reader!r} uses {name!r}, which is not in the graph")
    return graph.get_operation_by_name(name)


extensions.read_graphdef.implement(read_graphdef)
