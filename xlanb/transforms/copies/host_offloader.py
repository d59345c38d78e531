"""Remove transfers to host memory (xla/hlo/transforms/host_offloader.h): the device shares it.

    custom-call(x), custom_call_target="MoveToHost"    =>    x

Values that were in two memories are then equal, so equal instructions are merged at the end.
"""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.transforms.base import HloPass
from xlanb.transforms.copies.strip_memory_placement_annotations import StripMemoryPlacementAnnotations
from xlanb.transforms.simplifiers.hlo_cse import HloCse


class HostOffloader(HloPass):
    """Keeps every value in device memory, then merges equal instructions (layouts included)."""

    name = "host-offloader"

    def apply(self, module: HloModule) -> None:
        StripMemoryPlacementAnnotations().apply(module)
        HloCse(is_layout_sensitive=True).apply(module)
