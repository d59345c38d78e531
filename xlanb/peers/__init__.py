"""The real XLA and TensorFlow, if installed: run them, compare, compile for absent hardware.

Modules are imported on first use: `import xlanb` and then `xlanb.peers.xla.trace(...)` suffices.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_MODULES = ("beside", "targets", "tensorflow", "xla")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f"xlanb.peers.{name}")
    raise AttributeError(f"module 'xlanb.peers' has no attribute {name!r}")
