"""Remove memory placement annotations, for backends with one memory.

custom-call(x), custom_call_target="MoveToHost"    =>    x

Source: xla/hlo/transforms/offloading.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import bypass

_TARGETS = frozenset(
    ("MoveToHost", "MoveToDevice", "PinToDevice", "PinToDeviceSram", "PinToDeviceHbm", "annotate_device_placement")
)


class StripMemoryPlacementAnnotations(HloPass):
    """Replaces every custom call that only annotates a value's placement by its operand."""

    name = "strip-memory-placement-annotations"
    triggers = frozenset((O.CUSTOM_CALL,))
    takes_out = _TARGETS

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode is O.CUSTOM_CALL
                    and i.attributes["custom_call_target"] in _TARGETS
                    and len(i.operands) == 1
                ):
                    bypass(i, i.operands[0])
