"""Programs that TensorFlow holds, as graphs: which objects are programs, and the values to feed
them.

TensorFlow itself is only used in `xlanb.peers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.boundary import boundary
from xlanb.errors import ArgumentError, GraphError, nearest
from xlanb.files import is_file
from xlanb.graph.binding import CallRequest
from xlanb.graph.extensions import graph_of_objects, graph_of_program
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.optimize.inline import inline_calls

_PACKAGES = frozenset({"tensorflow", "keras", "tf_keras"})
_MODEL_FILES = frozenset({".keras", ".h5"})


def is_foreign(x: Any) -> bool:
    """Whether this is an object of TensorFlow or Keras (or a list), or a path to a saved model.

    Paths: a SavedModel's folder, or a file of a Keras model.
    """
    if isinstance(x, list | tuple):
        return bool(x) and all(_is_of_tensorflow(item) for item in x)
    return is_saved_model(x) or is_model_file(x) or _is_of_tensorflow(x)


def is_saved_model(x: Any) -> bool:
    """Whether this is the path of a folder with a SavedModel."""
    if not _is_path(x):
        return False
    return any(is_file(Path(x) / name) for name in ("saved_model.pb", "saved_model.pbtxt"))


def is_model_file(x: Any) -> bool:
    """Whether this is the path of a file that Keras has written."""
    return _is_path(x) and Path(x).suffix in _MODEL_FILES and is_file(Path(x))


def is_jit_compiled(x: Any) -> bool:
    """Whether this is a tf.function with `jit_compile=True`, which TensorFlow compiles whole."""
    return bool(getattr(x, "_jit_compile", False)) and _is_of_tensorflow(x)


@boundary("take a graph from TensorFlow")
def graph_of(
    x: Any,
    *args: Any,
    signature: str | None = None,
    named: Mapping[str, Any] | None = None,
    batch: int | None = None,
    is_compiled: bool = False,
) -> Graph:
    """Return the graph of a program (see `is_foreign`).

    See `Graph.from_tensorflow`, and `CallRequest` for the other arguments.

    Raises:
        MissingPeerError: TensorFlow is needed and not installed.
        GraphError: it is no such program, or cannot be read.
    """
    if is_saved_model(x):
        return _of_saved_model(x, signature)
    if signature is not None:
        raise GraphError(f"only a SavedModel has signatures: leave out {signature!r} for a {type(x).__name__}")
    if not is_foreign(x):
        raise GraphError(
            f"cannot use a {type(x).__name__} as a TensorFlow program: give a tf.Graph, a v1 Session, tensors of a "
            "tf.Graph, a tf.function with its arguments, a ConcreteFunction, a Keras model or its file, or the "
            "folder of a SavedModel"
        )
    return graph_of_objects(x, CallRequest(args, named or {}, batch, is_compiled))


@graph_of_program.implement
def _graph_of_program(program: Any, args: tuple[Any, ...], signature: str | None) -> Graph:
    return graph_of(program, *args, signature=signature)


def feeds_of(
    graph: Graph, args: Sequence[Any], named: Mapping[str, Any] | None = None
) -> dict[Tensor, np.ndarray[Any, Any]]:
    """Return the arrays of a call's arguments as feeds of `graph.inputs`, in order.

    The result is empty if `args` are empty or specs.

    Raises:
        ArgumentError: the number of arrays is not that of the inputs.
    """
    values = _arrays((args, named or {}))
    if values and graph.binding is not None:
        values = graph.binding.flatten(tuple(args), named or {})
    if not values:
        return {}
    if len(values) != len(graph.inputs):
        takes = ", ".join(f"{t.op.name}: {t.dtype.name}{t.shape}" for t in graph.inputs)
        raise ArgumentError(f"{graph.name} takes {len(graph.inputs)} arrays ({takes}), not {len(values)}")
    return dict(zip(graph.inputs, values, strict=True))


def zeros_of(graph: Graph) -> dict[Tensor, np.ndarray[Any, Any]]:
    """Zeros for `graph.inputs`, for a run without arrays.

    Raises:
        ArgumentError: the graph leaves sizes open.
    """
    shapes = {t: t.shape.as_tuple() for t in graph.inputs}
    still = [t for t, dims in shapes.items() if dims is None or None in dims]
    if still:
        shown = ", ".join(f"{t.op.name} {t.dtype.name}{t.shape}" for t in still)
        raise ArgumentError(
            f"{graph.name} leaves sizes open: {shown}; give arrays, or of a model the batch size, as in batch=32"
        )
    return {
        t: np.zeros([d or 0 for d in dims], t.dtype.as_numpy_dtype) for t, dims in shapes.items() if dims is not None
    }


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """List the arrays in a structure, in TensorFlow's order (dictionaries by sorted keys).

    Python numbers are part of the program, not arguments.
    """
    if isinstance(value, Mapping):
        return [a for key in sorted(value) for a in _arrays(value[key])]
    if isinstance(value, list | tuple):
        return [a for item in value for a in _arrays(item)]
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "numpy"):
        return [np.asarray(value)]
    return []


def _is_of_tensorflow(x: Any) -> bool:
    return any(c.__module__.split(".", 1)[0] in _PACKAGES for c in type(x).__mro__)


def _is_path(x: Any) -> bool:
    return isinstance(x, Path) or (isinstance(x, str) and "\n" not in x and "{" not in x and 0 < len(x) < 4096)


def _of_saved_model(folder: str | Path, signature: str | None) -> Graph:
    from xlanb.graph.saved_model.saved_model import read_saved_model  # late: it needs protobuf

    model = read_saved_model(folder)
    callable_ones = {n: s for n, s in model.signatures.items() if s.outputs}
    name = signature or ("serving_default" if "serving_default" in callable_ones else next(iter(callable_ones), ""))
    if name not in callable_ones:
        known = nearest(name, sorted(callable_ones))  # the file has them in no order
        raise GraphError(f"the SavedModel {str(folder)!r} has no signature {name!r} with results{known}")
    wanted = callable_ones[name]
    graph = model.graph.subgraph([*wanted.outputs.values(), *wanted.inputs.values()])
    inline_calls(graph)
    graph.inputs = tuple(graph.get_tensor_by_name(wanted.inputs[k]) for k in sorted(wanted.inputs))
    graph.outputs = tuple(graph.get_tensor_by_name(wanted.outputs[k]) for k in sorted(wanted.outputs))
    graph.initial_values = {n: v for n, v in model.variables_of_graph().items() if n in graph}
    return graph
