"""To quantised numbers and back (tf2xla/kernels/{quantize_and_dequantize_op,dequantize_op}.cc, core/kernels/uniform_quant_ops)."""

from __future__ import annotations

import math

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, finite_limit, scalar
from xlanb.tf2xla.registry import register

_FEWEST_BITS, _MOST_BITS = 1, 63


def _bits(ctx: OpContext) -> int:
    bits = int(ctx.number(3)) if ctx.op.type == "QuantizeAndDequantizeV3" else int(ctx.attr("num_bits", 8))
    if not _FEWEST_BITS <= bits <= _MOST_BITS:
        ctx.fail(f"num_bits must be {_FEWEST_BITS} to {_MOST_BITS}, not {bits}")
    return bits


def _range(ctx: OpContext) -> tuple[HloInstruction, HloInstruction]:
    """The bounds that are given, or those of the values: of each slice along `axis`, or of all."""
    x, b = ctx.input(0), ctx.b
    if ctx.attr("range_given", True):
        return b.convert(ctx.input(1), x.array_shape.element_type), b.convert(ctx.input(2), x.array_shape.element_type)
    axis = int(ctx.attr("axis", -1))
    over = [i for i in range(x.array_shape.rank) if i != axis]
    low = b.reduce(x, scalar(ctx, x, math.inf), over, HloOpcode.MINIMUM)
    high = b.reduce(x, scalar(ctx, x, -math.inf), over, HloOpcode.MAXIMUM)
    return low, high


def _scale_of(ctx: OpContext, quantised: float, bound: HloInstruction) -> HloInstruction:
    """The scale at which a bound is a quantised bound; the largest where signs do not agree."""
    b = ctx.b
    most = b.constant(finite_limit(bound.array_shape.element_type))
    top = filled(ctx, bound, quantised)
    agrees = b.compare(b.multiply(top, bound), filled(ctx, bound, 0), "GT")
    return b.select(agrees, b.divide(top, bound), broadcast_to(b, most, bound.array_shape.dimensions))


