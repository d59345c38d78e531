"""Builder: create instructions derived from an old one, for rules and expanders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Literal, PrimitiveType, Shape
from xlanb.shape.shape import array


class Builder:
    """Adds instructions with the metadata of `root`; elementwise ones of its dimensions also get
    its layout.
    """

    __slots__ = ("computation", "root")

    def __init__(self, root: HloInstruction) -> None:
        self.root = root
        self.computation: HloComputation = root.parent

    def add(
        self, opcode: HloOpcode, operands: Iterable[HloInstruction] = (), shape: Shape | None = None, **attributes: Any
    ) -> HloInstruction:
        """Add any instruction; its shape is inferred if not given."""
        return self.computation.add(opcode, operands, shape, like=self.root, **attributes)

    def unary(self, opcode: HloOpcode, a: HloInstruction) -> HloInstruction:
        """An elementwise function of one operand, of the operand's shape."""
        return self.add(opcode, (a,), a.shape)

    def binary(self, opcode: HloOpcode, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        """An elementwise function of two operands that have the result's shape."""
        return self.add(opcode, (a, b), a.shape)

    def compare(self, a: HloInstruction, direction: str, b: HloInstruction, **attributes: Any) -> HloInstruction:
        """A comparison: direction EQ, NE, LT, LE, GT or GE."""
        return self.add(
            HloOpcode.COMPARE, (a, b), a.array_shape.with_type(PrimitiveType.PRED), direction=direction, **attributes
        )

    def select(self, p: HloInstruction, a: HloInstruction, b: HloInstruction) -> HloInstruction:
        """`a` where `p` holds, else `b`."""
        return self.add(HloOpcode.SELECT, (p, a, b), a.shape)

    def convert(self, a: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """The same values in another element type."""
        return self.add(HloOpcode.CONVERT, (a,), a.array_shape.with_type(element_type))

    def as_type(self, a: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
        """`a` in an element type; `a` itself if it has it."""
        return a if a.shape.element_type is element_type else self.convert(a, element_type)

    def literal(self, value: Literal) -> HloInstruction:
        """A constant of a literal."""
        return self.computation.constant(value, like=self.root)

    def scalar(self, value: complex, element_type: PrimitiveType) -> HloInstruction:
        """A scalar constant."""
        return self.computation.constant(np.asarray(value, element_type.dtype), like=self.root)

    def full(self, value: complex, shape: ArrayShape) -> HloInstruction:
        """A shape filled with one value: a scalar constant, broadcast if needed."""
        return self.broadcast(self.scalar(value, shape.element_type), (), shape)

    def broadcast(self, a: HloInstruction, dimensions: Sequence[int], shape: ArrayShape) -> HloInstruction:
        """Map operand dimension i to dimension dimensions[i] of `shape`; `a` if that is scalar."""
        if shape.is_scalar:
            return a
        return self.add(
            HloOpcode.BROADCAST, (a,), shape.with_type(a.array_shape.element_type), dimensions=tuple(dimensions)
        )

    def reshape(self, a: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """The same elements with other dimensions; `a` itself if they are equal."""
        dims = tuple(dimensions)
        if a.array_shape.dimensions == dims:
            return a
        return self.add(HloOpcode.RESHAPE, (a,), array(a.array_shape.element_type, dims))

    def bitcast(self, a: HloInstruction, shape: Shape) -> HloInstruction:
        """The same bytes under another shape and layout."""
        return self.add(HloOpcode.BITCAST, (a,), shape)

    def transpose(self, a: HloInstruction, permutation: Sequence[int]) -> HloInstruction:
        """Result dimension i is operand dimension permutation[i]."""
        s = a.array_shape
        return self.add(
            HloOpcode.TRANSPOSE,
            (a,),
            array(s.element_type, [s.dimensions[p] for p in permutation]),
            dimensions=tuple(permutation),
        )

    def slice(
        self, a: HloInstruction, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
    ) -> HloInstruction:
        """Elements from `starts` up to, not including, `limits`, by `strides` (1 if not given)."""
        steps = strides or (1,) * len(starts)
        dims = [max(0, -(-(e - s) // t)) for s, e, t in zip(starts, limits, steps, strict=True)]
        boxes = tuple(SliceDimension(*b) for b in zip(starts, limits, steps, strict=True))
        return self.add(HloOpcode.SLICE, (a,), array(a.array_shape.element_type, dims), slice=boxes)

    def tuple(self, elements: Iterable[HloInstruction]) -> HloInstruction:
        """A tuple."""
        return self.add(HloOpcode.TUPLE, tuple(elements))

    def element(self, a: HloInstruction, index: int) -> HloInstruction:
        """One element of a tuple."""
        return self.add(HloOpcode.GET_TUPLE_ELEMENT, (a,), index=index)
