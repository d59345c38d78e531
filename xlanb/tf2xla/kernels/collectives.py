"""Collectives, transfers and calls by name.

Source: all_reduce_op.cc, reduce_scatter_op.cc, collective_ops.cc, xla_custom_call_op.cc and
xla_send_recv_ops.cc in tf2xla/kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array, tuple_of
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar_of
from xlanb.tf2xla.registry import register

_REDUCTIONS = {
    "Add": HloOpcode.ADD,
    "Mean": HloOpcode.ADD,
    "Mul": HloOpcode.MULTIPLY,
    "Min": HloOpcode.MINIMUM,
    "Max": HloOpcode.MAXIMUM,
}


def _groups(ctx: OpContext, index: int) -> tuple[str, int]:
    """XLA's text of replica groups [groups, size], and their size."""
    value = ctx.constant(index)
    if value.ndim != 2:
        ctx.fail(f"the group assignment must be a matrix, not {list(value.shape)}")
    rows = ["{" + ",".join(str(int(v)) for v in row) + "}" for row in value]
    return "{" + ",".join(rows) + "}", int(value.shape[1])


def _reduction(ctx: OpContext) -> HloOpcode:
    found = _REDUCTIONS.get(str(ctx.attr("reduce_op")))
    if found is None:
        ctx.fail(f"reduce_op must be one of {', '.join(_REDUCTIONS)}, not {ctx.attr('reduce_op')!r}")
    return found


def _mean(ctx: OpContext, x: HloInstruction, count: int) -> HloInstruction:
    return ctx.b.divide(x, filled(ctx, x, count)) if ctx.attr("reduce_op") == "Mean" else x


@register("XlaAllReduce", constants=(1,))
def _all_reduce(ctx: OpContext) -> HloInstruction:
    """The reduction over the replicas of each group, and over all partitions as `mode` says."""
    x, (groups, size) = ctx.input(0), _groups(ctx, 1)
    mode = str(ctx.attr("mode"))
    channel = {"CrossReplica": None, "CrossReplicaAndPartition": 1}.get(mode, 0)
    if channel == 0:
        ctx.fail(f"mode must be CrossReplica or CrossReplicaAndPartition, not {mode!r}")
    region = ctx.b.region(_reduction(ctx), [x.array_shape.element_type])
    named: dict[str, Any] = {"replica_groups": groups, "channel_id": channel}
    made = ctx.b.instruction(HloOpcode.ALL_REDUCE, (x,), to_apply=region, **named)
    return _mean(ctx, made, size)


@register("XlaReduceScatter", constants=(1, 2))
def _reduce_scatter(ctx: OpContext) -> HloInstruction:
    """Each replica's part, along a dimension, of the reduction over its group."""
    x, (groups, size) = ctx.input(0), _groups(ctx, 1)
    dimension, dims = int(ctx.number(2)), list(x.array_shape.dimensions)
    if not 0 <= dimension < len(dims) or not size or dims[dimension] % size:
        ctx.fail(f"dimension {dimension} of {x.shape} cannot be scattered over {size} replicas")
    dims[dimension] //= size
    kind = x.array_shape.element_type
    region = ctx.b.region(_reduction(ctx), [kind])
    made = ctx.b.instruction(
        HloOpcode.REDUCE_SCATTER,
        (x,),
        array(kind, dims),
        replica_groups=groups,
        dimensions=(dimension,),
        to_apply=region,
    )
    return _mean(ctx, made, size)


@register("CollectiveAssignGroupV2", constants=(0, 1, 2))
def _assign_group(ctx: OpContext) -> list[HloInstruction]:
    """Return the number of devices and the group's key, as TensorFlow's XLA does."""
    count = ctx.constant(0).size
    return [scalar_of(ctx, PrimitiveType.S32, count), scalar_of(ctx, PrimitiveType.S32, 0)]


@register("CollectiveReduceV2")
def _collective_reduce(ctx: OpContext) -> HloInstruction:
    ctx.fail(
        "TensorFlow's XLA refuses it on CPUs too: Collectives are not yet implemented for CPU "
        "devices when compiling with XLA. XlaAllReduce is compiled"
    )


@register("XlaSend", "XlaRecv")
def _transfer(ctx: OpContext) -> HloInstruction:
    opcode = ctx.op.type.removeprefix("Xla").lower()
    ctx.fail(f"XLA refuses it on CPUs too: HLO opcode `{opcode}` is not supported by XLA:CPU")


@register("XlaCustomCall")
def _custom_call(ctx: OpContext) -> HloInstruction:
    shape = _shape_of(ctx, ctx.attr("shape"), ctx.attr("dtype"))
    return ctx.b.custom_call(str(ctx.attr("target_name")), ctx.inputs, shape, backend_config=_text(ctx))


@register("XlaCustomCallV2")
def _custom_call_v2(ctx: OpContext) -> list[HloInstruction]:
    shapes = [
        _shape_of(ctx, shape, dtype)
        for shape, dtype in zip(ctx.attr("result_shapes"), ctx.attr("result_dtypes"), strict=True)
    ]
    made = ctx.b.custom_call(
        str(ctx.attr("call_target_name")),
        ctx.inputs,
        shapes[0] if len(shapes) == 1 else tuple_of(shapes),
        backend_config=_text(ctx),
        custom_call_has_side_effect=bool(ctx.attr("has_side_effect", False)) or None,
    )
    if len(shapes) == 1:
        return [made]
    return [ctx.b.get_tuple_element(made, i) for i in range(len(shapes))]


def _text(ctx: OpContext) -> str | None:
    value = ctx.attr("backend_config", "")
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text or None


def _shape_of(ctx: OpContext, shape: Any, dtype: Any) -> Any:
    dims = shape.as_tuple()
    if dims is None or None in dims:
        ctx.fail(f"the shape {shape} of a result of a call is not known")
    return array(from_dtype(dtype.as_numpy_dtype), [int(d) for d in dims])


@register("Assert")
def _assert(_: OpContext) -> None:
    """Do nothing: compiled code does not check, as in TensorFlow's XLA."""
    return


@register("XlaDequantize")
def _dequantize(ctx: OpContext) -> HloInstruction:
    """Convert u32 [n, m] as bytes, the most significant first, to bf16 [n, 4 m]: byte * scale +
    min_range.
    """
    b, x = ctx.b, ctx.input(0)
    if x.array_shape.rank != 2:
        ctx.fail(f"the input must be a matrix, not {x.shape}")
    if ctx.attr("mode") != "MIN_COMBINED":
        ctx.fail(f"mode {ctx.attr('mode')} is not compiled: MIN_COMBINED is")
    n, m = x.array_shape.dimensions
    words = b.broadcast_in_dim(x, [n, m, 4], [0, 1])
    shifts = broadcast_to(b, b.constant(np.array([24, 16, 8, 0], np.uint32)), [n, m, 4])
    shifted = b.shift_right_logical(words, shifts)
    bytes_ = b.convert(b.and_(shifted, filled(ctx, shifted, 255)), PrimitiveType.BF16)
    low, high = float(ctx.attr("min_range")), float(ctx.attr("max_range"))
    scaled = b.multiply(bytes_, filled(ctx, bytes_, (high - low) / 255))
    made = b.reshape(b.add(scaled, filled(ctx, bytes_, low)), [n, 4 * m])
    return b.transpose(made, [1, 0]) if ctx.attr("transpose_output") else made
