"""gather and scatter in full generality, by arithmetic on flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.folding import combine, monoid, takes_second
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value, narrow, widen
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


def index_vectors(indices: Array, index_vector_dim: int) -> Array:
    """Start indices as s64[batch..., n], with the dimension of the index vectors last.

    That dimension may be implicit if n is 1.
    """
    wide = widen(indices)
    # u64 above s64's range is out of bounds either way
    whole = (
        np.minimum(wide, np.uint64(2**63 - 1)).astype(np.int64) if wide.dtype == np.uint64 else wide.astype(np.int64)
    )
    return whole[..., None] if index_vector_dim == whole.ndim else np.moveaxis(whole, index_vector_dim, -1)


def _starts(
    vectors: Array,
    rank: int,
    index_map: Sequence[int],
    operand_batching: Sequence[int],
    indices_batching: Sequence[int],
    vector_dim: int,
) -> list[Array | int]:
    """The starts of the slices by operand dimension: an array over the batch, or 0."""
    if vectors.shape[-1] != len(index_map):  # a dynamic dimension
        raise EvaluationError(f"index vectors have {vectors.shape[-1]} elements instead of {len(index_map)}")
    starts: list[Array | int] = [0] * rank
    for k, d in enumerate(index_map):
        starts[d] = vectors[..., k]
    batch = vectors.shape[:-1]
    for d, b in zip(operand_batching, indices_batching, strict=True):
        axis = b - (b > vector_dim)
        starts[d] = np.arange(batch[axis]).reshape([-1 if a == axis else 1 for a in range(len(batch))])
    return starts


@rule("gather")
def _gather(ev: Evaluator, i: HloInstruction, x: Array, indices: Array) -> Array:
    sizes = i.ints("slice_sizes")
    vector_dim = i.attributes["index_vector_dim"]
    vectors = index_vectors(indices, vector_dim)
    batching = i.ints("operand_batching_dims")
    starts = _starts(
        vectors,
        x.ndim,
        i.ints("start_index_map"),
        batching,
        i.ints("start_indices_batching_dims"),
        vector_dim,
    )
    if any(size > bound for size, bound in zip(sizes, x.shape, strict=True)):
        raise EvaluationError(f"slice sizes {list(sizes)} do not fit an operand of shape {list(x.shape)}")
    batch = vectors.shape[:-1]
    dropped = {*i.ints("collapsed_slice_dims"), *batching}
    kept = [d for d in range(x.ndim) if d not in dropped]
    if 0 in sizes or 0 in batch:
        result = np.zeros((*batch, *(sizes[d] for d in kept)), x.dtype)
    else:
        result = (
            x[tuple(_open_index(x.shape[d], sizes[d], starts[d], len(batch), d, kept) for d in range(x.ndim))]
            if x.ndim
            else np.broadcast_to(x, batch)
        )
        result = np.broadcast_to(result, (*batch, *(sizes[d] for d in kept)))
    offset_dims = i.ints("offset_dims")
    rank = len(batch) + len(kept)
    batch_dims = [d for d in range(rank) if d not in offset_dims]
    order = np.argsort([*batch_dims, *offset_dims])
    return result.transpose(order)


def _open_index(
    bound: int, size: int, start: Array | int, batch_rank: int, dimension: int, kept: Sequence[int]
) -> Array:
    """Indices along one operand dimension, to be broadcast with the others.

    An array over (batch..., kept slice dimensions...), of size 1 where they do not vary.
    """
    first = np.clip(np.asarray(start), 0, bound - size)
    first = first.reshape(first.shape + (1,) * (batch_rank - first.ndim + len(kept)))
    along = np.arange(size).reshape([-1 if d == dimension else 1 for d in kept]) if dimension in kept else 0
    return np.asarray(first + along)


@rule("scatter")
def _scatter(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    count = (len(operands) - 1) // 2
    targets, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    flat, valid = _scatter_places(i, targets[0].shape, indices, updates[0].shape)
    # Updates are combined in the order of the indices first, then of the window.
    rank = updates[0].ndim
    window_dims = i.ints("update_window_dims")
    order = [*(d for d in range(rank) if d not in window_dims), *window_dims]
    chosen = np.broadcast_to(valid, updates[0].shape).transpose(order)
    results = scatter_into(
        ev,
        i.to_apply,
        [np.ascontiguousarray(t).reshape(-1) for t in targets],
        np.broadcast_to(flat, updates[0].shape).transpose(order)[chosen],
        [u.transpose(order)[chosen] for u in updates],
    )
    shaped = tuple(r.reshape(t.shape) for r, t in zip(results, targets, strict=True))
    return shaped if i.shape.is_tuple else shaped[0]


def _scatter_places(
    i: HloInstruction, shape: tuple[int, ...], indices: Array, update_shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """The flat index in the operand of each update element, and whether its window is in bounds.

    XLA skips a window that is not entirely in bounds.
    """
    vector_dim = i.attributes["index_vector_dim"]
    vectors = index_vectors(indices, vector_dim)
    window_dims = i.ints("update_window_dims")
    batching = i.ints("input_batching_dims")
    absent = {*i.ints("inserted_window_dims"), *batching}
    starts = _starts(
        vectors,
        len(shape),
        i.ints("scatter_dims_to_operand_dims"),
        batching,
        i.ints("scatter_indices_batching_dims"),
        vector_dim,
    )
    if len(window_dims) + len(absent) != len(shape):
        raise EvaluationError(
            f"{len(window_dims)} window dimensions and {len(absent)} omitted ones do not match an "
            f"operand of {len(shape)} dimensions"
        )
    batch_dims = [d for d in range(len(update_shape)) if d not in window_dims]
    flat: Array = np.zeros((1,) * len(update_shape), np.int64)
    valid: Array = np.ones((1,) * len(update_shape), np.bool_)
    window = iter(window_dims)
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    for d, bound in enumerate(shape):
        axis = None if d in absent else next(window)
        size = 1 if axis is None else update_shape[axis]
        start = _broadcast_batch(np.asarray(starts[d]), batch_dims, len(update_shape))
        valid = valid & (start >= 0) & (start <= bound - size)
        along = (
            0 if axis is None else np.arange(size).reshape([-1 if a == axis else 1 for a in range(len(update_shape))])
        )
        flat = flat + (np.clip(start, 0, max(bound - size, 0)) + along) * strides[d]
    return flat, valid


def _broadcast_batch(start: Array, batch_dims: Sequence[int], rank: int) -> Array:
    """Broadcast an array over the batch to the updates' dimensions."""
    sizes = [1] * rank
    for axis, n in zip(batch_dims, start.shape, strict=False):
        sizes[axis] = n
    return start.reshape(sizes)


