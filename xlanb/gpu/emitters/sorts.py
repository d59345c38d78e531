"""Bitonic sorts along a dimension: in shared memory within a tile, in global memory beyond it.

All comparators put the lesser element first: the first step of each stage compares an element with
its mirror image in a block of 2^k, the others with the one 2^j further. A row then needs no padding
to a power of two: a partner beyond its end counts as the greatest, and stays in place. Each element
carries its initial position, which breaks ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.codegen.elemental import Leaf, array_of
from xlanb.codegen.elements import Element, load, real, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.lanes import split
from xlanb.codegen.types import I32
from xlanb.codegen.values import Value
from xlanb.gpu.emitters.kernel import GpuKernelFunction, Lowering
from xlanb.gpu.emitters.updates import put_in_place
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType

_MOST_TILE = 2048
"""The most elements of a row that one block sorts: two per thread."""
_TILE_BYTES = 48 << 10
_THREADS = 128


@dataclass(frozen=True)
class _SortStep:
    """A step of the network.

    It compares elements whose positions differ by `mask`; `distance` is the highest bit of that.
    """

    mask: int

    @property
    def distance(self) -> int:
        """The power of two below which positions are in the same half."""
        return self.mask.bit_length() - 1


def steps(length: int) -> list[_SortStep]:
    """Return the steps of the network for a row of this length."""
    stages = max(length - 1, 0).bit_length()
    return [
        _SortStep(2 ** (stage + 1) - 1 if step == stage else 2**step)
        for stage in range(stages)
        for step in range(stage, -1, -1)
    ]


def scratch_bytes(i: HloInstruction) -> int:
    """Return the bytes for the initial positions of a sort's elements, 0 if it carries none."""
    return 4 * array_of(i.operands[0]).element_count if carries_places(i) else 0


def carries_places(i: HloInstruction) -> bool:
    """Whether the sort carries initial positions, because equal elements may be distinguishable.

    They then keep their order even if the sort need not be stable, so that results are
    reproducible.
    """
    root = i.to_apply.root
    if len(i.operands) > 1 or root.opcode is not Op.COMPARE or set(root.operands) != set(i.to_apply.parameters):
        return True
    t = array_of(i.operands[0]).element_type
    return not (t.is_integral or root.get("type") == "TOTALORDER")


def emit_sort(lowering: Lowering) -> None:
    """Copy the operands to the results, then sort those in place."""
    sort = _Sort(lowering)
    for operand, leaf in zip(lowering.root.operands, sort.leaves, strict=True):
        if array_of(operand).element_count:
            put_in_place(lowering, operand, leaf)
    if not sort.shape.element_count or sort.length < 2:
        return
    left = steps(sort.length)
    first = True
    while left:
        near = [n for n, s in enumerate(left) if s.mask >= sort.tile]
        count = near[0] if near else len(left)
        if count:
            sort.emit_tiles(left[:count], first=first)
        else:
            count = 1
            sort.emit_step(left[0], first=first)
        first, left = False, left[count:]


