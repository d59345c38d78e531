"""Merge chains of converts, without the intermediate types.

    convert(f32, convert(bf16, x)), x f32    =>    x

The values are more precise, since intermediate rounding is omitted. XLA calls that excess
precision, and allows it if `xla_allow_excess_precision` is set.
Source: xla/hlo/transforms/simplifiers/simplify_fp_conversions.h.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import Loss, Verdict


class SimplifyFpConversions(HloPass):
    """Replaces a chain of converts to float types by one convert."""

    name = "simplify-fp-conversions"
    triggers = frozenset((O.CONVERT,))
    keeps = Verdict(Loss.NUMBERS, note="omit rounding to narrow types")

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                source, steps = i, 0
                while source.opcode is O.CONVERT and source.array_shape.element_type.is_floating:
                    source, steps = source.operands[0], steps + 1
                if steps > 1:
                    _convert_at_once(i, source)


@reason("the intermediate types only round")
def _convert_at_once(i: HloInstruction, source: HloInstruction) -> None:
    same = i.array_shape.element_type is source.array_shape.element_type
    i.parent.replace(i, source if same else i.parent.add(O.CONVERT, (source,), i.shape))
