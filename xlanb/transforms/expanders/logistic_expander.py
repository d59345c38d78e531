"""Expand the logistic function into exponential and division.

logistic(x)    =>    1 / (1 + exp(-x))

Source: xla/hlo/transforms/expanders/logistic_expander.h.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.verdict import REAL


class LogisticExpander(HloPass):
    """Expands every logistic."""

    name = "logistic-expander"
    keeps = REAL
    ulps = 2.0

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.LOGISTIC:
                    c.replace(i, _expanded(i))


def _expanded(i: HloInstruction) -> HloInstruction:
    b = Builder(i)
    one = b.full(1, i.array_shape)
    exponential = b.unary(O.EXPONENTIAL, b.unary(O.NEGATE, i.operands[0]))
    return b.binary(O.DIVIDE, one, b.binary(O.ADD, one, exponential))
