"""Shapes of elementwise opcodes (xla/service/shape_inference.cc).

Source: InferUnaryOpShape, InferBinaryOpShape, InferTernaryOpShape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import (
    Site,
    check_rule,
    component_type,
    dynamics,
    higher_precision,
    make,
    rule,
    same_type,
)
from xlanb.shape import ArrayShape, PrimitiveType, Shape

_O = HloOpcode
_Allowed = Callable[[PrimitiveType], bool]


def _is_float(t: PrimitiveType) -> bool:
    return t.is_floating


def _is_float_or_complex(t: PrimitiveType) -> bool:
    return t.is_floating or t.is_complex


def _is_integral(t: PrimitiveType) -> bool:
    return t.is_integral


def _is_number(t: PrimitiveType) -> bool:
    return t.is_integral or t.is_floating or t.is_complex


def _is_signed_number(t: PrimitiveType) -> bool:
    return t.is_signed or t.is_floating or t.is_complex


def _is_pred_or_integral(t: PrimitiveType) -> bool:
    return t is PrimitiveType.PRED or t.is_integral


def _is_any(t: PrimitiveType) -> bool:
    return t.is_array


def _is_not_pred(t: PrimitiveType) -> bool:
    return t is not PrimitiveType.PRED


_UNARY: dict[HloOpcode, tuple[_Allowed, str]] = {
    **dict.fromkeys(
        (_O.FLOOR, _O.CEIL, _O.ROUND_NEAREST_AFZ, _O.ROUND_NEAREST_EVEN, _O.ERF, _O.CBRT),
        (_is_float, "a floating type"),
    ),
    **dict.fromkeys(
        (
            _O.ACOS, _O.ACOSH, _O.ASIN, _O.ASINH, _O.ATAN, _O.ATANH, _O.COSH, _O.COSINE,
            _O.EXPONENTIAL, _O.EXPONENTIAL_MINUS_ONE,
            _O.LOG, _O.LOG_PLUS_ONE, _O.LOGISTIC, _O.RSQRT, _O.SINE, _O.SINH, _O.SQRT, _O.TAN, _O.TANH,
        ),
        (_is_float_or_complex, "a floating or complex type"),
    ),
    _O.ABS: (_is_signed_number, "a signed integer, floating or complex type"),
    _O.SIGN: (_is_signed_number, "a signed integer, floating or complex type"),
    _O.NEGATE: (_is_number, "an integer, floating or complex type"),
    _O.NOT: (_is_pred_or_integral, "pred or an integer type"),
    _O.COUNT_LEADING_ZEROS: (_is_integral, "an integer type"),
    _O.POPCNT: (_is_integral, "an integer type"),
    _O.IS_FINITE: (_is_float, "a floating type"),
    _O.REAL: (_is_float_or_complex, "a floating or complex type"),
    _O.IMAG: (_is_float_or_complex, "a floating or complex type"),
}  # fmt: skip
_TO_COMPONENT = frozenset((_O.ABS, _O.REAL, _O.IMAG))


@rule(*_UNARY)
def _unary(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    allowed, words = _UNARY[site.opcode]
    if not allowed(x.element_type):
        site.fail(f"expected {words}")
    kind = x.element_type
    if site.opcode in _TO_COMPONENT:
        kind = component_type(kind)
    elif site.opcode is _O.IS_FINITE:
        kind = PrimitiveType.PRED
    return make(kind, x.dimensions, x.dynamic)


@rule(_O.REDUCE_PRECISION)
def _reduce_precision(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    if not x.element_type.is_floating:
        site.fail("expected a floating type")
    if site.get("exponent_bits") < 1 or site.get("mantissa_bits") < 0:
        site.fail("expected at least one exponent bit and no negative number of mantissa bits")
    return make(x.element_type, x.dimensions, x.dynamic)


_BINARY: dict[HloOpcode, tuple[_Allowed, str]] = {
    **dict.fromkeys((_O.ADD, _O.MULTIPLY, _O.MAXIMUM, _O.MINIMUM), (_is_any, "")),
    **dict.fromkeys(
        (
            _O.SUBTRACT,
            _O.DIVIDE,
            _O.POWER,
            _O.REMAINDER,
            _O.ATAN2,
            _O.SHIFT_LEFT,
            _O.SHIFT_RIGHT_ARITHMETIC,
            _O.SHIFT_RIGHT_LOGICAL,
        ),
        (_is_not_pred, "a type that is not pred"),
    ),
    **dict.fromkeys((_O.AND, _O.OR, _O.XOR), (_is_pred_or_integral, "pred or an integer type")),
    _O.MULHI: (_is_integral, "an integer type"),
    _O.COMPLEX: (lambda t: t in (PrimitiveType.F32, PrimitiveType.F64), "f32 or f64"),
    _O.COMPARE: (_is_any, ""),
}


@rule(*_BINARY)
def _binary(site: Site) -> Shape:
    site.count(2)
    x, y = site.array(0), site.array(1)
    allowed, words = _BINARY[site.opcode]
    if not same_type(x.element_type, y.element_type):
        site.fail("expected operands of the same element type")
    if not (allowed(x.element_type) and allowed(y.element_type)):
        site.fail(f"expected {words}")
    kind = x.element_type if x.element_type is y.element_type else higher_precision(x.element_type, y.element_type)
    if site.opcode is _O.COMPARE:
        kind = PrimitiveType.PRED
    elif site.opcode is _O.COMPLEX:
        kind = PrimitiveType.C64 if kind is PrimitiveType.F32 else PrimitiveType.C128
    return _joined(site, kind, (x, y))


def _joined(site: Site, kind: PrimitiveType, arrays: Sequence[ArrayShape]) -> ArrayShape:
    """The common dimensions; dynamic if any operand's is."""
    first = arrays[0]
    dims, dynamic = first.dimensions, first.dynamic
    for other in arrays[1:]:
        if other.dimensions == dims and other.dynamic == dynamic:
            continue
        if len(other.dimensions) != len(dims):
            site.fail("expected operands of the same dimensions")
        merged = [
            _merge(site, *p)
            for p in zip(dims, dynamic or (False,) * len(dims), other.dimensions, dynamics(other), strict=True)
        ]
        dims, dynamic = tuple(d for d, _ in merged), tuple(f for _, f in merged)
    return make(kind, dims, dynamic)


