"""Graphs of real TensorFlow objects: tf.Graph, sessions, tensors, functions, Keras models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from xlanb.errors import GraphError, MissingPeerError
from xlanb.graph.binding import CallRequest, python_signature
from xlanb.graph.extensions import graph_of_objects, make_tf_function
from xlanb.graph.foreign import is_model_file
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import read_graphdef
from xlanb.graph.optimize.inline import inline_calls
from xlanb.peers.tensorflow_binding import FunctionBinding, flat_leaves
from xlanb.runtime.host.strings import register_function

_SOURCES = frozenset({"Placeholder", "PlaceholderV2"})
_READS_OF_TABLES = ("LookupTableFindV2",)
_PYTHON_FUNCTIONS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


@graph_of_objects.implement
def graph_of(x: Any, request: CallRequest) -> Graph:
    """Make the graph of a TensorFlow or Keras object, traced for the arguments of a call.

    It has `inputs`, `outputs`, `initial_values` and `binding`. Captured variables become
    VarHandleOp nodes of their own names, other captured values constants.

    Raises:
        MissingPeerError: TensorFlow is not installed.
        GraphError: it is no program, does not take these arguments, or captures something other
            than variables and arrays; TensorFlow's own text is in the message.
    """
    if find_spec("tensorflow") is None:
        raise MissingPeerError("TensorFlow is not installed: pip install 'xlanb[peers]'")
    tf = import_module("tensorflow")
    if is_model_file(x):
        x = tf.keras.models.load_model(x)
    if isinstance(x, tf.Graph):
        return _of_graph(x, ())
    if isinstance(x, tf.compat.v1.Session | tf.compat.v1.InteractiveSession):
        return _of_session(x)
    items = list(x) if isinstance(x, list | tuple) else [x]
    if items and all(tf.is_tensor(i) or isinstance(i, tf.Operation) for i in items):
        return _of_tensors(tf, items)
    call = _traced(tf, x, request)
    graph, variables = _of_concrete(tf, call.concrete, _title(x))
    graph.binding = FunctionBinding(
        _title(x),
        tuple((t.op.name, t.dtype.name, t.shape.as_tuple()) for t in graph.inputs),
        variables,
        call.concrete.graph.structured_outputs,
        call.signature,
        list(call.leaves),
        call.is_model,
        tuple(op.name for op in call.concrete.graph.control_outputs if op.name in graph),
    )
    return graph


@make_tf_function.implement
def tf_function(function: Any) -> Any:
    """A Python function as a tf.function."""
    return import_module("tensorflow").function(function)


def _title(x: Any) -> str:
    found = getattr(x, "name", None) or getattr(x, "__name__", None)
    return str(found) if isinstance(found, str) else "function"


@dataclass(frozen=True)
class _Traced:
    """A ConcreteFunction, its Python signature or None, its arguments' leaves, and whether it is a
    model's.
    """

    concrete: Any
    signature: inspect.Signature | None = None
    leaves: Sequence[Any] = ()
    is_model: bool = False


def _traced(tf: Any, x: Any, request: CallRequest) -> _Traced:
    """The ConcreteFunction that a call with these arguments would run."""
    if hasattr(x, "captured_inputs") and hasattr(x, "graph"):
        return _Traced(x)
    args, is_model = tuple(request.args), False
    if hasattr(x, "get_concrete_function"):
        function = x
        if request.is_compiled and hasattr(x, "python_function"):
            function = tf.function(
                x.python_function,
                input_signature=x.input_signature,
                autograph=getattr(x, "_autograph", True),
                jit_compile=True,
            )
    elif isinstance(x, tf.keras.Model | tf.keras.layers.Layer):
        function, is_model = _model_function(tf, x), True
        args = args or (_model_specs(tf, x, request),)
    else:
        raise GraphError(
            f"cannot use a {type(x).__name__} of TensorFlow as a program: give a tf.Graph, a v1 Session, tensors of "
            "a tf.Graph, a tf.function with its arguments, a ConcreteFunction, or a Keras model"
        )
    try:
        concrete = function.get_concrete_function(*args, **request.named)
    except Exception as error:
        told = str(error).strip().splitlines()
        words = "; ".join(line.strip() for line in told[-3:]) or type(error).__name__
        raise GraphError(f"TensorFlow cannot trace {_title(x)!r} for these arguments: {words}") from error
    signature = python_signature(getattr(function, "python_function", function))
    if not (args or request.named) and getattr(x, "input_signature", None) is not None:
        args = tuple(x.input_signature)
        if request.is_compiled:
            _check_sizes(f"the function {_title(x)}", _title(x), tf.nest.flatten(args))
    leaves = flat_leaves(signature, args, request.named, _title(x))
    return _Traced(concrete, signature, leaves, is_model)


def _model_function(tf: Any, model: Any) -> Any:
    backend = import_module("keras").config.backend() if hasattr(import_module("keras"), "config") else "tensorflow"
    if backend != "tensorflow":
        raise GraphError(
            f"Keras uses the backend {backend}, not TensorFlow: set KERAS_BACKEND=tensorflow, or pass the "
            "function to xlanb.from_jax"
        )
    return tf.function(lambda *inputs: model(*inputs, training=False), autograph=False)


def _model_specs(tf: Any, model: Any, request: CallRequest) -> Any:
    """Return TensorSpecs in the structure of a model's inputs, with `batch`, if given, as the first
    size.

    Raises:
        GraphError: the model does not declare its inputs, or a program to compile has open sizes.
    """
    if not getattr(model, "built", False) or not getattr(model, "inputs", None):
        raise GraphError(f"the Keras model {model.name!r} does not declare its inputs: pass example arguments with it")

    def spec(tensor: Any) -> Any:
        dims = list(tensor.shape)
        if dims and dims[0] is None:
            dims[0] = request.batch
        return tf.TensorSpec(dims, tensor.dtype, name=re.sub(r"\W", "_", tensor.name))

    structure = getattr(model, "_inputs_struct", None)
    inputs = model.inputs if structure is None else structure
    found = tf.nest.map_structure(spec, inputs)
    if request.is_compiled:
        specs = tf.nest.flatten(found)
        _check_sizes(f"the model {model.name!r}", model.name, specs, takes_batch=True)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _check_sizes(what: str, name: str, specs: Sequence[Any], *, takes_batch: bool = False) -> None:
    """Raise GraphError where sizes are open, naming them and what to write."""
    still = [s for s in specs if None in s.shape.as_list()]
    if not still:
        return
    shown = ", ".join(f"{s.name or 'argument'} {s.dtype.name}[{_sizes_text(s.shape, '?')}]" for s in still)
    only_batch = takes_batch and all(None not in s.shape.as_list()[1:] for s in still)
    arrays = ", ".join(f"np.zeros([{_sizes_text(s.shape, '32')}], np.{s.dtype.name})" for s in specs)
    call = f"xlanb.compile({name}, {'batch=32' if only_batch else arrays})"
    raise GraphError(
        f"{what} leaves sizes open, and code is made for fixed sizes: {shown}; "
        f"give {'the batch size' if only_batch else 'arrays'}, as in {call}"
    )


def _sizes_text(shape: Any, unknown: str) -> str:
    return ", ".join(unknown if d is None else str(d) for d in shape)


def _of_concrete(tf: Any, function: Any, name: str) -> tuple[Graph, dict[str, Any]]:
    """The graph of a ConcreteFunction, and the variable behind each variable node."""
    body = function.graph
    definition = body.as_graph_def()
    nodes = {n.name: n for n in definition.node}
    captures = [(value, placeholder.op.name) for value, placeholder in body.captures]
    variables = {id(v.handle): v for v in body.variables}
    bound: dict[str, Any] = {}
    values: dict[str, np.ndarray[Any, Any]] = {}
    renamed: dict[str, str] = {}
    for value, placeholder in captures:
        variable = variables.get(id(value))
        if variable is not None:
            new = _free_name(variable.name, nodes, values)
            renamed[placeholder] = new
            # a read-only view of the value, which assignments leave as it is
            values[new], bound[new] = np.asarray(variable.read_value()), variable
            _be_variable(tf, nodes[placeholder], variable, new)
        elif placeholder in nodes and _table_types(definition, placeholder, value):
            _be_table(tf, definition, nodes[placeholder], value)
        elif placeholder in nodes and value.dtype == tf.variant:
            _be_dataset(tf, definition, nodes[placeholder], value, name)
        elif placeholder in nodes:
            _be_constant(tf, nodes[placeholder], value, name)
    _rename(definition.node, renamed)
    captured = {placeholder for _, placeholder in captures}
    graph = read_graphdef(definition.SerializeToString(), re.sub(r"\W", "_", name) or "function")
    graph.inputs = tuple(graph.get_tensor_by_name(t.name) for t in body.inputs if t.op.name not in captured)
    graph.outputs = tuple(graph.get_tensor_by_name(_renamed(t.name, renamed)) for t in body.outputs)
    graph.initial_values = values
    inline_calls(graph)
    _adopt_python_functions(tf, definition)
    return graph, bound


def _adopt_python_functions(tf: Any, definition: Any) -> None:
    """Make nodes of py_function and numpy_function call the functions that TensorFlow
    registered.
    """
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    tokens = {n.attr["token"].s.decode() for n in nodes if n.op in _PYTHON_FUNCTIONS}
    if not tokens:
        return
    registry = import_module("tensorflow.python.ops.script_ops")._py_funcs  # noqa: SLF001 - TensorFlow gives it no public name

    def calling(token: str) -> Callable[..., list[Any]]:
        def call(*arrays: Any) -> list[Any]:
            given = [tf.constant(a) for a in arrays] if is_eager(token) else list(arrays)
            found = registry(token, None, given)
            return [np.asarray(v) for v in (found if isinstance(found, list | tuple) else [found])]

        return call

    eager = {n.attr["token"].s.decode() for n in nodes if n.op == "EagerPyFunc"}
    is_eager = eager.__contains__
    for token in tokens:
        register_function(token, calling(token))


def _free_name(name: str, nodes: Mapping[str, Any], taken: Iterable[str]) -> str:
    """Return a variable's name as a valid node name, with "_1", "_2", ... if taken."""
    plain = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name.rpartition(":")[0] or name).lstrip("_-/\\>") or "variable"
    used = {*nodes, *taken}
    found, count = plain, 0
    while found in used:
        count += 1
        found = f"{plain}_{count}"
    return found


