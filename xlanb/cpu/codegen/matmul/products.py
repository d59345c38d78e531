"""What the elements of dots and convolutions are made of, one product at a time."""

from __future__ import annotations

from xlanb.cpu.codegen import arithmetic, complex_math
from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.types import Value, is_narrow, pair, real, register
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType


def accumulator_type(t: PrimitiveType) -> PrimitiveType:
    """What products are summed in."""
    return T.F32 if is_narrow(t) else t


def multiply_add(e: Elemental, t: PrimitiveType, total: Value, a: Value, b: Value) -> Value:
    """total + a * b; floats fused where the machine can, and in any order."""
    f = e.f
    if t.is_complex:
        return complex_math.binary(f, Op.ADD, t, pair(total), complex_math.binary(f, Op.MULTIPLY, t, pair(a), pair(b)))
    kind = register(t)
    if t.is_floating:
        product = f.let(f"fmul reassoc contract {kind} {a}, {b}")
        return f.let(f"fadd reassoc contract {kind} {total}, {product}")
    product = arithmetic.binary(f, Op.MULTIPLY, t, real(a), real(b))
    return arithmetic.binary(f, Op.ADD, t, real(total), product)
