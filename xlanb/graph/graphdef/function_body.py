"""FunctionDef to a graph: the body's nodes with `_Arg` and `_Retval` nodes for the signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlanb.errors import GraphValueError
from xlanb.graph.functions import FunctionArg, GraphFunction
from xlanb.graph.graphdef.attr_values import attr_from_proto, data_type, new_message
from xlanb.graph.names import is_output_number
from xlanb.graph.operation import Tensor
from xlanb.graph.ops import ArgDef, find_op

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph


def read_function(proto: Any, library: Graph, make_body: Callable[[bytes, Graph], Graph]) -> GraphFunction:
    """Read a FunctionDef; `make_body` makes the body on first use.

    The body may call functions of `library`.

    Raises:
        GraphValueError: it has no name, or a type that does not exist.
    """
    name = proto.signature.name
    if not name:
        raise GraphValueError("a function in the graph's library has no name")
    inputs, outputs = (
        [_argument(name, a) for a in args] for args in (proto.signature.input_arg, proto.signature.output_arg)
    )
    attrs = {k: attr_from_proto(v) for k, v in proto.attr.items()}
    serialized = proto.SerializeToString(deterministic=True)
    return GraphFunction(name, tuple(inputs), tuple(outputs), lambda: make_body(serialized, library), serialized, attrs)


def _argument(function: str, proto: Any) -> FunctionArg:
    if proto.type_attr or proto.number_attr or proto.type_list_attr:
        raise GraphValueError(
            f"function {function!r}: argument {proto.name!r} has a type that depends on an attribute, which is "
            "not supported"
        )
    return FunctionArg(proto.name, data_type(proto.type))


def body_nodes(proto: Any, graph: Graph) -> list[Any]:
    """NodeDefs as in a graph: _Arg nodes, the body's nodes with plain inputs, _Retval nodes."""
    arguments = {a.name for a in proto.signature.input_arg}
    ranges = {n.name: _output_ranges(n, graph) for n in proto.node_def}
    nodes = [_signature_node("_Arg", a, i, None) for i, a in enumerate(proto.signature.input_arg)]
    for node in proto.node_def:
        copy = new_message("NodeDef")
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(i if i.startswith("^") else _plain(i, arguments, ranges, node.name) for i in node.input)
        nodes.append(copy)
    taken = {n.name for n in nodes}
    for index, result in enumerate(proto.signature.output_arg):
        if result.name not in proto.ret:
            raise GraphValueError(f"result {result.name!r} is not computed")
        node = _signature_node("_Retval", result, index, _plain(proto.ret[result.name], arguments, ranges, result.name))
        while node.name in taken:
            node.name += "_RetVal"
        taken.add(node.name)
        nodes.append(node)
    return nodes


def _signature_node(op_type: str, argument: Any, index: int, source: str | None) -> Any:
    node = new_message("NodeDef")
    node.name, node.op = argument.name, op_type
    node.attr["T"].type = argument.type
    node.attr["index"].i = index
    if source is not None:
        node.input.append(source)
    return node


def _plain(text: str, arguments: set[str], ranges: dict[str, dict[str, int] | None], reader: str) -> str:
    """An argument's name, or "node:output:index", as a graph writes it: "node:number"."""
    parts = text.split(":")
    if parts[0] in arguments and len(parts) == 1:
        return text
    if parts[0] not in ranges:
        raise GraphValueError(f"{reader!r} has the input {text!r}, which is neither an argument nor a node")
    starts = ranges[parts[0]]
    index = parts[-1] if is_output_number(parts[-1]) else "0"
    if starts is None:  # an op that the table does not know: its outputs are taken to be one each
        return f"{parts[0]}:{index}"
    if len(parts) > 1 and not is_output_number(parts[1]):
        if parts[1] not in starts:
            raise GraphValueError(f"{reader!r} reads {text!r}: the op has no output {parts[1]!r}")
        return f"{parts[0]}:{starts[parts[1]] + int(index)}"
    return f"{parts[0]}:{index}"


def _output_ranges(node: Any, graph: Graph) -> dict[str, int] | None:
    """Return the first tensor's number for each of the op's outputs; None if the op is unknown."""
    if node.op in graph.functions:
        return {o.name: i for i, o in enumerate(graph.functions[node.op].outputs)}
    op_def = find_op(node.op)
    if op_def is None:
        return None
    found: dict[str, int] = {}
    start = 0
    for arg in op_def.outputs:
        found[arg.name] = start
        start += _length(arg, node)
    return found


def _length(arg: ArgDef, node: Any) -> int:
    if arg.number_attr:
        return int(node.attr[arg.number_attr].i) if arg.number_attr in node.attr else 0
    if arg.type_list_attr:
        return len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr in node.attr else 0
    return 1


def output_name(tensor: Tensor) -> tuple[str, int]:
    """The op's output that a tensor belongs to, and its place in it, as function bodies name it."""
    op = tensor.op
    if op.type in op.graph.functions:
        return op.graph.functions[op.type].outputs[tensor.value_index].name, 0
    op_def = find_op(op.type)
    left = tensor.value_index
    for arg in op_def.outputs if op_def is not None else ():
        length = 1
        if arg.number_attr:
            length = int(op.attrs[arg.number_attr])
        elif arg.type_list_attr:
            length = len(op.attrs[arg.type_list_attr])
        if left < length:
            return arg.name, left
        left -= length
    return "output", tensor.value_index
