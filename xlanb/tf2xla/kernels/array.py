"""Shapes, constants and rearrangement.

Source: tf2xla/kernels/{shape_op,reshape_op,tile_ops,fill_op,const_op,gather_op,...}.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import TupleShape
from xlanb.tf2xla.broadcasting import broadcast_dimensions, broadcast_to, canonical_axes, canonical_axis, constant
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.registry import register


@register("Const", "HostConst")
def _const(ctx: OpContext) -> HloInstruction | None:
    value = np.asarray(ctx.attr("value"))
    if value.dtype.kind in "OSU":
        return None  # a string, which has no HLO: only Assert, which is dropped, may use it
    return constant(ctx.b, value)


@register("Identity", "StopGradient", "PreventGradient", "Snapshot", "PlaceholderWithDefault", "CheckNumerics")
def _identity(ctx: OpContext) -> HloInstruction:
    return ctx.input(0)


@register("IdentityN")
def _identity_n(ctx: OpContext) -> list[HloInstruction]:
    return ctx.inputs


@register("NoOp", "ControlTrigger")
def _no_op(_: OpContext) -> None:
    return None


@register("Shape")
def _shape(ctx: OpContext) -> HloInstruction:
    return _sizes_of(ctx, ctx.input(0))


@register("ShapeN")
def _shape_n(ctx: OpContext) -> list[HloInstruction]:
    return [_sizes_of(ctx, x) for x in ctx.inputs]


def _sizes_of(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """Sizes [rank]: a constant, but for dynamic dimensions."""
    shape, b = x.array_shape, ctx.b
    counts = _counts(ctx, shape.dimensions)
    if not shape.is_dynamic:
        return b.constant(counts)
    kind = ctx.element_type("out_type")
    parts = [
        b.convert(b.get_dimension_size(x, d), kind) if moves else b.constant(counts[d])
        for d, moves in enumerate(shape.dynamic)
    ]
    return b.concatenate([b.reshape(p, [1]) for p in parts], 0)


@register("Size")
def _size(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    if not x.array_shape.is_dynamic:
        return ctx.b.constant(_counts(ctx, x.array_shape.element_count))
    sizes = _sizes_of(ctx, x)
    start = ctx.b.constant(np.ones((), sizes.array_shape.dtype))
    return ctx.b.reduce(sizes, start, [0], HloOpcode.MULTIPLY)


def _counts(ctx: OpContext, values: Sequence[int] | int) -> NDArray[Any]:
    """Return sizes in the node's type; fail if one does not fit."""
    kind = ctx.element_type("out_type")
    largest = values if isinstance(values, int) else max(values, default=0)
    if largest > np.iinfo(kind.dtype).max:
        ctx.fail(f"{largest:,} elements do not fit {kind}: set out_type=int64")
    return np.asarray(values, kind.dtype)


@register("Rank")
def _rank(ctx: OpContext) -> HloInstruction:
    return ctx.b.constant(np.asarray(ctx.shape(0).rank, np.int32))


