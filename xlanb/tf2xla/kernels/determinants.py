"""Determinants by LU factorization, and random row order, after TensorFlow's CPU kernels.

TensorFlow's XLA does not support these ops.
"""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar_of
from xlanb.tf2xla.registry import register

_LETTERS = {
    PrimitiveType.F32: "s",
    PrimitiveType.F64: "d",
    PrimitiveType.C64: "c",
    PrimitiveType.C128: "z",
}


def _factored(ctx: OpContext) -> tuple[HloInstruction, HloInstruction]:
    """The diagonal of U [..., n] and the sign of the exchange of rows [...], in f32 at least."""
    b, x = ctx.b, ctx.input(0)
    if x.array_shape.element_type not in _LETTERS:
        x = b.convert(x, PrimitiveType.F32)
    kind, (*batch, rows, columns) = x.array_shape.element_type, x.array_shape.dimensions
    if rows != columns:
        ctx.fail(f"expected square matrices, not {ctx.input(0).shape}")
    results = tuple_of(
        [
            array(kind, [*batch, rows, rows]),
            array(PrimitiveType.S32, [*batch, rows]),
            array(PrimitiveType.S32, batch),
        ]
    )
    made = b.custom_call(f"lapack_{_LETTERS[kind]}getrf_ffi", [x], results)
    packed, pivots = (b.get_tuple_element(made, i) for i in range(2))
    dims, last = packed.array_shape.dimensions, len(batch)
    row, column = (b.iota(array(PrimitiveType.S32, dims), last + i) for i in range(2))
    only = b.select(b.compare(row, column, "EQ"), packed, filled(ctx, packed, 0))
    zero = scalar_of(ctx, kind, 0)
    diagonal = b.reduce(only, zero, [last + 1], HloOpcode.ADD)
    index = b.iota(array(PrimitiveType.S32, [*batch, rows]), last)
    own = b.add(index, filled(ctx, index, 1))
    exchanged = b.convert(b.compare(pivots, own, "NE"), PrimitiveType.S32)
    count = b.reduce(exchanged, scalar_of(ctx, PrimitiveType.S32, 0), [last], HloOpcode.ADD)
    is_odd = b.compare(b.and_(count, filled(ctx, count, 1)), filled(ctx, count, 1), "EQ")
    one, minus = (broadcast_to(b, scalar_of(ctx, kind, v), batch) for v in (1, -1))
    return diagonal, b.select(is_odd, minus, one)


def _product(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    start = scalar_of(ctx, x.array_shape.element_type, 1)
    return ctx.b.reduce(x, start, [x.array_shape.rank - 1], HloOpcode.MULTIPLY)


@register("MatrixDeterminant", "BatchMatrixDeterminant", ranks="2+")
def _determinant(ctx: OpContext) -> HloInstruction:
    diagonal, sign = _factored(ctx)
    found = ctx.b.multiply(_product(ctx, diagonal), sign)
    return ctx.b.convert(found, ctx.shape(0).element_type)


@register("LogMatrixDeterminant", ranks="2+")
def _log_determinant(ctx: OpContext) -> list[HloInstruction]:
    """Return the sign (of complex matrices a unit number) and log |det|; 0 and -inf if singular."""
    b = ctx.b
    diagonal, sign = _factored(ctx)
    kind, last = ctx.shape(0).element_type, diagonal.array_shape.rank - 1
    size = b.abs(diagonal)
    zero = scalar_of(ctx, size.array_shape.element_type, 0)
    logs = b.reduce(b.log(size), zero, [last], HloOpcode.ADD)
    found = b.multiply(_product(ctx, b.unary(HloOpcode.SIGN, diagonal)), sign)
    return [b.convert(found, kind), b.convert(logs, kind)]
