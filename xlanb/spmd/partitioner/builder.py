"""SpmdBuilder: adds instructions to a device's computation.

They derive from the source instruction that is being partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Layout, Literal, Shape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner import broadcast_dims
from xlanb.spmd.partitioner.utilities import as_tuple, set_sharding

_O = HloOpcode
UNREDUCED = "xla.sdy.has_unreduced_axes"
"""The frontend attribute of an instruction whose result stays unreduced on each device."""
_ELEMENTWISE = frozenset(o for o in HloOpcode if o.is_elementwise) | {_O.COPY}


class SpmdBuilder:
    """A computation under construction.

    `visiting` is the source instruction whose metadata and frontend attributes new instructions
    inherit, or None.
    """

    def __init__(self, computation: HloComputation, visiting: HloInstruction | None = None) -> None:
        self.computation = computation
        self.module = computation.module
        self.visiting = visiting
        self._broadcast_dims: dict[HloInstruction, frozenset[int]] = {}

    # -- adding instructions -----------------------------------------------------------------------

    def add(
        self,
        opcode: HloOpcode,
        operands: Iterable[HloInstruction] = (),
        shape: Shape | None = None,
        *,
        name: str | None = None,
        **attributes: Any,
    ) -> HloInstruction:
        """Add an instruction without a sharding; by default the shape is inferred, row-major."""
        if shape is not None:
            shape = shape.with_default_layout()
        new = self.computation.add(opcode, operands, shape, name=name, **attributes)
        self._derive(new)
        return new

    def clone(
        self, source: HloInstruction, operands: Sequence[HloInstruction], shape: Shape | None = None
    ) -> HloInstruction:
        """Copy an instruction of either program with other operands, and optionally another shape.

        If the dimensions stay the same, so does the sharding.
        """
        new = self.computation.clone_instruction(source, operands, shape or source.shape)
        self._derive(new)
        return new

    def constant(self, value: Any) -> HloInstruction:
        """Add a constant from a Literal or a NumPy value, whose dtype gives the element type."""
        literal = value if isinstance(value, Literal) else Literal.of(value)
        return self.add(_O.CONSTANT, (), literal.shape, literal=literal)

    def s32(self, value: int) -> HloInstruction:
        """Add a constant of s32[]."""
        return self.constant(np.int32(value))

    def compare(self, lhs: HloInstruction, rhs: HloInstruction, direction: str) -> HloInstruction:
        """Add a comparison, in the layout of `lhs`."""
        return self.add(_O.COMPARE, (lhs, rhs), direction=direction)

    def broadcast(self, operand: HloInstruction, shape: ArrayShape, dimensions: Sequence[int] = ()) -> HloInstruction:
        """Broadcast `operand` to a shape."""
        return self.add(_O.BROADCAST, (operand,), shape, dimensions=tuple(dimensions))

    def reshape(self, operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """Add a row-major reshape."""
        return self.add(_O.RESHAPE, (operand,), operand.shape.as_array().with_dimensions(dimensions))

    def transpose(self, operand: HloInstruction, permutation: Sequence[int]) -> HloInstruction:
        """Add a transpose in the layout that XLA infers; elements stay in place in memory."""
        shape = operand.shape.as_array()
        order = tuple(permutation)
        layout = Layout(tuple(order.index(d) for d in shape.minor_to_major))
        transposed = shape.with_dimensions([shape.dimensions[d] for d in order]).with_layout(layout)
        return self.add(_O.TRANSPOSE, (operand,), transposed, dimensions=order)

    def get_tuple_element(self, operand: HloInstruction, index: int) -> HloInstruction:
        """Add a get-tuple-element."""
        return self.add(_O.GET_TUPLE_ELEMENT, (operand,), as_tuple(operand.shape).shapes[index], index=index)

    def _derive(self, new: HloInstruction) -> None:
        source = self.visiting
        if source is not None:
            attributes = source.frontend_attributes
            if attributes and source.opcode is not new.opcode:
                attributes = tuple(pair for pair in attributes if pair[0] != UNREDUCED)
            self.computation.update(new, metadata=source.metadata, frontend_attributes=attributes)
        self._note_broadcast_dims(new)

    def set_sharding(self, hlo: HloInstruction, sharding: HloSharding | None) -> HloInstruction:
        """Set or remove a new instruction's sharding."""
        return set_sharding(hlo, sharding)

    def finish(self, root: HloInstruction) -> HloComputation:
        """Set the root and return the computation."""
        self.computation.set_root(root)
        return self.computation

    # -- repeated dimensions -----------------------------------------------------------------------

    def broadcast_dims(self, hlo: HloInstruction) -> frozenset[int]:
        """Return the dimensions along which a new instruction is known to have equal elements."""
        return self._broadcast_dims.get(hlo, frozenset())

    def _note_broadcast_dims(self, new: HloInstruction) -> None:
        if not isinstance(new.shape, ArrayShape):
            return
        if new.opcode is _O.BROADCAST:
            repeated = frozenset(range(new.shape.rank)) - frozenset(new.attributes.get("dimensions", ()))
        elif new.opcode in _ELEMENTWISE:
            repeated = frozenset(range(new.shape.rank))
            for o in new.operands:
                repeated &= self.broadcast_dims(o)
        elif new.operands and new.operands[0] in self._broadcast_dims:
            repeated = broadcast_dims.of_moved(new, self._broadcast_dims[new.operands[0]])
        else:
            return
        if repeated:
            self._broadcast_dims[new] = repeated
