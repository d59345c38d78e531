"""Convolution: any dimension numbers, strides, dilations, padding, groups.

A single element is a fold over the window and the input features (see codegen.contractions). A
kernel of its own is a contraction (see `conv`). What cannot be vectorized there (complex numbers,
8-bit floats, one output feature per group as the fastest dimension) uses the elemental rule.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from xlanb.analysis.convolution import multiplies_padding
from xlanb.codegen import costs
from xlanb.codegen.contractions import convolution_element
from xlanb.codegen.convolution import Convolution
from xlanb.codegen.elemental import Elemental
from xlanb.codegen.elements import array, real
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import I1, I8
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.conv.lowering import ConvolutionPart, dense, part_of
from xlanb.cpu.emitters.conv.padded import PaddedInput, emit_padded, padded
from xlanb.cpu.emitters.conv.phases import Phase, combinations, phases
from xlanb.cpu.emitters.copies import emit_copy
from xlanb.cpu.emitters.dots import place_of
from xlanb.cpu.emitters.kernel import IS_CONTRACTION, SCRATCH, Kernel, emitter
from xlanb.cpu.emitters.matmul.contraction import count
from xlanb.cpu.emitters.matmul.gemm import emit_contraction
from xlanb.cpu.emitters.matmul.lanes import Lanes, can_load, lanes_of
from xlanb.cpu.emitters.matmul.literals import with_literal
from xlanb.cpu.emitters.matmul.plan import MatmulPlan, plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass

_BLOCK = 512
"""The number of results checked for NaN at a time."""
_SHORT_LINE = 16
"""Pixels of a line that is too short for vectors along it, if there are more features."""


# -- kernels ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Planned:
    """A convolution as contractions over the (possibly padded) input.

    Outputs whose window contains no input element belong to no part.
    """

    c: Convolution
    source: PaddedInput
    parts: tuple[tuple[ConvolutionPart, MatmulPlan], ...]
    whole: bool
    why: str = ""
    """Why the input has its features last, if they are not in memory."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the padded input, of a dense result, and of a contraction's scratch memory."""
        return self.source.bytes + self.dense_bytes + max((p.scratch_bytes for _, p in self.parts), default=0)

    @property
    def dense_bytes(self) -> int:
        """Bytes of the largest dense result, in whole cache lines."""
        return -(-max((part.dense_bytes for part, _ in self.parts), default=0) // 64) * 64


@lru_cache(maxsize=1024)
def _plan_of(c: Convolution) -> _Planned | None:
    if not can_load(c.source.element_type, c.type) or not c.result.element_count:
        return None
    chosen = [found for found in combinations(c) if all(phase.taps for phase in found)]
    planned = _plan_over(c, chosen, padded(c))
    why = "" if planned is None else next(filter(None, (_why_features_last(planned, p) for _, p in planned.parts)), "")
    if not why:
        return planned
    other = _plan_over(c, chosen, padded(c, features_last=True), features_last=True)
    return planned if other is None else replace(other, why=why)


def _plan_over(
    c: Convolution, chosen: list[tuple[Phase, ...]], source: PaddedInput, *, features_last: bool = False
) -> _Planned | None:
    """The convolution over an input of this form; `features_last`: whether its results are too."""
    parts = [part_of(c, source, found) for found in chosen]
    if features_last:
        parts = [dense(part, columns_last=True) for part in parts]
    plans = [plan(part.x) for part in parts]
    if None in plans and len(parts) > 1 and not features_last:  # a phase's results may be contiguous along no axis
        parts = [dense(part) for part in parts]
        plans = [plan(part.x) for part in parts]
    made = tuple((part, p) for part, p in zip(parts, plans, strict=True) if p is not None)
    if not made or len(made) < len(parts):
        return None
    return _Planned(c, source, made, len(chosen) == prod(len(found) for found in phases(c)))


def _why_features_last(planned: _Planned, p: MatmulPlan) -> str:
    """Why vectors should run along features instead of pixels; "" if they should not.

    They should if pixels are apart, so that patches are gathered, and these are more than the input
    (or that is copied in any case); or if lines of pixels are short.
    """
    if not p.x.is_swapped:
        return ""
    if p.b is not None:
        pays = planned.source.bytes or count(p.b.axes) > planned.c.source.element_count
        return "pixels that a vector would read are apart" if pays else ""
    is_short = bool(p.x.columns) and p.x.columns[-1].size < min(_SHORT_LINE, p.x.row_count)
    return "lines of pixels are too short for a vector" if is_short else ""


def _is_contraction(i: HloInstruction) -> bool:
    planned = _plan_of(Convolution.of(i))
    return planned is not None and sum(p.x.products for _, p in planned.parts) >= costs.COMMON.written_products


def _scratch_bytes(i: HloInstruction) -> int:
    planned = _plan_of(Convolution.of(i))
    return 0 if planned is None else planned.scratch_bytes


SCRATCH[Op.CONVOLUTION] = _scratch_bytes
IS_CONTRACTION[Op.CONVOLUTION] = _is_contraction


@emitter(Op.CONVOLUTION)
def emit_convolution(k: Kernel) -> bool:
    """Emit a convolution of operands in memory; False if the elemental rule must be used."""
    e, i, output, scratch = k.e, k.root, k.output, k.scratch
    source, kernel = (place_of(e, o) for o in i.operands[:2])
    planned = _plan_of(Convolution.of(i))
    if source is None or kernel is None or planned is None:
        return False
    wide, c = planned.source, planned.c
    if wide.bytes and scratch is not None:
        if planned.why:
            e.f.decided("input", "copied with features last", f"{wide.bytes} bytes: {planned.why}")
        emit_padded(e.f, wide, c, source, scratch)
        source, scratch = scratch, Pointer(scratch, I8).address(wide.bytes)
    held = scratch
    if planned.dense_bytes and scratch is not None:
        scratch = Pointer(scratch, I8).address(planned.dense_bytes)
    if not planned.whole:
        e.f.fill_zero(output.pointer, output.shape.element_count * output.shape.element_type.byte_size, 1)
    for part, made in planned.parts:
        begins = (
            (wide.type, source, part.a),
            (c.kernel.element_type, kernel, part.b),
            (c.result.element_type, output.pointer, part.c),
        )
        a, b, to = (array(t, base).address(first) for t, base, first in begins)
        is_read = not (made.x.is_swapped and wide.bytes)  # the input itself, not its padded copy
        packed = with_literal(e, i.operands[:2], made, part.a if made.x.is_swapped else part.b) if is_read else None
        if packed is not None:
            made, place = packed
            a, b = (place, b) if made.x.is_swapped else (a, place)
        if part.spread is None or held is None:
            emit_contraction(e.f, made, (a, b, to), scratch)
        else:
            emit_contraction(e.f, made, (a, b, held), scratch)
            emit_copy(e.f, part.spread, held, to)
    e.f.ready = e.f.calls_only = True
    if any(not side.is_plain for side in wide.sides) and c.type.is_floating and not multiplies_padding(i):
        _skip_padding(e, i, output)
    return True


def _skip_padding(e: Elemental, i: HloInstruction, output: IrArray) -> None:
    """Recompute each result that is NaN without the padding.

    A zero of the padding may have been multiplied by a weight of NaN or infinity.
    """
    f, shape = e.f, output.shape
    count, calculated = shape.element_count, Convolution.of(i).type
    lanes = Lanes(f, calculated, lanes_of(f.target, calculated.bits))
    f.calls_only = False

    def is_lost(q: Ix) -> Value:
        return real(output.load(Index(shape, flat=q))).is_nan()

    def any_lost(low: Ix) -> Value:
        """Whether any result of a whole block from `low` on is lost."""
        with f.carried(_BLOCK // lanes.width, [f.zero(I1.times(lanes.width))]) as loop:
            vector = lanes.load(shape.element_type, output.pointer, f.add(low, f.mul(loop.index, lanes.width)))
            loop.next = [loop.values[0] | vector.is_nan()]
        return f.any_of(loop.values[0])

    def recompute(low: Ix, size: int) -> None:
        with f.loop(size) as k:
            q = f.add(low, k)
            with f.when(is_lost(q)):
                at = Index(shape, flat=q)
                output.store(at, convolution_element(e, i, at))

    blocks, left = divmod(count, _BLOCK)
    if blocks:
        with parallel(f, blocks, nanoseconds=f.target.costs.moved_element_ns * _BLOCK) as n:
            low = f.mul(n, _BLOCK)
            with f.when(any_lost(low)):
                recompute(low, _BLOCK)
    if left:
        recompute(count - left, left)
