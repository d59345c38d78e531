"""Split concatenations of many arrays: kernel parameters are limited (variadic_op_splitter.cc).

c = f32[300] concatenate(a0, ..., a299)
=>  c = f32[300] concatenate(concatenate(a0, ..., a127), concatenate(a128, ...), a256, ...)
"""

from __future__ import annotations

from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_MOST: Final = 128
"""The maximum number of operands of one concatenation."""


class VariadicOpSplitter(HloPass):
    """Splits concatenations with more than 128 operands into several."""

    name = "variadic-op-splitter"
    triggers = frozenset((O.CONCATENATE,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.instructions:
                if i.opcode is O.CONCATENATE and len(i.operands) > _MOST:
                    _split(i)


@reason("the number of kernel parameters is limited")
def _split(i: HloInstruction) -> None:
    parts = list(i.operands)
    while len(parts) > 1:
        parts = _joined(i, parts)
    i.parent.replace(i, parts[0])


def _joined(i: HloInstruction, parts: list[HloInstruction]) -> list[HloInstruction]:
    """Concatenate each whole group of 128 parts.

    If there are several groups, an incomplete last one is left for the next round.
    """
    found: list[HloInstruction] = []
    for start in range(0, len(parts), _MOST):
        group = parts[start : start + _MOST]
        if start and len(group) < _MOST:
            found += group
            continue
        dimension, sizes = i.dimensions[0], list(i.array_shape.dimensions)
        sizes[dimension] = sum(p.array_shape.dimensions[dimension] for p in group)
        shape = i.array_shape.with_dimensions(sizes).with_layout(i.array_shape.layout)
        found.append(i.parent.add(O.CONCATENATE, tuple(group), shape, like=i, dimensions=i.dimensions))
    return found
