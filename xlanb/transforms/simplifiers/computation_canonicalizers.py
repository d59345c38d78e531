"""Share equal shapes and equal large constants (xla/hlo/transforms/literal_canonicalizer.h, shape_canonicalizer.h).

    a = f32[1024] constant(...);  b = f32[1024] constant(the same)    =>    a and b hold one array of bytes

The text of the module does not change, nor does any snapshot: only what it takes of memory, and how fast equal things are found equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Literal, Shape
from xlanb.transforms.base import HloPass


@dataclass(frozen=True)
class ShapeCanonicalizer(HloPass):
    """Lets all instructions of one shape hold the same Shape."""

    name = "shape-canonicalizer"

    def apply(self, module: HloModule) -> None:
        pool: dict[Shape, Shape] = {}
        for i in module.instructions():
            # An equal value in the place of an equal one is no edit, so no mutator is asked.
            i.shape = pool.setdefault(i.shape, i.shape)


@dataclass(frozen=True)
class LiteralCanonicalizer(HloPass):
    """Lets all constants of at least `min_size_bytes` that are equal to the bit hold the same Literal."""

    name = "literal-canonicalizer"
    min_size_bytes: int = 1024

    def apply(self, module: HloModule) -> None:
        pool: dict[tuple[Shape, bytes], Literal] = {}
        for i in module.instructions():
            if i.opcode is O.CONSTANT and i.shape.is_array and i.shape.byte_size >= self.min_size_bytes:
                literal = i.literal
                if not literal.is_elided:
                    i.attributes["literal"] = pool.setdefault((i.shape, literal.array.tobytes()), literal)
