"""Set the element size in layouts of types narrower than a byte (sub-byte-size-setter).

s4[8]{0} add(a, b)    =>    s4[8]{0:E(4)} add(a, b)

Source: xla/.../sub_byte_normalization.h, SET_ELEMENT_SIZE.
"""

from __future__ import annotations

from dataclasses import replace

from xlanb.hlo.module import HloModule
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass


class SubByteNormalization(HloPass):
    """Sets the element size in every layout of a sub-byte type, and unsets it in others."""

    name = "sub-byte-size-setter"

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c:
                shape = with_element_size(i.shape)
                if shape != i.shape:
                    c.update(i, shape=shape)


def with_element_size(shape: Shape) -> Shape:
    """The shape with E(bits) in layouts of types narrower than a byte, and without it in others."""
    if isinstance(shape, TupleShape):
        return tuple_of(with_element_size(s) for s in shape.shapes)
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return shape
    bits = shape.element_type.bits
    wanted = bits if bits < 8 else 0
    if shape.layout.element_size_in_bits == wanted:
        return shape
    return shape.with_layout(replace(shape.layout, element_size_in_bits=wanted))
