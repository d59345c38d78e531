"""Sparse tensors: indices, values and a shape.

Source: python/framework/sparse_tensor.py, python/ops/sparse_ops.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlanb.errors import FeedError, GraphTypeError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import concat, gather, identity, placeholder, reshape, shape, where
from xlanb.graph.builders.math_ops import cast, reduce_sum
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nn_ops import embedding_lookup
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape


class SparseTensorValue(NamedTuple):
    """A sparse tensor's value, as a session returns it and is fed with."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A tensor with few nonzero elements.

    Attributes:
        indices: int64 [N, rank]. values: [N]. dense_shape: int64 [rank].
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self.indices = convert_to_tensor(indices, dtypes.int64, "indices")
            self.values = convert_to_tensor(values, name="values")
            self.dense_shape = convert_to_tensor(dense_shape, dtypes.int64, "dense_shape")

    @staticmethod
    def from_value(value: Any) -> SparseTensor:
        """Convert a SparseTensorValue, or return a sparse tensor.

        Raises GraphTypeError for others.
        """
        if isinstance(value, SparseTensor):
            return value
        if isinstance(value, tuple) and len(value) == 3:
            return SparseTensor(*value)
        raise GraphTypeError(f"{value!r} is neither a SparseTensor nor a SparseTensorValue")

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.values.dtype

    @property
    def graph(self) -> Any:
        """The graph of its parts."""
        return self.values.graph

    @property
    def op(self) -> Any:
        """The operation of the values."""
        return self.values.op

    @property
    def shape(self) -> TensorShape:
        """The dense shape, as far as known."""
        known = constant_value(self.dense_shape)
        if known is not None:
            return TensorShape([None if d < 0 else int(d) for d in known])
        rank = self.dense_shape.shape.as_list()[0] if self.dense_shape.shape.rank == 1 else None
        return TensorShape(None if rank is None else [None] * rank)

    def get_shape(self) -> TensorShape:
        """As `shape`."""
        return self.shape

    def fetched(self) -> tuple[Any, Any]:
        """Return the parts to fetch, and the class of the result."""
        return [self.indices, self.values, self.dense_shape], SparseTensorValue

    def fed(self, value: Any) -> list[tuple[Tensor, Any]]:
        """Split a fed value into its parts. Raises FeedError unless it has three."""
        parts = tuple(value) if isinstance(value, tuple | list) else ()
        if len(parts) != 3:
            raise FeedError(
                f"cannot feed {type(value).__name__} for the sparse tensor {self.values.name!r}: give "
                "tf.SparseTensorValue(indices, values, dense_shape)"
            )
        return list(zip((self.indices, self.values, self.dense_shape), parts, strict=True))

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Its value in a session."""
        parts = [p.eval(feed_dict, session) for p in (self.indices, self.values, self.dense_shape)]
        return SparseTensorValue(*parts)

    def __mul__(self, other: Any) -> SparseTensor:
        values = call("SparseDenseCwiseMul", self.indices, self.values, self.dense_shape, other)
        return SparseTensor(self.indices, values, self.dense_shape)

    def __truediv__(self, other: Any) -> SparseTensor:
        values = call("SparseDenseCwiseDiv", self.indices, self.values, self.dense_shape, other)
        return SparseTensor(self.indices, values, self.dense_shape)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices}, values={self.values}, dense_shape={self.dense_shape})"


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor to be fed with a SparseTensorValue."""
    known = TensorShape(shape)
    default = f"{name}/" if name is not None else ""
    rank = known.rank
    if shape is None or not known.is_fully_defined():
        size = placeholder(dtypes.int64, [rank], name=f"{default}shape" if name else None)
    else:
        size = convert_to_tensor(known.as_list(), dtypes.int64, f"{default}shape" if name else None)
    values = placeholder(dtype, [None], name=f"{default}values" if name else None)
    indices = placeholder(dtypes.int64, [None, rank], name=f"{default}indices" if name else None)
    return SparseTensor(indices, values, size)


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """A sparse matrix times a dense one."""
    a = SparseTensor.from_value(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [a.indices, a.values, b]) as scope:
        dense = convert_to_tensor(b, name="b")
        made = call(
            "SparseTensorDenseMatMul", a.indices, a.values, a.dense_shape, dense, adjoint_a=adjoint_a,
            adjoint_b=adjoint_b, name=scope
        )  # fmt: skip
        rows = a.shape.as_list()[1 if adjoint_a else 0] if a.shape.rank == 2 else None
        columns = dense.shape.as_list()[0 if adjoint_b else 1] if dense.shape.rank == 2 else None
        made.set_shape([rows, columns])
        return made


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0, validate_indices: bool = True,
    name: str | None = None
) -> Tensor:  # fmt: skip
    """A dense tensor with these values at these places."""
    values = convert_to_tensor(sparse_values)
    made = call(
        "SparseToDense", sparse_indices, output_shape, values,
        convert_to_tensor(default_value, values.dtype.base_dtype),
        validate_indices=validate_indices, name=name,
    )  # fmt: skip
    size = constant_value(convert_to_tensor(output_shape))
    if size is not None:
        made.set_shape([int(d) for d in np.atleast_1d(size)])
    return made


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """The dense tensor."""
    found = SparseTensor.from_value(sp_input)
    fill = (b"" if found.dtype.base_dtype is dtypes.string else 0) if default_value is None else default_value
    made = sparse_to_dense(found.indices, found.dense_shape, found.values, fill, validate_indices, name)
    made.set_shape(found.shape)
    return made


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The places in row-major order."""
    found = SparseTensor.from_value(sp_input)
    indices, values = call_op("SparseReorder", found.indices, found.values, found.dense_shape, name=name).outputs
    return SparseTensor(indices, values, identity(found.dense_shape))


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another shape."""
    found = SparseTensor.from_value(sp_input)
    indices, size = call_op(
        "SparseReshape", found.indices, found.dense_shape, cast(convert_to_tensor(shape), dtypes.int64), name=name
    ).outputs
    return SparseTensor(indices, found.values, size)


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: bool = False, name: str | None = None, **old: Any
) -> Tensor:
    """Sums over dimensions, dense."""
    axis = old.get("reduction_axes", axis)
    return reduce_sum(sparse_tensor_to_dense(sp_input, validate_indices=False), axis, keepdims=keepdims, name=name)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Dimensions exchanged: reversed where no order is given."""
    found = SparseTensor.from_value(sp_input)
    rank = found.shape.rank or 2
    order = list(perm) if perm is not None else list(range(rank))[::-1]
    size = gather(found.dense_shape, order)
    return sparse_reorder(SparseTensor(gather(found.indices, order, axis=1), found.values, size), name)


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The elements for which `to_retain` is True."""
    found = SparseTensor.from_value(sp_input)
    kept = reshape(where(convert_to_tensor(to_retain)), [-1])
    return SparseTensor(gather(found.indices, kept), gather(found.values, kept), identity(found.dense_shape))


