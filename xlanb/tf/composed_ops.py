"""Functions of the tf namespace made of several ops: checks, printing, statistics, linear algebra.

Deprecated names are here too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import concat, reshape, shape, stack
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import variable_scope
from xlanb.graph.convert import constant, convert_to_tensor, make_array
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import attr_from_proto, attr_to_proto, new_message
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf.checks import assert_less_equal
from xlanb.tf.sparse import SparseTensor

VERSION = "1.15.0"
"""The TensorFlow version whose names these are."""
GIT_VERSION, COMPILER_VERSION, GRAPH_DEF_VERSION = "xlanb", "llvmlite", 134


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Any:
    """As bfloat16."""
    return math_ops.cast(x, dtypes.bfloat16, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Any:
    """As complex64."""
    return math_ops.cast(x, dtypes.complex64, name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Any:
    """As complex128."""
    return math_ops.cast(x, dtypes.complex128, name)


def print_(*inputs: Any, **how: Any) -> Operation:
    """tf.print: make an operation that writes values to stderr (or stdout) when it runs.

    Structures and texts may be among the tensors.
    """
    stream = how.get("output_stream", sys.stderr)
    target = stream if isinstance(stream, str) else "stdout" if stream is sys.stdout else "stderr"
    separator = how.get("sep", " ")
    pieces, tensors = [], []
    for value in inputs:
        if isinstance(value, str):
            pieces.append(value.replace("{}", "{ }"))
        else:
            pieces.append("{}")
            tensors.append(convert_to_tensor(value))
    text = call(
        "StringFormat", tensors, template=separator.join(pieces), placeholder="{}", summarize=how.get("summarize") or 3
    )  # fmt: skip
    return call_op("PrintV2", text, output_stream=target, end=how.get("end", "\n"), name=how.get("name"))


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """The tensor; the run fails where an element is infinite or no number."""
    found = convert_to_tensor(t if x is None else x)
    with name_scope(name, "VerifyFinite", [found]):
        return call("CheckNumerics", found, message=msg or message or "")


def assert_near(
    x: Any,
    y: Any,
    rtol: float | None = None,
    atol: float | None = None,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str = "assert_near",
) -> Operation:
    """Fail unless |x - y| <= atol + rtol |y| everywhere.

    Both default to ten times the type's precision.
    """
    first = convert_to_tensor(x)
    second = convert_to_tensor(y, first.dtype.base_dtype)
    precision = {"float16": 9.77e-4, "bfloat16": 7.8e-3, "float64": 2.220446049250313e-16}.get(
        first.dtype.base_dtype.name, 1.1920928955078125e-07
    )
    bound = (10 * precision if atol is None else atol) + (10 * precision if rtol is None else rtol) * math_ops.abs(
        second
    )
    made: Operation = assert_less_equal(
        math_ops.abs(first - second), bound, data=data, message=message or "x and y not equal to tolerance", name=name
    )
    return made


def assert_rank_in(x: Any, ranks: Sequence[int], *_data: Any, **_how: Any) -> Operation:
    """Raise GraphValueError if the static rank is none of these; return a no-op."""
    found = convert_to_tensor(x)
    if found.shape.rank is not None and found.shape.rank not in ranks:
        raise GraphValueError(
            f"Tensor {found.name} must have rank in {tuple(ranks)}. Received rank {found.shape.rank}, shape "
            f"{found.shape}"
        )
    return call_op("NoOp")


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Return the common floating type of all tensors, float32 if there are none.

    Raises:
        GraphValueError: the types differ, or one is not floating.
    """
    found = {t.dtype.base_dtype for t in tensors or () if t is not None} | (
        {dtypes.as_dtype(dtype)} if dtype else set()
    )
    if len(found) > 1 or any(not t.is_floating for t in found):
        raise GraphValueError(
            f"Expected floating point tensors of one type, got {', '.join(sorted(t.name for t in found))}"
        )
    return next(iter(found), dtypes.float32)


def assert_proper_iterable(values: Any) -> None:
    """Raise GraphTypeError if this is a tensor, a text, or not iterable."""
    if isinstance(values, Tensor | str | bytes | SparseTensor) or not hasattr(values, "__iter__"):
        raise GraphTypeError(f"Expected argument 'values' to be a 'proper' iterable.  Found: {type(values)}")


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.is_numeric


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element is less than the one before."""
    flat = reshape(convert_to_tensor(x), [-1])
    return math_ops.reduce_all(flat[1:] >= flat[:-1])


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is greater than the one before."""
    flat = reshape(convert_to_tensor(x), [-1])
    return math_ops.reduce_all(flat[1:] > flat[:-1])


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32
) -> Tensor:
    """Count each number, or sum its weights."""
    values = convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
    size = math_ops.reduce_max(concat([reshape(values, [-1]), [-1]], 0)) + 1
    if minlength is not None:
        size = call("Maximum", minlength, size)
    if maxlength is not None:
        size = call("Minimum", maxlength, size)
    flat = reshape(values, [-1])
    ones = math_ops.cast(flat * 0 + 1, dtype) if weights is None else reshape(convert_to_tensor(weights), [-1])
    return call("UnsortedSegmentSum", ones, call("SelectV2", flat < size, flat, flat * 0 - 1), size)


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Count the values in each of nbins equal bins; those outside the range count in the end
    bins.
    """
    return call("HistogramFixedWidth", values, value_range, nbins, dtype=dtype, name=name)


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Return the bin of each value."""
    found = convert_to_tensor(values)
    bounds = convert_to_tensor(value_range, found.dtype.base_dtype)
    place = call("Floor", math_ops.cast(nbins, found.dtype) * (found - bounds[0]) / (bounds[1] - bounds[0]))
    return call("Maximum", call("Minimum", math_ops.cast(place, dtype), nbins - 1), 0)


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """As tf.stack."""
    return stack(list(values), name=name)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Places in a flat array as places in one of these dimensions."""
    return call("UnravelIndex", indices, dims, name=name)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape to which two shapes broadcast."""
    return call("BroadcastArgs", shape_x, shape_y)


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return descending singular values and, on request, left and right vectors."""
    s, u, v = call_op("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name).outputs
    return (s, u, v) if compute_uv else s


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, rising, and eigenvectors in columns."""
    e, v = call_op("SelfAdjointEigV2", tensor, compute_v=True, name=name).outputs
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues, rising."""
    return call_op("SelfAdjointEigV2", tensor, compute_v=False, name=name).outputs[0]


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """The x of A x = rhs, by A's Cholesky factor."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        y = call("MatrixTriangularSolve", chol, rhs, adjoint=False, lower=True)
        return call("MatrixTriangularSolve", chol, y, adjoint=True, lower=True)


