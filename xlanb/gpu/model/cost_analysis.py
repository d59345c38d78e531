"""XLA:GPU's counts for an instruction, from which times are estimated (gpu_hlo_cost_analysis.h).

They are operations in clock cycles, bytes of each operand and of the result, utilization of each
operand, and code duplication.

    costs = GpuCostAnalysis(device)
    costs.of(i).flops, .operand_bytes[0], .output_bytes

Within a fusion, an instruction counts as often as its users read its elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from math import prod
from typing import Final

import numpy as np

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.model.fusion_analysis import elements_in
from xlanb.gpu.model.op_profiles import DEFAULT_CYCLES, op_profile
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.transforms.layout.layout_normalization import is_bitcast_transpose

_MAX_IR_SIZE: Final = 10000
_POINTER: Final = 8
_CONCATENATED: Final = 6
_DIVERGENT_CONCATENATED: Final = 400
_NO_ARITHMETIC = frozenset((O.COPY, O.MAP, O.CONSTANT, O.RNG))
_FORWARDED = frozenset((O.PARAMETER, O.CONSTANT, O.GET_TUPLE_ELEMENT, O.DOMAIN))


@dataclass(slots=True)
class Properties:
    """The counts of one instruction.

    Attributes:
        flops: operations, in clock cycles.
        output_bytes: bytes written.
        operand_bytes: bytes read of each operand.
        utilization: how often each element of an operand is read on average.
        uses: how often the elements of an instruction within a fusion are computed.
        emitted: how often its code is emitted.
    """

    flops: float = 0.0
    output_bytes: float = 0.0
    operand_bytes: list[float] = field(default_factory=list)
    utilization: list[float] = field(default_factory=list)
    uses: float = 0.0
    emitted: float = 1.0


class GpuCostAnalysis:
    """Counts of instructions, cached until they are forgotten."""

    def __init__(self, device: GpuDevice) -> None:
        self._profile = op_profile(device)
        self._known: dict[HloInstruction, Properties] = {}
        self._reducers: dict[HloComputation, float] = {}
        self._roots: dict[HloInstruction, frozenset[HloInstruction]] = {}
        self._root_uses: dict[HloInstruction, float] = {}

    def of(self, i: HloInstruction) -> Properties:
        """Return the counts of an instruction."""
        found = self._known.get(i)
        if found is None:
            found = self._known[i] = self._count(i)
        return found

    def forget(self, i: HloInstruction) -> None:
        """Forget an instruction's counts, because it has changed."""
        self._known.pop(i, None)

    def cycles(self, opcode: O, shape: Shape) -> int:
        """Return the clock cycles for one element of an elementwise operation."""
        dtype = str(shape.element_type) if isinstance(shape, ArrayShape) else ""
        return self._profile.get((opcode, dtype), DEFAULT_CYCLES)

    def common_utilization(self, a: HloInstruction, b: HloInstruction) -> float:
        """Return how often two values of a fusion are read for the same element of their users."""
        shared = self._roots[a] & self._roots[b]
        return sum(self._root_uses[r] for r in shared)

    def uses_elementwise_from_root(self, fusion: HloInstruction, number: int) -> bool:
        """Whether a fusion reads a parameter once per result element, at the same index."""
        self.of(fusion)
        fused = fusion.fused_computation
        return self.common_utilization(fused.parameters[number], fused.root) == 1.0

    def merged_is_too_large(self, producer: HloInstruction, consumer: HloInstruction) -> bool:
        """Whether fusing would emit more code than can be compiled in reasonable time."""
        return self.merged_size(producer, consumer) > _MAX_IR_SIZE

    def merged_size(self, producer: HloInstruction, consumer: HloInstruction) -> int:
        """Return how many instructions the fusion of two would emit, duplicates included."""
        copies = 1
        size = self.of(consumer).emitted
        if consumer.opcode is O.FUSION:
            parameter = consumer.fused_computation.parameters[consumer.operands.index(producer)]
            copies = int(self.of(parameter).emitted)
        return int(self.of(producer).emitted * copies + size)

    # -- counts ------------------------------------------------------------------------------------

    def _count(self, i: HloInstruction) -> Properties:
        p = Properties(output_bytes=_leaf_bytes(i.shape))
        p.operand_bytes = [_bytes(o.shape) for o in i.operands]
        p.utilization = [1.0] * len(i.operands)
        if i.opcode is O.FUSION:
            return self._fusion(i, p)
        if i.opcode in _FORWARDED:
            p.output_bytes = 0.0
            p.operand_bytes = [0.0] * len(i.operands)
        elif i.opcode in _COUNTS:
            _COUNTS[i.opcode](self, i, p)
        elif (i.opcode not in _NO_ARITHMETIC and is_elementwise(i)) or i.opcode is O.BITCAST_CONVERT:
            p.flops = self.cycles(i.opcode, i.shape) * elements_in(i.shape)
        return p

    def applied(self, computation: HloComputation) -> float:
        """Return the operations of one application of a computation, such as a reducer."""
        found = self._reducers.get(computation)
        if found is None:
            found = self._reducers[computation] = sum(self._count(i).flops for i in computation)
        return found

    def _fusion(self, fusion: HloInstruction, p: Properties) -> Properties:
        fused = fusion.fused_computation
        for i in fused:
            self._known[i] = self._count(i)
        root = fused.root
        roots = root.operands if root.opcode is O.TUPLE else (root,)
        p.output_bytes = 0.0
        for r in roots:
            if r.opcode is O.DYNAMIC_UPDATE_SLICE:
                p.output_bytes += _bytes(r.operands[1].shape)
                self._known[r].utilization[0] = 0.0
            else:
                p.output_bytes += _leaf_bytes(r.shape)
        p.flops, p.emitted = self._propagate(fused)
        for n, parameter in enumerate(fused.parameters):
            p.operand_bytes[n] = self._read(parameter)
            p.utilization[n] = self._known[parameter].uses
        return p

    def _read(self, parameter: HloInstruction) -> float:
        """Return the bytes that a fusion reads of a parameter, for a tuple of its used elements."""
        if isinstance(parameter.shape, TupleShape):
            return sum(map(self._read, parameter.users))
        return float(_rounded(_bytes(parameter.shape) * self._known[parameter].uses))

    def _propagate(self, fused: HloComputation) -> tuple[float, float]:
        """Count how often each instruction of a fusion is used and emitted, from the root up.

        The roots of an instruction are those that it reaches through elementwise instructions only:
        for the same element of a root, it is computed once.

        Returns:
            The operations, and the emitted code.
        """
        order = fused.post_order()[::-1]
        roots: dict[HloInstruction, dict[HloInstruction, None]] = {i: {} for i in order}
        uses = dict.fromkeys(order, 0.0)
        sizes = dict.fromkeys(order, 0.0)
        uses[fused.root] = sizes[fused.root] = 1.0
        roots[fused.root][fused.root] = None
        flops = emitted = 0.0
        for i in order:
            p = self._known[i]
            p.uses = sum(uses[r] for r in roots[i])
            p.emitted = sum(sizes[r] for r in roots[i])
            flops += p.uses * p.flops
            emitted += p.emitted
            passes = _passes_elements_on(i)
            for n, o in enumerate(i.operands):
                if passes:
                    roots[o].update(roots[i])
                    continue
                roots[o][o] = None
                count = elements_in(o.shape)
                used = _single(_single(p.uses) * _single(p.utilization[n]))
                uses[o] += math.ceil(_single(used * _single(count))) / count if count else 0.0
                sizes[o] += p.emitted
        for i in order:
            self._roots[i] = frozenset(roots[i])
            self._root_uses[i] = uses[i]
        return flops, emitted


