"""Elements of dots and convolutions: a fold over the contraction, one product at a time.

Dots may have batch, free and contracting dimensions in any layout; convolutions any dimension
numbers, strides, dilations, padding and groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.analysis.convolution import multiplies_padding
from xlanb.codegen import arithmetic
from xlanb.codegen.convolution import Convolution
from xlanb.codegen.elemental import Elemental, array_of, elemental
from xlanb.codegen.elements import Element, zero
from xlanb.codegen.folds import window_position
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.products import accumulator_type, multiply_add
from xlanb.codegen.values import Value
from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DotLoops:
    """The dimensions of a dot's operands by kind; the result has batch, lhs free, rhs free."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> DotLoops:
        """The dimensions of a dot instruction."""
        lb, rb = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
        lc, rc = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
        lhs, rhs = (array_of(o).rank for o in i.operands[:2])
        lf = tuple(d for d in range(lhs) if d not in lb and d not in lc)
        return DotLoops(lb, rb, lc, rc, lf, tuple(d for d in range(rhs) if d not in rb and d not in rc))


@elemental(Op.DOT)
def dot_element(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """One element of a dot."""
    lhs, rhs = i.operands[:2]
    a, b = array_of(lhs), array_of(rhs)
    to = array_of(i).element_type
    t = accumulator_type(to)
    d = DotLoops.of(i)
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


def _free(d: DotLoops, multi: tuple[Ix, ...], lhs: int, rhs: int) -> tuple[list[Ix], list[Ix]]:
    """The operands' indices for an element of the result, without contracting dimensions."""
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


def convolution_element(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """One element of a convolution."""
    c = Convolution.of(i)
    t = c.type
    multi = x.multi(e.f)
    feature = multi[c.numbers.output_feature]
    batch, first = _base(e, c, multi[c.numbers.output_batch], feature)
    output = [multi[d] for d in c.numbers.output_spatial]
    multiplies = multiplies_padding(i)

    def window(offset: list[Ix], total: list[Element]) -> list[Element]:
        inside, where = _position(e, c, output, offset)

        def channels(at: list[Ix], inner: list[Element]) -> list[Element]:
            u = _input_at(e, i, c, batch, e.f.add(first, at[0]), where)
            return [multiply_add(e.f, t, inner[0], u, _kernel_at(e, i, c, at[0], feature, offset))]

        def padding(at: list[Ix], inner: list[Element]) -> list[Element]:
            return [multiply_add(e.f, t, inner[0], zero(e.f, t), _kernel_at(e, i, c, at[0], feature, offset))]

        def outside() -> Sequence[Element]:
            return e.fold([c.features], [t], total, padding) if multiplies else total

        return e.branches([t], inside, lambda: e.fold([c.features], [t], total, channels), outside)

    made = e.fold([w.size for w in c.window], [t], [zero(e.f, t)], window)
    return arithmetic.convert(e.f, t, c.result.element_type, made[0])


elemental(Op.CONVOLUTION)(convolution_element)


def _base(e: Elemental, c: Convolution, batch: Ix, feature: Ix) -> tuple[Ix, Ix]:
    """(input batch, first input feature) for an output's batch and feature.

    Accounts for feature groups and batch groups.
    """
    f = e.f
    groups, batches = c.feature_groups, c.batch_groups
    outputs = c.kernel.dimensions[c.numbers.kernel_output_feature]
    first: Ix = 0
    if groups > 1:
        first = f.mul(f.div(feature, outputs // groups), c.features)
    if batches > 1:
        part = c.source.dimensions[c.numbers.input_batch] // batches
        batch = f.add(f.mul(f.div(feature, outputs // batches), part), batch)
    return batch, first


def _input_at(e: Elemental, i: HloInstruction, c: Convolution, batch: Ix, feature: Ix, where: list[Ix]) -> Element:
    """An element of the input in the accumulator's type."""
    at: list[Ix] = [0] * c.source.rank
    at[c.numbers.input_batch], at[c.numbers.input_feature] = batch, feature
    for d, v in zip(c.numbers.input_spatial, where, strict=True):
        at[d] = v
    return arithmetic.convert(e.f, c.source.element_type, c.type, e.element(i.operands[0], Index(c.source, at)))


def _kernel_at(e: Elemental, i: HloInstruction, c: Convolution, feature: Ix, output: Ix, offset: list[Ix]) -> Element:
    """An element of the kernel in the accumulator's type."""
    at: list[Ix] = [0] * c.kernel.rank
    at[c.numbers.kernel_input_feature], at[c.numbers.kernel_output_feature] = feature, output
    for d, v, w in zip(c.numbers.kernel_spatial, offset, c.window, strict=True):
        at[d] = e.f.sub(w.size - 1, v) if w.reversal else v
    return arithmetic.convert(e.f, c.kernel.element_type, c.type, e.element(i.operands[1], Index(c.kernel, at)))


def _position(e: Elemental, c: Convolution, output: list[Ix], offset: list[Ix]) -> tuple[Value, list[Ix]]:
    """(i1: inside the input, spatial input index) of a position in a window."""
    plain = [
        WindowDimension(w.size, w.stride, w.padding_low, w.padding_high, w.window_dilation, w.base_dilation)
        for w in c.window
    ]
    return window_position(e.f, plain, output, offset, [c.source.dimensions[d] for d in c.numbers.input_spatial])
