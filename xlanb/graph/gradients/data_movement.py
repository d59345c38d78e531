"""Gradients of data-movement ops: rolls, blocks, partitions, scatters, segment minima and maxima.

Source: python/ops/{array,data_flow,math,image}_grad.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    concat,
    expand_dims,
    fill,
    gather,
    ones,
    ones_like,
    rank,
    reshape,
    shape,
    where_v2,
    zeros_like,
)
from xlanb.graph.builders.math_ops import cast
from xlanb.graph.convert import constant
from xlanb.graph.gradients.array import dense
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor


@register_gradient("Roll")
def _roll(op: Operation, grad: Tensor) -> Any:
    return call("Roll", grad, -op.inputs[1], op.inputs[2]), None, None


@register_gradient("Reverse")
def _reverse(op: Operation, grad: Tensor) -> Any:
    return call("Reverse", grad, op.inputs[1]), None


@register_gradient("AccumulateNV2")
def _accumulate(op: Operation, grad: Tensor) -> Any:
    return [grad] * len(op.inputs)


@register_gradient("XlaSpmdFullToShardShape")
def _to_shards(op: Operation, grad: Tensor) -> Any:
    attrs = {n: op.get_attr(n) for n in ("manual_sharding", "dim", "unspecified_dims")}
    return call("XlaSpmdShardToFullShape", grad, full_shape=op.inputs[0].shape, **attrs)


@register_gradient("XlaSpmdShardToFullShape")
def _to_full(op: Operation, grad: Tensor) -> Any:
    attrs = {n: op.get_attr(n) for n in ("manual_sharding", "dim", "unspecified_dims")}
    return call("XlaSpmdFullToShardShape", grad, **attrs)


@register_gradient("XlaSharding")
def _sharding(op: Operation, grad: Tensor) -> Any:
    return call("XlaSharding", grad, sharding=op.get_attr("sharding"))


@register_gradient("PreventGradient")
def _prevented(op: Operation, _: Tensor) -> Any:
    raise UnimplementedError(
        f"a gradient passes through a PreventGradient op: {op.get_attr('message')}: {op.describe()}"
    )


@register_gradient("SpaceToBatch")
def _space_to_batch(op: Operation, grad: Tensor) -> Any:
    return call("BatchToSpace", grad, op.inputs[1], block_size=op.get_attr("block_size")), None


@register_gradient("BatchToSpace")
def _batch_to_space(op: Operation, grad: Tensor) -> Any:
    return call("SpaceToBatch", grad, op.inputs[1], block_size=op.get_attr("block_size")), None


@register_gradient("DynamicStitch", "ParallelDynamicStitch")
def _stitch(op: Operation, grad: Tensor) -> Any:
    """Gather each row's gradient from its destination."""
    count = len(op.inputs) // 2
    return [None] * count + [gather(dense(grad), i) for i in op.inputs[:count]]


@register_gradient("DynamicPartition")
def _partition(op: Operation, *grads: Tensor) -> Any:
    """The parts put together again, by where their rows came from."""
    data, parts = op.inputs
    places = reshape(math_ops.range(math_ops.reduce_prod(shape(parts))), shape(parts))
    found = call_n("DynamicPartition", places, parts, num_partitions=op.get_attr("num_partitions"))
    return reshape(call("ParallelDynamicStitch", found, list(grads)), shape(data)), None


@register_gradient("TensorScatterSub")
def _scatter_sub(op: Operation, grad: Tensor) -> Any:
    return grad, None, -call("GatherNd", grad, op.inputs[1])


@register_gradient("TensorScatterMax", "TensorScatterMin")
def _scatter_extreme(op: Operation, grad: Tensor) -> Any:
    """Shared evenly between those that are the extreme."""
    x, indices, updates = op.inputs
    is_old = cast(call("Equal", x, op.outputs[0]), grad.dtype)
    is_new = cast(call("Equal", updates, call("GatherNd", op.outputs[0], indices)), grad.dtype)
    shares = grad / (is_old + call("ScatterNd", indices, is_new, shape(x)))
    return shares * is_old, None, call("GatherNd", shares, indices) * is_new


@register_gradient("TensorStridedSliceUpdate")
def _slice_update(op: Operation, grad: Tensor) -> Any:
    place = op.inputs[1:4]
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {n: op.get_attr(n) for n in names}
    rest = call("TensorStridedSliceUpdate", grad, *place, zeros_like(op.inputs[4]), **masks)
    return rest, None, None, None, call("StridedSlice", grad, *place, **masks)


