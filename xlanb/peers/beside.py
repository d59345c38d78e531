"""Deprecated name of `xlanb.peers.compare`."""

from __future__ import annotations

from xlanb.peers.compare import compare as beside
from xlanb.peers.compare import leave_out

__all__ = ["beside", "leave_out"]
