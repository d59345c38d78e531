"""Elementwise arithmetic and comparisons (tf2xla/kernels/{unary_ops,binary_ops,cwise_ops}.cc)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import TupleShape
from xlanb.tf2xla.broadcasting import binary, broadcast_pair, broadcast_to
from xlanb.tf2xla.context import OpContext, Value
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import kernel, register

_UNARY = {
    "Abs": HloOpcode.ABS,
    "Ceil": HloOpcode.CEIL,
    "Cos": HloOpcode.COSINE,
    "Erf": HloOpcode.ERF,
    "Exp": HloOpcode.EXPONENTIAL,
    "Expm1": HloOpcode.EXPONENTIAL_MINUS_ONE,
    "Floor": HloOpcode.FLOOR,
    "IsFinite": HloOpcode.IS_FINITE,
    "Log": HloOpcode.LOG,
    "Log1p": HloOpcode.LOG_PLUS_ONE,
    "LogicalNot": HloOpcode.NOT,
    "Neg": HloOpcode.NEGATE,
    "Rint": HloOpcode.ROUND_NEAREST_EVEN,
    "Rsqrt": HloOpcode.RSQRT,
    "Sigmoid": HloOpcode.LOGISTIC,
    "Sign": HloOpcode.SIGN,
    "Sin": HloOpcode.SINE,
    "Sqrt": HloOpcode.SQRT,
    "Tan": HloOpcode.TAN,
    "Tanh": HloOpcode.TANH,
}

_BINARY = {
    "Add": HloOpcode.ADD,
    "AddV2": HloOpcode.ADD,
    "Atan2": HloOpcode.ATAN2,
    "Div": HloOpcode.DIVIDE,
    "LogicalAnd": HloOpcode.AND,
    "LogicalOr": HloOpcode.OR,
    "Maximum": HloOpcode.MAXIMUM,
    "Mod": HloOpcode.REMAINDER,
    "Minimum": HloOpcode.MINIMUM,
    "Mul": HloOpcode.MULTIPLY,
    "Pow": HloOpcode.POWER,
    "RealDiv": HloOpcode.DIVIDE,
    "Sub": HloOpcode.SUBTRACT,
    "TruncateMod": HloOpcode.REMAINDER,
}

_COMPARISON = {"Equal": "EQ", "NotEqual": "NE", "Less": "LT", "LessEqual": "LE", "Greater": "GT", "GreaterEqual": "GE"}


def _unary(opcode: HloOpcode) -> Callable[[OpContext], HloInstruction]:
    return lambda ctx: ctx.b.unary(opcode, ctx.input(0))


def _binary(opcode: HloOpcode) -> Callable[[OpContext], HloInstruction]:
    return lambda ctx: binary(ctx.b, opcode, ctx.input(0), ctx.input(1))


def _comparison(direction: str) -> Callable[[OpContext], HloInstruction]:
    return lambda ctx: ctx.b.compare(*broadcast_pair(ctx.b, ctx.input(0), ctx.input(1)), direction)


for _op, _opcode in _UNARY.items():
    register(_op)(_unary(_opcode))
for _op, _opcode in _BINARY.items():
    register(_op)(_binary(_opcode))
for _op, _direction in _COMPARISON.items():
    register(_op)(_comparison(_direction))


@register("Square")
def _square(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.multiply(x, x)


@register("Reciprocal", "Inv")
def _reciprocal(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return binary(ctx.b, HloOpcode.DIVIDE, scalar(ctx, x, 1), x)


@register("SquaredDifference")
def _squared_difference(ctx: OpContext) -> HloInstruction:
    d = binary(ctx.b, HloOpcode.SUBTRACT, ctx.input(0), ctx.input(1))
    return ctx.b.multiply(conjugate(ctx, d), d)


@register("FloorMod")
def _floor_mod(ctx: OpContext) -> HloInstruction:
    """Remainder with the divisor's sign: the truncated one, plus the divisor if the signs
    differ.
    """
    x, y = broadcast_pair(ctx.b, ctx.input(0), ctx.input(1))
    zero = ctx.b.broadcast_in_dim(scalar(ctx, x, 0), x.array_shape.dimensions, [])
    rest = ctx.b.binary(HloOpcode.REMAINDER, x, y)
    if x.array_shape.element_type.is_unsigned:
        return rest
    differs = ctx.b.compare(ctx.b.compare(rest, zero, "LT"), ctx.b.compare(y, zero, "LT"), "NE")
    adjust = ctx.b.binary(HloOpcode.AND, ctx.b.compare(rest, zero, "NE"), differs)
    return ctx.b.select(adjust, ctx.b.add(rest, y), rest)


@register("FloorDiv")
def _floor_div(ctx: OpContext) -> HloInstruction:
    """Quotient rounded down: floor for floats; for integers truncated, minus 1 if signs differ.

    The 1 is subtracted only if there is a remainder.
    """
    x, y = broadcast_pair(ctx.b, ctx.input(0), ctx.input(1))
    quotient = ctx.b.divide(x, y)
    kind = x.array_shape.element_type
    if kind.is_floating:
        return ctx.b.unary(HloOpcode.FLOOR, quotient)
    if kind.is_unsigned:
        return quotient
    dims = x.array_shape.dimensions
    zero, one = (ctx.b.broadcast_in_dim(scalar(ctx, x, v), dims, []) for v in (0, 1))
    differs = ctx.b.compare(ctx.b.compare(x, zero, "LT"), ctx.b.compare(y, zero, "LT"), "NE")
    inexact = ctx.b.compare(ctx.b.binary(HloOpcode.REMAINDER, x, y), zero, "NE")
    return ctx.b.select(ctx.b.binary(HloOpcode.AND, differs, inexact), ctx.b.subtract(quotient, one), quotient)


@register("TruncateDiv")
def _truncate_div(ctx: OpContext) -> HloInstruction:
    """Quotient towards zero."""
    quotient = binary(ctx.b, HloOpcode.DIVIDE, ctx.input(0), ctx.input(1))
    if not quotient.array_shape.element_type.is_floating:
        return quotient
    down, up = ctx.b.floor(quotient), ctx.b.ceil(quotient)
    return ctx.b.select(ctx.b.compare(quotient, filled(ctx, quotient, 0), "LT"), up, down)


@register("Round")
def _round(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.round_nearest_even(x) if x.array_shape.element_type.is_floating else x


@register("IsNan")
def _is_nan(ctx: OpContext) -> HloInstruction:
    return ctx.b.compare(ctx.input(0), ctx.input(0), "NE")


@register("IsInf")
def _is_inf(ctx: OpContext) -> HloInstruction:
    size = ctx.b.abs(ctx.input(0))
    return ctx.b.compare(size, filled(ctx, size, float("inf")), "EQ")


@register("ClipByValue")
def _clip_by_value(ctx: OpContext) -> HloInstruction:
    x, low, high = (ctx.input(i) for i in range(3))
    dims = x.array_shape.dimensions
    return ctx.b.maximum(broadcast_to(ctx.b, low, dims), ctx.b.minimum(x, broadcast_to(ctx.b, high, dims)))


def _unless_zero(
    ctx: OpContext, test: int, make: Callable[[HloInstruction, HloInstruction], HloInstruction]
) -> HloInstruction:
    """Return `make` of both inputs, 0 where input `test` is 0."""
    pair = broadcast_pair(ctx.b, ctx.input(0), ctx.input(1))
    zero = filled(ctx, pair[0], 0)
    return ctx.b.select(ctx.b.compare(pair[test], zero, "EQ"), zero, make(*pair))


@register("DivNoNan")
def _div_no_nan(ctx: OpContext) -> HloInstruction:
    return _unless_zero(ctx, 1, ctx.b.divide)


@register("MulNoNan")
def _mul_no_nan(ctx: OpContext) -> HloInstruction:
    return _unless_zero(ctx, 1, ctx.b.multiply)


@register("Xdivy")
def _xdivy(ctx: OpContext) -> HloInstruction:
    return _unless_zero(ctx, 0, ctx.b.divide)


@register("Xlogy")
def _xlogy(ctx: OpContext) -> HloInstruction:
    return _unless_zero(ctx, 0, lambda x, y: ctx.b.multiply(x, ctx.b.log(y)))


@register("Xlog1py")
def _xlog1py(ctx: OpContext) -> HloInstruction:
    return _unless_zero(ctx, 0, lambda x, y: ctx.b.multiply(x, ctx.b.log1p(y)))


@register("Cast")
def _cast(ctx: OpContext) -> HloInstruction:
    x, target = ctx.input(0), ctx.element_type("DstT")
    source = x.array_shape.element_type
    if source is target:
        return x
    if target.text == "pred":  # true if not zero
        zero = ctx.b.broadcast_in_dim(scalar(ctx, x, 0), x.array_shape.dimensions, [])
        return ctx.b.compare(x, zero, "NE")
    if source.is_complex and not target.is_complex:
        x = ctx.b.unary(HloOpcode.REAL, x)
    return ctx.b.convert(x, target)


@register("AddN")
def _add_n(ctx: OpContext) -> HloInstruction:
    total, *rest = ctx.inputs
    if isinstance(total.shape, TupleShape):  # lists: their rows
        first, *count = (ctx.b.get_tuple_element(total, i) for i in range(len(total.shape.shapes)))
        for x in rest:
            first = ctx.b.add(first, ctx.b.get_tuple_element(x, 0))
        return ctx.b.tuple([first, *count])
    for x in rest:
        total = ctx.b.add(total, x)
    return total


@register("Select", "SelectV2")
def _select(ctx: OpContext) -> HloInstruction:
    condition, x, y = ctx.inputs
    x, y = broadcast_pair(ctx.b, x, y)
    if ctx.op.type == "Select" and condition.array_shape.rank == 1 and x.array_shape.rank > 1:
        # Select (not V2) lets a vector choose whole rows
        condition = ctx.b.broadcast_in_dim(condition, x.array_shape.dimensions, [0])
    condition, x = broadcast_pair(ctx.b, condition, x)
    x, y = broadcast_pair(ctx.b, x, y)
    return ctx.b.select(condition, x, y)


@register("_UnaryOpsComposition")
def _composition(ctx: OpContext) -> Value:
    """Ops on one value, one after the other."""
    value: Value = ctx.input(0)
    for name in ctx.attr("op_names"):
        found = kernel(str(name))
        if found is None:
            ctx.fail(f"op {name!r} of the composition has no lowering")
        made = found.lower(OpContext(ctx.op, [value], ctx.b, ctx.constants))
        value = made[0] if isinstance(made, Sequence) else made
    return value