# -- by opcode -------------------------------------------------------------------------------------


def _bitcast(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.output_bytes = 0.0
    p.operand_bytes = [0.0] * len(i.operands)


def _transpose(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    if is_bitcast_transpose(i):
        _bitcast(costs, i, p)


def _tuple(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.output_bytes = _bytes(i.shape)
    p.operand_bytes = [0.0] * len(i.operands)


def _broadcast(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.operand_bytes[0] = _bytes(i.shape)
    p.utilization[0] = _ratio(elements_in(i.shape), elements_in(i.operands[0].shape))


def _slice(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.operand_bytes[0] = _bytes(i.shape)
    p.utilization[0] = _ratio(elements_in(i.shape), elements_in(i.operands[0].shape))


def _update(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    update, whole = i.operands[1].shape, elements_in(i.shape)
    p.output_bytes = p.operand_bytes[1] = _bytes(update)
    p.operand_bytes[0] = 0.0
    p.utilization[0] = _ratio(whole - elements_in(update), whole)


def _gather(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.operand_bytes[0] = _bytes(i.shape)
    p.utilization[0] = _ratio(elements_in(i.shape), elements_in(i.operands[0].shape))


def _scatter(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    count = len(i.operands) // 2
    for n in range(count):
        p.operand_bytes[n] = p.operand_bytes[count + 1 + n]
    p.output_bytes = sum(p.operand_bytes[:count])
    p.flops = costs.applied(i.to_apply) * elements_in(i.operands[count + 1].shape)


def _concatenate(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.flops = concatenate_cycles(i) * elements_in(i.shape)


def _map(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    p.flops = costs.applied(i.to_apply) * elements_in(i.shape)


def _reduce(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    count = len(i.operands) // 2
    made = elements_in(_first(i.shape))
    p.flops = costs.applied(i.to_apply) * (elements_in(i.operands[0].shape) - made)
    for n in range(count, len(i.operands)):
        p.operand_bytes[n] *= made
        p.utilization[n] = float(made)


def _reduce_window(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    sizes = [d.size for d in i.window.dimensions]
    made = elements_in(_first(i.shape))
    window = prod(sizes)
    applied = (window - 1) * made
    dimension = _cumulative_dimension(i)
    if dimension is not None:
        window = i.array_shape.dimensions[dimension]
        applied = made // window + window - 1
    given = i.operands[0].array_shape
    p.utilization[0] = _ratio(made * window, given.element_count)
    p.operand_bytes[0] = float(made * window * given.element_type.byte_size)
    p.flops = costs.applied(i.to_apply) * applied


def _sort(costs: GpuCostAnalysis, i: HloInstruction, p: Properties) -> None:
    count = elements_in(i.operands[0].shape)
    p.flops = count * max(count - 1, 0).bit_length()


def concatenate_cycles(i: HloInstruction) -> int:
    """Return the cycles per element of a concatenation; many if warps diverge."""
    dimension = i.dimensions[0]
    unaligned = dimension > 0 and i.operands[0].array_shape.dimensions[dimension] & 31
    return _DIVERGENT_CONCATENATED if unaligned else _CONCATENATED


_COUNTS: Final[Mapping[O, Callable[[GpuCostAnalysis, HloInstruction, Properties], None]]] = {
    O.BITCAST: _bitcast,
    O.TRANSPOSE: _transpose,
    O.TUPLE: _tuple,
    O.BROADCAST: _broadcast,
    O.SLICE: _slice,
    O.DYNAMIC_SLICE: _slice,
    O.DYNAMIC_UPDATE_SLICE: _update,
    O.GATHER: _gather,
    O.SCATTER: _scatter,
    O.CONCATENATE: _concatenate,
    O.MAP: _map,
    O.REDUCE: _reduce,
    O.REDUCE_WINDOW: _reduce_window,
    O.SORT: _sort,
}


def _cumulative_dimension(i: HloInstruction) -> int | None:
    """Return the dimension along which a reduce-window is cumulative, or None."""
    windows = i.window.dimensions
    sized = [d for d in windows if d.size != 1]
    padded = [d for d in windows if d.padding_low or d.padding_high]
    if len(sized) != 1 or len(padded) != 1 or not isinstance(i.shape, ArrayShape):
        return None
    for n, d in enumerate(windows):
        if d.size != 1 and d.padding_low and d.padding_low == d.padding_high and d.size == 2 * d.padding_low + 1:
            return n if d.padding_low == i.shape.dimensions[n] - 1 else None
    return None


def _passes_elements_on(i: HloInstruction) -> bool:
    """Whether element n of the result needs element n of the operands only."""
    if i.opcode in (O.TUPLE, O.GET_TUPLE_ELEMENT):
        return True
    if i.opcode is O.BITCAST:
        given, made = i.operands[0].shape, i.shape
        if not isinstance(given, ArrayShape) or not isinstance(made, ArrayShape):
            return False
        return given.with_type(made.element_type) == made
    return is_elementwise(i)


def _first(shape: Shape) -> Shape:
    return shape.shapes[0] if isinstance(shape, TupleShape) else shape


def _bytes(shape: Shape) -> float:
    """Return the bytes of an array, or of a tuple's pointer table."""
    return float(_POINTER * len(shape.shapes)) if isinstance(shape, TupleShape) else float(shape.byte_size)


def _leaf_bytes(shape: Shape) -> float:
    return float(sum(s.byte_size for _, s in shape.leaves()))


def _ratio(a: int, b: int) -> float:
    return a / b if b else 0.0


def _rounded(number: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(number + 0.5) if number >= 0 else -math.floor(0.5 - number)


def _single(number: float) -> float:
    """Round to single precision, in which counts are rounded up to whole elements."""
    return float(np.float32(number))