# ----------------------------------------------------------------------------------------- segments


@register_gradient("SegmentMean")
def _segment_mean(op: Operation, grad: Tensor) -> Any:
    ids = op.inputs[1]
    wide = concat([shape(ids), fill(expand_dims(rank(op.inputs[0]) - 1, 0), 1)], 0)
    counts = call("SegmentSum", fill(wide, constant(1, grad.dtype)), ids)
    return gather(grad / counts, ids), None


@register_gradient("SegmentMax", "SegmentMin")
def _segment_extreme(op: Operation, grad: Tensor) -> Any:
    x, ids = op.inputs
    chosen = call("Equal", gather(op.outputs[0], ids), x)
    shares = grad / call("SegmentSum", cast(chosen, grad.dtype), ids)
    gathered = gather(shares, ids)
    return where_v2(chosen, gathered, zeros_like(gathered)), None


def _gathered(x: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Slices by segment, 0 for rows of negative segment; and which rows are of none."""
    found = gather(x, call("Maximum", ids, zeros_like(ids)))
    counts = call("GreaterEqual", ids, zeros_like(ids))
    padding = ones(expand_dims(rank(found) - rank(counts), 0), "int32")
    mask = reshape(counts, concat([shape(counts), padding], 0)) & ones_like(found, "bool")
    return where_v2(mask, found, zeros_like(found)), mask


@register_gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_extreme(op: Operation, grad: Tensor) -> Any:
    x, ids, count = op.inputs
    extreme, mask = _gathered(op.outputs[0], ids)
    chosen = call("Equal", x, extreme) & mask
    shares = grad / call("UnsortedSegmentSum", cast(chosen, grad.dtype), ids, count)
    gathered, _ = _gathered(shares, ids)
    return where_v2(chosen, gathered, zeros_like(gathered)), None, None


@register_gradient("UnsortedSegmentProd", "SegmentProd")
def _segment_prod(op: Operation, grad: Tensor) -> Any:
    """Multiply by the product of the segment's other rows, by division unless the row is zero.

    The only zero row of a segment gets the product of the nonzero rows.
    """
    x, ids = op.inputs[:2]
    count = shape(op.outputs[0])[0]
    is_zero = call("Equal", x, zeros_like(x))
    zeros_there = call("UnsortedSegmentSum", cast(is_zero, "int32"), ids, count)
    grad = where_v2(call("Greater", zeros_there, 1), zeros_like(grad), grad)
    rest = call("UnsortedSegmentProd", where_v2(is_zero, ones_like(x), x), ids, count)
    clipped = call("Maximum", ids, zeros_like(ids))
    others = where_v2(is_zero, gather(rest, clipped), gather(op.outputs[0], clipped) / x)
    return [_gathered(grad, ids)[0] * others, *[None] * (len(op.inputs) - 1)]


# ------------------------------------------------------------------------------------- quantization


not_differentiable(
    "FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"
)


@register_gradient("FakeQuantWithMinMaxArgs")
def _fake_quant(op: Operation, grad: Tensor) -> Any:
    attrs = {n: op.get_attr(n) for n in ("min", "max", "num_bits", "narrow_range")}
    return call("FakeQuantWithMinMaxArgsGradient", grad, op.inputs[0], **attrs)


@register_gradient("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_vars(op: Operation, grad: Tensor) -> Any:
    attrs = {n: op.get_attr(n) for n in ("num_bits", "narrow_range")}
    return call_n(f"{op.type}Gradient", grad, *op.inputs, **attrs)


@register_gradient("QuantizeAndDequantizeV4")
def _clipped_through(op: Operation, grad: Tensor) -> Any:
    """Pass the gradient where the input is within its bounds, which are along `axis` if given."""
    x, low, high = op.inputs
    axis = op.get_attr("axis")
    if axis >= 0:
        trailing = ones([len(x.shape) - 1 - axis], "int32")
        low, high = (reshape(t, concat([shape(t), trailing], 0)) for t in (low, high))
    is_within = call("LogicalAnd", call("GreaterEqual", x, low), call("LessEqual", x, high))
    return where_v2(is_within, grad, zeros_like(grad)), zeros_like(op.inputs[1]), zeros_like(op.inputs[2])


@register_gradient("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def _straight_through(op: Operation, grad: Tensor) -> Any:
    return [grad, *[None] * (len(op.inputs) - 1)]
