"""Colours of images: RGB and HSV, hue, saturation, contrast (tf2xla/kernels/image_ops.cc).

The last axis is red, green, blue; values are in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import register


def _channels(ctx: OpContext, images: HloInstruction) -> list[HloInstruction]:
    dims = images.array_shape.dimensions
    if not dims or dims[-1] != 3:
        ctx.fail(f"the last dimension must have three channels, not {images.shape}")
    before = [0] * (len(dims) - 1)
    parts = [ctx.b.slice(images, [*before, c], [*dims[:-1], c + 1], [1] * len(dims)) for c in range(3)]
    return [ctx.b.reshape(p, dims[:-1]) for p in parts]


def _joined(ctx: OpContext, channels: Sequence[HloInstruction]) -> HloInstruction:
    dims = channels[0].array_shape.dimensions
    return ctx.b.concatenate([ctx.b.reshape(c, [*dims, 1]) for c in channels], len(dims))


def _to_hsv(ctx: OpContext, rgb: Sequence[HloInstruction]) -> list[HloInstruction]:
    b = ctx.b
    red, green, blue = rgb
    value = b.maximum(red, b.maximum(green, blue))
    span = b.subtract(value, b.minimum(red, b.minimum(green, blue)))
    zero, one = filled(ctx, value, 0), filled(ctx, value, 1)
    saturation = b.select(b.compare(value, zero, "GT"), b.divide(span, value), zero)
    sixth = b.divide(filled(ctx, value, 1 / 6), span)
    from_red = b.multiply(sixth, b.subtract(green, blue))
    from_green = b.add(b.multiply(sixth, b.subtract(blue, red)), filled(ctx, value, 2 / 6))
    from_blue = b.add(b.multiply(sixth, b.subtract(red, green)), filled(ctx, value, 4 / 6))
    hue = b.select(b.compare(green, value, "EQ"), from_green, from_blue)
    hue = b.select(b.compare(red, value, "EQ"), from_red, hue)
    hue = b.select(b.compare(span, zero, "GT"), hue, zero)
    return [b.select(b.compare(hue, zero, "LT"), b.add(hue, one), hue), saturation, value]


def _to_rgb(ctx: OpContext, hsv: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Each colour is a ramp of the hue, clamped to [0, 1], whitened by the saturation."""
    b = ctx.b
    hue, saturation, value = hsv
    zero, one = filled(ctx, hue, 0), filled(ctx, hue, 1)
    turn = b.multiply(hue, filled(ctx, hue, 6))

    def clamped(ramp: HloInstruction) -> HloInstruction:
        pure = b.minimum(b.maximum(ramp, zero), one)
        return b.multiply(b.add(b.subtract(one, saturation), b.multiply(saturation, pure)), value)

    def away(centre: float) -> HloInstruction:
        return b.abs(b.subtract(turn, filled(ctx, turn, centre)))

    two = filled(ctx, turn, 2)
    return [clamped(b.subtract(away(3), one)), clamped(b.subtract(two, away(2))), clamped(b.subtract(two, away(4)))]


@register("RGBToHSV")
def _rgb_to_hsv(ctx: OpContext) -> HloInstruction:
    return _joined(ctx, _to_hsv(ctx, _channels(ctx, ctx.input(0))))


@register("HSVToRGB")
def _hsv_to_rgb(ctx: OpContext) -> HloInstruction:
    return _joined(ctx, _to_rgb(ctx, _channels(ctx, ctx.input(0))))


def _wide(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.convert(x, PrimitiveType.F32) if x.array_shape.element_type is not PrimitiveType.F32 else x


def _adjusted(ctx: OpContext, hsv: Sequence[HloInstruction]) -> HloInstruction:
    kind = ctx.shape(0).element_type
    made = _joined(ctx, _to_rgb(ctx, hsv))
    return made if kind is PrimitiveType.F32 else ctx.b.convert(made, kind)


def _spread(ctx: OpContext, x: HloInstruction, like: HloInstruction) -> HloInstruction:
    return ctx.b.broadcast(_wide(ctx, x), like.array_shape.dimensions)


@register("AdjustSaturation")
def _adjust_saturation(ctx: OpContext) -> HloInstruction:
    hue, saturation, value = _to_hsv(ctx, _channels(ctx, _wide(ctx, ctx.input(0))))
    scaled = ctx.b.multiply(saturation, _spread(ctx, ctx.input(1), saturation))
    held = ctx.b.minimum(ctx.b.maximum(scaled, filled(ctx, scaled, 0)), filled(ctx, scaled, 1))
    return _adjusted(ctx, [hue, held, value])


@register("AdjustHue")
def _adjust_hue(ctx: OpContext) -> HloInstruction:
    hue, saturation, value = _to_hsv(ctx, _channels(ctx, _wide(ctx, ctx.input(0))))
    turned = ctx.b.add(hue, _spread(ctx, ctx.input(1), hue))
    turned = ctx.b.subtract(turned, ctx.b.floor(turned))
    return _adjusted(ctx, [turned, saturation, value])


@register("AdjustContrastv2")
def _adjust_contrast(ctx: OpContext) -> HloInstruction:
    """(x - mean) factor + mean, the mean of each channel over height and width."""
    images = ctx.input(0)
    dims = images.array_shape.dimensions
    if len(dims) < 3:
        ctx.fail(f"expected images of [height, width, channels], not {images.shape}")
    x = _wide(ctx, images)
    axes = [len(dims) - 3, len(dims) - 2]
    total = ctx.b.reduce([x], [scalar(ctx, x, 0)], axes, HloOpcode.ADD)
    mean = ctx.b.divide(total, filled(ctx, total, dims[-3] * dims[-2]))
    kept = [i for i in range(len(dims)) if i not in axes]
    mean = ctx.b.broadcast_in_dim(mean, dims, kept)
    made = ctx.b.add(ctx.b.multiply(ctx.b.subtract(x, mean), _spread(ctx, ctx.input(1), x)), mean)
    kind = images.array_shape.element_type
    return made if kind is PrimitiveType.F32 else ctx.b.convert(made, kind)
