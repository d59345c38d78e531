"""The greater and the lesser of vectors of floats on machines with AVX-512: half of the instructions that LLVM's `maximum` and `minimum` become.

One instruction (VRANGE) has the signs of zeros right, but prefers a number to what is none; the latter is put back by a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.cpu.codegen import vectors

if TYPE_CHECKING:
    from xlanb.cpu.codegen.ir import Function

_BITS = {"float": 32, "double": 64}
_CHOICE = {"minimum": 4, "maximum": 5}
"""The instruction's choice of the operand, its sign as it is."""
_NAN = "0x7FF8000000000000"


def extreme(f: Function, name: str, kind: str, a: str, b: str) -> str | None:
    """`maximum` or `minimum` of values of an LLVM type; None where LLVM's own does it: of scalars, of a value that is no vector of its own, on another machine."""
    width = f.lanes.get(a, 0)
    total = width * _BITS.get(kind, 0)
    if not f.width or f.target.vector_bits != 512 or f.lanes.get(b) != width or total < 128 or total & (total - 1):
        return None
    pieces = [_of_register(f, _CHOICE[name], kind, *pair, min(total, 512)) for pair in _pairs(f, kind, a, b, width)]
    chosen = _joined(f, kind, pieces, min(total, 512) // _BITS[kind])
    vector = vectors.kind(kind, width)
    neither = vectors.known(f, width, f"fcmp uno {vector} {a}, {b}")
    none = vectors.splat(f, kind, _NAN, width)
    test = f"{vectors.kind('i1', width)} {neither}"
    return vectors.known(f, width, f"select {test}, {vector} {none}, {vector} {chosen}")


def _pairs(f: Function, kind: str, a: str, b: str, width: int) -> list[tuple[str, str]]:
    """Both vectors in pieces that fit a register."""
    each = 512 // _BITS[kind]
    if width <= each:
        return [(a, b)]
    return [(_piece(f, kind, a, width, at, each), _piece(f, kind, b, width, at, each)) for at in range(0, width, each)]


def _piece(f: Function, kind: str, value: str, width: int, at: int, each: int) -> str:
    vector = vectors.kind(kind, width)
    lanes = ", ".join(f"i32 {k}" for k in range(at, at + each))
    return vectors.known(f, each, f"shufflevector {vector} {value}, {vector} poison, <{each} x i32> <{lanes}>")


def _of_register(f: Function, choice: int, kind: str, a: str, b: str, bits: int) -> str:
    width = bits // _BITS[kind]
    vector, mask = vectors.kind(kind, width), f"i{max(8, width)}"
    name = f"llvm.x86.avx512.mask.range.{'ps' if kind == 'float' else 'pd'}.{bits}"
    given = [(vector, a), (vector, b), ("i32", str(choice)), (vector, "zeroinitializer"), (mask, "-1")]
    made = f.plain_call(vector, name, [*given, ("i32", "4")] if bits == 512 else given)
    f.lanes[made] = width
    return made


def _joined(f: Function, kind: str, pieces: list[str], each: int) -> str:
    """Pieces, a power of two of them, as one vector."""
    while len(pieces) > 1:
        vector, lanes = vectors.kind(kind, each), ", ".join(f"i32 {k}" for k in range(2 * each))
        both = [f"{vector} {a}, {vector} {b}" for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
        each *= 2
        pieces = [vectors.known(f, each, f"shufflevector {two}, <{each} x i32> <{lanes}>") for two in both]
    return pieces[0]
