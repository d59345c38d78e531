"""Expand bitcast-convert between types of different width into shifts.

bitcast-convert(f32[4]) to u8[4,4]
  =>  convert(u8, and(shift-right-logical(broadcast(u32), 8 * iota), 255))
bitcast-convert(u8[4,4]) to f32[4]
  =>  bitcast-convert(f32, or of each byte converted to u32 and shifted to its position)

Source: xla/hlo/transforms/expanders/bitcast_dtypes_expander.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

_UNSIGNED = {
    t.bits: t
    for t in (
        PrimitiveType.U2,
        PrimitiveType.U4,
        PrimitiveType.U8,
        PrimitiveType.U16,
        PrimitiveType.U32,
        PrimitiveType.U64,
    )
}


class BitcastDtypesExpander(HloPass):
    """Expands bitcast-converts between types of different width, least significant part first."""

    name = "bitcast_dtypes_expander"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.BITCAST_CONVERT and _widths(i) and all(w in _UNSIGNED for w in _widths(i)):
                    c.replace(i, _expanded(i))


def _widths(i: HloInstruction) -> tuple[int, ...]:
    """The widths of operand and result in bits; () if they are equal."""
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    return () if source.bits == target.bits or source.is_complex or target.is_complex else (source.bits, target.bits)


def _expanded(i: HloInstruction) -> HloInstruction:
    b, (source, target) = Builder(i), _widths(i)
    x = i.operands[0]
    x = _as_type(b, x, _UNSIGNED[source])
    made = _parts(b, x, _UNSIGNED[target]) if source > target else _whole(b, x, _UNSIGNED[target])
    return _as_type(b, made, i.shape.element_type)


def _as_type(b: Builder, x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    """The same bits under another type of the same width."""
    return x if x.shape.element_type is kind else b.add(O.BITCAST_CONVERT, (x,), x.array_shape.with_type(kind))


def _parts(b: Builder, x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    s = x.array_shape
    wide = array(s.element_type, (*s.dimensions, s.element_type.bits // kind.bits))
    spread = b.broadcast(x, range(s.rank), wide)
    places = b.binary(O.MULTIPLY, b.full(kind.bits, wide), b.add(O.IOTA, (), wide, iota_dimension=s.rank))
    shifted = b.binary(O.SHIFT_RIGHT_LOGICAL, spread, places)
    return b.convert(b.binary(O.AND, shifted, b.full((1 << kind.bits) - 1, wide)), kind)


def _whole(b: Builder, x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    *outer, count = x.array_shape.dimensions
    total: HloInstruction | None = None
    for n in range(count):
        part = b.reshape(b.slice(x, [*[0] * len(outer), n], [*outer, n + 1]), outer)
        part = b.convert(part, kind)
        if n:
            part = b.binary(O.SHIFT_LEFT, part, b.full(n * x.shape.element_type.bits, part.array_shape))
        total = part if total is None else b.binary(O.OR, total, part)
    return total if total is not None else b.full(0, array(kind, outer))
