"""Register the passes of packages above xlanb.transforms."""

from __future__ import annotations

from importlib import import_module

from xlanb.transforms.base import higher_passes

_OF_SPMD = {
    "shardy-xla": "xlanb.spmd.shardy_xla",
    "spmd-partitioning": "xlanb.spmd.spmd_partitioning",
}
_GPU = "xlanb.gpu.transforms"


@higher_passes.implement
def _load(name: str) -> None:
    """Import the modules whose classes register themselves under a name."""
    if name in _OF_SPMD:
        import_module(_OF_SPMD[name])
        return
    for module in _OF_SPMD.values() if not name else ():
        import_module(module)
    package = import_module(_GPU)
    from pkgutil import walk_packages

    for found in walk_packages(package.__path__, f"{_GPU}."):
        import_module(found.name)
