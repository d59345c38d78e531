"""Elements of convolutions: a fold over the window and the input features; any dimension numbers, strides, dilations, padding, groups."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.analysis.convolution import multiplies_padding
from xlanb.codegen import arithmetic
from xlanb.codegen.elemental import Elemental, elemental
from xlanb.codegen.elements import Element, zero
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.conv.numbers import Convolution
from xlanb.cpu.emitters.dots import multiply_add
from xlanb.cpu.emitters.reductions import window_position
from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


@elemental(Op.CONVOLUTION)
def convolution_element(e: Elemental, i: HloInstruction, x: Index) -> Element:
    """One element of the result."""
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
            u = _input_at(e, c, batch, e.f.add(first, at[0]), where)
            return [multiply_add(e.f, t, inner[0], u, _kernel_at(e, c, at[0], feature, offset))]

        def padding(at: list[Ix], inner: list[Element]) -> list[Element]:
            return [multiply_add(e.f, t, inner[0], zero(e.f, t), _kernel_at(e, c, at[0], feature, offset))]

        def beside() -> Sequence[Element]:
            return e.fold([c.features], [t], total, padding) if multiplies else total

        return e.branches([t], inside, lambda: e.fold([c.features], [t], total, channels), beside)

    made = e.fold([w.size for w in c.window], [t], [zero(e.f, t)], window)
    return arithmetic.convert(e.f, t, c.result.element_type, made[0])


def _base(e: Elemental, c: Convolution, batch: Ix, feature: Ix) -> tuple[Ix, Ix]:
    """(input batch, first input feature) that an output's batch and feature see: groups of features, or of the batch."""
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


def _input_at(e: Elemental, c: Convolution, batch: Ix, feature: Ix, where: list[Ix]) -> Element:
    """An element of the input in the accumulator's type."""
    at: list[Ix] = [0] * c.source.rank
    at[c.numbers.input_batch], at[c.numbers.input_feature] = batch, feature
    for d, v in zip(c.numbers.input_spatial, where, strict=True):
        at[d] = v
    return arithmetic.convert(e.f, c.source.element_type, c.type, e.element(c.i.operands[0], Index(c.source, at)))


def _kernel_at(e: Elemental, c: Convolution, feature: Ix, output: Ix, offset: list[Ix]) -> Element:
    """An element of the kernel in the accumulator's type."""
    at: list[Ix] = [0] * c.kernel.rank
    at[c.numbers.kernel_input_feature], at[c.numbers.kernel_output_feature] = feature, output
    for d, v, w in zip(c.numbers.kernel_spatial, offset, c.window, strict=True):
        at[d] = e.f.sub(w.size - 1, v) if w.reversal else v
    return arithmetic.convert(e.f, c.kernel.element_type, c.type, e.element(c.i.operands[1], Index(c.kernel, at)))


def _position(e: Elemental, c: Convolution, output: list[Ix], offset: list[Ix]) -> tuple[Value, list[Ix]]:
    """(i1: inside the input, spatial input index) of a window's position."""
    plain = [
        WindowDimension(w.size, w.stride, w.padding_low, w.padding_high, w.window_dilation, w.base_dilation)
        for w in c.window
    ]
    return window_position(e.f, plain, output, offset, [c.source.dimensions[d] for d in c.numbers.input_spatial])
