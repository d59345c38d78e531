"""The common signature of the contraction routines: (ptr a, ptr b, ptr c, ptr p).

p is a table of sizes and strides.
"""

from __future__ import annotations

from xlanb.codegen.function import Parameter
from xlanb.codegen.types import PTR
from xlanb.shape import PrimitiveType

ROUTINE = (
    Parameter(PTR, "a", "noalias readonly"),
    Parameter(PTR, "b", "noalias readonly"),
    Parameter(PTR, "c", "noalias"),
    Parameter(PTR, "p", "noalias readonly"),
)

LINE = 64
"""Bytes of a cache line."""
PAGES = 8192
"""Bytes of a matrix's line from which on lines are on pages of their own, each slow to find."""


def types_text(*types: PrimitiveType) -> str:
    """Element types as part of a routine's name; one if all are the same."""
    names = [str(t).lower() for t in types]
    return names[0] if len(set(names)) == 1 else ".".join(names)
