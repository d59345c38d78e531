"""Convolution: any dimension numbers, strides, dilations, padding, groups.

One element by itself is a fold over the window and the input features (the rule). As a kernel of its own, where the output features are the fastest dimension of kernel and result, each
output pixel's features are summed as rows: `out[:] += in[c] * kernel[c, :]`, which LLVM vectorises over the features.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen import arithmetic
from xlanb.cpu.codegen.dot import accumulator_type, multiply_add
from xlanb.cpu.codegen.elemental import Elemental, array_of, elemental
from xlanb.cpu.codegen.indexing import Index, IrArray
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.reduce import window_position
from xlanb.cpu.codegen.types import Value, is_narrow, zero
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType


@dataclass(frozen=True)
class Convolution:
    """A convolution's operands and numbers."""

    i: HloInstruction
    numbers: ConvolutionDimensionNumbers
    window: tuple[WindowDimension, ...]
    source: ArrayShape
    kernel: ArrayShape
    result: ArrayShape
    features: int
    """Input features that one output feature sees."""

    @staticmethod
    def of(i: HloInstruction) -> Convolution:
        source, kernel = (array_of(o) for o in i.operands[:2])
        numbers: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
        window = (i.attributes.get("window") or Window()).dimensions
        return Convolution(
            i, numbers, window, source, kernel, array_of(i), kernel.dimensions[numbers.kernel_input_feature]
        )

    @property
    def type(self) -> PrimitiveType:
        """What products are summed in."""
        return accumulator_type(self.result.element_type)

    def base(self, e: Elemental, batch: Ix, feature: Ix) -> tuple[Ix, Ix]:
        """(input batch, first input feature) that an output's batch and feature see: groups of features, or of the batch."""
        f = e.f
        groups, batches = self.i.get("feature_group_count") or 1, self.i.get("batch_group_count") or 1
        outputs = self.kernel.dimensions[self.numbers.kernel_output_feature]
        first: Ix = 0
        if groups > 1:
            first = f.mul(f.div(feature, outputs // groups), self.features)
        if batches > 1:
            part = self.source.dimensions[self.numbers.input_batch] // batches
            batch = f.add(f.mul(f.div(feature, outputs // batches), part), batch)
        return batch, first

    def input_at(self, e: Elemental, batch: Ix, feature: Ix, where: list[Ix]) -> Value:
        """An element of the input in the accumulator's type."""
        at: list[Ix] = [0] * self.source.rank
        at[self.numbers.input_batch], at[self.numbers.input_feature] = batch, feature
        for d, v in zip(self.numbers.input_spatial, where, strict=True):
            at[d] = v
        return arithmetic.convert(
            e.f, self.source.element_type, self.type, e.element(self.i.operands[0], Index(self.source, at))
        )

    def kernel_at(self, e: Elemental, feature: Ix, output: Ix, offset: list[Ix]) -> Value:
        """An element of the kernel in the accumulator's type."""
        at: list[Ix] = [0] * self.kernel.rank
        at[self.numbers.kernel_input_feature], at[self.numbers.kernel_output_feature] = feature, output
        for d, v, w in zip(self.numbers.kernel_spatial, offset, self.window, strict=True):
            at[d] = e.f.sub(w.size - 1, v) if w.reversal else v
        return arithmetic.convert(
            e.f, self.kernel.element_type, self.type, e.element(self.i.operands[1], Index(self.kernel, at))
        )

    def position(self, e: Elemental, output: list[Ix], offset: list[Ix]) -> tuple[str, list[Ix]]:
        """(i1: inside the input, spatial input index) of a window's position."""
        plain = [
            WindowDimension(w.size, w.stride, w.padding_low, w.padding_high, w.window_dilation, w.base_dilation)
            for w in self.window
        ]
        return window_position(
            e, plain, output, offset, [self.source.dimensions[d] for d in self.numbers.input_spatial]
        )


@elemental(Op.CONVOLUTION)
def _convolution(e: Elemental, i: HloInstruction, x: Index) -> Value:
    c = Convolution.of(i)
    t = c.type
    multi = x.multi(e.f)
    feature = multi[c.numbers.output_feature]
    batch, first = c.base(e, multi[c.numbers.output_batch], feature)
    output = [multi[d] for d in c.numbers.output_spatial]

    def window(offset: list[Ix], total: list[Value]) -> list[Value]:
        inside, where = c.position(e, output, offset)

        def channels(at: list[Ix], inner: list[Value]) -> list[Value]:
            u = c.input_at(e, batch, e.f.add(first, at[0]), where)
            return [multiply_add(e, t, inner[0], u, c.kernel_at(e, at[0], feature, offset))]

        return e.branches([t], inside, lambda: e.fold([c.features], [t], total, channels), lambda: total)

    folded = e.fold([w.size for w in c.window], [t], [zero(t)], window)
    return arithmetic.convert(e.f, t, c.result.element_type, folded[0])


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch that `emit_convolution` wants."""
    del i
    return 0


def emit_convolution(e: Elemental, i: HloInstruction, output: IrArray, scratch: str) -> bool:
    """A convolution along rows of output features; False where the rule above has to do."""
    del scratch
    c = Convolution.of(i)
    n = c.result.dimensions[c.numbers.output_feature]
    if (
        (i.get("feature_group_count") or 1) > 1
        or (i.get("batch_group_count") or 1) > 1
        or is_narrow(c.result.element_type)
    ):
        return False
    if (
        n < 8
        or c.result.minor_to_major[0] != c.numbers.output_feature
        or c.kernel.minor_to_major[0] != c.numbers.kernel_output_feature
    ):
        return False
    if (
        not all(isinstance(e.bindings.get(o, {}).get((), None), IrArray) for o in i.operands[:2])
        or c.kernel.element_count == 0
    ):
        return False
    f = e.f
    order = [d for d in reversed(c.result.minor_to_major) if d != c.numbers.output_feature]

    def nest(at: dict[int, Ix]) -> None:
        if len(at) == len(order):
            _pixel(e, c, output, at)
            return
        with e.loop(c.result.dimensions[order[len(at)]]) as v:
            nest({**at, order[len(at)]: v})

    del f
    nest({})
    return True


def _pixel(e: Elemental, c: Convolution, output: IrArray, at: dict[int, Ix]) -> None:
    """All features of one output pixel."""
    f, t = e.f, c.result.element_type
    n = c.result.dimensions[c.numbers.output_feature]
    pixel = [at[d] for d in c.numbers.output_spatial]
    batch = at[c.numbers.output_batch]

    def place(feature: Ix) -> Index:
        return Index(c.result, [at.get(d, feature) for d in range(c.result.rank)])

    with e.loop(n) as feature:
        output.store(f, place(feature), zero(t))

    def rows(where: list[Ix], offset: list[Ix], channels: list[Ix]) -> None:
        factors = [c.input_at(e, batch, k, where) for k in channels]
        with e.loop(n) as feature:
            total = output.load(f, place(feature))
            for u, k in zip(factors, channels, strict=True):
                total = multiply_add(e, t, total, u, c.kernel_at(e, k, feature, offset))
            output.store(f, place(feature), total)

    def window(offset: list[Ix]) -> None:
        if len(offset) < len(c.window):
            with e.loop(c.window[len(offset)].size) as k:
                window([*offset, k])
            return
        inside, where = c.position(e, pixel, offset)
        with f.when(inside) if inside != "true" else e.scope(), e.scope():
            whole = c.features // 4
            if whole:
                with e.loop(whole) as k4:
                    rows(where, offset, [f.add(f.mul(k4, 4), s) for s in range(4)])
            if c.features % 4:
                rows(where, offset, [whole * 4 + s for s in range(c.features % 4)])

    window([])
