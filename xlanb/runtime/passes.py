"""The passes of the rooms above xlanb.transforms, for the registry of all passes, which stands below them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import xlanb.gpu.transforms as gpu_transforms
from xlanb.spmd.shardy_xla import ShardyXla
from xlanb.spmd.spmd_partitioning import SpmdPartitioning
from xlanb.transforms.base import HloPass, higher_passes


@higher_passes.implement
def _passes() -> tuple[type[HloPass], ...]:
    """A class that has a name registers itself when its module is imported."""
    for found in walk_packages(gpu_transforms.__path__, f"{gpu_transforms.__name__}."):
        import_module(found.name)
    return (ShardyXla, SpmdPartitioning)
