"""The hook by which this package compiles a changed program; a higher layer implements it."""

from __future__ import annotations

from typing import Final

from xlanb.hlo.module import HloModule
from xlanb.hooks import Hook

optimize: Final[Hook[[HloModule], HloModule]] = Hook("spmd.optimize")
"""Returns the partitioned and optimized module of a program; the compiler implements it."""
