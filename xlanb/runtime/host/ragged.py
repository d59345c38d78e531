"""Convert ragged tensors to dense or sparse ones.

Based on core/kernels/{ragged_tensor_to_tensor,ragged_tensor_to_sparse}_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.lists import checked_size
from xlanb.runtime.host.ops import HostState, fault, host

Array = np.ndarray[Any, Any]


@host("RaggedTensorToTensor")
def _to_tensor(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """A dense tensor of the values, filled up with the default value and cropped to a given shape.

    Raises:
        GraphError: Row partitions are inconsistent, or a shape or default value does not fit.
    """
    shape, values, default, *partitions = (np.asarray(v) for v in inputs)
    places, rows = _row_indices(op, partitions, len(values))
    inner = values.shape[1:]
    wanted = [-1] * (places.shape[1] + len(inner)) if shape.ndim == 0 else [int(d) for d in shape]
    if len(wanted) != places.shape[1] + len(inner):
        raise fault(op, f"shape {wanted} must have {places.shape[1] + len(inner)} dimensions")
    if any(w not in (-1, d) for w, d in zip(wanted[places.shape[1] :], inner, strict=True)):
        raise fault(op, f"shape {wanted} does not end with the values' dimensions {list(inner)}")
    longest = [rows, *(int(places[:, i].max(initial=-1)) + 1 for i in range(1, places.shape[1]))]
    dims = [d if w < 0 else w for w, d in zip(wanted, longest, strict=False)]
    checked_size(op, int(np.prod([*dims, *inner], dtype=np.float64)))
    try:
        out = np.array(np.broadcast_to(default, [*dims, *inner]))
    except ValueError as error:
        raise fault(op, f"a default value of shape {list(default.shape)} does not fit {[*dims, *inner]}") from error
    fits = (places < dims).all(1)
    out[tuple(places[fits].T)] = values[fits]
    return [out.astype(values.dtype, copy=False)]


def _row_indices(op: Operation, partitions: Sequence[Array], count: int) -> tuple[Array, int]:
    """The index of each of `count` values, and the number of rows."""
    kinds = [k.decode() if isinstance(k, bytes) else str(k) for k in op.attrs["row_partition_types"]]
    if len(kinds) != len(partitions):
        raise fault(op, f"{len(partitions)} row partitions, but {len(kinds)} row_partition_types")
    known = {"FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"}
    if any(k not in known for k in kinds) or "FIRST_DIM_SIZE" in kinds[1:] or kinds[:1] == ["VALUE_ROWIDS"]:
        raise fault(
            op, f"unexpected row_partition_types {kinds}: expected FIRST_DIM_SIZE and VALUE_ROWIDS, or ROW_SPLITS"
        )
    levels = list(zip(kinds, partitions, strict=True))
    if kinds[0] == "FIRST_DIM_SIZE":
        rows = checked_size(op, int(partitions[0]))
        levels = levels[1:]
    else:
        rows = max(0, len(partitions[0]) - 1)
    places = np.arange(rows)[:, None]
    for kind, partition in levels:
        of_row = _row_ids(op, partition, len(places)) if kind == "ROW_SPLITS" else partition
        if of_row.size and (np.diff(of_row) < 0).any() | (of_row[0] < 0) | (of_row[-1] >= len(places)):
            raise fault(op, f"row ids {of_row[:8].tolist()} are not ascending numbers of {len(places)} rows")
        begin = np.searchsorted(of_row, of_row)
        places = np.concatenate([places[of_row], (np.arange(len(of_row)) - begin)[:, None]], 1)
    if len(places) != count:
        raise fault(op, f"the row partitions are of {len(places)} values, not {count}")
    return places, rows


def _row_ids(op: Operation, splits: Array, rows: int) -> Array:
    if len(splits) != rows + 1 or splits[0] != 0 or (np.diff(splits) < 0).any():
        raise fault(op, f"row splits {splits[:8].tolist()} are not ascending bounds of {rows} rows")
    return np.repeat(np.arange(rows), np.diff(splits))


@host("RaggedTensorToSparse")
def _to_sparse(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Indices of all values in row-major order, the values, and the smallest dense shape.

    Raises GraphError for malformed splits.
    """
    *levels, values = (np.asarray(v) for v in inputs)
    rows = max(0, len(levels[0]) - 1)
    places = np.arange(rows)[:, None]
    for splits in levels:
        of_row = _row_ids(op, splits, len(places))
        within = np.arange(len(of_row)) - splits[of_row]
        places = np.concatenate([places[of_row], within[:, None]], 1)
    if len(places) != len(values):
        raise fault(op, f"the row splits are of {len(places)} values, not {len(values)}")
    dims = [rows, *(int(places[:, i].max(initial=-1)) + 1 for i in range(1, places.shape[1])), *values.shape[1:]]
    if values.ndim > 1:
        inner = np.indices(values.shape[1:]).reshape(values.ndim - 1, -1).T
        places = np.concatenate([np.repeat(places, len(inner), 0), np.tile(inner, (len(places), 1))], 1)
    return [places.astype(np.int64), values.reshape(-1), np.array(dims, np.int64)]