def scatter_into(
    ev: Evaluator,
    computation: HloComputation,
    targets: Sequence[Array],
    places: Array,
    updates: Sequence[Array],
) -> tuple[Array, ...]:
    """Combine updates into flat arrays, in order.

    Args:
        ev: the evaluator.
        computation: takes the current elements, then one of each update; returns the new elements.
        targets: flat arrays.
        places: s64[n], the index of each update; all in bounds.
        updates: an array [n] for each target.
    """
    known = monoid(computation, targets[0], updates[0]) if len(targets) == 1 else None
    if takes_second(computation) and targets[0].dtype == updates[0].dtype:
        out = np.array(targets[0])
        out[_last_at(places)[0]] = updates[0][_last_at(places)[1]]
        return (out,)
    if known is not None and known.rounded is None:
        wide = np.array(known.stored(targets[0]))
        known.ufunc.at(wide, places, known.stored(updates[0]))
        out = narrow(wide, targets[0].dtype)
        return (out,)
    return _scatter_in_rounds(ev, computation, targets, places, updates)


def _last_at(places: Array) -> tuple[Array, Array]:
    """The distinct indices, and for each the number of its last update."""
    distinct, last = np.unique(places[::-1], return_index=True)
    return distinct, places.size - 1 - last


def _scatter_in_rounds(
    ev: Evaluator,
    computation: HloComputation,
    targets: Sequence[Array],
    places: Array,
    updates: Sequence[Array],
) -> tuple[Array, ...]:
    """Apply the first update of every index at once, then the second of each, and so on."""
    out = [np.array(t) for t in targets]
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(ordered.size), 0))
    rank = np.arange(ordered.size) - first
    for k in range(int(rank.max()) + 1 if rank.size else 0):
        now = order[rank == k]
        at = places[now]
        new = combine(ev, computation, [t[at] for t in out], [u[now] for u in updates])
        for t, n in zip(out, new, strict=True):
            t[at] = narrow(n, t.dtype)
    return tuple(out)
