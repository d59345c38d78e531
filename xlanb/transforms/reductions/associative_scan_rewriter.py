"""Replace associative scans by reduce-windows.

    scan(f32[8] x, 0), dimensions={0}, num_carries=1, is_associative=true,
        to_apply={c = add(a, b);  tuple(c, c)}
      =>  tuple(reduce-window(x, 0), window={size=8 pad=7_0}, to_apply=add, 0)

Done for forward scans of one array with an elementwise step whose last carry is unused. A scan of
more than `base_length` elements becomes a tree, so it is rewritten only if applying the initial
value twice has no effect.
Source: AssociativeScanRewriter in xla/hlo/transforms/simplifiers/reduce_window_rewriter.h.
"""

from __future__ import annotations

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reductions.reduce_window_rewriter import rewrite_scan
from xlanb.transforms.verdict import REAL

_NEUTRAL = {O.ADD: (0,), O.OR: (0,), O.XOR: (0,), O.MULTIPLY: (0, 1)}


@dataclass(frozen=True)
class AssociativeScanRewriter(HloPass):
    """Rewrites associative scans of one array whose step is elementwise."""

    name = "associative-scan-rewriter"
    keeps = REAL
    ulps = 4.0
    base_length: int = 16

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SCAN and _is_simple(i) and (start := _start(i)) is not None:
                    self._rewrite(i, start)

    def _rewrite(self, i: HloInstruction, start: HloInstruction) -> None:
        x, d = i.operands[0], i.dimensions[0]
        length = x.array_shape.dimensions[d]
        is_long = 0 < self.base_length < length
        if is_long and not _folds_again(i, start):
            return
        b = Builder(i)
        windows = [WindowDimension(1)] * x.array_shape.rank
        windows[d] = WindowDimension(length, 1, length - 1, 0)
        made = b.add(O.REDUCE_WINDOW, (x, start), x.shape, window=Window(tuple(windows)), to_apply=_reducer(i))
        out = b.tuple((made, i.operands[1]))
        i.parent.replace(i, out)
        if is_long and (cut := rewrite_scan(made, self.base_length)) is not None:
            made.parent.replace(made, cut)


def _is_simple(i: HloInstruction) -> bool:
    """Whether it is a forward, elementwise scan of one input and one carry that is unused."""
    if not i.get("is_associative") or i.get("is_reverse") or i.get("num_carries") != 1 or len(i.operands) != 2:
        return False
    root = i.to_apply.root
    if not isinstance(i.shape, TupleShape) or len(i.shape.shapes) != 2 or root.opcode is not O.TUPLE:
        return False
    reads_carry = any(u.opcode is not O.GET_TUPLE_ELEMENT or (u.tuple_index == 1 and not u.is_dead) for u in i.users)
    return not reads_carry and not i.is_root and _is_over_scalars(i.to_apply) and root.operands[0] is root.operands[1]


def _start(i: HloInstruction) -> HloInstruction | None:
    """The scalar initial value of the carry, or None."""
    start = i.operands[1]
    while start.opcode in (O.BROADCAST, O.RESHAPE, O.COPY) and start.array_shape.rank:
        start = start.operands[0]
    return start if start.array_shape.is_scalar else None


def _folds_again(i: HloInstruction, start: HloInstruction) -> bool:
    """Whether applying the initial value twice has no effect: both levels of the tree use it."""
    step = i.to_apply.root.operands[0]
    if step.opcode in (O.MINIMUM, O.MAXIMUM):
        return True
    values = _NEUTRAL.get(step.opcode, ())
    return start.opcode is O.CONSTANT and any(bool(np.all(start.literal.array == v)) for v in values)


def _reducer(i: HloInstruction) -> HloComputation:
    """The scan's computation over scalars, with the carry first and as the only result."""
    f, module = i.to_apply, i.parent.module
    element, carry = f.parameters
    made = module.add_computation(f"{f.name}_rw_wrapper")
    new: dict[HloInstruction, HloInstruction] = {}
    for n, (p, name) in enumerate(((carry, "carry_0"), (element, "input_0"))):
        new[p] = made.add(O.PARAMETER, (), array(p.shape.element_type), name=name, parameter_number=n)
    for x in f.post_order():
        if x.opcode is O.BROADCAST:
            new[x] = new[x.operands[0]]
        elif x is not f.root and x not in new:
            new[x] = made.clone_instruction(x, [new[o] for o in x.operands], array(x.shape.element_type))
    made.set_root(new[f.root.operands[1]])
    return made


def _is_over_scalars(f: HloComputation) -> bool:
    """Whether a computation is elementwise, so that it can be rewritten over scalars."""
    return all(
        x is f.root
        or x.opcode is O.PARAMETER
        or (x.opcode is O.CONSTANT and x.array_shape.is_scalar)
        or (x.opcode is O.BROADCAST and x.operands[0].array_shape.is_scalar)
        or x.opcode.is_elementwise
        for x in f
    )
