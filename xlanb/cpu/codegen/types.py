"""How LLVM's IR spells element types and constants."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from xlanb.codegen.elements import is_narrow, part
from xlanb.shape import PrimitiveType

T = PrimitiveType


@cache
def register(t: PrimitiveType) -> str:
    """LLVM's type of a value in a register (of a part, where complex)."""
    t = part(t)
    if t is T.PRED:
        return "i1"
    if t is T.F64:
        return "double"
    return "float" if t.is_floating else f"i{t.bits}"


@cache
def memory(t: PrimitiveType) -> str:
    """LLVM's type of an element in memory (of a part, where complex)."""
    t = part(t)
    if t is T.F16:
        return "half"
    if t is T.BF16:
        return "i16"
    if t is T.PRED or t.bits < 8 or is_narrow(t):
        return "i8"
    return register(t)


def float_text(value: float, type_: str = "float") -> str:
    """An LLVM float or double constant, by its bits."""
    with np.errstate(all="ignore"):
        wide = float(np.float32(value)) if type_ == "float" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"


__all__ = ["float_text", "memory", "part", "register"]
