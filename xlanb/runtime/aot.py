"""Ahead-of-time compilation like TensorFlow's tfcompile: a graph and a Config become a module.

Source of the configuration: tensorflow/compiler/tf2xla/tf2xla.proto, message Config.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from xlanb.codegen.target import Target
from xlanb.cpu.compiler import object_for
from xlanb.cpu.export_cpp import Names, cpp_header
from xlanb.cpu.object_code import ObjectCode
from xlanb.errors import ArgumentError, GraphError
from xlanb.files import read_regular
from xlanb.graph.dtypes import DType
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import data_type, new_message, shape_from_proto
from xlanb.graph.operation import Operation, Tensor
from xlanb.hlo import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import ArrayShape, array
from xlanb.tf2xla.compiler import Argument, lower

_LARGEST_CONFIG = 1 << 26
_VARIABLES = ("VarHandleOp", "_XlaAotOnlyVarHandleOp", "VariableV2", "Variable")


@dataclass(frozen=True)
class AotProgram:
    """A module whose arrays have names for a C++ class."""

    module: HloModule
    names: Names


def read_config(path: str | Path) -> Any:
    """The Config message of a .pbtxt file, or of a binary one.

    Raises:
        GraphError: The file is not such a message, or has neither feeds nor fetches.
        OSError: It cannot be read.
    """
    data = read_regular(Path(path), _LARGEST_CONFIG)
    config = new_message("Config")
    try:
        if Path(path).suffix == ".pbtxt":
            text_format.Parse(data.decode(), config)
        else:
            config.ParseFromString(data)
    except (text_format.ParseError, DecodeError, ValueError, RecursionError) as error:
        raise GraphError(f"{path} is not a tf2xla.Config: {error}") from error
    if not config.fetch:
        raise GraphError(f"{path}: expected at least one fetch, as in fetch {{ id {{ node_name: 'y' }} }}")
    return config


def aot_program(graph: Graph, config: Any, name: str = "graph") -> AotProgram:
    """Lower the part of a graph that a Config selects.

    The module takes the feeds, then the variables, and returns the fetches, then the new values of
    the variables that it writes.

    Raises:
        GraphError: A node or tensor does not exist, a shape or type is unknown or does not fit, or
            a node cannot be lowered.
    """
    feeds = [_feed(graph, f) for f in config.feed]
    variables = [_variable(graph, v) for v in config.variable]
    fetches = [_tensor(graph, f.id) for f in config.fetch]
    result = lower(name, [*feeds, *variables], fetches)
    first = len(feeds)
    written = {argument: len(fetches) + k for k, argument in enumerate(result.updates)}
    for k, v in enumerate(config.variable):
        if v.readonly and first + k in written:
            raise GraphError(f"variable {v.node_name!r} is readonly, but the program writes it")
    names = Names(
        args=[f.name for f in config.feed],
        results=[f.name for f in config.fetch],
        variables=[v.name or v.node_name for v in config.variable],
        updates=[written.get(first + k) for k in range(len(variables))],
    )
    return AotProgram(result.module, names)


def module_program(module: HloModule) -> AotProgram:
    """A module's arrays by the names of its parameters; its results are only numbered."""
    entry = module.entry_computation
    for p in entry.parameters:
        if not isinstance(p.shape, ArrayShape):
            raise ArgumentError(f"parameter {p.name} is a tuple: a C++ class takes arrays only")
    results = sum(1 for _ in entry.root.shape.leaves()) - entry.root.shape.is_tuple
    calling = module.calling
    names = calling.names if calling is not None else [p.name for p in entry.parameters]
    return AotProgram(module, Names(list(names), [""] * results))


def compile_ahead(program: AotProgram, target: Target, entry: str, cpp_class: str) -> tuple[ObjectCode, str]:
    """The object file of a program for a `standalone` target, and the header of its C++ class.

    Args:
        program: What to compile.
        target: The machine, from `xlanb.codegen.cross.target_named`.
        entry: The symbol of the function in the object file.
        cpp_class: The class, with its namespaces: `foo::bar::MatMul`.

    Raises:
        XlanbError: It cannot be compiled, or a name is not valid in C++.
    """
    code = object_for(program.module, target, entry)
    return code, cpp_header(code, cpp_class, program.names)


def fetched_nodes(config: Any) -> list[str]:
    """The nodes of the fetches, without duplicates, for tools that freeze a graph."""
    return list(dict.fromkeys(f.id.node_name for f in config.fetch))


def _tensor(graph: Graph, tensor_id: Any) -> Tensor:
    return graph.get_tensor_by_name(f"{tensor_id.node_name}:{tensor_id.output_index}")


def _feed(graph: Graph, feed: Any) -> tuple[Tensor, Argument]:
    tensor = _tensor(graph, feed.id)
    shape = _shape(feed, f"feed {tensor.name!r}")
    if not tensor.shape.is_compatible_with(list(shape)):
        raise GraphError(f"feed {tensor.name!r} has shape {tensor.shape}, not {list(shape)}")
    dtype = tensor.dtype.base_dtype
    _check_type(feed, dtype, f"feed {tensor.name!r}")
    return tensor, Argument("parameter", _array(dtype, shape), None, tensor.op.name)


def _variable(graph: Graph, variable: Any) -> tuple[Tensor, Argument]:
    op = graph.get_operation_by_name(variable.node_name)
    if op.type not in _VARIABLES:
        raise GraphError(f"node {op.name!r} is a {op.type}, not a variable")
    shape, dtype = _shape(variable, f"variable {op.name!r}"), _dtype_of(op)
    _check_type(variable, dtype, f"variable {op.name!r}")
    return op.outputs[0], Argument("variable", _array(dtype, shape), None, op.name)


def _dtype_of(variable: Operation) -> DType:
    found: DType = variable.attrs["dtype"]
    return found


def _shape(message: Any, what: str) -> Sequence[int]:
    dims = shape_from_proto(message.shape).as_tuple()
    if dims is None or any(d is None for d in dims):
        raise GraphError(f"{what}: expected a shape with all sizes, as in shape {{ dim {{ size: 2 }} }}")
    return [int(d) for d in dims if d is not None]


def _check_type(message: Any, dtype: DType, what: str) -> None:
    if message.type and data_type(message.type) != dtype:
        raise GraphError(f"{what} has type {dtype.name}, not {data_type(message.type).name}")


def _array(dtype: DType, shape: Sequence[int]) -> ArrayShape:
    return array(from_dtype(dtype.as_numpy_dtype), list(shape))
