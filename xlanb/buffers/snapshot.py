"""A buffer assignment as frozen records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from xlanb.analysis.dataflow import Leaf
from xlanb.buffers.live_ranges import LiveRange, LiveRanges
from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

if TYPE_CHECKING:
    from xlanb.buffers.buffer_assignment import Allocation, Slice


def snapshot(
    name: str,
    flow: LiveRanges,
    allocations: Iterable[Allocation],
    slices: Mapping[LiveRange, Slice],
    scratch: Mapping[HloInstruction, Slice],
    peak_bytes: int,
) -> BufferAssignmentRecord:
    """The record of a module's buffer assignment; values without a slice are left out."""
    held: dict[int, list[BufferValue]] = {}
    needed: dict[int, list[BufferValue]] = {}
    positions, uses = _positions(flow), _uses(flow)
    for v in flow.values:
        place = slices.get(v)
        if place is not None:
            held.setdefault(place.allocation, []).append(_value(v, place, positions.get(v, ()), uses.get(v, ())))
    for i, place in scratch.items():
        at = flow.position[i]
        needed.setdefault(place.allocation, []).append(
            BufferValue(i.name, (), "", place.offset, place.size, at, at, source=i.record())
        )
    made = []
    for a in allocations:
        number, leaf = a.parameter or (None, ())
        own, room = tuple(held.get(a.index, ())), tuple(needed.get(a.index, ()))
        made.append(BufferAllocation(a.index, a.kind, a.size, own, number, leaf, a.shape, room))
    return BufferAssignmentRecord(name, tuple(i.name for i in flow.sequence), tuple(made), peak_bytes)


def _value(v: LiveRange, place: Slice, positions: Iterable[str], uses: Iterable[str]) -> BufferValue:
    i = v.instruction
    return BufferValue(
        i.name,
        v.leaf,
        str(v.shape),
        place.offset,
        v.size,
        v.intervals[0][0],
        v.intervals[-1][1],
        v.id,
        i.opcode in (Op.WHILE, Op.CONDITIONAL),
        tuple(positions),
        tuple(uses),
        i.record(),
    )


def _positions(flow: LiveRanges) -> dict[LiveRange, list[str]]:
    """The instructions that hold each value."""
    found: dict[LiveRange, list[str]] = {}
    for i in flow.instructions:
        for leaf, _ in i.shape.leaves():
            found.setdefault(flow.value(i, leaf), []).append(i.name + _leaf(leaf, i))
    return found


def _uses(flow: LiveRanges) -> dict[LiveRange, list[str]]:
    """The uses of each value; a get-tuple-element reads only the tuple."""
    found: dict[LiveRange, list[str]] = {}
    for i in flow.instructions:
        for n, o in enumerate(i.operands if i.opcode is not Op.GET_TUPLE_ELEMENT else ()):
            for leaf, _ in o.shape.leaves():
                found.setdefault(flow.value(o, leaf), []).append(f"{i.name}, operand {n}{_leaf(leaf, o)}")
    return found


def _leaf(leaf: Leaf, i: HloInstruction) -> str:
    return f" {{{','.join(map(str, leaf))}}}" if i.shape.is_tuple else ""
