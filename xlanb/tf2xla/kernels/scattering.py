"""Write by index; out-of-bounds indices are skipped.

Source: tf2xla/kernels/{scatter_nd_op,segment_reduction_ops}.cc, lib/scatter.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlanb.hlo import HloComputation, HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import finite_limit, highest, lowest, scalar, scalar_of
from xlanb.tf2xla.registry import register

_UPDATES: dict[str, HloOpcode | None] = {
    "Add": HloOpcode.ADD,
    "Sub": HloOpcode.SUBTRACT,
    "Mul": HloOpcode.MULTIPLY,
    "Div": HloOpcode.DIVIDE,
    "Max": HloOpcode.MAXIMUM,
    "Min": HloOpcode.MINIMUM,
    "Update": None,
}


def _region(ctx: OpContext, opcode: HloOpcode | None, kind: PrimitiveType) -> HloOpcode | HloComputation:
    """The combination of old and new; None takes the new."""
    if opcode is not None:
        return HloOpcode.OR if kind is PrimitiveType.PRED and opcode is HloOpcode.ADD else opcode
    inner = ctx.b.sub_computation("replace")
    inner.parameter(0, array(kind))
    return inner.build_computation(inner.parameter(1, array(kind)))


def scatter_nd(
    ctx: OpContext, x: HloInstruction, indices: HloInstruction, updates: HloInstruction, opcode: HloOpcode | None
) -> HloInstruction:
    """Combine updates into `x` at index vectors.

    indices[..., k] index the first k dimensions; updates have shape indices[:-1] + x[k:], or are a
    scalar.
    """
    dims, where = x.array_shape.dimensions, indices.array_shape
    depth = where.dimensions[-1] if where.rank else 0
    if where.rank < 1 or depth > len(dims):
        ctx.fail(f"indices {indices.shape} do not match {x.shape}")
    wanted = (*where.dimensions[:-1], *dims[depth:])
    if updates.array_shape.rank == 0:
        updates = broadcast_to(ctx.b, updates, wanted)
    if updates.array_shape.dimensions != wanted:
        ctx.fail(f"updates {updates.shape} must have dimensions {list(wanted)}")
    outer = where.rank - 1
    return ctx.b.scatter(
        x,
        indices,
        updates,
        _region(ctx, opcode, x.array_shape.element_type),
        update_window_dims=range(outer, outer + len(dims) - depth),
        inserted_window_dims=range(depth),
        scatter_dims_to_operand_dims=range(depth),
        index_vector_dim=outer,
    )


def scatter_rows(
    ctx: OpContext, x: HloInstruction, indices: HloInstruction, updates: HloInstruction, opcode: HloOpcode | None
) -> HloInstruction:
    """`x` with updates combined in at rows; updates: indices + x[1:], or a scalar."""
    if x.array_shape.rank < 1:
        ctx.fail("a scalar cannot be updated by rows")
    return scatter_nd(ctx, x, ctx.b.reshape(indices, [*indices.array_shape.dimensions, 1]), updates, opcode)


@register("ScatterNd", constants=(2,))
def _scatter_nd(ctx: OpContext) -> HloInstruction:
    updates = ctx.input(1)
    zeros = broadcast_to(ctx.b, scalar(ctx, updates, 0), ctx.sizes(2))
    return ctx.sized(scatter_nd(ctx, zeros, ctx.input(0), updates, HloOpcode.ADD), 2)


def _tensor_scatter(opcode: HloOpcode | None) -> Callable[[OpContext], HloInstruction]:
    return lambda ctx: scatter_nd(ctx, ctx.input(0), ctx.input(1), ctx.input(2), opcode)


def _variable_scatter(opcode: HloOpcode | None, function: Callable[..., HloInstruction]) -> Callable[[OpContext], None]:
    def lower(ctx: OpContext) -> None:
        ctx.assign_variable(0, function(ctx, ctx.read_variable(0), ctx.input(1), ctx.input(2), opcode))

    return lower


for _name, _opcode in _UPDATES.items():
    register(f"ResourceScatter{_name}")(_variable_scatter(_opcode, scatter_rows))
    register(f"Scatter{_name}", is_compilable=False)(_variable_scatter(_opcode, scatter_rows))
    if _name not in ("Mul", "Div"):
        register(f"TensorScatter{_name}")(_tensor_scatter(_opcode))
        register(f"ResourceScatterNd{_name}")(_variable_scatter(_opcode, scatter_nd))
        register(f"ScatterNd{_name}", is_compilable=False)(_variable_scatter(_opcode, scatter_nd))


_SEGMENTS: dict[str, tuple[HloOpcode, Callable[[PrimitiveType], Any]]] = {
    "Sum": (HloOpcode.ADD, lambda k: np.zeros((), k.dtype)),
    "Prod": (HloOpcode.MULTIPLY, lambda k: np.ones((), k.dtype)),
    "Max": (HloOpcode.MAXIMUM, lambda k: -finite_limit(k) if k.is_floating else lowest(k)),
    "Min": (HloOpcode.MINIMUM, lambda k: finite_limit(k) if k.is_floating else highest(k)),
}


@register(*(f"UnsortedSegment{s}" for s in _SEGMENTS), *(f"Segment{s}V2" for s in _SEGMENTS), constants=(2,))
def _segments(ctx: OpContext) -> HloInstruction:
    """Combine rows by segment id; negative ids are skipped.

    The maximum of an empty segment is the lowest finite number.
    """
    data, ids = ctx.input(0), ctx.input(1)
    count = int(ctx.bounded_number(2))
    rank = ids.array_shape.rank
    if count < 0 or data.array_shape.dimensions[:rank] != ids.array_shape.dimensions:
        ctx.fail(
            f"segment ids {ids.shape} must have the first dimensions of {data.shape}, and num_segments "
            f"({count}) must not be negative"
        )
    name = ctx.op.type.removeprefix("Unsorted").removeprefix("Segment").removesuffix("V2")
    opcode, initial = _SEGMENTS[name]
    kind = data.array_shape.element_type
    start = broadcast_to(ctx.b, scalar_of(ctx, kind, initial(kind)), [count, *data.array_shape.dimensions[rank:]])
    made, size = scatter_rows(ctx, start, ids, data, opcode), ctx.size_of(2)
    return made if size is None else ctx.b.set_dimension_size(made, size, 0)


@register("Bincount", "DenseBincount", constants=(1,))
def _bincount(ctx: OpContext) -> HloInstruction:
    """Count each integer or sum its weights; of a matrix, row by row.

    binary_output says only whether it occurs.
    """
    values, weights = ctx.input(0), ctx.input(2)
    size = int(ctx.number(1))
    dims = values.array_shape.dimensions
    if len(dims) > 2 or size < 0:
        ctx.fail(f"values {values.shape} must be a vector or a matrix, and size ({size}) must not be negative")
    b = ctx.b
    is_binary = bool(ctx.attr("binary_output", False))
    weighted = weights.array_shape.element_count > 0 and not is_binary
    news = weights if weighted else broadcast_to(b, scalar(ctx, weights, 1), dims)
    opcode = HloOpcode.MAXIMUM if is_binary else HloOpcode.ADD
    indices = b.reshape(values, [*dims, 1])
    if len(dims) == 2 and ctx.op.type == "DenseBincount":
        rows = b.iota(array(values.array_shape.element_type, [*dims, 1]), 0)
        start = broadcast_to(b, scalar(ctx, news, 0), [dims[0], size])
        return scatter_nd(ctx, start, b.concatenate([rows, indices], 2), news, opcode)
    return scatter_nd(ctx, broadcast_to(b, scalar(ctx, news, 0), [size]), indices, news, opcode)


@register("InvertPermutation")
def _invert_permutation(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    shape = x.array_shape
    if shape.rank != 1:
        ctx.fail(f"expected a vector as permutation, not {x.shape}")
    places = ctx.b.iota(array(shape.element_type, shape.dimensions), 0)
    return scatter_rows(ctx, broadcast_to(ctx.b, scalar(ctx, x, 0), shape.dimensions), x, places, None)
