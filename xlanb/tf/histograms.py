"""tf.bincount, tf.histogram_fixed_width and means by segment.

Source: python/ops/{bincount_ops,histogram_ops,math_ops}.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import concat, reshape, shape
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


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


def _segment_counts(found: Tensor, ids: Tensor, num_segments: Any) -> Tensor:
    """Rows of each segment, at least 1, to be divided by."""
    counts = call("UnsortedSegmentSum", call("OnesLike", math_ops.cast(ids, found.dtype)), ids, num_segments)
    wide = reshape(counts, concat([shape(counts), [1] * ((found.shape.rank or 1) - (ids.shape.rank or 1))], 0))
    return call("Maximum", wide, constant(1.0, found.dtype.base_dtype))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Means of rows by segment; 0 for one without rows."""
    found, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    with name_scope(name, "UnsortedSegmentMean", [found, ids]):
        return call("UnsortedSegmentSum", found, ids, num_segments) / _segment_counts(found, ids, num_segments)


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Sums of rows by segment, divided by the square root of their number."""
    found, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    with name_scope(name, "UnsortedSegmentSqrtN", [found, ids]):
        counts = _segment_counts(found, ids, num_segments)
        return call("UnsortedSegmentSum", found, ids, num_segments) / call("Sqrt", counts)
