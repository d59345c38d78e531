"""Ops whose result size depends on values: unique, where, partitions, segments.

Based on core/kernels/{unique_op,where_op,dynamic_partition_op,segment_reduction_ops}.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]


def _out(op: Operation, index: int) -> np.dtype[Any]:
    return op.outputs[index].dtype.numpy_dtype


@host("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2")
def _unique(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Distinct elements (or slices along an axis) in the order of first occurrence."""
    x = np.asarray(inputs[0])
    axes = np.asarray(inputs[1]).ravel() if len(inputs) > 1 else np.zeros(0, np.int64)
    axis = int(axes[0]) if axes.size else 0
    if not axes.size and x.ndim != 1:
        raise fault(op, f"expected a vector, got shape {list(x.shape)}")
    rows = np.moveaxis(x, axis, 0)
    first, places = np.unique(_first_equal(rows), return_inverse=True)
    places = places.astype(_out(op, 1))
    found = [np.moveaxis(rows[first], 0, axis), places]
    if len(op.outputs) > len(found):
        found.append(np.bincount(places, minlength=len(first)).astype(_out(op, 2)))
    return found


def _first_equal(rows: Array) -> Array:
    """The index of the first slice equal to each; as in TensorFlow, NaN differs from itself."""
    if rows.dtype.kind == "O":
        seen: dict[Any, int] = {}
        keys = rows if rows.ndim == 1 else [tuple(row.ravel()) for row in rows]
        return np.array([seen.setdefault(key, i) for i, key in enumerate(keys)], int)
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    if not flat.size:
        return np.zeros(len(rows), int)
    if flat.dtype in {np.dtype(np.float32), np.dtype(np.float64)}:
        flat = flat + flat.dtype.type(0)  # -0 equals 0
    size = flat.itemsize * flat.shape[1]
    raw = flat.view(f"u{size}" if size in {1, 2, 4, 8} else f"V{size}").ravel()
    _, index, inverse = np.unique(raw, return_index=True, return_inverse=True)
    has_nan = (flat != flat).any(axis=1)  # noqa: PLR0124 - NumPy has no isnan for every dtype
    return np.where(has_nan, np.arange(len(rows)), index[inverse])


