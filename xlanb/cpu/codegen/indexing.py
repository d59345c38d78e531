"""Arrays in memory, by the name of a pointer."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.codegen.indexing import order, same_order
from xlanb.shape import ArrayShape


@dataclass(frozen=True, slots=True)
class IrArray:
    """An array in memory: the name of a pointer, and its shape with layout."""

    pointer: str
    shape: ArrayShape


__all__ = ["IrArray", "order", "same_order"]
