"""Quantize and dequantize.

Source: tf2xla/kernels/{quantize_and_dequantize_op,dequantize_op}.cc,
core/kernels/uniform_quant_ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from xlanb.errors import GraphError
from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.protos import Schema, decode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import binary, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, finite_limit, scalar
from xlanb.tf2xla.kernels.windows import same_padding
from xlanb.tf2xla.registry import register

_FEWEST_BITS, _MOST_BITS = 1, 63
_LABELS = """
message UniformQuantizedConvolutionDimensionNumbersAttr
  1 input_batch_dimension int64
  2 input_feature_dimension int64
  3 input_spatial_dimensions int64*
  4 kernel_input_feature_dimension int64
  5 kernel_output_feature_dimension int64
  6 kernel_spatial_dimensions int64*
  7 output_batch_dimension int64
  8 output_feature_dimension int64
  9 output_spatial_dimensions int64*
"""
"""Facts of tensorflow/core/util/quantization/uniform_quant_ops_attr.proto, as xlanb.protos has
them.
"""


@cache
def _labels_message() -> Any:
    return Schema("xlanb.quantize", _LABELS).UniformQuantizedConvolutionDimensionNumbersAttr


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
    """Round to the `num_bits` quantized values between the bounds, 0 among them."""
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
    scale, step, kept_low, kept_high = (_broadcast(ctx, v) for v in (scale, step, kept_low, kept_high))
    if ctx.attr("range_given", True):
        x = b.clamp(kept_low, x, kept_high)
    scaled = b.multiply(x, scale)
    if str(ctx.attr("round_mode", "HALF_TO_EVEN")) == "HALF_UP":
        rounded = b.floor(b.add(scaled, filled(ctx, scaled, 0.5)))
    else:
        rounded = b.unary(HloOpcode.ROUND_NEAREST_EVEN, scaled)
    return b.multiply(rounded, step)


def _broadcast(ctx: OpContext, v: HloInstruction) -> HloInstruction:
    """A value for all, or one for each slice along `axis`, in the shape of the input."""
    return _per_slice(ctx, v, int(ctx.attr("axis", -1)), ctx.shape(0).dimensions)


def _per_slice(ctx: OpContext, v: HloInstruction, axis: int, dims: tuple[int, ...]) -> HloInstruction:
    """Broadcast a scalar, or one value per slice along an axis, to `dims`; axis -1 means none."""
    if v.array_shape.rank == 0:
        return broadcast_to(ctx.b, v, dims)
    if not 0 <= axis < len(dims) or v.array_shape.dimensions != (dims[axis],):
        ctx.fail(f"{v.shape} does not give axis {axis} of {list(dims)} one value a slice")
    return ctx.b.broadcast_in_dim(v, dims, [axis])


@register("Dequantize")
def _dequantize(ctx: OpContext) -> HloInstruction:
    """Dequantize to numbers between two bounds: modes MIN_COMBINED and MIN_FIRST.

    In MIN_FIRST the lower bound is a whole number of steps, so that zero is exact.
    """
    mode = str(ctx.attr("mode", "MIN_COMBINED"))
    if mode not in ("MIN_COMBINED", "MIN_FIRST"):
        ctx.fail(f"mode {mode} is not supported, only MIN_COMBINED and MIN_FIRST")
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


def _channels(
    ctx: OpContext, index: int, axis: int, dims: tuple[int, ...], kind: PrimitiveType = PrimitiveType.F32
) -> HloInstruction:
    """Broadcast scales or zero points to `dims`: one for all, or one per slice along an axis."""
    return _per_slice(ctx, ctx.b.convert(ctx.input(index), kind), axis, dims)


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
    return _to_quantised(ctx, x, *(_channels(ctx, i, axis, x.array_shape.dimensions) for i in (1, 2)))


@register("UniformDequantize")
def _uniform_dequantize(ctx: OpContext) -> HloInstruction:
    """(x less the zero point) times the scale."""
    return ctx.b.convert(_from_quantised(ctx), ctx.element_type("Tout"))


def _from_quantised(ctx: OpContext, axis_attr: str = "quantization_axis") -> HloInstruction:
    axis, b = int(ctx.attr(axis_attr, -1)), ctx.b
    x = b.convert(ctx.input(0), PrimitiveType.F32)
    scales, zeros = (_channels(ctx, i, axis, x.array_shape.dimensions) for i in (1, 2))
    return b.multiply(b.subtract(x, zeros), scales)


@register("UniformRequantize")
def _uniform_requantize(ctx: OpContext) -> HloInstruction:
    """From one scale and zero point to another."""
    axis = int(ctx.attr("output_quantization_axis", -1))
    x = _from_quantised(ctx, "input_quantization_axis")
    return _to_quantised(ctx, x, *(_channels(ctx, i, axis, x.array_shape.dimensions) for i in (3, 4)))


def _whole(ctx: OpContext, side: int, axis_attr: str) -> HloInstruction:
    """The left (0) or right (1) operand less its zero point, s32."""
    x = ctx.b.convert(ctx.input(side), PrimitiveType.S32)
    axis, dims = int(ctx.attr(axis_attr, -1)), x.array_shape.dimensions
    zeros = _channels(ctx, 3 + 2 * side, axis, dims, PrimitiveType.S32)
    return ctx.b.subtract(x, zeros)


def _rescaled(ctx: OpContext, x: HloInstruction, scale: HloInstruction, axis: int) -> HloInstruction:
    """Divide f32 products or differences by the result's scale and round to s32, without zero
    point.
    """
    b, dims = ctx.b, x.array_shape.dimensions
    wide = b.convert(x, PrimitiveType.F32)
    out = _channels(ctx, 6, axis, dims)
    moved = b.multiply(wide, b.divide(scale, out))
    rounded = b.floor(b.add(moved, filled(ctx, moved, 0.5)))
    return b.convert(rounded, PrimitiveType.S32)


def _bounded_result(ctx: OpContext, x: HloInstruction, axis: int) -> HloInstruction:
    """Plus the zero point of the result, kept in its bounds."""
    b, dims = ctx.b, x.array_shape.dimensions
    moved = b.add(x, _channels(ctx, 7, axis, dims, PrimitiveType.S32))
    low, high = (filled(ctx, moved, int(ctx.attr(f"output_quantization_{m}_val"))) for m in ("min", "max"))
    return b.clamp(low, moved, high)


@register("UniformQuantizedAdd")
def _quantized_add(ctx: OpContext) -> HloInstruction:
    """Rescale both operands to the result's scale, then add."""
    axis = int(ctx.attr("output_quantization_axis", -1))
    parts = []
    for side, name in enumerate(("lhs", "rhs")):
        x = _whole(ctx, side, f"{name}_quantization_axis")
        own = int(ctx.attr(f"{name}_quantization_axis", -1))
        dims = x.array_shape.dimensions
        scale = _channels(ctx, 2 + 2 * side, own, dims)
        parts.append(_rescaled(ctx, x, scale, axis))
    return _bounded_result(ctx, binary(ctx.b, HloOpcode.ADD, *parts), axis)


