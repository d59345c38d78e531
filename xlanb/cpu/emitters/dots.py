"""Dot: batch dimensions, free dimensions of either side, contracting dimensions, in any layout.

One element by itself is a fold over the contracting dimensions (the rule below). As a kernel of its own a dot is a contraction (see `matmul`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from xlanb.codegen import arithmetic, costs
from xlanb.codegen.elemental import Elemental, array_of, elemental
from xlanb.codegen.elements import Element, zero
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, strides
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import Axis, Contraction
from xlanb.cpu.emitters.matmul.gemm import emit_contraction
from xlanb.cpu.emitters.matmul.plan import plan
from xlanb.cpu.emitters.products import accumulator_type, multiply_add
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimensions of a dot's operands by their part; result dimensions are batch, lhs free, rhs free."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> DotDimensions:
        """Those of a dot instruction."""
        lb, rb = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
        lc, rc = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
        lhs, rhs = (array_of(o).rank for o in i.operands[:2])
        lf = tuple(d for d in range(lhs) if d not in lb and d not in lc)
        return DotDimensions(lb, rb, lc, rc, lf, tuple(d for d in range(rhs) if d not in rb and d not in rc))


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


def contraction_of(i: HloInstruction) -> Contraction:
    """A dot as axes with strides."""
    return _contraction(array_of(i.operands[0]), array_of(i.operands[1]), array_of(i), DotDimensions.of(i))


@lru_cache(maxsize=1024)
def _contraction(a: ArrayShape, b: ArrayShape, c: ArrayShape, d: DotDimensions) -> Contraction:
    sa, sb, sc = strides(a), strides(b), strides(c)
    batch = len(d.lhs_batch)
    rows = batch + len(d.lhs_free)
    return Contraction(
        tuple(
            Axis(a.dimensions[p], sa[p], sb[q], sc[k])
            for k, (p, q) in enumerate(zip(d.lhs_batch, d.rhs_batch, strict=True))
        ),
        tuple(Axis(a.dimensions[p], sa[p], 0, sc[batch + k]) for k, p in enumerate(d.lhs_free)),
        tuple(Axis(b.dimensions[q], 0, sb[q], sc[rows + k]) for k, q in enumerate(d.rhs_free)),
        tuple(Axis(a.dimensions[p], sa[p], sb[q]) for p, q in zip(d.lhs_contracting, d.rhs_contracting, strict=True)),
        a.element_type,
        b.element_type,
        accumulator_type(c.element_type),
        c.element_type,
    )


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch that `emit_dot` wants."""
    made = plan(contraction_of(i))
    return made.scratch_bytes if made is not None else 0


def is_worth_a_kernel(i: HloInstruction) -> bool:
    """Whether a dot should be a kernel of its own rather than a part of another: it has enough products, of types that have vectors."""
    x = contraction_of(i)
    return x.products >= costs.COMMON.written_products and plan(x) is not None


def emit_dot(e: Elemental, i: HloInstruction, output: IrArray, scratch: Value | None) -> bool:
    """A dot of operands in memory as a kernel of its own; False where the rule above has to do."""
    a, b = (place_of(e, o) for o in i.operands[:2])
    if a is None or b is None:
        return False
    made = plan(contraction_of(i))
    if made is None:
        return False
    emit_contraction(e.f, made, (a, b, output.pointer), scratch)
    e.f.ready = e.f.calls_only = True
    return True


def place_of(e: Elemental, i: HloInstruction) -> Value | None:
    """Where an operand lies; None where its elements are computed anew for every use, which would not pay."""
    source = e.bindings.get(i, {}).get(())
    return source.pointer if isinstance(source, IrArray) else None
