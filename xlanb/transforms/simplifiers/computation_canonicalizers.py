"""Share equal shapes and equal large constants.

    a = f32[1024] constant(...);  b = f32[1024] constant(the same)
      =>  a and b share one array

Neither the module's text nor any snapshot changes, only the memory used and the speed of
comparisons.
Source: xla/hlo/transforms/literal_canonicalizer.h, shape_canonicalizer.h.
"""

from __future__ import annotations

from collections.abc import Hashable

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Literal, Shape
from xlanb.transforms.base import HloPass


class ShapeCanonicalizer(HloPass):
    """Makes all instructions of equal shape share one Shape."""

    name = "shape-canonicalizer"

    def apply(self, module: HloModule) -> None:
        pool: dict[Shape, Shape] = {}
        for i in module.instructions():
            # Replacing a value by an equal one is no edit, so no mutator is called.
            i.shape = pool.setdefault(i.shape, i.shape)


@dataclass(frozen=True)
class LiteralCanonicalizer(HloPass):
    """Makes bitwise equal constants of at least `min_size_bytes` share one Literal."""

    name = "literal-canonicalizer"
    min_size_bytes: int = 1024

    def apply(self, module: HloModule) -> None:
        pool: dict[tuple[Shape, Hashable], Literal] = {}
        for i in module.instructions():
            if i.opcode is O.CONSTANT and i.shape.is_array and i.shape.byte_size >= self.min_size_bytes:
                literal = i.literal
                if not literal.is_elided:
                    i.attributes["literal"] = pool.setdefault((i.shape, literal.bits), literal)