@register("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def _v2(ctx: OpContext) -> HloInstruction:
    return _there_and_back(ctx)


@register("QuantizeAndDequantizeV3", constants=(3,))
def _v3(ctx: OpContext) -> HloInstruction:
    return _there_and_back(ctx)


def _there_and_back(ctx: OpContext) -> HloInstruction:
    """Rounded to what `num_bits` can tell apart between the bounds, 0 among them."""
    x, b, bits = ctx.input(0), ctx.b, _bits(ctx)
    is_signed = bool(ctx.attr("signed_input", True))
    most = float(2 ** (bits - 1) - 1) if is_signed else float(2**bits - 1)
    least = 0.0 if not is_signed else -most if ctx.attr("narrow_range", False) else -most - 1
    low, high = _range(ctx)
    from_low, from_high = _scale_of(ctx, least, low), _scale_of(ctx, most, high)
    by_low = b.compare(from_low, from_high, "LT")
    scale = b.select(by_low, from_low, from_high)
    down = b.divide(low, filled(ctx, low, least)) if least else filled(ctx, low, 0)
    step = b.select(by_low, down, b.divide(high, filled(ctx, high, most)))
    kept_low = b.select(by_low, low, b.multiply(filled(ctx, low, least), step))
    kept_high = b.select(by_low, b.multiply(filled(ctx, high, most), step), high)
    scale, step, kept_low, kept_high = (_spread(ctx, v) for v in (scale, step, kept_low, kept_high))
    if ctx.attr("range_given", True):
        x = b.clamp(kept_low, x, kept_high)
    scaled = b.multiply(x, scale)
    if str(ctx.attr("round_mode", "HALF_TO_EVEN")) == "HALF_UP":
        rounded = b.floor(b.add(scaled, filled(ctx, scaled, 0.5)))
    else:
        rounded = b.unary(HloOpcode.ROUND_NEAREST_EVEN, scaled)
    return b.multiply(rounded, step)


def _spread(ctx: OpContext, v: HloInstruction) -> HloInstruction:
    """A value for all, or one for each slice along `axis`, in the shape of the input."""
    dims, axis = ctx.shape(0).dimensions, int(ctx.attr("axis", -1))
    if v.array_shape.rank == 0:
        return broadcast_to(ctx.b, v, dims)
    if not 0 <= axis < len(dims) or v.array_shape.dimensions != (dims[axis],):
        ctx.fail(f"bounds {v.shape} do not fit axis {axis} of {ctx.input(0).shape}")
    return ctx.b.broadcast_in_dim(v, dims, [axis])


@register("Dequantize")
def _dequantize(ctx: OpContext) -> HloInstruction:
    """Quantized numbers as numbers between two bounds: modes MIN_COMBINED, and MIN_FIRST, in which the lower bound
    is a whole number of steps, so that zero is exact.
    """
    mode = str(ctx.attr("mode", "MIN_COMBINED"))
    if mode not in ("MIN_COMBINED", "MIN_FIRST"):
        ctx.fail(f"mode {mode} is not compiled: MIN_COMBINED and MIN_FIRST are")
    x, b = ctx.input(0), ctx.b
    kind, bits = x.array_shape.element_type, x.array_shape.element_type.bits
    wide = b.convert(x, PrimitiveType.F32)
    low, high = (broadcast_to(b, ctx.input(i), x.array_shape.dimensions) for i in (1, 2))
    step = b.divide(b.subtract(high, low), filled(ctx, wide, float(2**bits - 1)))
    half = 0.0 if kind.text.startswith("u") else float(2 ** (bits - 1))
    if mode == "MIN_FIRST":
        steps = b.unary(HloOpcode.ROUND_NEAREST_AFZ, b.divide(low, step))
        low = b.select(b.compare(high, low, "EQ"), low, b.multiply(steps, step))
    value = b.add(b.multiply(b.add(wide, filled(ctx, wide, half)), step), low)
    return b.convert(value, ctx.element_type("dtype") if "dtype" in ctx.op.attrs else PrimitiveType.F32)


def _channels(ctx: OpContext, index: int, axis: int) -> HloInstruction:
    """Scales or zero points: one for all, or one for each slice along an axis; in the shape of the input, in f32."""
    v, dims = ctx.b.convert(ctx.input(index), PrimitiveType.F32), ctx.shape(0).dimensions
    if v.array_shape.rank == 0:
        return broadcast_to(ctx.b, v, dims)
    if not 0 <= axis < len(dims) or v.array_shape.dimensions != (dims[axis],):
        ctx.fail(f"{v.shape} does not give axis {axis} of {ctx.input(0).shape} one value a slice")
    return ctx.b.broadcast_in_dim(v, dims, [axis])


def _to_quantised(ctx: OpContext, x: HloInstruction, scales: HloInstruction, zeros: HloInstruction) -> HloInstruction:
    b = ctx.b
    low, high = (filled(ctx, x, float(ctx.attr(f"{p}quantization_{m}_val"))) for p, m in _bounds_of(ctx))
    moved = b.add(b.floor(b.add(b.divide(x, scales), filled(ctx, x, 0.5))), zeros)
    return b.convert(b.clamp(low, moved, high), ctx.element_type("Tout"))


def _bounds_of(ctx: OpContext) -> list[tuple[str, str]]:
    prefix = "output_" if "output_quantization_min_val" in ctx.op.attrs else ""
    return [(prefix, "min"), (prefix, "max")]


@register("UniformQuantize")
def _uniform_quantize(ctx: OpContext) -> HloInstruction:
    """Rounded x / scale, plus the zero point, kept in bounds."""
    axis = int(ctx.attr("quantization_axis", -1))
    x = ctx.b.convert(ctx.input(0), PrimitiveType.F32)
    return _to_quantised(ctx, x, _channels(ctx, 1, axis), _channels(ctx, 2, axis))


@register("UniformDequantize")
def _uniform_dequantize(ctx: OpContext) -> HloInstruction:
    """(x less the zero point) times the scale."""
    return ctx.b.convert(_from_quantised(ctx), ctx.element_type("Tout"))


def _from_quantised(ctx: OpContext, axis_attr: str = "quantization_axis") -> HloInstruction:
    axis, b = int(ctx.attr(axis_attr, -1)), ctx.b
    x = b.convert(ctx.input(0), PrimitiveType.F32)
    return b.multiply(b.subtract(x, _channels(ctx, 2, axis)), _channels(ctx, 1, axis))


@register("UniformRequantize")
def _uniform_requantize(ctx: OpContext) -> HloInstruction:
    """From one scale and zero point to another."""
    axis = int(ctx.attr("output_quantization_axis", -1))
    x = _from_quantised(ctx, "input_quantization_axis")
    return _to_quantised(ctx, x, _channels(ctx, 3, axis), _channels(ctx, 4, axis))