class _Sort:
    """A sort being written."""

    def __init__(self, lowering: Lowering) -> None:
        i = self.instruction = lowering.root
        self.lowering = lowering
        (self.dimension,) = i.dimensions
        self.leaves: list[Leaf] = [(n,) for n in range(len(i.operands))] if i.shape.is_tuple else [()]
        self.types = [array_of(o).element_type for o in i.operands]
        self.shape: ArrayShape = array_of(i, self.leaves[0])
        self.length = self.shape.dimensions[self.dimension]
        self.others = [n for d, n in enumerate(self.shape.dimensions) if d != self.dimension]
        self.lines = math.prod(self.others)
        self.is_stable = carries_places(i)
        each = sum(max(1, t.byte_size) for t in self.types) + 4 * self.is_stable
        tile = 64
        while tile < min(self.length, _MOST_TILE) and 2 * tile * each <= _TILE_BYTES:
            tile *= 2
        self.tile = tile

    def _index(self, k: GpuKernelFunction, leaf: Leaf, line: Ix, at: Ix) -> Index:
        """Return the index of element `at` of a row of a result."""
        multi = split(k.f, line, self.others) if self.others else []
        multi.insert(self.dimension, at)
        return Index(array_of(self.lowering.instruction, leaf), multi)

    def _positions(self, k: GpuKernelFunction) -> Value:
        """Return the array of initial positions of a stable sort's elements."""
        scratch = self.lowering.scratch()
        if scratch is None:
            raise AssertionError("the stable sort has no scratch memory")
        return k.pointer(scratch, written=True)

    def _is_before(self, k: GpuKernelFunction, a: Sequence[Element], b: Sequence[Element]) -> Value:
        given = [v for pair in zip(a, b, strict=True) for v in pair]
        return real(k.e.apply(self.instruction.to_apply, given)[0])

    def _swaps(
        self, k: GpuKernelFunction, a: Sequence[Element], b: Sequence[Element], at: tuple[Value, Value] | None
    ) -> Value:
        """Return an i1: whether b, which comes later, must be ordered before a."""
        swaps = self._is_before(k, b, a)
        if at is None:
            return swaps
        return swaps | (~self._is_before(k, a, b) & (at[1] < at[0]))

    # -- in global memory --------------------------------------------------------------------------

    def emit_step(self, step: _SortStep, *, first: bool) -> None:
        """Write one step over whole rows."""
        pairs = 1 << max((self.length - 1).bit_length() - 1, 0)
        total = pairs * self.lines
        with self.lowering.kernel(-(-total // _THREADS), _THREADS, "step") as k:

            def compare(q: Ix) -> None:
                line, pair = k.f.div(q, pairs), k.f.rem(q, pairs)
                low, high = _partners(k, pair, step)
                with k.f.when(k.f.within(high, 0, self.length)):
                    self._exchange(k, line, low, high, first=first)

            k.each(total, compare)

    def _exchange(self, k: GpuKernelFunction, line: Ix, low: Ix, high: Ix, *, first: bool) -> None:
        f = k.f
        arrays = [k.output(leaf) for leaf in self.leaves]
        indices = [[self._index(k, leaf, line, at) for leaf in self.leaves] for at in (low, high)]
        a, b = ([array.load(x) for array, x in zip(arrays, row, strict=True)] for row in indices)
        at = None
        if self.is_stable:
            base = self._positions(k)
            where = [f.add(f.mul(line, self.length), v) for v in (low, high)]
            known = (
                [f.value(v).trunc(I32) for v in (low, high)]
                if first
                else [real(load(PrimitiveType.S32, base, w)) for w in where]
            )
            at = (known[0], known[1])
        swaps = self._swaps(k, a, b, at)
        if self.is_stable and at is not None:
            for w, mine, other in zip(where, at, reversed(at), strict=True):
                store(PrimitiveType.S32, base, w, swaps.select(other, mine))
        with f.when(swaps):
            _store_all(arrays, indices[0], b)
            _store_all(arrays, indices[1], a)

    # -- in shared memory --------------------------------------------------------------------------

    def emit_tiles(self, steps_: Sequence[_SortStep], *, first: bool) -> None:
        """Write steps within tiles: each block loads a tile, does all steps, and stores it."""
        tiles = -(-self.length // self.tile)
        threads = max(32, self.tile // 2)
        with self.lowering.kernel(self.lines * tiles, threads, "tile") as k:
            f, tile = k.f, self.tile
            line, number = f.div(k.block, tiles), f.rem(k.block, tiles)
            begin = f.mul(number, tile)
            shared = [k.shared_array(t, tile) for t in self.types]
            places = k.shared(I32, tile) if self.is_stable else None
            arrays = [k.output(leaf) for leaf in self.leaves]
            for half in range(2):
                own = f.add(k.thread, half * threads)
                at = f.add(begin, own)
                with k.below(at, self.length, tiles * tile) if tile > 32 else k.below(own, min(tile, self.length), 64):
                    for array, memory, leaf, t in zip(arrays, shared, self.leaves, self.types, strict=True):
                        store(t, memory, own, array.load(self._index(k, leaf, line, at)))
                    if places is not None:
                        known = (
                            f.value(at).trunc(I32)
                            if first
                            else real(load(PrimitiveType.S32, self._positions(k), f.add(f.mul(line, self.length), at)))
                        )
                        store(PrimitiveType.S32, places, own, known)
            k.barrier()
            for step in steps_:
                low, high = _partners(k, k.thread, step)
                with f.when(f.within(f.add(begin, high), 0, self.length)):
                    self._exchange_shared(k, shared, places, low, high)
                k.barrier()
            for half in range(2):
                own = f.add(k.thread, half * threads)
                at = f.add(begin, own)
                with k.below(at, self.length, tiles * tile):
                    for array, memory, leaf, t in zip(arrays, shared, self.leaves, self.types, strict=True):
                        array.store(self._index(k, leaf, line, at), load(t, memory, own))
                    if places is not None and tiles > 1:
                        store(
                            PrimitiveType.S32,
                            self._positions(k),
                            f.add(f.mul(line, self.length), at),
                            load(PrimitiveType.S32, places, own),
                        )

    def _exchange_shared(
        self, k: GpuKernelFunction, shared: Sequence[Value], places: Value | None, low: Ix, high: Ix
    ) -> None:
        a, b = ([load(t, memory, at) for t, memory in zip(self.types, shared, strict=True)] for at in (low, high))
        at = None
        if places is not None:
            at = (real(load(PrimitiveType.S32, places, low)), real(load(PrimitiveType.S32, places, high)))
        with k.f.when(self._swaps(k, a, b, at)):
            for t, memory, x, y in zip(self.types, shared, a, b, strict=True):
                store(t, memory, low, y)
                store(t, memory, high, x)
            if places is not None and at is not None:
                store(PrimitiveType.S32, places, low, at[1])
                store(PrimitiveType.S32, places, high, at[0])


def _partners(k: GpuKernelFunction, pair: Ix, step: _SortStep) -> tuple[Ix, Ix]:
    """Return the two positions that a step compares, the lesser first."""
    f, distance = k.f, step.distance
    wide = f.value(pair)
    low = ((wide.lshr(distance)) << (distance + 1)) | (wide & (2**distance - 1))
    return low, low ^ step.mask


def _store_all(arrays: Sequence[IrArray], indices: Sequence[Index], values: Sequence[Element]) -> None:
    for array, index, value in zip(arrays, indices, values, strict=True):
        array.store(index, value)
