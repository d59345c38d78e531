"""Elements of dots: a sum of products for each, where that is not worth a kernel of its own."""

from __future__ import annotations

from xlanb.codegen import arithmetic
from xlanb.codegen.complex_math import Complex
from xlanb.codegen.elemental import Elemental, array_of, elemental
from xlanb.codegen.elements import Element, pair, real, zero
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index
from xlanb.cpu.codegen.dot import DotDimensions
from xlanb.cpu.codegen.matmul.products import accumulator_type
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType


@elemental(Op.DOT)
def _dot(e: Elemental, i: HloInstruction, x: Index) -> Element:
    lhs, rhs = i.operands[:2]
    a, b = array_of(lhs), array_of(rhs)
    to = array_of(i).element_type
    t = accumulator_type(to)
    d = DotDimensions.of(i)
    left, right = _free(d, x.multi(e.f), a.rank, b.rank)

    def body(indices: list[Ix], total: list[Element]) -> list[Element]:
        at, bt = list(left), list(right)
        for p, q, v in zip(d.lhs_contracting, d.rhs_contracting, indices, strict=True):
            at[p] = bt[q] = v
        u = arithmetic.convert(e.f, a.element_type, t, e.element(lhs, Index(a, at)))
        v2 = arithmetic.convert(e.f, b.element_type, t, e.element(rhs, Index(b, bt)))
        return [multiply_add(e.f, t, total[0], u, v2)]

    made = e.fold([a.dimensions[p] for p in d.lhs_contracting], [t], [zero(e.f, t)], body)
    return arithmetic.convert(e.f, t, to, made[0])


def _free(d: DotDimensions, multi: tuple[Ix, ...], lhs: int, rhs: int) -> tuple[list[Ix], list[Ix]]:
    """The indices of the operands of some ranks for an element of the result, but for the contracting dimensions."""
    left: list[Ix] = [0] * lhs
    right: list[Ix] = [0] * rhs
    for k, (p, q) in enumerate(zip(d.lhs_batch, d.rhs_batch, strict=True)):
        left[p] = right[q] = multi[k]
    base = len(d.lhs_batch)
    for k, p in enumerate(d.lhs_free):
        left[p] = multi[base + k]
    for k, q in enumerate(d.rhs_free):
        right[q] = multi[base + len(d.lhs_free) + k]
    return left, right


def multiply_add(f: Function, t: PrimitiveType, total: Element, a: Element, b: Element) -> Element:
    """total + a * b; floats fused where the machine can, and in any order."""
    if t.is_complex:
        made = Complex(*pair(total)) + Complex(*pair(a)) * Complex(*pair(b))
        return made.re, made.im
    flags = "reassoc contract" if t.is_floating else ""
    product = arithmetic.binary(f, Op.MULTIPLY, t, real(a), real(b), flags)
    return arithmetic.binary(f, Op.ADD, t, real(total), product, flags)
