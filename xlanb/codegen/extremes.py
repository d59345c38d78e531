"""Maximum and minimum of float vectors with AVX-512, in half of LLVM's instructions.

One instruction (VRANGE) orders the signs of zeros correctly but prefers numbers to NaN; a
comparison restores NaN.
"""

from __future__ import annotations

from xlanb.codegen.function import Function
from xlanb.codegen.lanes import by_registers
from xlanb.codegen.types import I32, integer
from xlanb.codegen.values import Value, Vector

_CHOICE = {"minimum": 4, "maximum": 5}
"""The instruction's immediate: which operand to choose, keeping its sign."""


def extreme(f: Function, name: str, a: Value, b: Value) -> Value | None:
    """`maximum` or `minimum`; None to use LLVM's own.

    LLVM's is used for scalars, vectors of odd sizes, and on other machines.
    """
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
