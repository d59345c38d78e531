"""The greater and the lesser of vectors of floats on machines with AVX-512: half of the instructions that LLVM's `maximum` and `minimum` become.

One instruction (VRANGE) has the signs of zeros right, but prefers a number to what is none; the latter is put back by a comparison.
"""

from __future__ import annotations

from xlanb.codegen.function import Function
from xlanb.codegen.lanes import by_registers
from xlanb.codegen.types import I32, integer
from xlanb.codegen.values import Value, Vector

_CHOICE = {"minimum": 4, "maximum": 5}
"""The instruction's choice of the operand, its sign as it is."""


def extreme(f: Function, name: str, a: Value, b: Value) -> Value | None:
    """`maximum` or `minimum`; None where LLVM's own does it: of scalars, of vectors of odd sizes, on another machine."""
    total = a.type.lanes * a.type.bits
    if not isinstance(a, Vector) or b.type is not a.type or f.target.vector_bits != 512:
        return None
    if total < 128 or total & (total - 1):
        return None
    (made,) = by_registers(f, lambda given: [_of_register(f, _CHOICE[name], *given)], a, b)
    return a.compare("uno", "ne", b).select(float("nan"), made)


def _of_register(f: Function, choice: int, a: Value, b: Value) -> Value:
    bits, mask = a.type.lanes * a.type.bits, integer(max(8, a.type.lanes))
    name = f"llvm.x86.avx512.mask.range.{'ps' if a.type.bits == 32 else 'pd'}.{bits}"
    given = [a, b, f.const(I32, choice), f.zero(a.type), f.const(mask, -1)]
    return f.call_as(a.type, name, *given, *([f.const(I32, 4)] if bits == 512 else []))
