"""Bits and complex numbers (tf2xla/kernels/{binary_ops,unary_ops,cast_op}.cc)."""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import binary, broadcast_pair
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import register

_BITWISE = {"BitwiseAnd": HloOpcode.AND, "BitwiseOr": HloOpcode.OR, "BitwiseXor": HloOpcode.XOR}


@register(*_BITWISE)
def _bitwise(ctx: OpContext) -> HloInstruction:
    return binary(ctx.b, _BITWISE[ctx.op.type], ctx.input(0), ctx.input(1))


@register("Invert")
def _invert(ctx: OpContext) -> HloInstruction:
    return ctx.b.not_(ctx.input(0))


@register("LeftShift")
def _left_shift(ctx: OpContext) -> HloInstruction:
    return binary(ctx.b, HloOpcode.SHIFT_LEFT, ctx.input(0), ctx.input(1))


@register("RightShift")
def _right_shift(ctx: OpContext) -> HloInstruction:
    unsigned = ctx.shape(0).element_type.is_unsigned
    return binary(
        ctx.b,
        HloOpcode.SHIFT_RIGHT_LOGICAL if unsigned else HloOpcode.SHIFT_RIGHT_ARITHMETIC,
        ctx.input(0),
        ctx.input(1),
    )


@register("PopulationCount")
def _population_count(ctx: OpContext) -> HloInstruction:
    return ctx.b.convert(ctx.b.popcnt(ctx.input(0)), PrimitiveType.U8)