def _be_variable(tf: Any, node: Any, variable: Any, name: str) -> None:
    node.op, node.name = "VarHandleOp", name
    node.attr.clear()
    node.attr["dtype"].type = variable.dtype.base_dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(variable.shape).as_proto())
    node.attr["shared_name"].s = name.encode()
    node.attr["container"].s = b""


def _table_types(definition: Any, name: str, value: Any) -> tuple[int, int] | None:
    """Return key and value types of a read-only hash table; None for other captured values."""
    if value.dtype.name != "resource":
        return None
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    users = _users(definition, name)
    tables = [n for n in nodes if n.op.startswith("LookupTable")]
    if all(n.op.startswith("LookupTable") for n in users):  # none takes it into a function
        tables = users
    types = {(n.attr["Tin"].type, n.attr["Tout"].type) for n in tables if n.op in _READS_OF_TABLES}
    is_read = all(n.op in (*_READS_OF_TABLES, "LookupTableSizeV2") for n in tables)
    return next(iter(types)) if is_read and len(types) == 1 else None


def _be_table(tf: Any, definition: Any, node: Any, value: Any) -> None:
    """Replace a captured table by one with its current entries, filled before each node that uses
    it.
    """
    key, content = _table_types(definition, node.name, value) or (0, 0)
    keys, values = tf.raw_ops.LookupTableExportV2(
        table_handle=value, Tkeys=tf.dtypes.as_dtype(key), Tvalues=tf.dtypes.as_dtype(content)
    )
    name = node.name
    users = _users(definition, name)
    node.op = "MutableHashTableV2"
    node.attr.clear()
    node.attr["key_dtype"].type, node.attr["value_dtype"].type = key, content
    node.attr["shared_name"].s = name.encode()
    fill = definition.node.add(name=f"{name}/import", op="LookupTableImportV2", input=[name])
    fill.attr["Tin"].type, fill.attr["Tout"].type = key, content
    for what, tensor in (("keys", keys), ("values", values)):
        constant = definition.node.add(name=f"{name}/{what}", op="Const")
        constant.attr["dtype"].type = tensor.dtype.as_datatype_enum
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(tensor.numpy(), tensor.dtype))
        fill.input.append(constant.name)
    for user in users:
        user.input.append(f"^{fill.name}")


