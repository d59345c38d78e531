"""Graph to GraphDef, binary and text."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from xlanb.graph import extensions
from xlanb.graph.dtypes import DType
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import attr_to_proto, new_message, shape_to_proto
from xlanb.graph.graphdef.function_body import output_name
from xlanb.graph.operation import Operation, Tensor

_PRODUCER = 2474  # the version that a graph made here says it was made by: TensorFlow 2.21's


def write_graphdef(graph: Graph) -> bytes:
    """Write a binary GraphDef, with ordered fields and sorted maps: equal graphs give equal
    bytes.
    """
    result: bytes = graph_to_proto(graph).SerializeToString(deterministic=True)
    return result


def write_graphdef_text(graph: Graph) -> str:
    """The graph as a GraphDef in text form (.pbtxt)."""
    text: str = text_format.MessageToString(graph_to_proto(graph))
    return text


def graph_to_proto(graph: Graph, add_shapes: bool = False) -> Any:
    """Make a GraphDef message; `add_shapes` adds the attribute `_output_shapes` to each node."""
    proto = new_message("GraphDef")
    if graph.graphdef_rest:
        proto.ParseFromString(graph.graphdef_rest)
    else:
        proto.versions.producer = _PRODUCER
    for op in graph:
        node_to_proto(op, proto.node.add())
    for function in graph.functions.values():
        function_to_proto(function, proto.library.function.add())
    for node in proto.node if add_shapes else ():
        shapes = node.attr["_output_shapes"].list.shape
        for tensor in graph.get_operation_by_name(node.name).outputs:
            shape_to_proto(tensor.shape, shapes.add())
    return proto


extensions.graph_to_proto.implement(graph_to_proto)
extensions.write_graphdef.implement(write_graphdef)
extensions.write_graphdef_text.implement(write_graphdef_text)


def node_to_proto(op: Operation, proto: Any) -> None:
    """Fill a NodeDef. Attributes that are unchanged since reading are written back verbatim."""
    raw = op.raw_attrs or {}
    rest = raw.get("", (None, None))[1]
    if rest is not None:
        proto.ParseFromString(rest)
    proto.name, proto.op, proto.device = op.name, op.type, op.device
    proto.input.extend(op.node_inputs)
    for key in sorted(op.attrs):
        value = op.attrs[key]
        read = raw.get(key)
        if read is None or read[0] is not value:
            attr_to_proto(value, proto.attr[key], _tensor_type(op))
        elif read[1] is not None:  # None: a default that the file did not say
            proto.attr[key].ParseFromString(read[1])


def _tensor_type(op: Operation) -> DType | None:
    found = op.attrs.get("dtype")
    return found if isinstance(found, DType) else None


def function_to_proto(function: GraphFunction, proto: Any) -> None:
    """Fill a FunctionDef: verbatim if it was read, else from the body."""
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
    """Write a tensor as function bodies do: "arg", or "node:output:index" by the op's output
    name.
    """
    if tensor in arg_names:
        return arg_names[tensor]
    name, index = output_name(tensor)
    return f"{tensor.op.name}:{name}:{index}"
