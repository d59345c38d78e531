"""Explain a lack of memory: which instruction a result or the largest temporary belongs to."""

from __future__ import annotations

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.errors import UnimplementedError
from xlanb.hlo.diagnostic import origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import ADDRESSABLE, check_addressable, size_text
from xlanb.shape import MOST_DIMENSIONS, ArrayShape


@dataclass(frozen=True)
class Shortage:
    """Describes, for an error message, what the missing memory was for."""

    assignment: BufferAssignment

    def __call__(self, number: int | None) -> str:
        """The text after the name of a result (by its number) or after "the temporaries" (None)."""
        flow = self.assignment.live
        if number is not None:
            return f" (instruction {_named(flow.results[number].instruction)})"
        kinds = {a.index: a.kind for a in self.assignment.allocations}
        temporaries = [
            v
            for v in flow.values
            if v in self.assignment.slices and kinds[self.assignment.slice_of_value(v).allocation] == "temp"
        ]
        largest = max(temporaries, key=lambda v: v.size, default=None)
        if largest is None:
            return ""
        shape = largest.shape.text(layout=False)
        return (
            f", the largest of which is {shape} ({size_text(largest.size)}, instruction {_named(largest.instruction)})"
        )


def check_ranks(module: HloModule) -> None:
    """Check the ranks of a program's arrays.

    Raises:
        UnimplementedError: An array has more dimensions than NumPy supports; the message names its
            instruction.
    """
    for i in module.instructions():
        rank = i.shape.rank if isinstance(i.shape, ArrayShape) else 0
        if rank > MOST_DIMENSIONS:
            raise UnimplementedError(
                f"{_named(i)} in {i.parent.name}: an array of {rank} dimensions; compiled code supports at "
                f"most {MOST_DIMENSIONS}: reshape it to drop dimensions of size 1"
            )


def check_sizes(module: HloModule) -> None:
    """Check that memory can hold the instructions' results.

    Raises:
        OutOfMemoryError: A result exceeds 64-bit offsets; the message names its instruction.
    """
    for i in module.instructions():
        if i.shape.byte_size >= ADDRESSABLE:
            check_addressable(f"{_named(i)} in {i.parent.name}, {i.shape.text(layout=False)},", i.shape.byte_size)


def _named(instruction: HloInstruction) -> str:
    """An instruction's name, and the Python line that it comes from, if known."""
    place = origin(instruction)
    return f"{instruction.name}, {place}" if place else instruction.name
