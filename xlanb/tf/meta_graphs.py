"""tf.train.export_meta_graph: a graph with its collections as a MetaGraphDef, and back.

Source: python/framework/meta_graph.py and the messages of meta_graph.proto and variable.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xlanb.boundary import boundary
from xlanb.errors import GraphError, GraphValueError
from xlanb.files import path_to_write, replace_file
from xlanb.graph.builders.variables import GraphKeys, ResourceVariable, Variable
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.graphdef.reader import parse_meta_graphs
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf.graph_defs import import_graph_def
from xlanb.tf.versions import VERSION

_OF_VARIABLES: Final = (
    GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.MODEL_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.GLOBAL_STEP, "metric_variables",
)  # fmt: skip
"""Collections whose entries are VariableDefs."""
_NOT_READ: Final = (
    GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT, GraphKeys.QUEUE_RUNNERS, GraphKeys.SAVERS
)  # fmt: skip
"""Collections of messages that describe what the nodes tell by themselves."""


def export_meta_graph(
    filename: str | None = None, graph: Graph | None = None, as_text: bool = False, **_ignored: Any
) -> Any:
    """Return the graph as a MetaGraphDef message, and write it to a file if one is given.

    Collections of variables, nodes, texts and numbers are kept; other objects are left out.

    Raises:
        ArgumentError: no file can have this name.
    """
    found = graph or get_default_graph()
    message = new_message("MetaGraphDef")
    message.meta_info_def.tensorflow_version = VERSION
    message.graph_def.ParseFromString(found.to_graphdef())
    for key, values in found.collections.items():
        if values:
            _write_collection(message.collection_def, key, values)
    if filename:
        from google.protobuf import text_format

        data = text_format.MessageToString(message).encode() if as_text else message.SerializeToString()
        path = path_to_write(filename)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    return message


def _write_collection(collections: Any, key: str, values: list[Any]) -> None:
    if all(isinstance(v, Variable) for v in values):
        collections[key].bytes_list.value.extend(_variable_def(v).SerializeToString() for v in values)
    elif all(isinstance(v, Tensor | Operation) for v in values):
        collections[key].node_list.value.extend(v.name for v in values)
    elif all(isinstance(v, str | bytes) for v in values):
        collections[key].bytes_list.value.extend(v.encode() if isinstance(v, str) else v for v in values)
    elif all(isinstance(v, int) for v in values):
        collections[key].int64_list.value.extend(int(v) for v in values)
    elif all(isinstance(v, float | int) for v in values):
        collections[key].float_list.value.extend(float(v) for v in values)


def _variable_def(variable: Variable) -> Any:
    made = new_message("VariableDef")
    made.variable_name, made.initializer_name = variable.name, variable.initializer.name
    made.initial_value_name, made.trainable = variable.initial_value.name, variable.trainable
    made.is_resource = isinstance(variable, ResourceVariable)
    snapshot = variable.graph.as_graph_element(variable) if made.is_resource else variable.value()
    made.snapshot_name = snapshot.name
    return made


@boundary("read a MetaGraphDef")
def read_meta_graph(meta_graph_or_file: Any) -> Any:
    """The MetaGraphDef of a message, its bytes, or the path of a .meta file. Raises GraphError."""
    return parse_meta_graphs(meta_graph_or_file)[0]


@boundary("import a MetaGraphDef")
def add_meta_graph(meta: Any, clear_devices: bool = False, import_scope: str | None = None) -> dict[str, Any]:
    """Add a MetaGraphDef's nodes and collections to the default graph.

    Returns the variables of the collection "variables" by their names in the message, under which
    checkpoints hold them.

    Raises:
        GraphError: the graph is invalid, or a collection names a node that it lacks.
    """
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    graph = get_default_graph()
    import_graph_def(meta.graph_def, name=import_scope or "")
    reader = _Collections(graph, f"{import_scope.rstrip('/')}/" if import_scope else "")
    for key in sorted(meta.collection_def):
        graph.get_collection_ref(key).extend(reader.values(key, meta.collection_def[key]))
    return reader.named


class _Collections:
    """Reads collections: what they name in the graph, and variables, each made once."""

    def __init__(self, graph: Graph, scope: str) -> None:
        self._graph, self._scope = graph, scope
        self._variables: dict[str, Variable] = {}
        self.named: dict[str, Any] = {}

    def values(self, key: str, collection: Any) -> Iterator[Any]:
        kind = collection.WhichOneof("kind")
        if kind == "node_list":
            for name in collection.node_list.value:
                yield self._element(key, name)
        elif kind == "bytes_list" and key in _OF_VARIABLES:
            for data in collection.bytes_list.value:
                yield self._variable(key, data)
        elif kind == "bytes_list" and key not in _NOT_READ:
            yield from collection.bytes_list.value
        elif kind == "int64_list":
            yield from collection.int64_list.value
        elif kind == "float_list":
            yield from collection.float_list.value

    def _element(self, key: str, name: str) -> Any:
        try:
            return self._graph.as_graph_element(f"{self._scope}{name}")
        except GraphError as error:
            raise GraphValueError(f"collection {key!r} names {name!r}: {error}") from error

    def _variable(self, key: str, data: bytes) -> Variable:
        from google.protobuf.message import DecodeError

        found = new_message("VariableDef")
        try:
            found.ParseFromString(data)
        except DecodeError as error:
            raise GraphValueError(f"collection {key!r} holds a malformed VariableDef: {error}") from error
        name = found.variable_name
        if name not in self._variables:
            self._variables[name] = self._made(key, found)
        if key == GraphKeys.GLOBAL_VARIABLES:
            self.named[name.partition(":")[0]] = self._variables[name]
        return self._variables[name]

    def _made(self, key: str, found: Any) -> Variable:
        tensor = self._element(key, found.variable_name)
        initializer = self._element(key, found.initializer_name)
        if not isinstance(tensor, Tensor) or tensor.op.type not in {"VariableV2", "Variable", "VarHandleOp"}:
            raise GraphValueError(f"collection {key!r}: {found.variable_name!r} is not a variable")
        if not isinstance(initializer, Operation) or len(initializer.inputs) < 2:
            raise GraphValueError(f"collection {key!r}: {found.initializer_name!r} initializes no variable")
        snapshot = self._element(key, found.snapshot_name) if found.snapshot_name else tensor
        initial = self._element(key, found.initial_value_name) if found.initial_value_name else initializer.inputs[1]
        if not isinstance(snapshot, Tensor) or not isinstance(initial, Tensor):
            raise GraphValueError(f"collection {key!r}: {found.variable_name!r} has a snapshot that is no tensor")
        return Variable.of_nodes(tensor, initializer, snapshot, initial, found.trainable)
