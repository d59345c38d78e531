"""f16 on machines without instructions for it.

LLVM calls functions of its compiler runtime there, which a process need not have, so they are added
to the code that calls them.
"""

from __future__ import annotations

from functools import cache

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.types import DOUBLE, FLOAT, HALF, I16, I32, I64
from xlanb.codegen.values import Value

_ROUND = "__truncsfhf2"
_ARCHITECTURES = ("x86_64", "i686", "i386", "riscv", "wasm")
"""Architectures that may lack instructions for it; AArch64 always has them."""
_CONVERTING = frozenset({"f16c", "zfh", "zfhmin"})
"""The features that provide these instructions."""


def _to_f32(x: Value) -> Value:
    """f16 to f32: moved to an f32's exponent bits, an f16 is 2^-112 times too small."""
    bits = x.bits_as(I16).zext(I32)
    magnitude = bits & 0x7FFF
    scaled = ((magnitude << 13).bits_as(FLOAT) * 2.0**112).bits_as(I32)
    infinite = (magnitude << 13) | 0x7F800000
    special = magnitude.ugt(0x7C00).select(infinite | 0x400000, infinite)
    return (((bits & 0x8000) << 16) | magnitude.uge(0x7C00).select(special, scaled)).bits_as(FLOAT)


def _rounded(x: Value) -> Value:
    """f32 to f16, ties to even; subnormals are rounded by adding 1/2."""
    bits = x.bits_as(I32)
    magnitude = bits & 0x7FFFFFFF
    cut = magnitude.lshr(13)
    normal = (magnitude + 4095 + (cut & 1) - (112 << 23)).lshr(13)
    subnormal = (magnitude.bits_as(FLOAT) + 0.5).bits_as(I32) - 0x3F000000
    finite = magnitude.ult(113 << 23).select(subnormal, normal)
    bounded = magnitude.uge(0x477FF000).select(0x7C00, finite)
    made = magnitude.ugt(0x7F800000).select((cut & 1023) | 0x7E00, bounded)
    return (made | (bits.lshr(16) & 0x8000)).trunc(I16).bits_as(HALF)


def _rounded_double(x: Value) -> Value:
    """f64 to f16 through an f32 rounded to odd, so that the second rounding is correct."""
    near = x.cast("fptrunc", FLOAT)
    back = near.cast("fpext", DOUBLE)
    magnitudes = [value.bits_as(I64) & (1 << 63) - 1 for value in (back, x)]
    is_above = magnitudes[0].ugt(magnitudes[1])
    odd = (near.bits_as(I32) - is_above.zext(I32)) | 1
    made = back.compare("one", "ne", x).select(odd, near.bits_as(I32)).bits_as(FLOAT)
    return x.function.call(HALF, _ROUND, made)


_FUNCTIONS = {
    "__extendhfsf2": (HALF, FLOAT, _to_f32),
    _ROUND: (FLOAT, HALF, _rounded),
    "__truncdfhf2": (DOUBLE, HALF, _rounded_double),
}


@cache
def _text(target: CodegenTarget) -> str:
    module, lines = ModuleBuilder("half", target), list[str]()
    for name, (source, result, body) in _FUNCTIONS.items():
        parameter = Parameter(source, "x")
        f = Function(module, name, [parameter], "nounwind", None, "weak hidden")
        f.result = result
        f.give(body(f.argument(parameter)))
        lines += ["", *f.text()]
    return "\n".join([*lines, ""])


def conversions(text: str, target: CodegenTarget) -> str:
    """The functions that convert f16 in a module of LLVM IR; "" if the machine needs none."""
    if "half" not in text or not target.triple.startswith(_ARCHITECTURES) or target.enabled & _CONVERTING:
        return ""
    return _text(target)
