"""Elemental rules of GPU kernels: the shared ones, and folds that one thread computes alone.

The folds are reductions, windows, dots and convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

import xlanb.codegen.contractions
import xlanb.codegen.elementwise
import xlanb.codegen.movement  # noqa: F401 - these three register their rules
from xlanb.codegen import elemental
from xlanb.codegen.elemental import Elemental, Rule, array_of
from xlanb.codegen.elements import Element
from xlanb.codegen.folds import window_position
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


def _reduce(e: Elemental, i: HloInstruction, x: Index) -> Element | Sequence[Element]:
    """Compute one result of a reduction.

    Loops over the reduced dimensions in the operand's memory order.
    """
    count = len(i.operands) // 2
    inputs, initial = i.operands[:count], i.operands[count:]
    source = array_of(inputs[0])
    dims = [d for d in reversed(source.minor_to_major) if d in i.dimensions]
    kept = iter(x.multi(e.f))
    base: list[Ix] = [0 if d in i.dimensions else next(kept) for d in range(source.rank)]

    def step(indices: list[Ix], totals: list[Element]) -> list[Element]:
        where = list(base)
        for d, v in zip(dims, indices, strict=True):
            where[d] = v
        return e.apply(i.to_apply, [*totals, *(e.element(o, Index(array_of(o), where)) for o in inputs)])

    types = [array_of(o).element_type for o in initial]
    made = e.fold([source.dimensions[d] for d in dims], types, [e.scalar(o) for o in initial], step)
    return made if i.shape.is_tuple else made[0]


def _reduce_window(e: Elemental, i: HloInstruction, x: Index) -> Element | Sequence[Element]:
    """Compute one result of a reduce-window.

    Visits the window's elements in row-major order, except padding and holes of base dilation.
    """
    count = len(i.operands) // 2
    inputs, initial = i.operands[:count], i.operands[count:]
    window, multi, sizes = i.window.dimensions, x.multi(e.f), array_of(inputs[0]).dimensions
    types = [array_of(o).element_type for o in initial]

    def step(indices: list[Ix], totals: list[Element]) -> list[Element]:
        inside, where = window_position(e.f, window, multi, indices, sizes)

        def taken() -> list[Element]:
            return e.apply(i.to_apply, [*totals, *(e.element(o, Index(array_of(o), where)) for o in inputs)])

        return e.branches(types, inside, taken, lambda: totals)

    made = e.fold([w.size for w in window], types, [e.scalar(o) for o in initial], step)
    return made if i.shape.is_tuple else made[0]


RULES: dict[Op, Rule] = {**elemental.RULES, Op.REDUCE: _reduce, Op.REDUCE_WINDOW: _reduce_window}
