"""StridedSlice, its variants, and Slice.

Source: tf2xla/kernels/{strided_slice_op,slice_op}.cc, core/util/strided_slice_op.cc.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import scalar, scalar_of
from xlanb.tf2xla.kernels.dynamic import without_dynamic
from xlanb.tf2xla.registry import register

_NEW = -1  # in a result's dimensions: made by new_axis_mask


@dataclass(frozen=True)
class _Subscript:
    """One index of x[...]: a position in begin, end and strides (None: the whole dimension), and
    masks.
    """

    position: int | None
    begin_masked: bool = True
    end_masked: bool = True
    is_shrunk: bool = False


@dataclass(frozen=True)
class _Strided:
    """The range of each dimension in a strided slice, and the result's dimensions."""

    ranges: tuple[range, ...]
    result: tuple[int, ...]

    @property
    def backwards(self) -> list[int]:
        """Dimensions that are read from the end."""
        return [i for i, r in enumerate(self.ranges) if r.step < 0]

    @property
    def counts(self) -> list[int]:
        """Elements taken of each dimension."""
        return [len(r) for r in self.ranges]


def _subscripts(ctx: OpContext, count: int, rank: int) -> tuple[list[_Subscript], list[int]]:
    """Return each dimension's subscript, and each result dimension's source (_NEW if none)."""
    begins, ends, ellipses, news, shrinks = (
        int(ctx.attr(f"{name}_mask", 0)) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    if ellipses & (ellipses - 1):
        ctx.fail("a subscript may contain only one ellipsis")
    if not ellipses & ((1 << count) - 1):
        ellipses, count = 1 << count, count + 1
    taken = sum(1 for i in range(count) if not (ellipses >> i & 1) and not (news >> i & 1))
    if taken > rank:
        ctx.fail(f"{taken} subscripts for {rank} dimensions")
    subscripts: list[_Subscript] = []
    result: list[int] = []
    for i in range(count):
        if ellipses >> i & 1:
            result.extend(range(len(subscripts), len(subscripts) + rank - taken))
            subscripts.extend(_Subscript(None) for _ in range(rank - taken))
        elif news >> i & 1:
            result.append(_NEW)
        else:
            is_shrunk = bool(shrinks >> i & 1)
            if not is_shrunk:
                result.append(len(subscripts))
            subscripts.append(_Subscript(i, bool(begins >> i & 1), bool(ends >> i & 1), is_shrunk))
    return subscripts, result


def _range(ctx: OpContext, s: _Subscript, size: int, begin: int, end: int, stride: int) -> range:
    if stride == 0:
        ctx.fail(f"strides[{s.position}] must not be 0")
    if not s.is_shrunk:
        return range(*slice(None if s.begin_masked else begin, None if s.end_masked else end, stride).indices(size))
    if stride < 0:
        ctx.fail(f"strides[{s.position}] must be positive if a single element is selected")
    # begin_mask is not heeded where shrink_axis_mask is set
    start = begin + size if begin < 0 else begin
    if not 0 <= start < size:
        ctx.fail(f"slice index {begin} of dimension {s.position} is out of bounds for size {size}")
    return range(start, start + 1)


def _strided(ctx: OpContext, dims: Sequence[int], first: int, whole: Collection[int] = ()) -> _Strided:
    """Return the strided slice of an array of `dims` by the inputs from `first` on.

    These are begin, end and strides. Dimensions in `whole` are taken entirely.
    """
    begin, end, strides = (ctx.ints(first + i) for i in range(3))
    if not len(begin) == len(end) == len(strides):
        ctx.fail(f"begin, end and strides differ in length: {len(begin)}, {len(end)} and {len(strides)}")
    subscripts, result = _subscripts(ctx, len(strides), len(dims))
    ranges = tuple(
        range(size)
        if s.position is None or d in whole
        else _range(ctx, s, size, begin[s.position], end[s.position], strides[s.position])
        for d, (s, size) in enumerate(zip(subscripts, dims, strict=True))
    )
    return _Strided(ranges, tuple(1 if i == _NEW else len(ranges[i]) for i in result))


@register("StridedSlice", constants=(1, 2, 3))
def _strided_slice(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    if ctx.known(ctx.input(1)) is None or ctx.known(ctx.input(2)) is None:
        return _dynamic(ctx, x)
    x, sliced = _of_dynamic_size(ctx, x)
    dims = x.array_shape.dimensions
    s = _strided(ctx, dims, 1, sliced)
    if s.backwards:
        x = ctx.b.reverse(x, s.backwards)
    starts = [r.start if r.step > 0 else size - 1 - r.start for r, size in zip(s.ranges, dims, strict=True)]
    limits = [
        start + (len(r) - 1) * abs(r.step) + 1 if len(r) else start for r, start in zip(s.ranges, starts, strict=True)
    ]
    if list(limits) != list(dims) or any(starts) or any(abs(r.step) > 1 for r in s.ranges):
        x = ctx.b.slice(
            x, [min(a, size) for a, size in zip(starts, dims, strict=True)], limits, [abs(r.step) for r in s.ranges]
        )
    return ctx.b.reshape(x, s.result)


def _of_dynamic_size(ctx: OpContext, x: HloInstruction) -> tuple[HloInstruction, set[int]]:
    """Slice along dynamic dimensions, where negative indices count from the run-time end.

    Returns the slice and these dimensions.
    """
    begin, end, strides = (ctx.ints(i) for i in (1, 2, 3))
    shape, done = x.array_shape, set[int]()
    for d, s in enumerate(_subscripts(ctx, len(strides), shape.rank)[0] if shape.is_dynamic else ()):
        is_whole = s.begin_masked and s.end_masked and not s.is_shrunk
        if not shape.is_dynamic_dimension(d) or s.position is None:
            continue
        if strides[s.position] != 1:
            ctx.fail(f"the stride along dimension {d}, whose size is dynamic, must be 1")
        done.add(d)
        if not is_whole:
            first = None if s.begin_masked and not s.is_shrunk else begin[s.position]
            last = None if s.end_masked else end[s.position]
            x = _part(ctx, x, d, first, 0 if s.is_shrunk else last, is_one=s.is_shrunk)
    return x, done


def _part(
    ctx: OpContext, x: HloInstruction, d: int, begin: int | None, end: int | None, *, is_one: bool
) -> HloInstruction:
    """x[begin:end], or x[begin] as a dimension of size 1, along a dimension of dynamic size."""
    b, dims = ctx.b, x.array_shape.dimensions
    size, zero = b.get_dimension_size(x, d), scalar_of(ctx, PrimitiveType.S32, 0)

    def place(n: int | None, default: HloInstruction) -> HloInstruction:
        if n is None:
            return default
        number = scalar_of(ctx, PrimitiveType.S32, n)
        return b.maximum(b.add(size, number), zero) if n < 0 else b.minimum(number, size)

    start, limit = place(begin, zero), place(end, size)
    x = without_dynamic(ctx, x, [d])
    if not is_one and (begin or 0) < 0:  # a window of the bound must fit behind the start
        edge = [(0, dims[d] if k == d else 0, 0) for k in range(len(dims))]
        x = b.pad(x, scalar(ctx, x, 0), edge)
    if not is_one and (begin or 0) >= 0:
        starts = [min(begin or 0, n) if k == d else 0 for k, n in enumerate(dims)]
        made = b.slice(x, starts, dims)
    else:
        starts_now = [start if k == d else zero for k in range(len(dims))]
        made = b.dynamic_slice(x, starts_now, [1 if k == d and is_one else n for k, n in enumerate(dims)])
    if is_one:
        return made
    return b.set_dimension_size(made, b.maximum(b.subtract(limit, start), zero), d)


def _dynamic(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """Slice with begins known only at run time.

    Such dimensions must be indexed by single elements, or have known ends.
    """
    strides = ctx.ints(3)
    if any(s != 1 for s in strides):
        ctx.fail("strides must be 1 unless begin and end are compile-time constants")
    dims = x.array_shape.dimensions
    subscripts, result = _subscripts(ctx, len(strides), len(dims))
    kind = ctx.shape(1).element_type
    starts, sizes = [], []
    for s, size in zip(subscripts, dims, strict=True):
        if s.position is not None and s.is_shrunk:
            starts.append(_wrapped(ctx, _element(ctx, 1, s.position), size))
            sizes.append(1)
            continue
        taken = _known_range(ctx, s, size)
        starts.append(scalar_of(ctx, kind, taken.start))
        sizes.append(len(taken))
    return ctx.b.reshape(ctx.b.dynamic_slice(x, starts, sizes), [1 if i == _NEW else sizes[i] for i in result])


def _known_range(ctx: OpContext, s: _Subscript, size: int) -> range:
    """Return the range of a dimension with several elements taken; it must be a compile-time
    constant.
    """
    ends: list[int | None] = []
    for number, masked in ((1, s.begin_masked), (2, s.end_masked)):
        if s.position is None or masked:
            ends.append(None)
            continue
        known = ctx.known(_element(ctx, number, s.position))
        if known is None:
            ctx.fail(
                f"{'begin' if number == 1 else 'end'}[{s.position}] must be a compile-time constant: the "
                "result's shape depends on it"
            )
        ends.append(int(known))
    return range(*slice(*ends).indices(size))


def _element(ctx: OpContext, number: int, position: int) -> HloInstruction:
    """Return one element of a vector input as a scalar.

    It looks through a concatenation, so that constants remain known.
    """
    x = ctx.input(number)
    while x.opcode is HloOpcode.CONCATENATE:
        for operand in x.operands:
            length = operand.array_shape.dimensions[0]
            if position < length:
                x = operand
                break
            position -= length
    return ctx.b.reshape(ctx.b.slice(x, [position], [position + 1]), [])


def _wrapped(ctx: OpContext, index: HloInstruction, size: int) -> HloInstruction:
    """Wrap a negative index from the end."""
    return ctx.b.select(
        ctx.b.compare(index, scalar(ctx, index, 0), "LT"), ctx.b.add(index, scalar(ctx, index, size)), index
    )


def _spread(
    ctx: OpContext, s: _Strided, dims: Sequence[int], value: HloInstruction, background: HloInstruction
) -> HloInstruction:
    """Put `value`, which has the slice's shape, into `background` at the slice's positions."""
    value = ctx.b.reshape(value, s.counts)
    if s.backwards:
        value = ctx.b.reverse(value, s.backwards)
    padding = []
    for r, size in zip(s.ranges, dims, strict=True):
        low = min(r.start, r[-1]) if len(r) else 0
        width = (len(r) - 1) * abs(r.step) + 1 if len(r) else 0
        padding.append((low, size - low - width, abs(r.step) - 1))
    return ctx.b.pad(value, background, padding)


@register("StridedSliceGrad", constants=(0, 1, 2, 3))
def _strided_slice_grad(ctx: OpContext) -> HloInstruction:
    dims, dy = ctx.sizes(0), ctx.input(4)
    s = _strided(ctx, dims, 1)
    if dy.array_shape.dimensions != s.result:
        ctx.fail(f"the gradient has shape {list(dy.array_shape.dimensions)}, but the slice has {list(s.result)}")
    return _spread(ctx, s, dims, dy, scalar(ctx, dy, 0))


def _updated(ctx: OpContext, x: HloInstruction, value: HloInstruction) -> HloInstruction:
    """`x` with its strided slice replaced by `value`, which is broadcast."""
    dims = x.array_shape.dimensions
    s = _strided(ctx, dims, 1)
    value = ctx.b.broadcast_in_dim(value, s.result, range(len(s.result) - value.array_shape.rank, len(s.result)))
    new = _spread(ctx, s, dims, value, scalar(ctx, x, 0))
    inside = ctx.b.constant(np.zeros((), np.bool_))
    mask = _spread(ctx, s, dims, ctx.b.broadcast_in_dim(ctx.b.constant(np.ones((), np.bool_)), s.result, []), inside)
    return ctx.b.select(mask, new, x)


@register("TensorStridedSliceUpdate", constants=(1, 2, 3))
def _tensor_strided_slice_update(ctx: OpContext) -> HloInstruction:
    return _updated(ctx, ctx.input(0), ctx.input(4))


@register("ResourceStridedSliceAssign", constants=(1, 2, 3))
def _resource_strided_slice_assign(ctx: OpContext) -> None:
    ctx.assign_variable(0, _updated(ctx, ctx.read_variable(0), ctx.input(4)))


@register("Slice", constants=(1, 2))
def _slice(ctx: OpContext) -> HloInstruction:
    """Slice; a size of -1 extends to the end, and a begin known at run time is clamped to fit."""
    x, sizes = ctx.input(0), ctx.ints(2)
    dims = x.array_shape.dimensions
    rank = len(dims)
    if len(sizes) != rank or ctx.shape(1).element_count != rank:
        ctx.fail(f"begin and size must have {rank} elements")
    known = ctx.known(ctx.input(1))
    if known is None:
        if any(not 0 <= n <= d for n, d in zip(sizes, dims, strict=True)):
            ctx.fail(f"size {sizes} must be within shape {list(dims)} if begin is not a compile-time constant")
        indices = ctx.input(1)
        if indices.array_shape.element_type is PrimitiveType.S16:
            indices = ctx.b.convert(indices, PrimitiveType.S32)
        return ctx.b.dynamic_slice(
            x, [ctx.b.reshape(ctx.b.slice(indices, [i], [i + 1]), []) for i in range(rank)], sizes
        )
    begin = [int(v) for v in known.ravel()]
    limits = [d if n == -1 else b + n for b, n, d in zip(begin, sizes, dims, strict=True)]
    if any(not 0 <= b <= limit <= d for b, limit, d in zip(begin, limits, dims, strict=True)):
        ctx.fail(f"begin {begin} and size {sizes} are out of bounds for shape {list(dims)}")
    return x if not any(begin) and tuple(limits) == dims else ctx.b.slice(x, begin, limits)