def _be_dataset(tf: Any, definition: Any, node: Any, value: Any, function: str) -> None:
    """Replace a captured data set by the ops that make it.

    Raises:
        GraphError: TensorFlow cannot write it down, as it cannot for other variants.
    """
    part = tf.compat.v1.GraphDef()
    try:
        part.ParseFromString(tf.raw_ops.DatasetToGraphV2(input_dataset=value, external_state_policy=1).numpy())
    except (tf.errors.OpError, TypeError) as error:
        told = str(error).partition("\n")[0]
        raise GraphError(f"{function!r} captures {node.name!r}, a variant that is not a data set: {told}") from error
    result = next(n for n in part.node if n.op == "_Retval")
    made = _node_of(result.input[0])
    name = node.name
    names = {n.name: name if n.name == made else f"{name}/{n.name}" for n in part.node if n is not result}
    definition.node.remove(node)
    ours = [n for n in part.node if n is not result]
    for n in ours:
        if n.op == "Const" and n.attr["dtype"].type == tf.resource.as_datatype_enum:
            _be_dummy(part, n, function)
    _rename(ours, names)
    for n in ours:
        n.name = names[n.name]
    definition.node.extend(ours)
    known = {f.signature.name for f in definition.library.function}
    definition.library.function.extend(f for f in part.library.function if f.signature.name not in known)