def lbeta(x: Any, name: str = "lbeta") -> Any:
    """Logarithm of the multivariate beta function over the last dimension."""
    found = convert_to_tensor(x)
    return math_ops.reduce_sum(call("Lgamma", found), -1) - call("Lgamma", math_ops.reduce_sum(found, -1))


def string_split(source: Any, delimiter: str = " ", skip_empty: bool = True, **_old: Any) -> SparseTensor:
    """The words of texts, a row for each text."""
    indices, values, size = call_op("StringSplit", source, delimiter, skip_empty=skip_empty).outputs
    indices.set_shape([None, 2])
    values.set_shape([None])
    size.set_shape([2])
    return SparseTensor(indices, values, size)


def decode_raw(bytes: Any, out_type: Any, little_endian: bool = True, name: str | None = None) -> Tensor:
    """Bytes as numbers."""
    return call("DecodeRaw", bytes, out_type=out_type, little_endian=little_endian, name=name)


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Means of rows by segment; 0 for one without rows."""
    found = convert_to_tensor(data)
    ids = convert_to_tensor(segment_ids)
    counts = call("UnsortedSegmentSum", call("OnesLike", math_ops.cast(ids, found.dtype)), ids, num_segments)
    wide = reshape(counts, concat([shape(counts), [1] * ((found.shape.rank or 1) - (ids.shape.rank or 1))], 0))
    return call("UnsortedSegmentSum", found, ids, num_segments) / call(
        "Maximum", wide, constant(1.0, found.dtype.base_dtype)
    )


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """The tensor, shrunk where its norm divided by its number of elements exceeds clip_norm."""
    found = convert_to_tensor(t)
    count = math_ops.cast(call("Size", found), dtypes.float32)
    inverse = call("Rsqrt", math_ops.reduce_sum(found * found))
    return found * clip_norm * call("Minimum", inverse * count, constant(1.0) / clip_norm)


def batch_to_space(input: Any, crops: Any, block_size: int, name: str | None = None) -> Tensor:
    """Pieces of pictures in the batch as larger pictures."""
    return call("BatchToSpaceND", input, [block_size, block_size], crops, name=name)


def space_to_batch(input: Any, paddings: Any, block_size: int, name: str | None = None) -> Tensor:
    """Pictures in pieces, as a larger batch."""
    return call("SpaceToBatchND", input, [block_size, block_size], paddings, name=name)


def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: bool = False, separator: str = "", name: str | None = None, **old: Any
) -> Tensor:
    """Texts joined along a dimension, by default the last."""
    found = convert_to_tensor(inputs)
    where = old.get("reduction_indices", axis)
    wanted = list(range(found.shape.rank or 1)) if where is None else where
    return call("ReduceJoin", found, wanted, keep_dims=keep_dims, separator=separator, name=name)


def add_check_numerics_ops() -> Operation:
    """An operation that fails where any floating tensor of the graph is infinite or no number."""
    graph = get_default_graph()
    found = [
        t
        for op in graph.get_operations()
        for t in op.outputs
        if t.dtype in {dtypes.float16, dtypes.float32, dtypes.float64}
    ]
    checks = [call("CheckNumerics", t, message=t.name).op for t in found]
    made = call_op("NoOp")
    for op in checks:
        made.add_control_input(op)
    return made


def model_variables(scope: str | None = None) -> list[Any]:
    """Variables of the collection "model_variables"."""
    return get_default_graph().get_collection("model_variables", scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Variables of the collection "moving_average_variables"."""
    return get_default_graph().get_collection("moving_average_variables", scope)


def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Any:
    """As tf.name_scope, arguments in the order of 2015."""
    return name_scope(name, default_name, list(values))


def variable_op_scope(values: Any, name_or_scope: Any, default_name: str | None = None, **how: Any) -> Any:
    """As tf.variable_scope, arguments in the order of 2015."""
    return variable_scope(name_or_scope, default_name, list(values), **how)


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


def export_meta_graph(
    filename: str | None = None, graph: Graph | None = None, as_text: bool = False, **_ignored: Any
) -> Any:
    """Return the graph as a MetaGraphDef message, and write it to a file if one is given."""
    found = graph or get_default_graph()
    message = new_message("MetaGraphDef")
    message.graph_def.ParseFromString(found.to_graphdef())
    for key, values in found.collections.items():
        names = [v.name for v in values if hasattr(v, "name")]
        if names and "variables" not in key:
            message.collection_def[key].node_list.value.extend(names)
    if filename:
        from pathlib import Path

        from google.protobuf import text_format

        path = Path(filename)
        if as_text:
            path.write_text(text_format.MessageToString(message), encoding="utf-8")
        else:
            path.write_bytes(message.SerializeToString())
    return message
