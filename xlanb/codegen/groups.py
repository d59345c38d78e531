"""Instructions that multiply groups of narrow neighbours and add the products to a lane's sum.

    lane += x[0] * y[0] + x[1] * y[1]  (+ x[2] * y[2] + x[3] * y[3])

A group fills a lane of 32 bits: two bf16 or 16-bit integers, or four 8-bit integers, x unsigned and
y signed.
"""

from __future__ import annotations

from xlanb.codegen.module import CodegenTarget
from xlanb.codegen.types import BFLOAT, FLOAT, I8, I16, I32, Type
from xlanb.codegen.values import Value
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
NARROW = (T.BF16, T.S16, T.S8)
"""Types that may form groups."""
_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}
"""Multiply pairs of 16-bit integers and add both products, by vector bits."""


@dataclass(frozen=True)
class Group:
    """How a machine multiplies groups of `size` elements of `type` per lane.

    It calls `intrinsic` with operands of type `parts`.
    """

    type: PrimitiveType
    size: int
    intrinsic: str
    sum: Type
    """The vector type of the sums."""
    parts: Type
    """The vector type of the narrow elements."""
    adds: bool = True
    """Whether the instruction adds to the sum; otherwise it returns only the products."""

    @property
    def products(self) -> int:
        """Products per instruction."""
        return self.size * self.sum.lanes

    def add(self, total: Value, x: Value, y: Value) -> Value:
        """Add the products of groups x and y, vectors of that width, to the total.

        For 8-bit elements, x is unsigned and y signed.
        """
        f = total.function
        x, y = x.bits_as(self.parts), y.bits_as(self.parts)
        if self.adds:
            return f.call_as(self.sum, self.intrinsic, total, x, y)
        return total + f.call_as(self.sum, self.intrinsic, x, y)


_TILES = {
    (T.S8, T.S8): "llvm.x86.tdpbssd",
    (T.S8, T.U8): "llvm.x86.tdpbsud",
    (T.U8, T.S8): "llvm.x86.tdpbusd",
    (T.BF16, T.BF16): "llvm.x86.tdpbf16ps",
}
"""AMX: multiply a tile of groups by another, and add to a tile of sums."""


def tile_product(target: CodegenTarget, x: PrimitiveType, y: PrimitiveType) -> str | None:
    """The intrinsic that multiplies AMX tiles of groups of elements of types x and y, or None."""
    needed = {"amx-tile", "amx-bf16" if x is T.BF16 else "amx-int8"}
    return _TILES.get((x, y)) if target.vector_bits == 512 and needed <= target.enabled else None


def group_of(target: CodegenTarget, t: PrimitiveType, bits: int = 0) -> Group | None:
    """The groups of elements of type t in vectors of `bits` (default: the widest), or None."""
    bits = bits or target.vector_bits
    if not target.triple.startswith("x86_64") or bits not in _PAIRS or bits > target.vector_bits:
        return None
    lanes = bits // 32
    if t is T.BF16:
        name = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
        has = "avx512bf16" in target.enabled
        return Group(t, 2, name, FLOAT.times(lanes), BFLOAT.times(2 * lanes)) if has else None
    vnni = "avx512vnni" in target.enabled
    if t in (T.S8, T.U8):
        name = f"llvm.x86.avx512.vpdpbusd.{bits}"
        return Group(t, 4, name, I32.times(lanes), I8.times(4 * lanes)) if vnni else None
    if t is not T.S16:
        return None
    name = f"llvm.x86.avx512.vpdpwssd.{bits}" if vnni else _PAIRS[bits]
    return Group(t, 2, name, I32.times(lanes), I16.times(2 * lanes), adds=vnni)
