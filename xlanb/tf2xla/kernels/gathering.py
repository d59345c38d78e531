"""Reading by index (tf2xla/kernels/{gather_op,gather_op_helpers}.cc).

An index out of bounds is clamped, as XLA's gather does; TensorFlow's CPU kernels refuse it.
"""

from __future__ import annotations

from xlanb.hlo import HloInstruction
from xlanb.tf2xla.broadcasting import canonical_axes
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


def gather_slices(
    ctx: OpContext, x: HloInstruction, indices: HloInstruction, axis: int, batch_dims: int = 0
) -> HloInstruction:
    """Slices of `x` at indices along `axis`; the first `batch_dims` dimensions of both go together.

    Result: x[:axis] + indices[batch_dims:] + x[axis + 1:].
    """
    dims, where = x.array_shape.dimensions, indices.array_shape
    rank = len(dims)
    (axis,) = canonical_axes([axis], rank, ctx.op.name)
    batch_dims = batch_dims + where.rank if batch_dims < 0 else batch_dims
    if not 0 <= batch_dims <= min(axis, where.rank) or dims[:batch_dims] != where.dimensions[:batch_dims]:
        ctx.fail(f"batch_dims {batch_dims} does not match {x.shape} and indices {indices.shape}, axis {axis}")
    if dims[axis] == 0 and where.element_count:
        ctx.fail(f"cannot gather from an empty axis of {list(dims)}")
    batch = list(range(batch_dims))
    inner = where.rank - batch_dims
    return ctx.b.gather(
        x,
        indices,
        offset_dims=[*range(batch_dims, axis), *range(axis + inner, rank - 1 + inner)],
        collapsed_slice_dims=[axis],
        start_index_map=[axis],
        index_vector_dim=where.rank,
        slice_sizes=[1 if i == axis or i in batch else d for i, d in enumerate(dims)],
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )


@register("Gather")
def _gather_v1(ctx: OpContext) -> HloInstruction:
    return gather_slices(ctx, ctx.input(0), ctx.input(1), 0)


@register("GatherV2", constants=(2,))
def _gather(ctx: OpContext) -> HloInstruction:
    return gather_slices(ctx, ctx.input(0), ctx.input(1), int(ctx.number(2)), int(ctx.attr("batch_dims", 0)))


@register("ResourceGather")
def _resource_gather(ctx: OpContext) -> HloInstruction:
    batch_dims = int(ctx.attr("batch_dims", 0))
    return gather_slices(ctx, ctx.read_variable(0), ctx.input(1), batch_dims, batch_dims)


def _gather_nd(ctx: OpContext, x: HloInstruction, indices: HloInstruction) -> HloInstruction:
    """indices[..., k]: index vectors into the first k dimensions."""
    dims, where = x.array_shape.dimensions, indices.array_shape
    if where.rank < 1 or where.dimensions[-1] > len(dims):
        ctx.fail(f"indices {indices.shape} do not match {x.shape}")
    depth = where.dimensions[-1]
    if any(d == 0 for d in dims[:depth]) and where.element_count:
        ctx.fail(f"cannot gather from an empty dimension of {list(dims)}")
    outer = where.rank - 1
    return ctx.b.gather(
        x,
        indices,
        offset_dims=range(outer, outer + len(dims) - depth),
        collapsed_slice_dims=range(depth),
        start_index_map=range(depth),
        index_vector_dim=outer,
        slice_sizes=[1 if i < depth else d for i, d in enumerate(dims)],
    )


@register("GatherNd")
def _gather_nd_op(ctx: OpContext) -> HloInstruction:
    return _gather_nd(ctx, ctx.input(0), ctx.input(1))


@register("ResourceGatherNd")
def _resource_gather_nd(ctx: OpContext) -> HloInstruction:
    return _gather_nd(ctx, ctx.read_variable(0), ctx.input(1))
