"""tf.GraphDef, tf.import_graph_def and tf.graph_util: graphs as protobuf messages.

Source: python/framework/{importer,graph_util_impl}.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xlanb.boundary import boundary
from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.convert import make_array
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import attr_from_proto, attr_to_proto, new_message
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_nodes, needed_by


def GraphDef() -> Any:  # noqa: N802 - TensorFlow's name
    """An empty GraphDef message, to be filled by ParseFromString or protobuf's text_format."""
    return new_message("GraphDef")


def as_graph_def(graph: Graph) -> Any:
    """A graph as a GraphDef message."""
    found = new_message("GraphDef")
    found.ParseFromString(graph.to_graphdef())
    return found


@boundary("import a GraphDef")
def import_graph_def(
    graph_def: Any, input_map: Mapping[str, Any] | None = None, return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None, producer_op_list: Any = None,
) -> list[Any] | None:  # fmt: skip
    """Copy a GraphDef's nodes into the default graph, below the scope `name` ("import").

    `input_map`: names of its tensors -> tensors to read instead; `return_elements`: names of nodes
    and tensors to return.

    Raises:
        GraphValueError: a name is not in it.
    """
    source = Graph.from_graphdef(graph_def if isinstance(graph_def, bytes) else graph_def.SerializeToString())
    graph = get_default_graph()
    for label, function in source.functions.items():
        graph.functions.setdefault(label, function)
    mapped = {_tensor_name(k): v for k, v in (input_map or {}).items()}
    unknown = [k for k in mapped if k.rpartition(":")[0] not in source]
    if unknown:
        raise GraphValueError(f"Attempted to map inputs that were not found in graph_def: [{', '.join(unknown)}]")
    with graph.name_scope("import" if name is None else name or None) as scope:
        copies = _copied(source, graph, scope, mapped)
    if return_elements is None:
        return None
    return [_element(source, copies, e) for e in return_elements]


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _copied(source: Graph, graph: Graph, scope: str, mapped: Mapping[str, Any]) -> dict[Operation, Operation]:
    outside = {source.get_tensor_by_name(name): tensor for name, tensor in mapped.items()}
    copies = copy_nodes(source, graph, lambda op: f"{scope}{op.name}", outside)
    for copy in copies.values():
        if "_class" in copy.attrs:
            copy.attrs["_class"] = tuple(
                g.replace("loc:@", f"loc:@{scope}", 1) if isinstance(g, str) else g for g in copy.attrs["_class"]
            )
    return copies


def _element(source: Graph, copies: Mapping[Operation, Operation], name: str) -> Operation | Tensor:
    found = source.as_graph_element(name)
    return copies[found] if isinstance(found, Operation) else copies[found.op].outputs[found.value_index]


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Write a graph to logdir/name, as text or binary; return the path."""
    message = as_graph_def(graph_or_graph_def) if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    path = Path(logdir) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if as_text:
        from google.protobuf import text_format

        path.write_text(text_format.MessageToString(message), encoding="utf-8")
    else:
        path.write_bytes(message.SerializeToString())
    return str(path)


def extract_sub_graph(graph_def: Any, dest_nodes: Sequence[str]) -> Any:
    """The nodes that these need, as a GraphDef message."""
    source = Graph.from_graphdef(graph_def.SerializeToString())
    kept = needed_by([source.get_operation_by_name(n) for n in dest_nodes])
    return as_graph_def(source.copy(kept))


def convert_variables_to_constants(
    sess: Any,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Any = None,
    variable_names_blacklist: Any = None,
) -> Any:
    """Freeze a graph: a GraphDef of the nodes that these need, with variables as constants.

    The values are those in the session.
    """
    found = extract_sub_graph(input_graph_def, output_node_names)
    graph = Graph.from_graphdef(found.SerializeToString())
    for op in graph.get_operations():
        if op.type not in {"VariableV2", "Variable", "VarHandleOp"}:
            continue
        if op.name in (variable_names_blacklist or ()) or (
            variable_names_whitelist and op.name not in variable_names_whitelist
        ):
            continue
        _freeze(graph, op, sess.read_variable(op.name))
    return as_graph_def(graph)


def _freeze(graph: Graph, op: Operation, value: Any) -> None:
    dtype = op.attrs["dtype"] if op.type == "VarHandleOp" else op.outputs[0].dtype.base_dtype
    readers = list(op.outputs[0].consumers())
    constant = graph.add_op(
        "Const", graph.unique_name(f"{op.name}/value"), (), [dtype], {"dtype": dtype, "value": value}
    )
    name = op.name
    for reader in readers:
        if op.type == "VarHandleOp":
            new = graph.add_op(
                "Identity", graph.unique_name(f"{reader.name}/frozen"), [constant.outputs[0]], [dtype], {"T": dtype}
            )
            reader.outputs[0].replace_uses(new.outputs[0])
            old = reader.name
            graph.remove_ops([reader])
            graph.rename(new, old)
        else:
            reader.set_inputs([constant.outputs[0] if t is op.outputs[0] else t for t in reader.inputs])
    graph.remove_ops([op])
    graph.rename(constant, name)


def make_ndarray(tensor: Any) -> Any:
    """The array of a TensorProto message."""
    wrapped = new_message("AttrValue")
    wrapped.tensor.ParseFromString(tensor.SerializeToString())
    return attr_from_proto(wrapped)


def make_tensor_proto(values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False) -> Any:
    """A TensorProto message of a value."""
    array, _ = make_array(values, None if dtype is None else dtypes.as_dtype(dtype))
    wrapped = new_message("AttrValue")
    attr_to_proto(array.reshape(shape) if shape is not None else array, wrapped)
    return wrapped.tensor
