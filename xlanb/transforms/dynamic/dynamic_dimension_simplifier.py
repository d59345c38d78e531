"""Remove redundant reshapes, converts and concatenations of dynamic sizes.

reshape(f32[4] x) to f32[4]                     =>  x
convert(s32[] x) to s32[]                       =>  x
reshape(reshape(x)) to the shape of x           =>  x
concatenate(concatenate(a, b), c)               =>  concatenate(a, b, c)
slice(concatenate(a, b)), exactly b             =>  b
reshape(broadcast(scalar)) to a scalar          =>  scalar

Source: xla/service/dynamic_dimension_simplifier.h.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import same
from xlanb.transforms.base import HloPass
from xlanb.transforms.concatenations import flattened


class DynamicDimensionSimplifier(HloPass):
    """Makes users of such instructions use their operands; dce removes the instructions."""

    name = "dynamic-dimension-simplifier"

    def apply(self, module: HloModule) -> None:
        for step in _STEPS:
            for c in module.post_order():
                for i in c.post_order():
                    forward = step(i)
                    if forward is not None and forward is not i:
                        c.replace_uses(i, forward)


def _concat_of_concat(i: HloInstruction) -> HloInstruction | None:
    if i.opcode is not O.CONCATENATE:
        return None
    flat = flattened(i)
    return None if flat is None else i.parent.add(O.CONCATENATE, flat, i.shape, like=i, dimensions=i.dimensions)


def _slice_of_concat(i: HloInstruction) -> HloInstruction | None:
    if i.opcode is not O.SLICE or i.operands[0].opcode is not O.CONCATENATE or i.array_shape.rank != 1:
        return None
    box, offset = i.attributes["slice"][0], 0
    for o in i.operands[0].operands:
        size = o.array_shape.dimensions[0]
        if box.start == offset and box.limit == offset + size and box.stride == 1:
            return o
        offset += size
    return None


def _reshape_of_broadcast(i: HloInstruction) -> HloInstruction | None:
    if i.opcode is not O.RESHAPE or i.operands[0].opcode is not O.BROADCAST:
        return None
    source = i.operands[0].operands[0]
    return source if source.array_shape.is_scalar and i.array_shape.is_scalar else None


def _reshape_of_reshape(i: HloInstruction) -> HloInstruction | None:
    if i.opcode is not O.RESHAPE or i.operands[0].opcode is not O.RESHAPE:
        return None
    source = i.operands[0].operands[0]
    return source if same(source.shape, i.shape) else None


def _identity(i: HloInstruction) -> HloInstruction | None:
    if i.opcode not in (O.RESHAPE, O.CONVERT):
        return None
    return i.operands[0] if same(i.operands[0].shape, i.shape) else None


_STEPS: tuple[Callable[[HloInstruction], HloInstruction | None], ...] = (
    _concat_of_concat,
    _slice_of_concat,
    _reshape_of_broadcast,
    _reshape_of_reshape,
    _identity,
)