def sparse_add(a: Any, b: Any, *_thresh: Any) -> Any:
    """The sum: dense with a dense tensor, sparse of two sparse ones."""
    first, second = (b, a) if not isinstance(a, SparseTensor) else (a, b)
    if isinstance(second, SparseTensor):
        indices = concat([first.indices, second.indices], 0)
        values = concat([first.values, second.values], 0)
        dense = call("ScatterNd", indices, values, first.dense_shape)
        return dense_to_sparse(dense)
    return convert_to_tensor(second) + call("ScatterNd", first.indices, first.values, first.dense_shape)


def dense_to_sparse(tensor: Any) -> SparseTensor:
    """The elements that are not 0."""
    dense = convert_to_tensor(tensor)
    places = where(call("NotEqual", dense, convert_to_tensor(np.zeros((), dense.dtype.as_numpy_dtype))))
    return SparseTensor(places, call("GatherNd", dense, places), shape(dense, out_type=dtypes.int64))


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax over the elements of each row of a sparse matrix."""
    found = SparseTensor.from_value(sp_input)
    with name_scope(name, "SparseSoftmax", [found.indices, found.values]):
        rows = found.indices[:, 0]
        count = found.dense_shape[0]
        top = gather(call("UnsortedSegmentMax", found.values, rows, count), rows)
        weights = call("Exp", found.values - top)
        total = gather(call("UnsortedSegmentSum", weights, rows, count), rows)
        return SparseTensor(found.indices, weights / total, found.dense_shape)


def embedding_lookup_sparse(
    params: Any, sp_ids: Any, sp_weights: Any = None, partition_strategy: str = "mod", name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Any:  # fmt: skip
    """For each row of ids, the sum, mean or sqrtn of their embeddings, optionally weighted."""
    kind = combiner or "mean"
    with name_scope(name, "embedding_lookup_sparse"):
        segments = cast(sp_ids.indices[:, 0], dtypes.int32)
        if sp_weights is None:
            ids, places = call_op("Unique", sp_ids.values).outputs
            rows = embedding_lookup(params, ids)
            op_type = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean", "sqrtn": "SparseSegmentSqrtN"}[kind]
            return call(op_type, rows, places, segments)
        rows = embedding_lookup(params, sp_ids.values)
        weights = cast(sp_weights.values, rows.dtype)
        wide = reshape(weights, concat([shape(weights), [1] * ((rows.shape.rank or 2) - 1)], 0))
        total = call("SegmentSum", rows * wide, segments)
        if kind == "sum":
            return total
        norm = call("SegmentSum", wide if kind == "mean" else wide * wide, segments)
        return total / (norm if kind == "mean" else call("Sqrt", norm))


__all__ = [
    "SparseTensor",
    "SparseTensorValue",
    "dense_to_sparse",
    "embedding_lookup_sparse",
    "sparse_add",
    "sparse_placeholder",
    "sparse_reduce_sum",
    "sparse_reorder",
    "sparse_reshape",
    "sparse_retain",
    "sparse_softmax",
    "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
    "sparse_transpose",
]
