"""Ranges, one-hot, argmax and top-k.

Source: tf2xla/kernels/{sequence_ops,one_hot_op,index_ops,topk_op}.cc.
"""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from xlanb.hlo import HloComputation, HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to, canonical_axes, canonical_axis
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import highest, lowest, scalar, scalar_of
from xlanb.tf2xla.kernels.dynamic import without_dynamic
from xlanb.tf2xla.registry import register


@register("Range", constants=(0, 1, 2))
def _range(ctx: OpContext) -> HloInstruction:
    start, delta = ctx.number(0), ctx.number(2)
    limit = ctx.bounded_number(1)
    if not all(isfinite(v) for v in (start, limit, delta)):
        ctx.fail(f"a range from {start} to {limit} by {delta} is endless")
    if delta == 0 or (start != limit and (limit > start) != (delta > 0)):
        ctx.fail(f"a range from {start} to {limit} cannot have the step {delta}")
    is_integer = all(isinstance(v, int) for v in (start, limit, delta))
    count = len(range(start, limit, delta)) if is_integer else ceil(abs((limit - start) / delta))
    kind = ctx.shape(0).element_type
    steps = ctx.b.iota(array(kind, [count]), 0)
    made = ctx.b.add(ctx.b.multiply(steps, scalar_of(ctx, kind, delta)), scalar_of(ctx, kind, start))
    end = ctx.size_of(1)
    return made if end is None else ctx.b.set_dimension_size(made, _steps(ctx, start, end, delta), 0)


def _steps(ctx: OpContext, start: int, end: HloInstruction, delta: int) -> HloInstruction:
    """Return the length of a range from `start` to below `end`, s32: ceil((end - start) /
    delta).
    """
    b = ctx.b
    if delta < 0:
        ctx.fail("a range to a dynamic size must go upwards")
    span = b.add(end, scalar_of(ctx, PrimitiveType.S32, delta - 1 - start))
    return b.divide(b.maximum(span, scalar(ctx, span, 0)), scalar(ctx, span, delta))


@register("LinSpace", constants=(0, 1, 2), ranks="0 0 0")
def _linspace(ctx: OpContext) -> HloInstruction:
    start, stop, count = ctx.constant(0), ctx.constant(1), int(ctx.number(2))
    if count < 1:
        ctx.fail(f"num must be positive, not {count}")
    ctx.check_constant([count])
    dtype = ctx.shape(0).dtype
    step = (stop.reshape(()) - start.reshape(())) / np.asarray(max(count - 1, 1)).astype(dtype)
    values = start.reshape(()) + step * np.arange(count).astype(dtype)
    values[-1] = stop.item() if count > 1 else start.item()
    return ctx.b.constant(values.astype(dtype))


@register("OneHot", constants=(1,))
def _one_hot(ctx: OpContext) -> HloInstruction:
    indices, depth, on, off = ctx.input(0), int(ctx.number(1)), ctx.input(2), ctx.input(3)
    dims = list(indices.array_shape.dimensions)
    if depth < 0:
        ctx.fail(f"depth must not be negative, but is {depth}")
    (axis,) = canonical_axes([int(ctx.attr("axis", -1))], len(dims) + 1, ctx.op.name)
    return one_hot(ctx, indices, depth, axis, on, off)


def one_hot(
    ctx: OpContext, indices: HloInstruction, depth: int, axis: int, on: HloInstruction, off: HloInstruction
) -> HloInstruction:
    """Return `on` where the index along a new dimension `axis` matches, `off` elsewhere."""
    dims = list(indices.array_shape.dimensions)
    wide = [*dims[:axis], depth, *dims[axis:]]
    given = ctx.b.broadcast_in_dim(indices, wide, [i for i in range(len(wide)) if i != axis])
    hit = ctx.b.compare(given, ctx.b.iota(array(indices.array_shape.element_type, wide), axis), "EQ")
    return ctx.b.select(hit, broadcast_to(ctx.b, on, wide), broadcast_to(ctx.b, off, wide))


def arg_reduce(
    ctx: OpContext, x: HloInstruction, axis: int, *, largest: bool, kind: PrimitiveType = PrimitiveType.S32
) -> HloInstruction:
    """Return the first index of the largest (smallest) element along an axis, as `kind`.

    Values and indices are reduced together.
    """
    element = x.array_shape.element_type
    initial = ctx.b.constant(lowest(element) if largest else highest(element))
    indices = ctx.b.iota(array(kind, x.array_shape.dimensions), axis)
    region = _better_of_pairs(ctx, "GT" if largest else "LT", element, kind)
    return ctx.b.get_tuple_element(ctx.b.reduce([x, indices], [initial, scalar_of(ctx, kind, 0)], [axis], region), 1)


def _better_of_pairs(ctx: OpContext, direction: str, element: PrimitiveType, index: PrimitiveType) -> HloComputation:
    """(a, i), (b, j) -> the pair of the better value, NaN first; of equal values the smaller
    index.
    """
    inner = ctx.b.sub_computation(f"arg_{direction.lower()}")
    a, i, b, j = (inner.parameter(n, array((element, index)[n % 2])) for n in range(4))
    wins = inner.compare(a, b, direction)
    equal = inner.compare(a, b, "EQ")
    if element.is_floating:
        first_nan, second_nan = (inner.compare(v, v, "NE") for v in (a, b))
        wins = inner.or_(wins, inner.and_(first_nan, inner.not_(second_nan)))
        equal = inner.or_(equal, inner.and_(first_nan, second_nan))
    first = inner.or_(wins, inner.and_(equal, inner.compare(i, j, "LE")))
    return inner.build_computation(inner.tuple([inner.select(first, a, b), inner.select(first, i, j)]))