@host("ListDiff")
def _list_diff(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    x, gone = np.asarray(inputs[0]), set(np.asarray(inputs[1]).tolist())
    places = np.asarray([i for i, v in enumerate(x.tolist()) if v not in gone], np.int64)
    return [x[places], places.astype(_out(op, 1))]


@host("Where")
def _where(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.argwhere(np.asarray(inputs[0])).astype(np.int64)]


@host("DynamicPartition")
def _partition(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    data, parts, count = np.asarray(inputs[0]), np.asarray(inputs[1]), int(op.attrs["num_partitions"])
    if data.shape[: parts.ndim] != parts.shape:
        raise fault(op, f"partitions of shape {list(parts.shape)} do not fit data of shape {list(data.shape)}")
    if parts.size and not (parts.min() >= 0 and parts.max() < count):
        raise fault(op, f"a partition is not in [0, {count})")
    return [data[parts == p] for p in range(count)]


@host("DynamicStitch", "ParallelDynamicStitch")
def _stitch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = len(inputs) // 2
    indices, data = [np.asarray(i) for i in inputs[:count]], [np.asarray(d) for d in inputs[count:]]
    rest = data[0].shape[indices[0].ndim :]
    for i, d in zip(indices, data, strict=True):
        if d.shape != i.shape + rest:
            raise fault(op, f"data of shape {list(d.shape)} do not match indices of shape {list(i.shape)}")
    size = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    out = np.zeros((size, *rest), data[0].dtype)
    for i, d in zip(indices, data, strict=True):
        if i.size and i.min() < 0:
            raise fault(op, f"index {int(i.min())} is negative")
        for place, row in zip(i.ravel(), d.reshape(-1, *rest), strict=True):
            out[place] = row
    return [out]


_REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "Sum": lambda rows: rows.sum(0),
    "Prod": lambda rows: rows.prod(0),
    "Max": lambda rows: rows.max(0),
    "Min": lambda rows: rows.min(0),
    "Mean": lambda rows: rows.sum(0) / len(rows),
    "SqrtN": lambda rows: rows.sum(0) / np.sqrt(len(rows)),
}


def _segments(op: Operation, rows: Array, ids: Array, kind: str, count: int | None, empty: Any) -> Array:
    """Reduce rows by sorted segment ids; segments without rows are `empty`."""
    if ids.ndim != 1 or len(ids) != len(rows):
        raise fault(op, f"segment ids of shape {list(ids.shape)} do not match {len(rows)} rows")
    if (np.diff(ids) < 0).any() or (ids.size and ids[0] < 0):
        raise fault(op, "segment ids must be non-negative and sorted")
    total = int(ids[-1]) + 1 if ids.size else 0
    if count is not None and total > count:
        raise fault(op, f"segment id {total - 1} is out of range for {count} segments")
    out = np.full((total if count is None else count, *rows.shape[1:]), empty, rows.dtype)
    wide = rows.astype(np.float32) if rows.dtype.kind == "V" else rows
    for segment in np.unique(ids):
        out[segment] = _REDUCTIONS[kind](wide[ids == segment]).astype(rows.dtype)
    return out


@host("SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentMean")
def _segment(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    kind = op.type.removeprefix("Segment")
    return [_segments(op, np.asarray(inputs[0]), np.asarray(inputs[1]), kind, None, 1 if kind == "Prod" else 0)]


@host("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumWithNumSegments",
      "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments")  # fmt: skip
def _sparse_segment(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    kind = op.type.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    data, indices, ids = (np.asarray(v) for v in inputs[:3])
    if indices.size and not (indices.min() >= 0 and indices.max() < len(data)):
        raise fault(op, f"an index is not in [0, {len(data)})")
    count = int(inputs[3]) if op.type.endswith("WithNumSegments") else None
    return [_segments(op, data[indices], ids, kind, count, 0)]


@host("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    grad, indices, ids = (np.asarray(v) for v in inputs[:3])
    counts = np.bincount(ids, minlength=len(grad))[ids].reshape(-1, *(1,) * (grad.ndim - 1))
    scale = {"Sum": np.ones_like(counts), "Mean": counts, "SqrtN": np.sqrt(counts)}
    kind = op.type.removeprefix("SparseSegment").removesuffix("Grad")
    out = np.zeros((int(inputs[3]), *grad.shape[1:]), grad.dtype)
    np.add.at(out, indices, (grad[ids] / scale[kind]).astype(grad.dtype))
    return [out]


@host("SparseToDense")
def _to_dense(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, shape, values = (np.asarray(v) for v in inputs[:3])
    where = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    out = np.full([int(d) for d in np.atleast_1d(shape)], inputs[3], values.dtype)
    _check_indices(op, where, out.shape)
    out[tuple(where.T)] = values
    return [out]


def _check_indices(op: Operation, where: Array, shape: Sequence[int]) -> None:
    if where.shape[1] != len(shape):
        raise fault(op, f"indices of {where.shape[1]} components do not match a shape of rank {len(shape)}")
    bad = ((where < 0) | (where >= np.asarray(shape))).any(1)
    if bad.any():
        raise fault(op, f"index {where[bad][0].tolist()} is out of bounds for shape {list(shape)}")


@host("SparseTensorDenseMatMul")
def _sparse_matmul(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, values, shape, b = (np.asarray(v) for v in inputs)
    _check_indices(op, indices, [int(d) for d in shape])
    a = np.zeros([int(d) for d in shape], values.dtype)
    np.add.at(a, tuple(indices.T), values)
    a = a.conj().T if op.attrs.get("adjoint_a") else a
    b = b.conj().T if op.attrs.get("adjoint_b") else b
    if a.shape[1] != b.shape[0]:
        raise fault(op, f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    return [a @ b]


@host("SparseReorder")
def _reorder(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, values = np.asarray(inputs[0]), np.asarray(inputs[1])
    order = np.lexsort(indices.T[::-1])
    return [indices[order], values[order]]


@host("SparseReshape")
def _sparse_reshape(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, old, new = np.asarray(inputs[0]), np.asarray(inputs[1]), np.array(inputs[2], np.int64)
    total = int(np.prod(old))
    if (new == -1).any():
        new[new == -1] = total // max(1, int(np.prod(new[new != -1])))
    if int(np.prod(new)) != total:
        raise fault(op, f"cannot reshape {old.tolist()} to {new.tolist()}")
    flat = np.ravel_multi_index(tuple(indices.T), tuple(old)) if len(indices) else np.zeros(0, np.int64)
    return [np.stack(np.unravel_index(flat, tuple(new)), 1).astype(np.int64), new]


@host("SparseFillEmptyRows")
def _fill_rows(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, values, shape = (np.asarray(v) for v in inputs[:3])
    count = int(shape[0])
    is_empty = np.bincount(indices[:, 0], minlength=count) == 0
    added = np.zeros((int(is_empty.sum()), indices.shape[1]), np.int64)
    added[:, 0] = np.flatnonzero(is_empty)
    every = np.concatenate([indices, added])
    order = np.argsort(every[:, 0], kind="stable")
    filled = np.concatenate([values, np.full(len(added), inputs[3], values.dtype)])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return [every[order], filled[order], is_empty, back[: len(indices)]]


@host("UnravelIndex")
def _unravel(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    indices, dims = np.asarray(inputs[0]), tuple(int(d) for d in np.asarray(inputs[1]))
    if indices.size and not (indices.min() >= 0 and indices.max() < np.prod(dims)):
        raise fault(op, f"an index is out of bounds for {list(dims)}")
    return [np.stack(np.unravel_index(indices, dims)).astype(indices.dtype)]


@host("HistogramFixedWidth")
def _histogram(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    values, (low, high), bins = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64), int(inputs[2])
    if not low < high or bins < 1:
        raise fault(op, f"invalid histogram: {bins} bins from {low} to {high}")
    place = np.clip(np.floor((values - low) / (high - low) * bins), 0, bins - 1).astype(np.int64)
    return [np.bincount(place.ravel(), minlength=bins).astype(_out(op, 0))]


@host("RaggedRange")
def _ragged_range(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Concatenated ranges, and their row splits."""
    starts, limits, deltas = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v)) for v in inputs))
    rows = [np.arange(a, b, d) for a, b, d in zip(starts, limits, deltas, strict=True)]
    splits = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    values = np.concatenate(rows) if rows else starts
    return [splits.astype(_out(_op, 0)), values.astype(_out(_op, 1))]


@host("RaggedGather")
def _ragged_gather(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Rows of a ragged tensor by index: its splits, level by level, and its values."""
    count = int(op.attrs["PARAMS_RAGGED_RANK"])
    levels, values, indices = [np.asarray(v) for v in inputs[:count]], np.asarray(inputs[count]), np.asarray(inputs[-1])
    if indices.ndim != 1:
        raise fault(op, f"indices of shape {list(indices.shape)} are not supported, only a vector is")
    if indices.size and not (indices.min() >= 0 and indices.max() < len(levels[0]) - 1):
        raise fault(op, f"an index is not in [0, {len(levels[0]) - 1})")
    made = []
    for splits in levels:
        lengths = splits[indices + 1] - splits[indices]
        made.append(np.concatenate([[0], np.cumsum(lengths)]).astype(splits.dtype))
        spans = [np.arange(splits[i], splits[i + 1]) for i in indices]
        indices = np.concatenate(spans) if spans else indices[:0]
    return [*made, values[indices]]
