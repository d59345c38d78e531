"""Layouts of the exported program.

XLA infers each shape from those of the operands (ShapeInference), so layouts follow transposes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Layout, Shape

_O = HloOpcode
_AS_FIRST = frozenset((_O.FFT, _O.REVERSE, _O.COPY, _O.CHOLESKY))
"""Non-elementwise opcodes whose result has their first operand's layout."""


def result_shape(hlo: HloInstruction, operands: Sequence[HloInstruction]) -> Shape:
    """Return the shape of `hlo` on other operands, in the layout that XLA infers."""
    shape = hlo.shape
    if not operands or not isinstance(shape, ArrayShape) or shape.layout is None:
        return shape
    given = operands[0].shape
    if not isinstance(given, ArrayShape) or given.layout is None or given.rank != shape.rank:
        return shape
    if hlo.opcode is _O.TRANSPOSE:
        order = tuple(hlo.attributes["dimensions"])
        return shape.with_layout(Layout(tuple(order.index(d) for d in given.minor_to_major)))
    if (hlo.opcode.is_elementwise and hlo.opcode is not _O.SELECT) or hlo.opcode in _AS_FIRST:
        return shape.with_layout(given.layout)
    return shape
