"""Find instructions with equal kernels before generating them.

Networks repeat layers, whose kernels differ only in the memory they are called with. A key contains
everything that an instruction's function depends on: opcode, shapes, attributes, the content of
called computations, values of constants, and which of its arrays share memory. Names, metadata and
the surroundings of the instruction are not part of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from xlanb.buffers.buffer_assignment import BufferAssignment, Slice
from xlanb.codegen.function import Function
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms.simplifiers.hlo_cse import computation_keys

_KEYED = frozenset(
    {Op.FUSION, Op.DOT, Op.CONVOLUTION, Op.REDUCE, Op.REDUCE_WINDOW, Op.SELECT_AND_SCATTER}
    | {Op.BROADCAST, Op.COPY, Op.TRANSPOSE, Op.SLICE, Op.CONCATENATE, Op.PAD, Op.REVERSE, Op.IOTA, Op.CONVERT}
    | {o for o in Op if o.is_elementwise}
)
"""Opcodes whose kernels depend only on the fields of a key.

Kernels of other opcodes may depend on a result's users, or be runtime calls.
"""


class KernelSite(NamedTuple):
    """An instruction as a caller of a kernel; equal keys have equal kernels.

    `places` is the memory of results, operands and scratch; a kernel takes the same ones of every
    site.
    """

    key: Hashable
    places: tuple[Slice, ...]


class WrittenKernel(NamedTuple):
    """A kernel that was emitted.

    `function` is its function and `callee` the one to call instead (see `_Emitter._shared`).
    `taken` are the places of a site that it takes, `work` is its work between polls.
    """

    function: Function
    callee: str
    taken: tuple[int, ...]
    work: int


class KernelSites:
    """The sites of a program's kernels."""

    def __init__(self, assignment: BufferAssignment) -> None:
        self._assignment = assignment
        self._content = computation_keys()

    def of(self, i: HloInstruction, *, inline: bool) -> KernelSite | None:
        """The site of an instruction; None if its kernel may depend on more than a key contains."""
        if i.opcode not in _KEYED:
            return None
        assignment = self._assignment
        places: dict[Slice, int] = {}
        arrays: list[Hashable] = []
        for leaf, shape in i.shape.leaves():
            if not shape.is_token and assignment.has_place(i, leaf):
                arrays.append((leaf, self._number(places, assignment.slice_of(i, leaf))))
        for o in i.operands:
            arrays.append(o.opcode if i.opcode is not Op.FUSION else None)
            arrays.append(o.shape)
            if o.opcode is Op.CONSTANT:
                arrays.append(o.literal)
                continue
            for leaf, shape in o.shape.leaves():
                if not shape.is_token:
                    place = assignment.slice_of(o, leaf)
                    constant = assignment.allocations[place.allocation].constant
                    arrays.append(self._number(places, place) if constant is None else constant.literal)
        scratch = assignment.scratch_of(i)
        arrays.append(self._number(places, scratch) if scratch is not None else None)
        attributes = tuple([(name, self._value(value)) for name, value in i.attributes.items()])
        sizes = tuple([p.size for p in places])
        key = (i.opcode, i.shape, attributes, tuple(arrays), sizes, inline, i.parent.is_entry)
        return KernelSite(key, tuple(places))

    @staticmethod
    def _number(places: dict[Slice, int], place: Slice) -> int:
        """The number of a place, in order of first use."""
        return places.setdefault(place, len(places))

    def _value(self, value: Any) -> Hashable:
        """An attribute as part of a key; computations by their content."""
        if isinstance(value, HloComputation):
            return self._content(value)
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return tuple([self._content(c) for c in value])
        found: Hashable = value
        return found
