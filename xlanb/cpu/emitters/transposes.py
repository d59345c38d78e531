"""Transposes and layout-changing copies: square tiles, transposed in registers.

Tiles are read and written by whole vectors. A kernel whose result is an operand in another layout
is just a copy (see copies). A loop fusion that reads a transposed operand gets it tile by tile,
copied to a buffer that stays in the L1 cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.codegen import costs, views
from xlanb.codegen.elemental import Binding, Elemental, array_of
from xlanb.codegen.elements import Element, array, load, memory
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, order, same_order, strides
from xlanb.codegen.lanes import split
from xlanb.codegen.parallel import parallel
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import Copy, emit_copy, is_transposing
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.cpu.emitters.rows import unshaped
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel


@dataclass(frozen=True)
class Permuted:
    """The array in memory of `instruction`, read as a transpose with this permutation."""

    instruction: HloInstruction
    array: IrArray
    permutation: tuple[int, ...]

    @staticmethod
    def of(e: Elemental, i: HloInstruction, permutation: tuple[int, ...], view: _View | None = None) -> Permuted | None:
        """The array that an instruction is a transpose, copy or bitcast of; None if it is computed.

        The instruction itself is read with a permutation; with a view, in its shape.
        """
        while view is None and i not in e.bindings and i.opcode in (Op.TRANSPOSE, Op.COPY) and not i.shape.is_tuple:
            if i.opcode is Op.TRANSPOSE:
                permutation = _through(i, permutation)
            i = i.operands[0]
        held = unshaped(i, e.bindings)
        source = e.bindings[held].get(()) if held in e.bindings and not i.shape.is_tuple else None
        if not isinstance(source, IrArray):
            return None
        if held is i and view is None:
            return Permuted(held, source, permutation)
        shape = array_of(i) if view is None else view.shape.with_type(array_of(i).element_type)
        return Permuted(held, IrArray(source.pointer, shape), permutation)

    @property
    def strides(self) -> list[int]:
        """Element strides in memory, by dimension of the transpose."""
        return [strides(self.array.shape)[d] for d in self.permutation]

    @property
    def along(self) -> int:
        """The contiguous dimension: of those with stride 1, the largest."""
        sizes = (self.array.shape.dimensions[d] for d in self.permutation)
        return max((n, d) for d, (n, step) in enumerate(zip(sizes, self.strides, strict=True)) if step == 1)[1]

    def copy(self, target: ArrayShape) -> Copy:
        """The copy that writes `target` from it."""
        steps = zip(target.dimensions, self.strides, strides(target), strict=True)
        t = target.element_type
        return Copy(tuple(ContractionAxis(size, a, 0, c) for size, a, c in steps), t, t)


@dataclass(frozen=True)
class _View:
    """Arrays in the order of `array`, read in another `shape` of the same memory: a bitcast's."""

    array: ArrayShape
    shape: ArrayShape


_Visit = tuple[HloInstruction, tuple[int, ...], _View | None]