@register("ArgMax", "ArgMin", constants=(1,))
def _arg_max(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    axis = canonical_axis(int(ctx.number(1)), x.array_shape.rank, ctx.op.name)
    if x.array_shape.dimensions[axis] == 0:
        ctx.fail(f"dimension {axis} of {x.shape} is empty")
    wanted = ctx.attr("output_type")
    kind = PrimitiveType.S64 if wanted is None else from_dtype(wanted.as_numpy_dtype)
    return arg_reduce(ctx, x, axis, largest=ctx.op.type == "ArgMax", kind=kind)


@register("TopKV2", constants=(1,))
def _top_k_v2(ctx: OpContext) -> list[HloInstruction]:
    wanted = ctx.attr("index_type")
    kind = PrimitiveType.S32 if wanted is None else from_dtype(wanted.as_numpy_dtype)
    made, size = _top_k(ctx, int(ctx.bounded_number(1)), kind), ctx.size_of(1)
    last = ctx.shape(0).rank - 1
    return made if size is None else [ctx.b.set_dimension_size(m, size, last) for m in made]


@register("TopK")
def _top_k_v1(ctx: OpContext) -> list[HloInstruction]:
    return _top_k(ctx, int(ctx.attr("k")), PrimitiveType.S32)


def _top_k(ctx: OpContext, k: int, kind: PrimitiveType) -> list[HloInstruction]:
    """Return the k largest of the last dimension and their indices, by a stable descending sort."""
    x = ctx.input(0)
    dims = x.array_shape.dimensions
    if dims and x.array_shape.is_dynamic_dimension(len(dims) - 1):
        x = without_dynamic(ctx, x, [len(dims) - 1], lowest(x.array_shape.element_type))
    if not dims or not 0 <= k <= dims[-1]:
        ctx.fail(f"the last dimension of {x.shape} does not have {k} elements")
    last = len(dims) - 1
    indices = ctx.b.iota(array(PrimitiveType.S32, dims), last)
    both = ctx.b.sort([x, indices], last, "GT", stable=True)
    starts, limits = [0] * len(dims), [*dims[:-1], k]
    values, places = (ctx.b.slice(ctx.b.get_tuple_element(both, i), starts, limits) for i in range(2))
    return [values, ctx.b.convert(places, kind)]


@register("ApproxTopK")
def _approx_top_k(ctx: OpContext) -> list[HloInstruction]:
    """Return the exact k largest (smallest) along a dimension and their indices.

    This satisfies any requested recall.
    """
    x, k = ctx.input(0), int(ctx.attr("k"))
    dims = list(x.array_shape.dimensions)
    (axis,) = canonical_axes([int(ctx.attr("reduction_dimension", -1))], len(dims), ctx.op.name)
    if not 0 <= k <= dims[axis]:
        ctx.fail(f"dimension {axis} of {x.shape} does not have {k} elements")
    if not ctx.attr("aggregate_to_topk", True):
        ctx.fail("partial results are not computed: set aggregate_to_topk to true")
    indices = ctx.b.iota(array(PrimitiveType.S32, dims), axis)
    both = ctx.b.sort([x, indices], axis, "GT" if ctx.attr("is_max_k", True) else "LT", stable=True)
    limits = [*dims[:axis], k, *dims[axis + 1 :]]
    return [ctx.b.slice(ctx.b.get_tuple_element(both, i), [0] * len(dims), limits) for i in range(2)]


@register("InTopKV2", "InTopK", ranks="2 1 0")
def _in_top_k(ctx: OpContext) -> HloInstruction:
    """Whether fewer than k predictions of the row exceed the target's.

    False if the target's is not finite or the target is out of range.
    """
    predictions, targets = ctx.input(0), ctx.input(1)
    rows, classes = predictions.array_shape.dimensions
    b = ctx.b
    kind = targets.array_shape.element_type
    k = ctx.input(2) if ctx.op.type == "InTopKV2" else scalar_of(ctx, kind, int(ctx.attr("k")))
    zero = scalar(ctx, predictions, 0)
    picked = b.reduce(one_hot_select(ctx, targets, classes, predictions), zero, [1], HloOpcode.ADD)
    larger = b.convert(b.compare(predictions, b.broadcast_in_dim(picked, [rows, classes], [0]), "GT"), kind)
    count = b.reduce(larger, scalar_of(ctx, kind, 0), [1], HloOpcode.ADD)
    finite = b.reduce(b.is_finite(predictions), b.constant(np.ones((), np.bool_)), [1], HloOpcode.AND)
    known = b.and_(
        b.compare(targets, scalar(ctx, targets, 0), "GE"), b.compare(targets, scalar(ctx, targets, classes), "LT")
    )
    return b.and_(b.compare(count, broadcast_to(b, k, [rows]), "LT"), b.and_(known, finite))


def one_hot_select(ctx: OpContext, indices: HloInstruction, depth: int, x: HloInstruction) -> HloInstruction:
    """`x` [n, depth] at each row's index, 0 elsewhere."""
    dims = x.array_shape.dimensions
    given = ctx.b.broadcast_in_dim(indices, dims, [0])
    hit = ctx.b.compare(given, ctx.b.iota(array(indices.array_shape.element_type, [dims[0], depth]), 1), "EQ")
    return ctx.b.select(hit, x, broadcast_to(ctx.b, scalar(ctx, x, 0), dims))