@register("UniformQuantizedClipByValue")
def _quantized_clip(ctx: OpContext) -> HloInstruction:
    """Between quantised bounds, one for all or one for each slice along the axis."""
    x, axis = ctx.input(0), int(ctx.attr("quantization_axis", -1))
    kind, dims = x.array_shape.element_type, x.array_shape.dimensions
    low, high = (_channels(ctx, i, axis, dims, kind) for i in (1, 2))
    return ctx.b.minimum(ctx.b.maximum(x, low), high)


@register("UniformQuantizedDot", ranks="2 2")
def _quantized_dot(ctx: OpContext) -> HloInstruction:
    """The product of two matrices without their zero points, at the scale of the result."""
    left, right = _factors(ctx)
    made = ctx.b.dot_general(
        left, right, lhs_contracting_dims=[1], rhs_contracting_dims=[0], element_type=PrimitiveType.S32
    )
    return _product_result(ctx, made, made.array_shape.rank - 1)


def _factors(ctx: OpContext) -> tuple[HloInstruction, HloInstruction]:
    """Both operands of a product less their zero points, s32."""
    for index in (2, 3):
        if ctx.shape(index).rank:
            ctx.fail(f"lhs scales and zero points must be scalars, not {ctx.shape(index)}")
    left, right = (_whole(ctx, i, f"{s}_quantization_axis") for i, s in enumerate(("lhs", "rhs")))
    return left, right


