"""Hyperbolic functions and inverse hyperbolic and trigonometric functions.

Real ones are opcodes, complex ones use logarithms (xla/hlo/builder/lib/math.cc). Branch cuts are
those of the principal logarithm and square root.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled
from xlanb.tf2xla.registry import register

Formula = Callable[[OpContext, HloInstruction], HloInstruction]


def _half(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.multiply(x, filled(ctx, x, 0.5))


def _cosh(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    return _half(ctx, ctx.b.add(ctx.b.exp(z), ctx.b.exp(ctx.b.negate(z))))


def _sinh(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    return _half(ctx, ctx.b.subtract(ctx.b.exp(z), ctx.b.exp(ctx.b.negate(z))))


def _asinh(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    root = ctx.b.unary(HloOpcode.SQRT, ctx.b.add(ctx.b.multiply(z, z), filled(ctx, z, 1)))
    return ctx.b.log(ctx.b.add(z, root))


def _acosh(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    one = filled(ctx, z, 1)
    roots = [ctx.b.unary(HloOpcode.SQRT, s) for s in (ctx.b.add(z, one), ctx.b.subtract(z, one))]
    return ctx.b.log(ctx.b.add(z, ctx.b.multiply(*roots)))


def _atanh(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    return _half(ctx, ctx.b.subtract(ctx.b.log1p(z), ctx.b.log1p(ctx.b.negate(z))))


def _from_hyperbolic(function: Formula) -> Formula:
    """-i f(i z): from a hyperbolic function the trigonometric one."""

    def made(ctx: OpContext, z: HloInstruction) -> HloInstruction:
        return ctx.b.multiply(filled(ctx, z, -1j), function(ctx, ctx.b.multiply(filled(ctx, z, 1j), z)))

    return made


def _acos(ctx: OpContext, z: HloInstruction) -> HloInstruction:
    return ctx.b.subtract(filled(ctx, z, math.pi / 2), _from_hyperbolic(_asinh)(ctx, z))


_FORMULAS: dict[str, tuple[HloOpcode, Formula]] = {
    "Acos": (HloOpcode.ACOS, _acos),
    "Acosh": (HloOpcode.ACOSH, _acosh),
    "Asin": (HloOpcode.ASIN, _from_hyperbolic(_asinh)),
    "Asinh": (HloOpcode.ASINH, _asinh),
    "Atan": (HloOpcode.ATAN, _from_hyperbolic(_atanh)),
    "Atanh": (HloOpcode.ATANH, _atanh),
    "Cosh": (HloOpcode.COSH, _cosh),
    "Sinh": (HloOpcode.SINH, _sinh),
}


def _lowering(opcode: HloOpcode, formula: Formula) -> Callable[[OpContext], HloInstruction]:
    def lower(ctx: OpContext) -> HloInstruction:
        x = ctx.input(0)
        return formula(ctx, x) if x.array_shape.element_type.is_complex else ctx.b.unary(opcode, x)

    return lower


for _op, (_opcode, _formula) in _FORMULAS.items():
    register(_op)(_lowering(_opcode, _formula))
