"""Transposes and copies into another layout: square tiles that are turned in registers, read and written by whole vectors.

A kernel whose result is an operand in another order of memory is done by tiles alone. A loop fusion that reads an operand in another order gets it tile by tile: turned
into a buffer that stays in the first-level cache, which the loop over the tile reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.codegen import costs, views
from xlanb.codegen.elemental import Binding, Elemental, array_of
from xlanb.codegen.elements import Element, load
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray, order, strides
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import integer
from xlanb.codegen.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel


@dataclass(frozen=True)
class Axis:
    """A dimension of the result (or several that lie together in both): its size, and the steps in the source and the result."""

    size: int
    source: int
    target: int


def axes(source: ArrayShape, target: ArrayShape, permutation: Sequence[int]) -> list[Axis]:
    """The dimensions of `target`, the fastest first, joined where they can be; its dimension d is dimension permutation[d] of `source`."""
    out: list[Axis] = []
    for d in order(target):
        axis = Axis(target.dimensions[d], strides(source)[permutation[d]], strides(target)[d])
        last = out[-1] if out else None
        if last is not None and axis.source == last.source * last.size and axis.target == last.target * last.size:
            out[-1] = Axis(last.size * axis.size, last.source, last.target)
        else:
            out.append(axis)
    return out


def permuted(e: Elemental, i: HloInstruction) -> tuple[IrArray, tuple[int, ...]] | None:
    """The array in memory that an instruction is a transpose of, and where each of its own dimensions comes from; None where it is computed."""
    permutation = tuple(range(array_of(i).rank))
    while i not in e.bindings:
        if i.opcode is Op.TRANSPOSE:
            permutation = tuple(i.dimensions[d] for d in permutation)
        elif i.opcode is not Op.COPY or i.shape.is_tuple:
            return None
        i = i.operands[0]
    source = e.bindings[i].get(()) if not i.shape.is_tuple else None
    return (source, permutation) if isinstance(source, IrArray) else None


def emit_transposed(k: Kernel) -> bool:
    """A kernel that turns an operand, or whose loop reads one turned; False of any other."""
    if len(k.outputs) != 1 or k.root.shape.is_tuple or k.output.shape.element_count < costs.COMMON.tiled_elements:
        return False
    found = permuted(k.e, k.root)
    if found is None:
        return _emit_fused(k)
    source, permutation = found
    t = source.shape.element_type
    dims = axes(source.shape, k.output.shape, permutation)
    if t.bits not in (8, 16, 32, 64) or dims[0].source == 1:
        return False
    if t.is_complex and t is not PrimitiveType.C64:
        return False
    k.f.ready = True
    along = next(n for n, axis in enumerate(dims) if axis.source == 1)
    turn = Turn(k.f, t.bits, dims[0], dims[along])
    others = [axis for n, axis in enumerate(dims) if n not in (0, along)]
    what = f"squares of {turn.n} turned in registers, {turn.across} side by side"
    k.f.decided("transpose", what, f"the source's rows lie along axis {along} of the result")
    with _shared(k.f, others, turn.bands, turn.nanoseconds) as (at, band):
        begin = [_offset(k.f, at, [getattr(axis, way) for axis in others]) for way in ("source", "target")]
        turn.band(source.pointer, begin[0], k.output.pointer, begin[1], band)
    return True


def _offset(f: Function, at: Sequence[Ix], steps: Sequence[int]) -> Ix:
    total: Ix = 0
    for v, step in zip(at, steps, strict=True):
        total = f.add(total, f.mul(v, step))
    return total


@contextmanager
def _shared(f: Function, others: Sequence[Axis], bands: int, cost: float) -> Iterator[tuple[list[Ix], Ix]]:
    """One loop over all other dimensions and the bands of tiles, which threads may share."""
    with parallel(f, math.prod(axis.size for axis in others) * bands, nanoseconds=cost) as q:
        band, left = f.rem(q, bands), f.div(q, bands)
        at: list[Ix] = []
        for axis in others:
            at.append(f.rem(left, axis.size))
            left = f.div(left, axis.size)
        yield at, band


# -- tiles --------------------------------------------------------------------------------------------------------


class Turn:
    """A matrix whose rows lie along `along` in the source and along `fast` in the result; elements of so many bits."""

    def __init__(self, f: Function, bits: int, fast: Axis, along: Axis) -> None:
        self.f, self.bits = f, bits
        self.fast, self.along = fast, along
        lanes = min(f.target.vector_bits // bits, 16, fast.size, along.size)
        self.n = 1 << (lanes.bit_length() - 1)
        self.across = min(costs.COMMON.tiles_across, -(-along.size // self.n))

    @property
    def bands(self) -> int:
        """How many bands of tiles there are."""
        return -(-along_tiles(self.along.size, self.n) // self.across)

    @property
    def nanoseconds(self) -> float:
        """What a band costs."""
        return self.fast.size * self.n * self.across * self.bits / 8 * self.f.target.costs.turned_byte_ns

    def all(self, source: Value, begin: Ix, target: Value, goal: Ix) -> None:
        """Every band."""
        with self.f.loop(self.bands) as band:
            self.band(source, begin, target, goal, band)

    def band(self, source: Value, begin: Ix, target: Value, goal: Ix, band: Ix) -> None:
        """The tiles of a band. The last ones lie back over those before: the same elements are written twice."""
        f, n, element = self.f, self.n, integer(self.bits)
        rows, columns = Pointer(source, element), Pointer(target, element)
        with f.loop(along_tiles(self.fast.size, n)) as i, f.loop(self.across) as j:
            row = f.clamp(f.mul(i, n), 0, self.fast.size - n)
            column = f.clamp(f.mul(f.add(f.mul(band, self.across), j), n), 0, self.along.size - n)
            first = f.add(begin, f.add(f.mul(row, self.fast.source), column))
            vectors = [rows.load(f.add(first, r * self.fast.source), n) for r in range(n)]
            last = f.add(goal, f.add(row, f.mul(column, self.along.target)))
            for c, v in enumerate(turned(f, self.bits, vectors)):
                columns.store(f.add(last, c * self.along.target), v)


def along_tiles(size: int, n: int) -> int:
    """How many tiles of n cover so many elements."""
    return -(-size // n)


def turned(f: Function, bits: int, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of 2^k <= 16 vectors: interleaved within blocks of 128 bits first, then whole blocks, as each step is one cheap instruction."""
    n = len(rows)
    block = min(128 // bits, n)
    level: dict[tuple[int, int], Value] = {(r, 0): v for r, v in enumerate(rows)}
    width = 1
    while width < block:
        halves = [_interleaving(n, block, width, half) for half in (0, 1)]
        level = {
            (g // 2, 2 * c + half): f.shuffle(v, level[g + 1, c], halves[half])
            for (g, c), v in level.items() if g % 2 == 0
            for half in (0, 1)
        }  # fmt: skip
        width *= 2
    columns = [_blocks(f, block, [level[g, c] for g in range(n // block)]) for c in range(block)]
    return [columns[c][b] for b in range(n // block) for c in range(block)]


def _interleaving(n: int, block: int, width: int, half: int) -> list[int]:
    """Groups of `width` elements of one half of each block, by turns of the first and the second vector."""
    which: list[int] = []
    for begin in range(0, n, block):
        for group in range(block // 2 // width):
            at = begin + half * block // 2 + group * width
            which += [*range(at, at + width), *range(n + at, n + at + width)]
    return which


def _blocks(f: Function, block: int, vectors: list[Value]) -> list[Value]:
    """The transpose of a square of blocks: vectors of 1, 2 or 4 of them."""

    def pick(a: Value, b: Value, which: Sequence[int]) -> Value:
        return f.shuffle(a, b, [lane for v in which for lane in range(v * block, v * block + block)])

    if len(vectors) == 1:
        return vectors
    if len(vectors) == 2:
        a, b = vectors
        return [pick(a, b, (0, 2)), pick(a, b, (1, 3))]
    a, b, c, d = vectors
    low = [pick(a, b, (0, 1, 4, 5)), pick(c, d, (0, 1, 4, 5))]
    high = [pick(a, b, (2, 3, 6, 7)), pick(c, d, (2, 3, 6, 7))]
    return [pick(x, y, which) for x, y in (low, high) for which in ((0, 2, 4, 6), (1, 3, 5, 7))]


# -- loops that read an operand turned ------------------------------------------------------------------------------


def _emit_fused(k: Kernel) -> bool:
    """An elementwise loop that reads operands in another order, tile by tile; False where it is another loop."""
    e, f, shape = k.e, k.f, k.output.shape
    if not f.target.explicit_vectors:
        return False
    found = _turned_operands(e, k.root, shape)
    if not found:
        return False
    dims = list(order(shape))
    slow = {_slow(shape, *found[i]) for i in found}
    if len(slow) != 1:
        return False
    (j,) = slow
    fast = dims[0]
    sizes = (shape.dimensions[fast], shape.dimensions[j])
    if min(sizes) < 8:
        return False
    others = [d for d in dims if d not in (fast, j)]
    side = costs.COMMON.tile_elements
    tiles = [along_tiles(n, side) for n in sizes]
    count = math.prod(shape.dimensions[d] for d in others) * tiles[0] * tiles[1]
    ready = [True]
    # Whole tiles share a loop; those at the edges, of other sizes, have loops of their own.
    for rows in _edges(sizes[1], side):
        for columns in _edges(sizes[0], side):
            rounds = math.prod(shape.dimensions[d] for d in others) * rows[1] * columns[1]
            cost = rows[2] * columns[2] * (0.15 + 0.1 * len(found))
            with parallel(f, rounds, nanoseconds=cost) as q:
                at: dict[int, Ix] = {}
                column, left = f.rem(q, columns[1]), f.div(q, columns[1])
                row, left = f.rem(left, rows[1]), f.div(left, rows[1])
                for d in others:
                    at[d], left = f.rem(left, shape.dimensions[d]), f.div(left, shape.dimensions[d])
                at[fast] = f.add(f.mul(column, side), columns[0])
                at[j] = f.add(f.mul(row, side), rows[0])
                ready.append(_tile(k, found, at, fast, j, (columns[2], rows[2])))
    f.ready = all(ready)
    return count > 0


def _edges(size: int, side: int) -> list[tuple[int, int, int]]:
    """(begin, how many, size) of the tiles of some elements along a dimension: whole ones, and the rest."""
    whole, rest = divmod(size, side)
    out = [(0, whole, side)] if whole else []
    return [*out, (whole * side, 1, rest)] if rest else out


Turned = Mapping[HloInstruction, tuple[IrArray, tuple[int, ...]]]


def _slow(shape: ArrayShape, source: IrArray, permutation: Sequence[int]) -> int:
    """The dimension of the result along which a turned operand's elements lie side by side."""
    fastest = order(source.shape)[0]
    return next(d for d in range(shape.rank) if permutation[d] == fastest)


def _turned_operands(
    e: Elemental, root: HloInstruction, shape: ArrayShape
) -> dict[HloInstruction, tuple[IrArray, tuple[int, ...]]] | None:
    """The transposes and copies of arrays in memory that an otherwise elementwise loop reads along another dimension than its own; None where it is no such loop."""
    out: dict[HloInstruction, tuple[IrArray, tuple[int, ...]]] = {}
    straight: set[HloInstruction] = set()
    seen: set[HloInstruction] = set()
    stack = [root]
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if i.shape.is_tuple:
            return None
        own = array_of(i)
        if i.opcode is Op.BROADCAST and i.operands[0] in e.bindings:
            straight.add(i.operands[0])
            continue
        if not own.dimensions or i.opcode is Op.CONSTANT:
            continue
        if own.dimensions != shape.dimensions:
            return None
        source = permuted(e, i)
        if source is not None:
            array, permutation = source
            dims = axes(array.shape, shape, permutation)
            bits = own.element_type.bits
            if dims and dims[0].source != 1 and bits in (8, 16, 32, 64) and own.element_type is not PrimitiveType.C128:
                out[i] = source
            elif i not in e.bindings and dims and dims[0].source != 1:
                return None
            else:
                straight.add(_behind(e, i))
            continue
        if i in e.bindings:
            return None
        scalar = i.opcode is Op.BROADCAST and not array_of(i.operands[0]).dimensions
        if not (scalar or i.opcode.is_elementwise or i.opcode is Op.COPY):
            return None
        stack.extend(i.operands)
    # what is read as it lies too would be looked for in the tile
    return None if straight & out.keys() else out


def _behind(e: Elemental, i: HloInstruction) -> HloInstruction:
    """What lies in memory behind transposes and copies."""
    while i not in e.bindings:
        i = i.operands[0]
    return i


def _tile(k: Kernel, found: Turned, at: dict[int, Ix], fast: int, j: int, sizes: tuple[int, int]) -> bool:
    """One tile of the result: sizes[0] elements along `fast`, sizes[1] along `j`, from `at` on; whether it was written in vectors."""
    e, f, shape = k.e, k.f, k.output.shape
    columns, rows = sizes
    buffers: dict[HloInstruction, Value] = {}
    for i, (array, permutation) in found.items():
        t = array.shape.element_type
        buffers[i] = f.alloca(integer(t.bits), columns * rows)
        step = [strides(array.shape)[permutation[d]] for d in range(shape.rank)]
        begin = _offset(f, list(at.values()), [step[d] for d in at])
        if min(sizes) >= 2:
            Turn(f, t.bits, Axis(columns, step[fast], 1), Axis(rows, 1, columns)).all(
                array.pointer, begin, buffers[i], 0
            )
        else:
            source, target = (Pointer(p, integer(t.bits)) for p in (array.pointer, buffers[i]))
            with f.loop(rows) as r, f.loop(columns) as c:
                target[f.add(f.mul(r, columns), c)] = source[f.add(begin, f.add(f.mul(c, step[fast]), r))]
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
