"""Elements of dots and convolutions, one product at a time."""

from __future__ import annotations

from xlanb.codegen import arithmetic
from xlanb.codegen.complex_math import Complex
from xlanb.codegen.elements import Element, is_narrow, pair, real
from xlanb.codegen.function import Function
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType


def accumulator_type(t: PrimitiveType) -> PrimitiveType:
    """The accumulation type of products."""
    return T.F32 if is_narrow(t) else t


def multiply_add(f: Function, t: PrimitiveType, total: Element, a: Element, b: Element) -> Element:
    """total + a * b; floats are fused if the machine can, and may be reordered."""
    if t.is_complex:
        made = Complex(*pair(total)) + Complex(*pair(a)) * Complex(*pair(b))
        return made.re, made.im
    flags = "reassoc contract" if t.is_floating else ""
    product = arithmetic.binary(f, Op.MULTIPLY, t, real(a), real(b), flags)
    return arithmetic.binary(f, Op.ADD, t, real(total), product, flags)