_OWN_STATE = re.compile("Shuffle.*Dataset.*|CacheDatasetV2")


def _be_dummy(part: Any, node: Any, function: str) -> None:
    """Replace a shuffle's seeds, which are its inputs too, or a cache.

    Raises:
        GraphError: It is another resource, such as a table.
    """
    users = _users(part, node.name)
    other = next((u.op for u in users if not _OWN_STATE.fullmatch(u.op)), None)
    if other is not None:
        raise GraphError(f"{function!r} captures a data set whose {other} uses a resource, which is not supported")
    node.op = "DummySeedGenerator"
    node.attr.clear()


def _users(definition: Any, name: str) -> list[Any]:
    return [n for n in definition.node if any(_node_of(i) == name for i in n.input)]


def _node_of(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _be_constant(tf: Any, node: Any, value: Any, function: str) -> None:
    if value.dtype in {tf.resource, tf.variant} or not hasattr(value, "numpy"):
        raise GraphError(
            f"{function!r} captures {node.name!r}, a {value.dtype.name} that is not a variable, a table or a data set: "
            "iterators and the like are not supported; create them in the function"
        )
    node.op = "Const"
    node.attr.clear()
    node.attr["dtype"].type = value.dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy(), value.dtype))


def _rename(nodes: Any, renamed: Mapping[str, str]) -> None:
    for node in nodes:
        for i, text in enumerate(node.input):
            node.input[i] = _renamed(text, renamed)


def _renamed(text: str, renamed: Mapping[str, str]) -> str:
    """An input of a node, or the name of a tensor, after nodes were given other names."""
    head, colon, index = text.removeprefix("^").partition(":")
    sign = "^" if text.startswith("^") else ""
    return f"{sign}{renamed.get(head, head)}{colon}{index}"


def _of_graph(source: Any, outputs: Sequence[Any]) -> Graph:
    graph = read_graphdef(source.as_graph_def().SerializeToString())
    graph.outputs = tuple(graph.get_tensor_by_name(t.name) for t in outputs)
    graph.inputs = tuple(op.outputs[0] for op in graph if op.type in _SOURCES)
    return graph


def _of_session(session: Any) -> Graph:
    """The graph of a session of version 1, with the values that its variables have there."""
    graph = _of_graph(session.graph, ())
    unset = import_module("tensorflow").errors.FailedPreconditionError
    for variable in session.graph.get_collection("variables"):
        with suppress(unset):
            graph.initial_values[variable.op.name] = np.asarray(session.run(variable))
    return graph


def _of_tensors(tf: Any, items: Sequence[Any]) -> Graph:
    if any(isinstance(i, tf.__internal__.EagerTensor) for i in items):
        raise GraphError(
            "an EagerTensor is a value, not a program: pass the tf.function that computes it, and its arguments"
        )
    graphs = {id(i.graph): i.graph for i in items}
    if len(graphs) != 1:
        raise GraphError(f"the tensors belong to {len(graphs)} graphs: pass tensors of one graph")
    tensors = [t for i in items for t in (i.outputs if isinstance(i, tf.Operation) else [i])]
    found = _of_graph(next(iter(graphs.values())), tensors)
    wanted = found.subgraph([t.name for t in tensors] + [i.name for i in items if isinstance(i, tf.Operation)])
    wanted.outputs = tuple(wanted.get_tensor_by_name(t.name) for t in tensors)
    wanted.inputs = tuple(op.outputs[0] for op in wanted if op.type in _SOURCES)
    return wanted
