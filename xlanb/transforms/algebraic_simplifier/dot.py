"""Products of matrices that are something simpler."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard

DOT = RuleSet("dot")
rule = DOT.rule


@rule(
    "dot(empty, empty) => 0",
    m.op(O.DOT, "a", "b2"),
    guard(
        "no element",
        lambda a, b2, root: (
            0 in (a.array_shape.element_count, b2.array_shape.element_count, root.array_shape.element_count)
        ),
    ),
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)
