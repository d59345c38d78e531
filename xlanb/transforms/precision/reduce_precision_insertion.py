"""Round to fewer bits after (or before) instructions, to study a narrower type.

    f32[8] add(a, b)    =>    f32[8] reduce-precision(add(a, b)), exponent_bits=5, mantissa_bits=10

It changes results on purpose: no pipeline contains it, users insert it.
Source: xla/service/reduce_precision_insertion.h of 2017-2022.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import PassError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.verdict import OTHER_NUMBERS

LOCATIONS = ("OP_OUTPUTS", "OP_INPUTS")
_UNTOUCHED = frozenset(
    {O.REDUCE_PRECISION, O.TUPLE, O.GET_TUPLE_ELEMENT, O.WHILE, O.CONDITIONAL, O.CALL, O.PARAMETER, O.CONSTANT}
)


@dataclass(frozen=True)
class ReducePrecisionInsertion(HloPass):
    """Rounds f32 results (OP_OUTPUTS) or operands (OP_INPUTS) of instructions to fewer bits.

    `opcodes` lists the opcodes to round; empty: all arithmetic.
    """

    name = "reduce-precision-insertion"
    keeps = OTHER_NUMBERS
    location: str = "OP_OUTPUTS"
    exponent_bits: int = 5
    mantissa_bits: int = 10
    opcodes: frozenset[O] = frozenset()

    def apply(self, module: HloModule) -> None:
        if self.location not in LOCATIONS:
            raise PassError(f"{self.name}: unknown location {self.location!r}; known locations: {', '.join(LOCATIONS)}")
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode in self.opcodes or (not self.opcodes and i.opcode not in _UNTOUCHED):
                    self._insert(c, i)

    def _insert(self, c: HloComputation, i: HloInstruction) -> None:
        if self.location == "OP_INPUTS":
            c.set_operands(i, [self._rounded(c, o) for o in i.operands])
        elif _is_rounded(i):
            users, is_root = i.users, i.is_root
            rounded = self._rounded(c, i)
            c.replace_uses(i, rounded, users=[u for u in users if u is not rounded])
            if is_root:
                c.set_root(rounded)

    def _rounded(self, c: HloComputation, x: HloInstruction) -> HloInstruction:
        if not _is_rounded(x):
            return x
        return c.add(
            O.REDUCE_PRECISION,
            (x,),
            x.shape,
            like=x,
            exponent_bits=self.exponent_bits,
            mantissa_bits=self.mantissa_bits,
        )


def _is_rounded(x: HloInstruction) -> bool:
    return x.shape.is_array and x.shape.element_type is PrimitiveType.F32 and x.opcode is not O.REDUCE_PRECISION