def _merge(site: Site, a: int, a_dynamic: bool, b: int, b_dynamic: bool) -> tuple[int, bool]:
    """Merge one dimension of two operands.

    An unbounded size gives way to the other; otherwise they must be equal.
    """
    if a == b:
        return a, a_dynamic or b_dynamic
    if a == -1 and a_dynamic:
        return b, b_dynamic
    if b == -1 and b_dynamic:
        return a, a_dynamic
    return site.fail("expected operands of the same dimensions")


@rule(_O.SELECT)
def _select(site: Site) -> Shape:
    site.count(3)
    condition, x, y = site.array(0), site.array(1), site.array(2)
    # XLA's evaluator accepts a scalar condition too, and its tests use one.
    if condition.element_type is not PrimitiveType.PRED:
        site.fail("expected a first operand of type pred")
    if not same_type(x.element_type, y.element_type):
        site.fail("expected the second and third operand to have the same element type")
    kind = higher_precision(x.element_type, y.element_type)
    result = _joined(site, kind, (x, y))
    if (
        condition.dimensions
        and not condition.is_dynamic
        and condition.dimensions != result.dimensions
        and not result.is_dynamic
    ):
        site.fail("expected a first operand that is a scalar or has the dimensions of the others")
    return _joined(site, kind, (result, condition)) if condition.dimensions else result


@rule(_O.CLAMP)
def _clamp(site: Site) -> Shape:
    site.count(3)
    low, x, high = site.array(0), site.array(1), site.array(2)
    if not (same_type(low.element_type, x.element_type) and same_type(high.element_type, x.element_type)):
        site.fail("expected operands of the same element type")
    # A bound may be a scalar.
    return _joined(site, x.element_type, (x, *(b for b in (low, high) if b.dimensions)))


@check_rule(_O.CONVERT, _O.STOCHASTIC_CONVERT)
def _convert(site: Site, shape: Shape) -> None:
    x = site.array(0)
    if site.opcode is _O.STOCHASTIC_CONVERT:
        site.count(2)
        if not x.element_type.is_floating:
            site.fail("expected a first operand of a floating type")
        random = site.array(1)
        if not random.element_type.is_unsigned or random.element_type.bits != x.element_type.bits:
            site.fail("expected random bits of an unsigned type as wide as the operand's")
        if random.dimensions != x.dimensions:
            site.fail("expected as many random bits as elements")
    else:
        site.count(1)
    if not isinstance(shape, ArrayShape) or shape.dimensions != x.dimensions or not shape.element_type.is_array:
        site.fail(f"expected a result of the operand's dimensions, not {shape}")
