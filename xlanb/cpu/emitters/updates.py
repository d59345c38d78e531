"""Kernels that update arrays: dynamic-update-slice, scatter, scan.

Each first copies its operand into the result, unless they share memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xlanb.codegen.elemental import Leaf, array_of, flat, pack
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, flatten, order, strides
from xlanb.codegen.movement import starts
from xlanb.codegen.nest import nested
from xlanb.codegen.parallel import parallel
from xlanb.codegen.scatter import Scatter
from xlanb.codegen.views import along
from xlanb.cpu.emitters.kernel import HAS_KERNEL, Kernel, emitter
from xlanb.cpu.emitters.loops import emit_loops
from xlanb.cpu.emitters.rows import unshaped
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType
_WIDE_GAP = 16
"""The least number of values between two elements for which the elements are stored one by one."""


def _copy_in(k: Kernel, operand: HloInstruction, leaf: Leaf) -> None:
    """Copy the operand into the result at a leaf."""
    source = k.e.bindings.get(operand, {}).get(())
    output = k.outputs[leaf]
    if not (isinstance(source, IrArray) and source.pointer == output.pointer):
        emit_loops(k.e, [(operand, (), output)])


@emitter(Op.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(k: Kernel) -> bool:
    operand, update = k.root.operands[:2]
    e, f = k.e, k.f
    source, piece = array_of(operand), array_of(update)
    _copy_in(k, operand, ())
    if piece.element_count == 0:
        return True
    room = [n - m for n, m in zip(source.dimensions, piece.dimensions, strict=True)]
    *outside, fast = order(piece)[::-1] or (0,)
    width = piece.dimensions[fast] if piece.rank else 1
    ready = f.ready

    def put(multi: Sequence[Ix]) -> None:
        begin = starts(e, k.root.operands[2:], room)  # here: threads may share the loop around
        value = e.element(update, Index(piece, multi))
        k.output.store(Index(source, [f.add(b, v) for b, v in zip(begin, multi, strict=True)]), value)

    with nested(f, [piece.dimensions[d] for d in outside], 0.3 * width) as outer:
        at = dict(zip(outside, outer, strict=True))
        vectors = along(f, width, (source.element_type,), lambda q: put(_multi(piece, {**at, fast: q})))
    f.ready = ready and vectors
    return True


def _multi(shape: ArrayShape, at: Mapping[int, Ix]) -> list[Ix]:
    """An index for all dimensions of a shape: 0 for those not in `at`."""
    return [at.get(d, 0) for d in range(shape.rank)]


@emitter(Op.PAD)
def _pad_between(k: Kernel) -> bool:
    """Wide gaps along the fastest dimension: fill with the value, then store the elements.

    Returns False for other paddings, which are loops over the result.
    """
    operand, value = k.root.operands
    e, f, source, result = k.e, k.f, array_of(operand), k.output.shape
    slowest = order(source)[::-1]
    padding = k.root.get("padding")
    spread = (
        bool(slowest)
        and padding[slowest[-1]].interior >= _WIDE_GAP
        and all(p.low >= 0 and p.high >= 0 for p in padding)
    )
    if not spread or not f.target.explicit_vectors or not 0 < source.element_count < result.element_count:
        return False
    f.ready = fill(k, value)
    with nested(f, [source.dimensions[d] for d in slowest], 0.3 + 0.05 * result.element_type.byte_size) as at:
        multi = _multi(source, dict(zip(slowest, at, strict=True)))
        place = [f.add(f.mul(v, p.interior + 1), p.low) for v, p in zip(multi, padding, strict=True)]
        k.output.store(Index(result, place), e.element(operand, Index(source, multi)))
    return True


@emitter(Op.SCATTER)
def _scatter(k: Kernel) -> bool:
    """Combine update after update into the result; windows that do not fit are skipped whole."""
    made = _ScatterEmitter(k)
    for operand, leaf in zip(made.operands, made.leaves, strict=True):
        _copy_in(k, operand, leaf)
    if made.update.element_count:
        made.emit()
    return True


class _ScatterEmitter(Scatter):
    """Emits a scatter's updates, window by window, vectorized along their fastest dimensions."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k.root)
        self.k, self.e, self.f = k, k.e, k.f
        self.order = [d for d in reversed(self.source.minor_to_major) if self.sizes.get(d, 1) != 1]
        self.run = self._run()
        """How many of the fastest dimensions are one run of elements in all arrays."""
        self.width = math.prod(self.sizes[d] for d in self.order[len(self.order) - self.run :])

    def _run(self) -> int:
        bound, order = self.e.bindings, self.order
        alike = all(array_of(o).minor_to_major == self.source.minor_to_major for o in self.operands)
        alike &= all(array_of(u).minor_to_major == self.update.minor_to_major for u in self.updates)
        if not alike or any(unshaped(u, bound) not in bound for u in self.updates):
            return 1
        steps, update_steps, size, run = strides(self.source), strides(self.update), 1, 0
        for d in reversed(order):
            if steps[d] != size or update_steps[self.update_dim[d]] != size:
                break
            size, run = size * self.sizes[d], run + 1
        return max(run, 1)

    def emit(self) -> None:
        """Emit updates in order; each thread may take a slice of all windows.

        That requires all windows to begin at the same position along the sliced dimension; windows
        that begin anywhere may overlap.
        """
        f, ready = self.f, self.f.ready
        slowest = self.order[-self.run] if self.order else 0
        to_operand = self.instruction.ints("scatter_dims_to_operand_dims")
        at_zero = slowest not in to_operand or self.sizes.get(slowest, 1) == self.source.dimensions[slowest]
        blocks = self._blocks() if at_zero else 1
        cost = self.update.element_count / blocks * f.target.costs.updated_element_ns
        with parallel(f, blocks, nanoseconds=cost) as block:
            part = f.mul(block, self.width // blocks), self.width // blocks
            with nested(f, [self.update.dimensions[d] for d in self.scatter_dims], 0.0) as batch:
                vectors = self._window(batch, part)
        f.ready = ready and vectors and bool(self.order)

    def _blocks(self) -> int:
        """Slices of a window's fastest dimensions, one per thread; 1 if they are not divided.

        Threads that take turns at short pieces of memory read all of it, and gain only if it is
        beyond their caches.
        """
        blocks, bits = self.f.target.threads, [max(8, t.bits) for t in self.types]
        size, piece = (n * max(bits) // 8 for n in (self.update.element_count, self.width // blocks))
        vectors = blocks * self.f.target.vector_bits // min(bits)
        c = self.f.target.costs
        pays = piece >= c.update_piece_bytes and size >= c.shared_update_bytes
        return blocks if pays and self.width % vectors == 0 else 1

    def _window(self, batch: list[Ix], part: tuple[Ix, int]) -> bool:
        """Emit the window of a batch index, if it fits; return whether it is vectorized.

        `part` is the first element and the element count of a row.
        """
        f, (first, count) = self.f, part
        where, inside = self.begin(self.e, batch)
        if inside.number == 0:
            return True
        at = dict(zip(self.scatter_dims, batch, strict=True))
        with f.when(inside) if inside.number is None else f.aside():
            if not self.order:
                self._element(at, where, {})
                return True
            slow = self.order[: len(self.order) - self.run]
            with nested(f, [self.sizes[d] for d in slow], 0.0) as outer:
                shift = dict(zip(slow, outer, strict=True))
                if self.run == 1:
                    fast = self.order[-1]
                    return along(
                        f, count, self.types, lambda q: self._element(at, where, {**shift, fast: f.add(first, q)})
                    )
                return along(f, count, self.types, lambda q: self._element(at, where, shift, f.add(first, q)))

    def _element(self, at: dict[int, Ix], where: dict[int, Ix], shift: dict[int, Ix], q: Ix | None = None) -> None:
        """Combine an element of the updates, or the one `q` elements after it, into the result."""
        f, outputs, source, update = self.f, self.k.outputs, self.source, self.update
        place = Index(source, [f.add(where.get(d, 0), shift.get(d, 0)) for d in range(source.rank)])
        inner = {self.update_dim[d]: v for d, v in shift.items()}
        spot = Index(update, _multi(update, {**inner, **at}))
        if q is not None:
            place = Index(source, flat=f.add(flatten(f, place.multi(f), source), q))
            spot = Index(update, flat=f.add(flatten(f, spot.multi(f), update), q))
        places = [(outputs[leaf], _of(place, array_of(o))) for leaf, o in zip(self.leaves, self.operands, strict=True)]
        old = [array.load(index) for array, index in places]
        new = [self.e.element(u, _of(spot, array_of(u))) for u in self.updates]
        made = self.e.apply(self.instruction.to_apply, [*old, *new])
        for (array, index), value in zip(places, made, strict=True):
            array.store(index, value)


def _of(index: Index, shape: ArrayShape) -> Index:
    """The same index in another shape of the same dimensions, and layout if it is an offset."""
    return Index(shape, flat=index.flat) if index.flat is not None else Index(shape, index.names)


def fill(k: Kernel, value: HloInstruction) -> bool:
    """Set every element of the result to a scalar; return whether that is vectorized."""
    f, shape = k.f, k.output.shape
    cost = f.target.costs.byte_ns * shape.element_type.byte_size

    def put(q: Ix) -> None:
        k.output.store(Index(shape, flat=q), k.e.scalar(value))

    return along(f, shape.element_count, (shape.element_type,), put, nanoseconds=cost)


def _is_by_element(i: HloInstruction) -> bool:
    """Whether a scan's computation is elementwise on slices of one shape."""
    target = i.to_apply
    simple = (Op.PARAMETER, Op.TUPLE, Op.CONSTANT)
    shapes = (s for j in target for _, s in j.shape.leaves())
    slices = {s.as_array().dimensions for s in shapes if s.as_array().dimensions}
    return len(slices) < 2 and all(j.opcode.is_elementwise or j.opcode in simple for j in target)


HAS_KERNEL[Op.SCAN] = _is_by_element


@emitter(Op.SCAN)
def _scan(k: Kernel) -> bool:
    """A scan along a dimension, separately for each element; the computation must be elementwise.

    The computation takes a slice of each input and the carries, and returns a slice of each output
    and the carries.
    """
    i, e, f = k.root, k.e, k.f
    carries = i.get("num_carries") or 0
    count = len(i.operands) - carries
    inputs, initial = i.operands[:count], i.operands[count:]
    (axis,) = i.dimensions
    source = array_of(inputs[0])
    leaves = [leaf for leaf, _ in i.shape.leaves()]
    outputs = leaves[: len(leaves) - carries]
    types = [array_of(o).element_type for o in initial]
    length = source.dimensions[axis]
    rest = [d for d in range(source.rank) if d != axis]
    around = [d for d in order(source)[::-1] if d != axis]
    if not all(source.dimensions[d] for d in rest):
        return True
    with nested(f, [source.dimensions[d] for d in around], 0.0) as outer:
        at = _multi(source, dict(zip(around, outer, strict=True)))
        slice_index = [at[d] for d in rest]
        first = [e.element(o, Index(array_of(o), slice_index if array_of(o).rank else ())) for o in initial]
        last = first
        if length:
            with f.carried(length, flat(first)) as loop:
                at[axis] = f.sub(length - 1, loop.index) if i.get("is_reverse") else loop.index
                rows = [e.element(o, Index(array_of(o), at)) for o in inputs]
                made = e.apply(i.to_apply, [*rows, *pack(types, loop.values)], index=slice_index)
                for leaf, value in zip(outputs, made, strict=False):
                    k.outputs[leaf].store(Index(k.outputs[leaf].shape, at), value)
                loop.next = flat(made[len(outputs) :])
            last = pack(types, loop.values)
        for leaf, value in zip(leaves[len(outputs) :], last, strict=True):
            shape = k.outputs[leaf].shape
            k.outputs[leaf].store(Index(shape, slice_index if shape.rank else ()), value)
    return True
