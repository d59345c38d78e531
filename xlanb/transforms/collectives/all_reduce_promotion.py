"""Promote all-reduces of narrow types to wider types (AllReducePromotion).

all-reduce(bf16[8] x), to_apply=add
  =>  convert(bf16[8], all-reduce(convert(f32[8], x)), to_apply=add of f32)

Source: xla/service/change_op_data_type.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class AllReducePromotion(HloPass):
    """Computes all-reduces and reduce-scatters of `source` in `target`.

    They must reduce by one opcode.
    """

    name = "all-reduce-promotion"
    source: PrimitiveType = PrimitiveType.BF16
    target: PrimitiveType = PrimitiveType.F32

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode in (O.ALL_REDUCE, O.REDUCE_SCATTER) and self._is_narrow(i):
                    self._promote(i)

    def _is_narrow(self, i: HloInstruction) -> bool:
        root = i.to_apply.root
        plain = all(o.opcode is O.PARAMETER for o in root.operands) and len(root.operands) == 2
        return plain and all(x.shape.is_array and x.shape.element_type is self.source for x in (i, *i.operands))

    def _promote(self, i: HloInstruction) -> None:
        b = Builder(i)
        operands = [b.convert(o, self.target) for o in i.operands]
        wide = i.parent.clone_instruction(i, operands, i.array_shape.with_type(self.target))
        i.parent.update(wide, attributes={"to_apply": self._promoted(i.to_apply)})
        i.parent.replace(i, b.convert(wide, self.source))

    def _promoted(self, c: HloComputation) -> HloComputation:
        made = c.module.add_computation(f"{c.name}_promoted")
        x, y = (made.add(O.PARAMETER, (), array(self.target), name=n, parameter_number=k) for k, n in enumerate("xy"))
        made.set_root(made.add(c.root.opcode, (x, y)))
        return made
