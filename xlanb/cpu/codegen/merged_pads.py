"""Pad pixels, not their channels: a short unpadded axis is merged with the one that it follows.

    f32[8,230,230,3] pad(f32[8,224,224,3] x, v), padding=0_0x3_3x3_3x0_0
      =>  bitcast(f32[8,230,690] pad(f32[8,224,672] bitcast(x), v), padding=0_0x3_3x9_9)

A loop over the result then has vectors along rows of pixels instead of along channels.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape
from xlanb.transforms.builder import Builder

_SHORT = 32
"""Unpadded elements that fill a vector or two."""


def merge_pads(module: HloModule) -> None:
    """Rewrite pads of arrays in memory in place."""
    fused = {d for c in module.computations for i in c if i.opcode is Op.FUSION for d in i.called_computations}
    for c in module.computations:
        for i in c:
            if i.opcode is Op.PAD and (c not in fused or i.operands[0].opcode is Op.PARAMETER):
                _merge(c, i)


def _merge(c: HloComputation, i: HloInstruction) -> None:
    operand, padding = i.operands[0], i.get("padding")
    source, result = operand.array_shape, i.array_shape
    if source.is_dynamic or result.is_dynamic or not (source.is_row_major and result.is_row_major):
        return
    kept = next((n for n, p in enumerate(reversed(padding)) if p.low or p.high or p.interior), len(padding))
    at = len(padding) - kept - 1
    size = math.prod(result.dimensions[at + 1 :])
    if kept == 0 or at < 0 or padding[at].interior or not 1 < size <= _SHORT:
        return
    b = Builder(i)
    given = b.bitcast(operand, _merged(source, at, size))
    config = (*padding[:at], replace(padding[at], low=padding[at].low * size, high=padding[at].high * size))
    padded = b.add(Op.PAD, (given, i.operands[1]), _merged(result, at, size), padding=config)
    c.replace(i, b.bitcast(padded, i.shape))


def _merged(shape: ArrayShape, at: int, size: int) -> ArrayShape:
    """The shape whose axes from `at` on, of which those after it have `size` elements, are one."""
    return ArrayShape(shape.element_type, (*shape.dimensions[:at], shape.dimensions[at] * size)).with_default_layout()