def _through(i: HloInstruction, permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation with which the operand of a transpose is read, for that of the transpose."""
    return tuple(i.dimensions[d] for d in permutation)


def emit_transposed(k: Kernel) -> bool:
    """Emit a kernel that transposes an operand, or whose loop reads a transposed one.

    Returns False for other kernels.
    """
    if len(k.outputs) != 1 or k.root.shape.is_tuple or k.output.shape.element_count < costs.COMMON.tiled_elements:
        return False
    inner = unshaped(k.root, k.e.bindings)
    if inner is not k.root:
        k = replace(k, root=inner, outputs={(): IrArray(k.output.pointer, array_of(inner))})
    found = Permuted.of(k.e, k.root, tuple(range(k.output.shape.rank)))
    if found is None:
        return _emit_fused(k)
    copy = found.copy(k.output.shape)
    if not is_transposing(copy):
        return False
    k.f.decided("transpose", "squares transposed in registers", "source and result are contiguous along different axes")
    emit_copy(k.f, copy, found.array.pointer, k.output.pointer)
    k.f.ready = k.f.calls_only = True
    return True


# -- loops that read an operand transposed ---------------------------------------------------------


def _emit_fused(k: Kernel) -> bool:
    """Emit an elementwise loop with transposed operands, tile by tile; False for other loops."""
    e, f, shape = k.e, k.f, k.output.shape
    if not f.target.explicit_vectors:
        return False
    found = _transposed_operands(e, k.root, shape)
    if not found:
        return False
    *outer, fast = order(shape)[::-1]
    j, *more = {source.along for source in found.values()}
    sizes = (shape.dimensions[fast], shape.dimensions[j])
    if more or min(sizes) < 8:
        return False
    outer.remove(j)
    outside = [shape.dimensions[d] for d in outer]
    side = costs.COMMON.tile_elements
    ready = True
    # Whole tiles share a loop; those at the edges, of other sizes, have loops of their own.
    for row, rows, high in _edges(sizes[1], side):
        for column, columns, wide in _edges(sizes[0], side):
            cost = high * wide * (0.15 + 0.1 * len(found))
            with parallel(f, math.prod(outside) * rows * columns, nanoseconds=cost) as q:
                *around, r, c = split(f, q, [*outside, rows, columns])
                at: dict[int, Ix] = dict(zip(outer, around, strict=True))
                at[fast] = f.add(f.mul(c, side), column)
                at[j] = f.add(f.mul(r, side), row)
                ready &= _tile(k, found, at, fast, j, (wide, high))
    f.ready = ready
    return True


def _edges(size: int, side: int) -> list[tuple[int, int, int]]:
    """(first element, count, size) of whole tiles along a dimension, and of the remainder."""
    whole, rest = divmod(size, side)
    out = [(0, whole, side)] if whole else []
    return [*out, (whole * side, 1, rest)] if rest else out


def _transposed_operands(
    e: Elemental, root: HloInstruction, shape: ArrayShape
) -> dict[HloInstruction, Permuted] | None:
    """The transposed arrays in memory that an otherwise elementwise loop reads.

    Maps the transposes and copies among the instructions, and arrays that are read through one;
    None if it is not such a loop.
    """
    out: dict[HloInstruction, Permuted] = {}
    straight: set[HloInstruction] = set()
    first: _Visit = root, tuple(range(shape.rank)), None
    seen, stack = {first}, [first]

    def visit(i: HloInstruction, permutation: tuple[int, ...], view: _View | None) -> None:
        if (i, permutation, view) not in seen:
            seen.add((i, permutation, view))
            stack.append((i, permutation, view))

    while stack:
        i, permutation, view = stack.pop()
        if i.shape.is_tuple:
            return None
        own = array_of(i)
        if i.opcode is Op.BROADCAST and i.operands[0] in e.bindings:
            straight.add(i.operands[0])
            continue
        if i.opcode is Op.CONSTANT or (not own.dimensions and i in e.bindings):
            continue
        if not own.dimensions:
            if not i.opcode.is_elementwise:  # a reduction may read an array that is not in the tile
                return None
            for o in i.operands:
                visit(o, (), None)
            continue
        if view is not None:
            if not same_order(own, view.array):
                return None
            own = view.shape
        if own.rank != shape.rank or tuple(own.dimensions[d] for d in permutation) != shape.dimensions:
            return None
        source = Permuted.of(e, i, permutation, view)
        if source is not None:
            if is_transposing(source.copy(shape)):
                if out.setdefault(i, source) != source:
                    return None
            else:
                straight.add(i)
                while i is not source.instruction:  # none of those in between may be in the tile either
                    i = i.operands[0]
                    straight.add(i)
            continue
        if i in e.bindings:
            return None
        inner = unshaped(i, e.bindings)
        if inner is not i:
            visit(inner, permutation, _View(array_of(inner), own))
            continue
        scalar = i.opcode is Op.BROADCAST and not array_of(i.operands[0]).dimensions
        moves = i.opcode in (Op.COPY, Op.TRANSPOSE)
        if not (scalar or i.opcode.is_elementwise or (moves and view is None)):
            return None
        for o in i.operands:
            if not array_of(o).dimensions:
                visit(o, (), None)
            else:
                visit(o, _through(i, permutation) if i.opcode is Op.TRANSPOSE else permutation, view)
    # an operand that is also read untransposed cannot be in the tile
    return None if straight & out.keys() else out


def _tile(
    k: Kernel, found: Mapping[HloInstruction, Permuted], at: dict[int, Ix], fast: int, j: int, sizes: tuple[int, int]
) -> bool:
    """Emit one tile of sizes[0] elements along `fast` by sizes[1] along `j`, starting at `at`.

    Returns whether it is vectorized.
    """
    e, f, shape = k.e, k.f, k.output.shape
    columns, rows = sizes
    buffers: dict[HloInstruction, Value] = {}
    for i, source in found.items():
        t, step = source.array.shape.element_type, source.strides
        buffers[i] = f.alloca(memory(t), columns * rows * (2 if t.is_complex else 1))
        begin: Ix = 0
        for d, v in at.items():
            begin = f.add(begin, f.mul(v, step[d]))
        copy = Copy((ContractionAxis(rows, step[j], 0, columns), ContractionAxis(columns, step[fast], 0, 1)), t, t)
        emit_copy(f, copy, array(t, source.array.pointer).address(begin), buffers[i])
    with f.loop(rows) as r:

        def one(q: Ix) -> None:
            def read(i: HloInstruction) -> Binding:
                t = array_of(i).element_type

                def element(_: Index) -> Element:
                    return load(t, buffers[i], f.add(f.mul(r, columns), q))

                return {(): element}

            inner = Elemental(f, {**e.bindings, **{i: read(i) for i in found}}, e.constants, floor=len(f.regions))
            multi = [at.get(d, 0) for d in range(shape.rank)]
            multi[fast], multi[j] = f.add(multi[fast], q), f.add(multi[j], r)
            index = Index(shape, multi)
            k.output.store(index, inner.element(k.root, index))

        types = [array_of(i).element_type for i in (k.root, *found)]
        return views.along(f, columns, types, one)
