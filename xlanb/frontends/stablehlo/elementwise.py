"""Elementwise operations, each lowered to one HLO opcode."""

from __future__ import annotations

from typing import Any

from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import RegionScope, rule
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.shape.shape import array

_O = HloOpcode

_SAME_NAME = (
    "abs add and atan2 cbrt ceil complex cosine count_leading_zeros divide exponential exponential_minus_one floor "
    "imag is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt power real remainder "
    "round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign sine "
    "sqrt subtract tan tanh xor"
).split()
_CHLO = {"acos": "acos", "acosh": "acosh", "atanh": "atanh", "cosh": "cosh", "erf": "erf", "sinh": "sinh", "tan": "tan"}
OPCODES = {f"stablehlo.{name}": BY_TEXT[name.replace("_", "-")] for name in _SAME_NAME}
OPCODES |= {f"chlo.{name}": BY_TEXT[text] for name, text in _CHLO.items()}
OPCODES |= {"chlo.asin": _O.ASIN, "chlo.asinh": _O.ASINH, "chlo.mulhi": _O.MULHI, "stablehlo.clamp": _O.CLAMP}
"""Operations whose operands and attributes are those of the opcode."""


@rule(*OPCODES)
def _elementwise(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    opcode = OPCODES[op.name]
    operands = s.operands(op)
    if opcode.arity is not None and len(operands) != opcode.arity:
        s.fail(op, f"expected {opcode.arity} operands, not {len(operands)}")
    if opcode is _O.CLAMP:
        return s.b.clamp(*operands)
    if opcode in _COMPLEX and operands[0].array_shape.element_type.is_complex:
        return _of_complex(s, opcode, operands)
    return s.instruction(opcode, operands, result_accuracy=_accuracy(s, op))


_COMPLEX = frozenset((_O.MAXIMUM, _O.MINIMUM, _O.CBRT))
"""Opcodes that HLO has for real numbers only, StableHLO for complex ones too."""


def _of_complex(s: RegionScope, opcode: HloOpcode, operands: list[HloInstruction]) -> HloInstruction:
    """Lower the cube root, maximum or minimum of complex numbers.

    The last two compare real parts, then imaginary parts.
    """
    b, x = s.b, operands[0]
    if opcode is _O.CBRT:
        return b.power(x, s.full(1 / 3, x))
    y = operands[1]
    direction = "GT" if opcode is _O.MAXIMUM else "LT"
    real, imag = (b.real(x), b.real(y)), (b.imag(x), b.imag(y))
    among_equals = b.and_(b.compare(*real, "EQ"), b.compare(*imag, direction))
    return b.select(b.or_(b.compare(*real, direction), among_equals), x, y)


def _accuracy(s: RegionScope, op: StablehloOperation) -> str | None:
    """XLA's text of `#stablehlo.result_accuracy<...>`."""
    fields = s.fields(op, "result_accuracy")
    mode = fields.get("mode", "DEFAULT")
    if mode != "TOLERANCE" and any(fields.get(name) for name in ("atol", "rtol", "ulps")):
        s.fail(op, f"expected tolerances of 0 for a result_accuracy of mode {mode}")
    if mode == "HIGHEST":
        return "{mode=highest}"
    if mode != "TOLERANCE":
        return None
    parts = ",".join(f"{name}={_plain(fields.get(name, 0))}" for name in ("atol", "rtol", "ulps"))
    return f"{{tolerance={{{parts}}}}}"


def _plain(value: Any) -> str:
    return f"{value:g}"


@rule("stablehlo.select")
def _select(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    if len(op.operands) != 3:
        s.fail(op, f"expected 3 operands, not {len(op.operands)}")
    return s.b.select(*s.operands(op))


@rule("stablehlo.compare")
def _compare(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = _two(s, op)
    return s.b.compare(x, y, s.word(op, "comparison_direction"), _comparison_type(s, op, x))


def _comparison_type(s: RegionScope, op: StablehloOperation, x: HloInstruction) -> str | None:
    """Return the comparison type if the elements do not imply it: total order."""
    kind = op.attributes.get("compare_type")
    return "TOTALORDER" if kind == "TOTALORDER" and x.array_shape.element_type.is_floating else None


def _two(s: RegionScope, op: StablehloOperation) -> tuple[HloInstruction, HloInstruction]:
    operands = s.operands(op)
    if len(operands) != 2:
        s.fail(op, f"expected 2 operands, not {len(operands)}")
    return operands[0], operands[1]


@rule("stablehlo.convert")
def _convert(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.convert(x, s.result_element(op))


@rule("stablehlo.bitcast_convert")
def _bitcast_convert(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.bitcast_convert(x, s.result_element(op))


@rule("stablehlo.reduce_precision")
def _reduce_precision(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.reduce_precision(x, s.integer(op, "exponent_bits"), s.integer(op, "mantissa_bits"))


@rule("stablehlo.constant", "chlo.constant", "arith.constant")
def _constant(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.constant(op.attributes.get("value"))


@rule("stablehlo.iota")
def _iota(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    """An iota of one dimension that is broadcast, as XlaBuilder makes it."""
    return iota(s, op, s.result_shape(op).dimensions)


def iota(s: RegionScope, op: StablehloOperation, sizes: tuple[int, ...]) -> HloInstruction:
    """An iota of given sizes, along `iota_dimension`."""
    dimension = s.integer(op, "iota_dimension")
    if not 0 <= dimension < len(sizes):
        s.fail(op, f"iota_dimension {dimension} of {len(sizes)} dimensions")
    line = s.b.iota(array(s.result_element(op), [sizes[dimension]]))
    return s.b.broadcast_in_dim(line, sizes, (dimension,))
