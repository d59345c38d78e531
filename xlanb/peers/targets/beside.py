"""Deprecated name of `xlanb.peers.targets.compare`."""

from __future__ import annotations

from xlanb.peers.targets.compare import side_by_side

__all__ = ["side_by_side"]
