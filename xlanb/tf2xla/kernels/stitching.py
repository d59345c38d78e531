"""Stitch rows by index, subtract lists, select boxes that do not overlap.

Source: tf2xla/kernels/{dynamic_stitch_op,listdiff_op,image_ops}.cc.
"""

from __future__ import annotations

import math

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar, scalar_of
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.indices import arg_reduce
from xlanb.tf2xla.kernels.loops import repeat
from xlanb.tf2xla.kernels.scattering import scatter_nd
from xlanb.tf2xla.registry import register


@register("DynamicStitch", "ParallelDynamicStitch", constants=lambda count: range(count // 2))
def _stitch(ctx: OpContext) -> HloInstruction:
    """Put the last row of index i into row i of the result; zeros if there is none."""
    count = ctx.input_count // 2
    indices = [ctx.constant(i) for i in range(count)]
    data = ctx.inputs[count:]
    rest = data[0].array_shape.dimensions[indices[0].ndim :]
    rows = []
    for i, d in zip(indices, data, strict=True):
        if d.array_shape.dimensions != i.shape + rest:
            ctx.fail(f"data {d.shape} do not match indices of shape {list(i.shape)}")
        rows.append(ctx.b.reshape(d, [i.size, *rest]))
    where = np.concatenate([i.ravel() for i in indices]).astype(np.int64)
    if where.size and where.min() < 0:
        ctx.fail(f"index {where.min()} is negative")
    size = int(where.max()) + 1 if where.size else 0
    if size > 2 * where.size + 2**20:
        ctx.fail(f"index {size - 1} is out of range for {where.size} rows")
    # a last row of zeros, for missing indices
    ctx.check_constant([size])
    source = np.full([size], where.size, np.int32)
    source[where] = np.arange(where.size)
    zeros = broadcast_to(ctx.b, scalar(ctx, data[0], 0), [1, *rest])
    return gather_slices(ctx, ctx.b.concatenate([*rows, zeros], 0), ctx.b.constant(source), 0)


@register("ListDiff", constants=(0, 1), ranks="1 1")
def _list_diff(ctx: OpContext) -> list[HloInstruction]:
    """Return the elements of the first list that are not in the second, and their indices."""
    x, gone = ctx.constant(0), ctx.constant(1)
    kept = np.flatnonzero(~np.isin(x, gone))
    return [ctx.b.constant(x[kept]), ctx.b.constant(kept.astype(ctx.element_type("out_idx").dtype))]


@register("SparseToDense", constants=(1,))
def _sparse_to_dense(ctx: OpContext) -> HloInstruction:
    """The default everywhere but at the given indices: a scalar, a vector or a matrix of them."""
    indices, values, default = ctx.input(0), ctx.input(2), ctx.input(3)
    dims = ctx.ints(1)
    if any(d < 0 for d in dims) or indices.array_shape.rank > 2:
        ctx.fail(f"cannot write at indices {indices.shape} into {dims}")
    if indices.array_shape.rank < 2:
        indices = ctx.b.reshape(indices, [indices.array_shape.element_count, 1])
    return scatter_nd(ctx, broadcast_to(ctx.b, default, dims), indices, values, None)


@register("NonMaxSuppressionV3", constants=(2,))
def _non_max_suppression_3(ctx: OpContext) -> HloInstruction:
    """The same, only as many indices as there are."""
    chosen, count = _boxes_taken(ctx)
    return ctx.b.set_dimension_size(chosen, count, 0)


@register("NonMaxSuppressionV4", constants=(2,))
def _non_max_suppression(ctx: OpContext) -> list[HloInstruction]:
    if ctx.attr("pad_to_max_output_size", False):
        return _boxes_taken(ctx)
    chosen, count = _boxes_taken(ctx)
    return [ctx.b.set_dimension_size(chosen, count, 0), count]


def _boxes_taken(ctx: OpContext) -> list[HloInstruction]:
    """Select boxes by score, skipping those that overlap a selected one too much.

    Returns their indices, padded with zeros, and their number.
    """
    boxes, scores, size = ctx.input(0), ctx.input(1), int(ctx.number(2))
    if boxes.array_shape.rank != 2 or boxes.array_shape.dimensions[1] != 4 or size < 0:
        ctx.fail(f"boxes must have shape [n, 4], not {boxes.shape}, and the size must not be negative, not {size}")
    if scores.array_shape.dimensions != boxes.array_shape.dimensions[:1]:
        ctx.fail(f"expected one score for each of {boxes.array_shape.dimensions[0]} boxes, not {scores.shape}")
    b = ctx.b
    wide, count = PrimitiveType.F32, boxes.array_shape.dimensions[0]
    boxes, scores = (b.convert(x, wide) for x in (boxes, scores))
    overlap, least = (b.convert(ctx.input(i), wide) for i in (3, 4))
    if not size or not count:
        return [broadcast_to(b, scalar_of(ctx, PrimitiveType.S32, 0), [size]), scalar_of(ctx, PrimitiveType.S32, 0)]
    left = b.select(b.compare(scores, broadcast_to(b, least, [count]), "GT"), scores, filled(ctx, scores, -math.inf))
    state = [left, _ordered(ctx, boxes), overlap, broadcast_to(b, scalar_of(ctx, PrimitiveType.S32, 0), [size])]
    state = repeat(ctx, size, [*state, scalar_of(ctx, PrimitiveType.S32, 0)], _take_one, "nms")
    return [state[3], state[4]]


def _ordered(ctx: OpContext, boxes: HloInstruction) -> HloInstruction:
    """Boxes as [4, n]: least and largest of either side, whichever corners were given."""
    b, n = ctx.b, boxes.array_shape.dimensions[0]
    y0, x0, y1, x1 = (b.slice(b.transpose(boxes, [1, 0]), [i, 0], [i + 1, n]) for i in range(4))
    return b.concatenate([b.minimum(y0, y1), b.minimum(x0, x1), b.maximum(y0, y1), b.maximum(x0, x1)], 0)


def _take_one(ctx: OpContext, _: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
    left, boxes, overlap, chosen, taken = state
    b, n = ctx.b, left.array_shape.dimensions[0]
    zero = scalar_of(ctx, PrimitiveType.S32, 0)
    best = arg_reduce(ctx, left, 0, largest=True)
    score = b.reshape(b.dynamic_slice(left, [best], [1]), [])
    found = b.compare(score, scalar(ctx, score, -math.inf), "GT")
    box = broadcast_to(b, b.dynamic_slice(boxes, [zero, best], [4, 1]), [4, n])

    def rows(x: HloInstruction) -> list[HloInstruction]:
        return [b.reshape(b.slice(x, [i, 0], [i + 1, n]), [n]) for i in range(4)]

    (y0, x0, y1, x1), (v0, u0, v1, u1) = rows(boxes), rows(box)
    high = b.maximum(b.subtract(b.minimum(y1, v1), b.maximum(y0, v0)), filled(ctx, left, 0))
    broad = b.maximum(b.subtract(b.minimum(x1, u1), b.maximum(x0, u0)), filled(ctx, left, 0))
    both = b.multiply(high, broad)
    areas = [b.multiply(b.subtract(q, p), b.subtract(t, s)) for p, q, s, t in ((y0, y1, x0, x1), (v0, v1, u0, u1))]
    union = b.subtract(b.add(*areas), both)
    is_flat = b.or_(*(b.compare(a, filled(ctx, a, 0), "LE") for a in areas))
    share = b.select(is_flat, filled(ctx, both, 0), b.divide(both, union))
    gone = b.compare(share, broadcast_to(b, overlap, [n]), "GT")
    gone = b.or_(gone, b.compare(b.iota(array(PrimitiveType.S32, [n]), 0), broadcast_to(b, best, [n]), "EQ"))
    after = b.dynamic_update_slice(chosen, b.reshape(best, [1]), [taken])
    return [
        b.select(gone, filled(ctx, left, -math.inf), left),
        boxes,
        overlap,
        b.select(broadcast_to(b, found, chosen.array_shape.dimensions), after, chosen),
        b.add(taken, b.convert(found, PrimitiveType.S32)),
    ]


@register("TridiagonalMatMul", ranks="2+ 2+ 2+ 2+")
def _tridiagonal_matmul(ctx: OpContext) -> HloInstruction:
    """Multiply a matrix of diagonals [..., 1, m] by [..., m, n].

    The superdiagonal's last and the subdiagonal's first element are ignored.
    """
    above, main, below, x = ctx.inputs
    b = ctx.b
    dims = x.array_shape.dimensions
    row = len(dims) - 2

    def spread(diagonal: HloInstruction) -> HloInstruction:
        size = diagonal.array_shape.dimensions
        return broadcast_to(b, b.reshape(diagonal, [*size[:-2], size[-1], 1]), dims)

    def shifted(by: int) -> HloInstruction:
        sides = [(0, 0, 0)] * len(dims)
        sides[row] = (-by, by, 0)
        return b.pad(x, scalar(ctx, x, 0), sides)

    parts = [b.multiply(spread(d), v) for d, v in ((main, x), (above, shifted(1)), (below, shifted(-1)))]
    return b.add(b.add(parts[0], parts[1]), parts[2])


@register("TridiagonalSolve", ranks="2+ 2+")
def _tridiagonal_solve(ctx: OpContext) -> HloInstruction:
    """Solve by Thomas' algorithm without pivoting, the only one of TensorFlow's XLA.

    diagonals: [..., 3, m] (above, main, below); right sides: [..., m, k].
    """
    if ctx.attr("partial_pivoting", True):
        ctx.fail("partial pivoting is not supported: set partial_pivoting to false")
    diagonals, right = ctx.inputs
    b = ctx.b
    *batch, m, _ = right.array_shape.dimensions
    if diagonals.array_shape.dimensions != (*batch, 3, m):
        ctx.fail(f"diagonals {diagonals.shape} do not match {right.shape}")
    if not m:
        return right
    front = [len(batch) + 1, *range(len(batch)), len(batch)]
    rows = b.transpose(diagonals, front)  # m first: [m, ..., 3]
    sides = b.transpose(right, [len(batch), *range(len(batch)), len(batch) + 1])
    first = filled(ctx, _at(ctx, sides, scalar_of(ctx, PrimitiveType.S32, 0)), 0)
    share = filled(ctx, b.reshape(b.slice(rows, [0] * rows.array_shape.rank, [1, *batch, 1]), batch), 0)
    shares = broadcast_to(b, scalar(ctx, right, 0), [m, *batch])
    state = [rows, sides, shares, sides, share, first]
    _, _, shares, sides, _, _ = repeat(ctx, m, state, _eliminate, "tridiagonal_down")
    solved = repeat(ctx, m, [shares, sides, sides, first], _substitute, "tridiagonal_up")[2]
    return b.transpose(solved, [*range(1, len(batch) + 1), 0, len(batch) + 1])


def _at(ctx: OpContext, x: HloInstruction, index: HloInstruction) -> HloInstruction:
    dims = x.array_shape.dimensions[1:]
    zeros = [scalar_of(ctx, PrimitiveType.S32, 0)] * len(dims)
    return ctx.b.reshape(ctx.b.dynamic_slice(x, [index, *zeros], [1, *dims]), dims)


def _put(ctx: OpContext, x: HloInstruction, index: HloInstruction, row: HloInstruction) -> HloInstruction:
    dims = row.array_shape.dimensions
    zeros = [scalar_of(ctx, PrimitiveType.S32, 0)] * len(dims)
    return ctx.b.dynamic_update_slice(x, ctx.b.reshape(row, [1, *dims]), [index, *zeros])


def _eliminate(ctx: OpContext, index: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
    rows, right, shares, sides, share, side = state
    b, batch = ctx.b, list(share.array_shape.dimensions)
    three = _at(ctx, rows, index)
    above, main, below = (b.reshape(b.slice(three, [0] * len(batch) + [i], [*batch, i + 1]), batch) for i in range(3))
    bottom = b.subtract(main, b.multiply(below, share))
    share = b.divide(above, bottom)

    def wide(x: HloInstruction) -> HloInstruction:
        return b.broadcast_in_dim(x, side.array_shape.dimensions, range(len(batch)))

    side = b.divide(b.subtract(_at(ctx, right, index), b.multiply(wide(below), side)), wide(bottom))
    return [rows, right, _put(ctx, shares, index, share), _put(ctx, sides, index, side), share, side]


def _substitute(ctx: OpContext, index: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
    shares, sides, solved, after = state
    b = ctx.b
    place = b.subtract(scalar_of(ctx, PrimitiveType.S32, shares.array_shape.dimensions[0] - 1), index)
    share = _at(ctx, shares, place)
    wide = b.broadcast_in_dim(share, after.array_shape.dimensions, range(share.array_shape.rank))
    here = b.subtract(_at(ctx, sides, place), b.multiply(wide, after))
    return [shares, sides, _put(ctx, solved, place, here), here]