@register("Bitcast")
def _bitcast(ctx: OpContext) -> HloInstruction:
    """Reinterpret bits; to a narrower type a dimension is appended, to a wider one the last is
    removed.

    In the second case the last dimension must have the size of the types' ratio.
    """
    x, target = ctx.input(0), ctx.element_type("type")
    source, dims = x.array_shape.element_type, x.array_shape.dimensions
    if source is target:
        return x
    if target.bits > source.bits and (not dims or dims[-1] != target.bits // source.bits):
        ctx.fail(f"the last dimension of {x.shape} must be {target.bits // source.bits} to become {target}")
    return ctx.b.bitcast_convert(x, target)


@register("Complex")
def _complex(ctx: OpContext) -> HloInstruction:
    return ctx.b.complex(*broadcast_pair(ctx.b, ctx.input(0), ctx.input(1)))


@register("ComplexAbs")
def _complex_abs(ctx: OpContext) -> HloInstruction:
    return ctx.b.abs(ctx.input(0))


@register("Real")
def _real(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.real(x) if x.array_shape.element_type.is_complex else x


@register("Imag")
def _imag(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.imag(x) if x.array_shape.element_type.is_complex else filled(ctx, x, 0)


@register("Conj")
def _conj(ctx: OpContext) -> HloInstruction:
    return conjugate(ctx, ctx.input(0))


@register("Angle")
def _angle(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    if x.array_shape.element_type.is_complex:
        return ctx.b.atan2(ctx.b.imag(x), ctx.b.real(x))
    return ctx.b.atan2(filled(ctx, x, 0), x)


@register("ConjugateTranspose", constants=(1,))
def _conjugate_transpose(ctx: OpContext) -> HloInstruction:
    permutation = ctx.ints(1)
    if sorted(permutation) != list(range(ctx.shape(0).rank)):
        ctx.fail(f"{permutation} is not a permutation of {ctx.shape(0).rank} dimensions")
    return conjugate(ctx, ctx.b.transpose(ctx.input(0), permutation))


@register("NextAfter")
def _next_after(ctx: OpContext) -> HloInstruction:
    """Return the next number after x towards y by incrementing or decrementing the bits.

    From 0 it is the smallest number with y's sign.
    """
    x, y = broadcast_pair(ctx.b, ctx.input(0), ctx.input(1))
    b = ctx.b
    kind = x.array_shape.element_type
    bits_kind = PrimitiveType.S64 if kind.bits == 64 else PrimitiveType.S32
    bits = b.bitcast_convert(x, bits_kind)
    one, zero = filled(ctx, bits, 1), filled(ctx, x, 0)
    outward = b.compare(b.compare(x, y, "LT"), b.compare(x, zero, "GT"), "EQ")
    moved = b.bitcast_convert(b.select(outward, b.add(bits, one), b.subtract(bits, one)), kind)
    least = b.bitcast_convert(one, kind)
    from_zero = b.select(b.compare(y, zero, "LT"), b.negate(least), least)
    result = b.select(b.compare(x, zero, "EQ"), from_zero, moved)
    result = b.select(b.compare(x, y, "EQ"), y, result)
    unordered = b.or_(b.compare(x, x, "NE"), b.compare(y, y, "NE"))
    return b.select(unordered, b.add(x, y), result)


@register("Cross")
def _cross(ctx: OpContext) -> HloInstruction:
    """(a2 b3 - a3 b2, a3 b1 - a1 b3, a1 b2 - a2 b1) for vectors of three, by rotating
    components.
    """
    x, y = ctx.inputs
    dims = x.array_shape.dimensions
    if dims != y.array_shape.dimensions or not dims or dims[-1] != 3:
        ctx.fail(f"expected vectors of three elements, not {x.shape} and {y.shape}")
    after, before = ((_rotated(ctx, v, 1), _rotated(ctx, v, 2)) for v in (x, y))
    return ctx.b.subtract(ctx.b.multiply(after[0], before[1]), ctx.b.multiply(after[1], before[0]))


def _rotated(ctx: OpContext, x: HloInstruction, by: int) -> HloInstruction:
    dims = x.array_shape.dimensions
    zeros = [0] * (len(dims) - 1)
    head = ctx.b.slice(x, [*zeros, 0], [*dims[:-1], by])
    return ctx.b.concatenate([ctx.b.slice(x, [*zeros, by], dims), head], len(dims) - 1)


@register("Bucketize")
def _bucketize(ctx: OpContext) -> HloInstruction:
    """Count the boundaries that are not above each element."""
    x = ctx.input(0)
    boundaries = sorted(float(v) for v in ctx.attr("boundaries"))
    b = ctx.b
    total = filled(ctx, b.convert(x, PrimitiveType.S32), 0)
    wide = (
        b.convert(x, PrimitiveType.F32) if x.array_shape.element_type in (PrimitiveType.S32, PrimitiveType.S64) else x
    )
    for boundary in boundaries:
        total = b.add(total, b.convert(b.compare(wide, filled(ctx, wide, boundary), "GE"), PrimitiveType.S32))
    return total


@register("ApproximateEqual")
def _approximate_equal(ctx: OpContext) -> HloInstruction:
    x, y = ctx.inputs
    distance = ctx.b.abs(ctx.b.subtract(x, y))
    return ctx.b.compare(distance, filled(ctx, distance, float(ctx.attr("tolerance", 1e-5))), "LT")


@register("UpperBound", "LowerBound")
def _bound(ctx: OpContext) -> HloInstruction:
    """Into sorted rows: how many elements are below each value (LowerBound), or not above it."""
    rows, values = ctx.input(0), ctx.input(1)
    if rows.array_shape.rank != 2 or values.array_shape.rank != 2:
        ctx.fail(f"expected matrices, not {rows.shape} and {values.shape}")
    b = ctx.b
    dims = (*values.array_shape.dimensions, rows.array_shape.dimensions[1])
    direction = "LE" if ctx.op.type == "UpperBound" else "LT"
    below = b.compare(b.broadcast_in_dim(rows, dims, [0, 2]), b.broadcast_in_dim(values, dims, [0, 1]), direction)
    counted = b.convert(below, ctx.element_type("out_type"))
    return b.reduce(counted, scalar(ctx, counted, 0), [2], HloOpcode.ADD)
