"""Constants of another value's element type, for all lowerings."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.narrow_types import finfo
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext

Number = float | int | complex | bool


def scalar(ctx: OpContext, like: HloInstruction, value: Number) -> HloInstruction:
    """A scalar constant of the element type of `like`."""
    return scalar_of(ctx, like.array_shape.element_type, value)


def scalar_of(ctx: OpContext, kind: PrimitiveType, value: Any) -> HloInstruction:
    """A scalar constant of an element type."""
    return ctx.b.constant(np.asarray(value).astype(kind.dtype))


def filled(ctx: OpContext, like: HloInstruction, value: Number) -> HloInstruction:
    """A constant repeated to the shape of `like`, of its element type."""
    return broadcast_to(ctx.b, scalar(ctx, like, value), like.array_shape.dimensions)


def lowest(kind: PrimitiveType) -> Any:
    """The value that a maximum starts from: minus infinity, or the smallest integer."""
    return np.asarray(
        -np.inf if kind.is_floating else False if kind.text == "pred" else np.iinfo(kind.dtype).min
    ).astype(kind.dtype)


def highest(kind: PrimitiveType) -> Any:
    """The value that a minimum starts from."""
    return np.asarray(np.inf if kind.is_floating else True if kind.text == "pred" else np.iinfo(kind.dtype).max).astype(
        kind.dtype
    )


def finite_limit(kind: PrimitiveType) -> Any:
    """The largest finite number of a float type."""
    return np.asarray(finfo(kind.dtype).max).astype(kind.dtype)


def sum_type(kind: PrimitiveType) -> PrimitiveType:
    """The element type that sums are kept in: f32 for 16-bit floats, else the type itself."""
    return PrimitiveType.F32 if kind.is_floating and kind.bits < 32 else kind
