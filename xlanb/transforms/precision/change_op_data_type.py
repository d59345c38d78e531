"""Compute instructions in another element type: on CPU, dots and convolutions of f16 in f32.

f16[4,4] dot(f16[4,8] a, f16[8,4] b)
  =>  convert(f16, f32[4,4] dot(convert(f32, a), convert(f32, b)))

Source: xla/service/change_op_data_type.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class ChangeOpDataType(HloPass):
    """Computes `opcodes` in type `target` if their operands and result are all of type `source`."""

    name = "change-op-data-type"
    source: PrimitiveType = PrimitiveType.F16
    target: PrimitiveType = PrimitiveType.F32
    opcodes: frozenset[O] = frozenset({O.DOT, O.CONVOLUTION})

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode in self.opcodes and all(
                    x.shape.is_array and x.shape.element_type is self.source for x in (i, *i.operands)
                ):
                    self._change(i)

    def _change(self, i: HloInstruction) -> None:
        b = Builder(i)
        operands = [b.convert(o, self.target) for o in i.operands]
        made = i.parent.clone_instruction(i, operands, i.array_shape.with_type(self.target))
        i.parent.replace(i, b.convert(made, self.source))