def _product_result(ctx: OpContext, made: HloInstruction, feature: int) -> HloInstruction:
    """Sums of products to the scale of the result; the right scales may differ by its features."""
    dims = made.array_shape.dimensions
    axis = feature if int(ctx.attr("output_quantization_axis", -1)) >= 0 else -1
    left = _channels(ctx, 2, -1, dims)
    right = _channels(ctx, 4, feature, dims)
    scaled = _rescaled(ctx, made, ctx.b.multiply(left, right), axis)
    return _bounded_result(ctx, scaled, axis)


def _labels(ctx: OpContext) -> ConvolutionDimensionNumbers:
    text = ctx.attr("dimension_numbers", b"")
    data = text.encode("latin-1") if isinstance(text, str) else bytes(text)
    rank = ctx.shape(0).rank
    spatial = range(2, rank)
    if data:
        try:
            m = decode(_labels_message()(), data, GraphError)
        except GraphError as error:
            ctx.fail(f"dimension_numbers: {error}")
    else:  # NCHW and OIHW
        m = _labels_message()(
            input_feature_dimension=1,
            input_spatial_dimensions=spatial,
            kernel_input_feature_dimension=1,
            kernel_spatial_dimensions=spatial,
            output_feature_dimension=1,
            output_spatial_dimensions=spatial,
        )
    labels = ConvolutionDimensionNumbers(
        m.input_batch_dimension,
        m.input_feature_dimension,
        tuple(m.input_spatial_dimensions),
        m.kernel_input_feature_dimension,
        m.kernel_output_feature_dimension,
        tuple(m.kernel_spatial_dimensions),
        m.output_batch_dimension,
        m.output_feature_dimension,
        tuple(m.output_spatial_dimensions),
    )
    lengths = {len(d) for d in (labels.input_spatial, labels.kernel_spatial, labels.output_spatial)}
    used = [d for _, value in m.ListFields() for d in (value if isinstance(value, Sequence) else [value])]
    if lengths != {len(spatial)} or any(not 0 <= d < rank for d in used):
        ctx.fail(f"dimension_numbers do not name the {rank} dimensions of each operand")
    return labels


@register("UniformQuantizedConvolution")
def _quantized_convolution(ctx: OpContext) -> HloInstruction:
    """The convolution of two arrays without their zero points, at the scale of the result."""
    left, right = _factors(ctx)
    labels = _labels(ctx)
    sizes = [right.array_shape.dimensions[d] for d in labels.kernel_spatial]
    strides, base, dilations = (
        list(ctx.attr(name) or [1] * len(sizes)) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    padding, text = str(ctx.attr("padding")), list(ctx.attr("explicit_padding") or ())
    edges = [(0, 0)] * len(sizes)
    if padding == "EXPLICIT":
        edges = list(zip(text[::2], text[1::2], strict=True))
    elif padding == "SAME":
        extent = [left.array_shape.dimensions[d] for d in labels.input_spatial]
        edges = [
            same_padding((n - 1) * e + 1, (k - 1) * d + 1, s)
            for n, e, k, d, s in zip(extent, base, sizes, dilations, strides, strict=True)
        ]
    if not len(sizes) == len(edges) == len(strides) == len(base) == len(dilations):
        ctx.fail(f"strides, dilations and padding must be of {len(sizes)} spatial dimensions")
    columns = zip(sizes, strides, edges, dilations, base, strict=True)
    window = Window(tuple(WindowDimension(n, s, lo, hi, d, e) for n, s, (lo, hi), d, e in columns))
    made = ctx.b.convolution(
        left,
        right,
        window,
        labels,
        feature_group_count=int(ctx.attr("feature_group_count", 1)),
        batch_group_count=int(ctx.attr("batch_group_count", 1)),
        element_type=PrimitiveType.S32,
    )
    return _product_result(ctx, made, labels.output_feature)
