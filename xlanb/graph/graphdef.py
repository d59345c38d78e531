"""GraphDef, binary and text, to Graph and back, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from xlanb.errors import GraphError, GraphValueError
from xlanb.graph.attr_values import attr_from_proto, attr_to_proto, data_type, new_message
from xlanb.graph.dtypes import DType
from xlanb.graph.function_body import read_function
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import output_dtypes
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import find_op

_PRODUCER = 2474  # the version that a graph made here says it was made by: TensorFlow 2.21's


def read_graphdef(source: Any, name: str = "graph") -> Graph:
    """The graph of a GraphDef: a path to .pb or .pbtxt, bytes, or text.

    Raises:
        GraphError: no file, not a GraphDef, or a graph that is not well formed: names used twice, inputs that are not there, attributes that do not fit.
    """
    proto = parse_graphdef(source)
    graph = Graph(name)
    for function in proto.library.function:
        found = read_function(function, graph)
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


def parse_graphdef(source: Any) -> Any:
    """The GraphDef message of a path, bytes or text. Raises GraphError."""
    if isinstance(source, Message):
        source = source.SerializeToString()
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and "{" not in source):
        try:
            data: bytes | str = Path(source).read_bytes()
        except OSError as error:
            raise GraphError(f"cannot read the graph {str(source)!r}: {error.strerror or error}") from error
        where = str(source)
    else:
        data, where = source, "the graph"
    if isinstance(data, bytes) and not _looks_like_text(data):
        return _parse_binary(data, where)
    if not isinstance(data, bytes | str):
        raise GraphError(f"a graph is read from a path, bytes or text, not from {type(data).__name__}")
    return _parse_text(data.decode("utf-8", "replace") if isinstance(data, bytes) else data, where)


def _looks_like_text(data: bytes) -> bool:
    """Texts begin with a field's name or a comment; in a binary GraphDef a length stands there, behind the field's tag."""
    head = data[:64].lstrip()
    return head.startswith((b"node", b"library", b"version", b"#", b"signature")) and b"\x00" not in data[:1024]


def _parse_binary(data: bytes, where: str) -> Any:
    proto = new_message("GraphDef")
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise GraphError(
            f"{where} is not a binary GraphDef ({error}): {len(data)} bytes that begin with {data[:16]!r}"
        ) from error
    return proto


def _parse_text(text: str, where: str) -> Any:
    proto = new_message("GraphDef")
    try:
        text_format.Parse(text, proto, allow_unknown_field=True)
    except text_format.ParseError as error:
        hint = " It begins like a FunctionDef, which is not a graph." if text.lstrip().startswith("signature") else ""
        raise GraphError(f"{where} is not a GraphDef in text form: {error}.{hint}") from error
    return proto


def add_nodes(graph: Graph, nodes: Iterable[Any]) -> None:
    """Make the nodes of NodeDef messages. Inputs may stand behind their readers (loops do).

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
    """How many outputs of each node are read: at least so many has an op that the table does not know."""
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
    if not index.isdigit() or len(index) > 6:
        raise GraphValueError(f"node {reader!r} has the malformed input {text!r}")
    return name, int(index)


def _make(graph: Graph, proto: Any, read: int) -> Operation:
    attrs: dict[str, Any] = {}
    raw: dict[str, tuple[Any, bytes]] = {}
    for key, message in proto.attr.items():
        try:
            attrs[key] = attr_from_proto(message)
        except GraphError as error:
            raise GraphValueError(f"node {proto.name!r} (op {proto.op}): attribute {key!r}: {error}") from error
        raw[key] = (attrs[key], message.SerializeToString())
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
    """The types of the outputs; of ops that the table does not know, as many as are read, of the type that an attribute names."""
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
                f"node {proto.name!r} reads output {index} of {source!r}, which has {len(source.outputs)}"
            )
        op.add_input(source.outputs[index])


def _source(graph: Graph, name: str, reader: str) -> Operation:
    if name not in graph:
        raise GraphValueError(f"node {reader!r} reads {name!r}, which the graph does not have")
    return graph.get_operation_by_name(name)


# ------------------------------------------------------------------------------------------------------------ writing


def write_graphdef(graph: Graph) -> bytes:
    """The graph as a binary GraphDef; fields are in order and maps sorted, so that equal graphs give equal bytes."""
    result: bytes = graph_to_proto(graph).SerializeToString(deterministic=True)
    return result


def write_graphdef_text(graph: Graph) -> str:
    """The graph as a GraphDef in text form (.pbtxt)."""
    text: str = text_format.MessageToString(graph_to_proto(graph))
    return text


def graph_to_proto(graph: Graph) -> Any:
    """The GraphDef message of a graph."""
    proto = new_message("GraphDef")
    if graph.graphdef_rest:
        proto.ParseFromString(graph.graphdef_rest)
    else:
        proto.versions.producer = _PRODUCER
    for op in graph:
        node_to_proto(op, proto.node.add())
    for function in graph.functions.values():
        function_to_proto(function, proto.library.function.add())
    return proto


def node_to_proto(op: Operation, proto: Any) -> None:
    """Fill a NodeDef. An attribute that is still the value that was read is written as it was."""
    raw = op.raw_attrs or {}
    if "" in raw:
        proto.ParseFromString(raw[""][1])
    proto.name, proto.op, proto.device = op.name, op.type, op.device
    proto.input.extend(op.node_inputs)
    for key in sorted(op.attrs):
        value = op.attrs[key]
        target = proto.attr[key]
        read = raw.get(key)
        if read is not None and read[0] is value:
            target.ParseFromString(read[1])
        else:
            attr_to_proto(value, target, _tensor_type(op))


def _tensor_type(op: Operation) -> DType | None:
    found = op.attrs.get("dtype")
    return found if isinstance(found, DType) else None


def function_to_proto(function: GraphFunction, proto: Any) -> None:
    """Fill a FunctionDef: as it was read, or from the body."""
    if function.serialized:
        proto.ParseFromString(function.serialized)
        return
    signature = proto.signature
    signature.name = function.name
    arg_names: dict[Tensor, str] = {}
    for op in function.body:
        if op.type == "_Arg":
            arg_names[op.outputs[0]] = op.name
    for arg in function.inputs:
        signature.input_arg.add(name=arg.name, type=arg.dtype.as_datatype_enum)
    for result in function.outputs:
        signature.output_arg.add(name=result.name, type=result.dtype.as_datatype_enum)
    for op in function.body:
        if op.type == "_Retval":
            proto.ret[op.name] = _body_input(op.inputs[0], arg_names)
        elif op.type != "_Arg":
            node = proto.node_def.add()
            node_to_proto(op, node)
            controls = [i for i in node.input if i.startswith("^")]
            del node.input[:]
            node.input.extend([*(_body_input(t, arg_names) for t in op.inputs), *controls])


def _body_input(tensor: Tensor, arg_names: dict[Tensor, str]) -> str:
    """A tensor as function bodies write it: "arg", or "node:output:index" by the name of the op's output."""
    if tensor in arg_names:
        return arg_names[tensor]
    from xlanb.graph.function_body import output_name

    name, index = output_name(tensor)
    return f"{tensor.op.name}:{name}:{index}"
