"""The passes of this room, for the registry of all passes, which stands below it."""

from __future__ import annotations

from xlanb.spmd.shardy_xla import ShardyXla
from xlanb.spmd.spmd_partitioning import SpmdPartitioning
from xlanb.transforms.base import HloPass, higher_passes


@higher_passes.implement
def _passes() -> tuple[type[HloPass], ...]:
    return (ShardyXla, SpmdPartitioning)