@register("Reshape", constants=(1,))
def _reshape(ctx: OpContext) -> HloInstruction:
    x, wanted = ctx.input(0), ctx.bounded_ints(1)
    total = x.array_shape.element_count
    if wanted.count(-1) == 1:
        known = prod(d for d in wanted if d != -1)
        if known == 0 or total % known:
            ctx.fail(f"cannot reshape {total} elements to {wanted}")
        wanted = [total // known if d == -1 else d for d in wanted]
    if prod(wanted) != total or any(d < 0 for d in wanted):
        ctx.fail(f"cannot reshape {total} elements of shape {list(x.array_shape.dimensions)} to {wanted}")
    return ctx.sized(ctx.b.reshape(x, wanted), 1)


@register("ExpandDims", constants=(1,))
def _expand_dims(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    dims = list(x.array_shape.dimensions)
    axis = canonical_axis(int(ctx.number(1)), len(dims) + 1, ctx.op.name)
    return ctx.b.reshape(x, [*dims[:axis], 1, *dims[axis:]])


@register("Squeeze")
def _squeeze(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    dims = x.array_shape.dimensions
    axes = canonical_axes(list(ctx.attr("squeeze_dims", [])), len(dims), ctx.op.name) or [
        i for i, d in enumerate(dims) if d == 1
    ]
    if any(dims[a] != 1 for a in axes):
        ctx.fail(f"cannot squeeze axes {axes} of shape {list(dims)}")
    return ctx.b.reshape(x, [d for i, d in enumerate(dims) if i not in axes])


@register("Transpose", constants=(1,))
def _transpose(ctx: OpContext) -> HloInstruction:
    permutation = ctx.ints(1)
    if sorted(permutation) != list(range(ctx.shape(0).rank)):
        ctx.fail(f"{permutation} is not a permutation of {ctx.shape(0).rank} dimensions")
    return ctx.b.transpose(ctx.input(0), permutation)


@register("Fill", constants=(0,))
def _fill(ctx: OpContext) -> HloInstruction:
    return ctx.sized(broadcast_to(ctx.b, ctx.input(1), ctx.sizes(0)), 0)


@register("BroadcastTo", constants=(1,))
def _broadcast_to(ctx: OpContext) -> HloInstruction:
    return ctx.sized(broadcast_to(ctx.b, ctx.input(0), ctx.sizes(1)), 1)


@register("ZerosLike", "OnesLike")
def _like(ctx: OpContext) -> HloInstruction:
    held = ctx.input(0).shape
    if isinstance(held, TupleShape):  # a list: its rows become zeros, as many as are filled
        buffer, *count = (ctx.b.get_tuple_element(ctx.input(0), i) for i in range(len(held.shapes)))
        zero = ctx.b.constant(np.zeros((), buffer.array_shape.dtype))
        return ctx.b.tuple([broadcast_to(ctx.b, zero, buffer.array_shape.dimensions), *count])
    shape = ctx.shape(0)
    value = np.asarray(ctx.op.type == "OnesLike").astype(shape.dtype)
    return broadcast_to(ctx.b, ctx.b.constant(value), shape.dimensions)


@register("Tile", constants=(1,))
def _tile(ctx: OpContext) -> HloInstruction:
    """Each dimension d repeated m times: broadcast to [m0, d0, m1, d1, ...], then merged."""
    x, multiples = ctx.input(0), ctx.bounded_ints(1)
    dims = x.array_shape.dimensions
    if len(multiples) != len(dims) or any(m < 0 for m in multiples):
        ctx.fail(f"multiples {multiples} do not match shape {list(dims)}")
    if all(m == 1 for m in multiples) and ctx.known(ctx.input(1)) is not None:
        return x
    spread = [size for pair in zip(multiples, dims, strict=True) for size in pair]
    wide = ctx.b.broadcast_in_dim(x, spread, range(1, 2 * len(dims), 2))
    made = ctx.b.reshape(wide, [m * d for m, d in zip(multiples, dims, strict=True)])
    for d, size in enumerate(dims):
        multiple = ctx.size_of(1, d)
        if multiple is not None and x.array_shape.is_dynamic_dimension(d):
            ctx.fail(f"dimension {d} is dynamic, and so is how often it is repeated")
        if multiple is not None:
            each = ctx.b.constant(np.asarray(size, np.int32))
            made = ctx.b.set_dimension_size(made, ctx.b.multiply(multiple, each), d)
    return made


@register("BroadcastGradientArgs", constants=(0, 1))
def _broadcast_gradient_args(ctx: OpContext) -> list[HloInstruction]:
    """Return the axes along which the gradients of two broadcast operands must be summed."""
    a, b = ctx.bounded_ints(0), ctx.bounded_ints(1)
    rank = max(len(a), len(b))
    wide = [[1] * (rank - len(s)) + s for s in (a, b)]
    # As in TensorFlow, an axis of size 1 on both sides is in both lists: its sum changes nothing.
    axes = [[i for i, size in enumerate(s) if size == 1] for s in wide]
    if a == b:
        axes = [[], []]
    dtype = ctx.shape(0).dtype
    return [ctx.b.constant(np.asarray(x, dtype)) for x in axes]


@register("BroadcastArgs", constants=(0, 1))
def _broadcast_args(ctx: OpContext) -> HloInstruction:
    dims = broadcast_dimensions(ctx.ints(0), ctx.ints(1))
    return ctx.b.constant(np.asarray(dims, ctx.shape(0).dtype))


@register("Empty", constants=(0,))
def _empty(ctx: OpContext) -> HloInstruction:
    """Return zeros, for `init` false too."""
    return broadcast_to(ctx.b, ctx.b.constant(np.zeros((), ctx.element_type("dtype").dtype)), ctx.sizes(0))


@register("EnsureShape")
def _ensure_shape(ctx: OpContext) -> HloInstruction:
    x, wanted = ctx.input(0), ctx.attr("shape")
    dims = x.array_shape.dimensions
    if wanted.rank is not None and (
        wanted.rank != len(dims) or any(w not in (None, d) for w, d in zip(wanted.as_list(), dims, strict=True))
    ):
        ctx.fail(f"shape {list(dims)} is not compatible with {wanted}")
    return x


def _formats(ctx: OpContext) -> tuple[str, str]:
    source, target = str(ctx.attr("src_format", "NHWC")), str(ctx.attr("dst_format", "NCHW"))
    if sorted(source) != sorted(target):
        ctx.fail(f"formats {source} and {target} have different dimensions")
    return source, target


@register("DataFormatDimMap")
def _format_dim_map(ctx: OpContext) -> HloInstruction:
    """Map dimension numbers from the source format to the target format; negative ones wrap."""
    source, target = _formats(ctx)
    x = ctx.input(0)
    b, kind = ctx.b, x.array_shape.dtype
    dims = x.array_shape.dimensions
    rank = broadcast_to(b, b.constant(np.asarray(len(source)).astype(kind)), dims)
    index = b.remainder(b.add(x, rank), rank)
    table = b.constant(np.asarray([target.index(c) for c in source]).astype(kind))
    return b.reshape(gather_slices(ctx, table, index, 0), dims)


@register("DataFormatVecPermute")
def _format_vec_permute(ctx: OpContext) -> HloInstruction:
    """Permute sizes (or pairs) to the target format; a vector of two has height and width only."""
    source, target = _formats(ctx)
    x = ctx.input(0)
    if x.array_shape.dimensions[:1] == (len(source) - 2,):
        source, target = ("".join(c for c in f if c not in "NC") for f in (source, target))
    if x.array_shape.dimensions[:1] != (len(source),):
        ctx.fail(f"{x.shape} must have one element for each of {source}")
    return gather_slices(ctx, x, ctx.b.constant(np.asarray([source.index(c) for c in target], np.int32)), 0)


@register("_ListToArray", "_ArrayToList", "_EagerConst", "XlaOptimizationBarrier")
def _passed_on(ctx: OpContext) -> list[HloInstruction]:
    return ctx.inputs
