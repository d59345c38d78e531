"""Annotate dynamic slices with their offset as a function of the loop iteration.

Follows dynamic_slice_annotator.cc.

    dynamic-slice(x, i, 0), i the counter of a loop from 0 by 1, rows of 512 bytes
    =>  ..., backend_config={...,
        "dynamic_slice_config":{"loop_index":"0","byte_offset":"0","byte_stride":"512"}}

A contiguous slice whose offset is constant, or grows by the same step in each iteration, can be
copied without a kernel that reads the offset.
"""

from __future__ import annotations

import json

from xlanb.analysis.call_graph import CallGraph, nonfusion_computations
from xlanb.gpu.backend_config import changed
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_SLICES = frozenset((O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE))
_SAME_VALUE = frozenset((O.BITCAST, O.CONVERT, O.COPY, O.RESHAPE))
_COMPARED = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__}


class DynamicSliceAnnotator(HloPass):
    """Annotates slices at offsets that are constant or linear in a loop counter."""

    name = "dynamic-slice-annotator"
    triggers = _SLICES

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in nonfusion_computations(module):
            counter = _counter_of(c, graph)
            for i in c.post_order():
                if i.opcode in _SLICES and (found := _offset(i, counter)) is not None:
                    _annotate(i, found)


@dataclass(frozen=True)
class _LoopCounter:
    """The counter of a body's loop: an element of its parameter, with start and step."""

    index: int
    start: int
    step: int
    rounds: int


@dataclass(frozen=True)
class _LinearOffset:
    """start + step * iteration."""

    start: int
    step: int = 0

    def last(self, counter: _LoopCounter | None) -> int:
        """The value in the last iteration."""
        return self.start + self.step * (counter.rounds - 1 if counter is not None else 0)


def _counter_of(c: HloComputation, graph: CallGraph) -> _LoopCounter | None:
    """Return the recorded counter of the only loop with this body, or None."""
    sites = graph.callers[c]
    if len(sites) != 1 or sites[0].instruction.opcode is not O.WHILE:
        return None
    loop = sites[0].instruction
    if loop.attributes["body"] is not c or not loop.backend_config.startswith("{"):
        return None
    noted = json.loads(loop.backend_config)
    try:
        place = int(noted["known_induction_variable"]["tuple_index"])
        start, step = (int(noted["known_init_step"][k]) for k in ("init", "step"))
        rounds = int(noted["known_trip_count"]["n"])
    except KeyError:
        return None
    return _LoopCounter(place, start, step, rounds) if rounds > 0 else None


def _offset(i: HloInstruction, counter: _LoopCounter | None) -> _LinearOffset | None:
    """Return a slice's byte offset within its array by iteration, or None if not linear."""
    whole = i.operands[0].array_shape
    part = i.array_shape if i.opcode is O.DYNAMIC_SLICE else i.operands[1].array_shape
    if whole.is_dynamic or whole.element_type.bits < 8 or not _is_one_piece(whole, part):
        return None
    offset, step = 0, 0
    strides = _byte_strides(whole)
    starts = i.operands[1:] if i.opcode is O.DYNAMIC_SLICE else i.operands[2:]
    for d, index in enumerate(starts):
        room = whole.dimensions[d] - part.dimensions[d]
        value = _LinearOffset(0) if room == 0 else _value(index, counter)
        if value is None:
            return None
        if not value.step:
            value = _LinearOffset(min(max(value.start, 0), room))
        elif not (0 <= value.start <= room and 0 <= value.last(counter) <= room):
            return None  # XLA clamps the start to the array, so it is not linear
        offset, step = offset + value.start * strides[d], step + value.step * strides[d]
    return _LinearOffset(offset, step)


def _is_one_piece(whole: ArrayShape, part: ArrayShape) -> bool:
    """Whether a slice of this shape is contiguous.

    From major to minor, sizes are 1, then at most one is partial, then all are whole.
    """
    order = list(reversed(whole.minor_to_major))
    sizes = [(part.dimensions[d], whole.dimensions[d]) for d in order]
    while sizes and sizes[0][0] == 1:
        sizes.pop(0)
    return all(size == full for size, full in sizes[1:])


def _byte_strides(shape: ArrayShape) -> dict[int, int]:
    strides: dict[int, int] = {}
    stride = shape.element_type.byte_size
    for d in shape.minor_to_major:
        strides[d], stride = stride, stride * shape.dimensions[d]
    return strides


def _value(i: HloInstruction, counter: _LoopCounter | None) -> _LinearOffset | None:
    """Return a scalar integer as a linear function of the iteration, or None."""
    if i.opcode is O.CONSTANT:
        if i.literal.is_elided or i.literal.array.size != 1 or not i.array_shape.element_type.is_integral:
            return None
        return _LinearOffset(int(i.literal.array.item()))
    if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0].opcode is O.PARAMETER:
        is_counter = counter is not None and i.tuple_index == counter.index
        return _LinearOffset(counter.start, counter.step) if is_counter and counter is not None else None
    if i.opcode in _SAME_VALUE:
        same = i.shape.is_array and i.array_shape.element_type.is_integral and i.operands[0].shape.is_array
        return _value(i.operands[0], counter) if same else None
    if i.opcode is O.SELECT:
        chosen = _truth(i.operands[0], counter)
        return None if chosen is None else _value(i.operands[1 if chosen else 2], counter)
    if i.opcode not in (O.ADD, O.SUBTRACT, O.MULTIPLY):
        return None
    a, b = (_value(o, counter) for o in i.operands)
    if a is None or b is None:
        return None
    if i.opcode is O.ADD:
        return _LinearOffset(a.start + b.start, a.step + b.step)
    if i.opcode is O.SUBTRACT:
        return _LinearOffset(a.start - b.start, a.step - b.step)
    if a.step and b.step:
        return None
    return _LinearOffset(a.start * b.start, a.start * b.step + a.step * b.start)


def _truth(i: HloInstruction, counter: _LoopCounter | None) -> bool | None:
    """Return a comparison's value if it is the same in all iterations, else None."""
    holds = _COMPARED.get(str(i.get("direction"))) if i.opcode is O.COMPARE else None
    if holds is None:
        return None
    a, b = (_value(o, counter) for o in i.operands)
    if a is None or b is None:
        return None
    first, last = holds(a.start, b.start), holds(a.last(counter), b.last(counter))
    return first if first is last else None


@reason("the offset is the same in each iteration, or grows by the same step")
def _annotate(i: HloInstruction, offset: _LinearOffset) -> None:
    loop = {"loop_index": "0"} if offset.step else {}
    config = {**loop, "byte_offset": str(offset.start), "byte_stride": str(offset.step)}
    i.parent.update(i, backend_config=changed(i, dynamic_slice_config=config))
