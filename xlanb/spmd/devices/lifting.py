"""An operation of all devices on their tiles of whole arrays, as one operation on the whole arrays.

    a = f32[2] slice(x), slice={[0:2]}          y = f32[8] tanh(x)
    b = f32[2] slice(x), slice={[2:4]}    =>    f32[2] slice(y), slice={[0:2]}
    ...                                         f32[2] slice(y), slice={[2:4]}
    f32[2] tanh(a)
    f32[2] tanh(b)
    ...

A dimension of an operand may be cut into tiles where the operation treats its elements independently: it is then a dimension of the result. A window
may also slide along it. Every other dimension has to be whole on every device. The operation is done once, and only where the whole result has no more
elements than the tiles have together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xlanb.hlo.attributes import SliceDimension, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.spmd.devices.writing import Writer, dimensions, of_size, splat

Values = tuple[HloInstruction, ...]
"""What each device has, by its number; the same instruction where they have the same."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a dimension of an operand is in the result; a window may slide along it."""

    dim: int
    window: WindowDimension | None = None


Axes = tuple[Axis | None, ...]
"""Of each dimension of an operand; None: it has to be whole."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """What devices have as tiles of one array: where each begins, and how long they are."""

    whole: HloInstruction
    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    def is_cut(self, dim: int) -> bool:
        """Whether a dimension is not whole."""
        return self.sizes[dim] != dimensions(self.whole)[dim]

    @property
    def is_whole(self) -> bool:
        return not any(map(self.is_cut, range(len(self.sizes))))

    @property
    def covers(self) -> bool:
        """Whether the array has no more elements than its tiles have together."""
        return math.prod(dimensions(self.whole)) <= len(set(self.starts)) * math.prod(self.sizes)

    def of(self, whole: HloInstruction) -> Tiles:
        """The same tiles of another array."""
        return Tiles(whole, self.starts, self.sizes)

    def along(self, dim: int) -> tuple[int, ...]:
        """Where each device's begins along a dimension."""
        return tuple(s[dim] for s in self.starts)


def tiles_of(write: Writer, values: Values) -> Tiles | None:
    """Tiles that values are seen to be; what is the same for all is whole."""
    first = values[0]
    if not isinstance(first.shape, ArrayShape) or not first.shape.is_array:
        return None
    if all(v is first for v in values):
        return Tiles(first, ((0,) * first.shape.rank,) * len(values), first.shape.dimensions)
    boxes = [v.attributes["slice"] for v in values if v.opcode is Op.SLICE]
    whole = first.operands[0] if boxes else None
    if len(boxes) != len(values) or any(v.operands[0] is not whole for v in values) or whole is None:
        return None
    columns = list(zip(*boxes, strict=True))
    if any(d.stride != 1 for c in columns for d in c if len(set(c)) > 1):
        return None
    alike = [c[0] if len(set(c)) == 1 else None for c in columns]  # what all have the same part of is taken first
    dims = dimensions(whole)
    whole = write.slice(whole, [d or SliceDimension(0, n, 1) for d, n in zip(alike, dims, strict=True)])
    starts = (tuple(0 if a else d.start for a, d in zip(alike, box, strict=True)) for box in boxes)
    return Tiles(whole, tuple(starts), first.shape.dimensions)


def cut(write: Writer, tiles: Tiles) -> Values:
    """The tiles as slices."""
    return tuple(
        write.slice(tiles.whole, [SliceDimension(s, s + n, 1) for s, n in zip(start, tiles.sizes, strict=True)])
        for start in tiles.starts
    )


def whole_of(write: Writer, values: Values, like: Tiles) -> HloInstruction | None:
    """The array of which values are such tiles; None where they are seen to be tiles of none."""
    found = tiles_of(write, values)
    if found is None:
        return None
    if (found.starts, found.sizes, dimensions(found.whole)) == (like.starts, like.sizes, dimensions(like.whole)):
        return found.whole
    if not found.is_whole:
        return None
    wanted = dimensions(like.whole)
    return _widened(write, found.whole, {k: n for k, n in enumerate(wanted) if like.is_cut(k)})


def lifted(write: Writer, i: HloInstruction, operands: Sequence[Values]) -> Values | None:
    """The results of an operation on all devices as tiles of one result; None where it cannot be done so.

    Args:
        write: where to.
        i: the operation in the program of a device.
        operands: of each device.
    """
    tiles = [tiles_of(write, values) for values in operands]
    found = [t for t in tiles if t is not None]
    if len(found) < len(tiles) or all(t.is_whole for t in found):
        return None
    if i.opcode is Op.RESHAPE:
        return _reshaped(write, i, found[0])
    if i.opcode is Op.REDUCE and any(found[0].is_cut(d) for d in i.ints("dimensions")):
        return _reduced(write, i, found)
    if i.opcode is Op.DOT and any(found[0].is_cut(d) for d in i.ints("lhs_contracting_dims")):
        return _multiplied(write, i, found[0], found[1])
    rule = _identity if i.opcode.is_elementwise else _RULES.get(i.opcode)
    axes = rule(i) if rule is not None else None
    return _at_once(write, i, found, axes) if axes is not None else None


def _recut(write: Writer, tiles: Tiles, axes: Axes) -> Tiles:
    """Tiles of the array with the numbers of the tiles in another dimension, where a dimension is cut that has to be whole."""
    free = [k for k, a in enumerate(axes) if a is not None and a.window is None]
    for dim, axis in enumerate(axes):
        if axis is None and tiles.is_cut(dim) and free:
            tiles = _moved(write, tiles, dim, free[0]) or tiles
    return tiles


def _moved(write: Writer, tiles: Tiles, dim: int, to: int) -> Tiles | None:
    """Tiles of an array that is cut along another dimension instead."""
    dims, size = list(dimensions(tiles.whole)), tiles.sizes[dim]
    if dims[dim] % size or dims[to] % tiles.sizes[to] or any(s % size for s in tiles.along(dim)):
        return None
    count = dims[dim] // size
    split, place = [], {}
    for k, n in enumerate(dims):
        place[k] = len(split)
        split += [count, size] if k == dim else [n // tiles.sizes[to], tiles.sizes[to]] if k == to else [n]
    order = [k for k in range(len(split)) if k != place[dim]]
    order.insert(order.index(place[to]) + 1, place[dim])
    dims[dim], dims[to] = size, dims[to] * count
    starts = []
    for s in tiles.starts:
        new = list(s)
        new[dim], new[to] = 0, s[to] * count + s[dim] // size * tiles.sizes[to]
        starts.append(tuple(new))
    if any(s % tiles.sizes[to] for s in tiles.along(to)):
        return None
    return Tiles(write.rearranged(tiles.whole, split, order, dims), tuple(starts), tiles.sizes)


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a dimension of the result is cut: its whole size, the size of a tile, where each device's begins."""

    whole: int
    size: int
    starts: tuple[int, ...]


def _at_once(write: Writer, i: HloInstruction, operands: Sequence[Tiles], axes: Sequence[Axes]) -> Values | None:
    leaves = [s for _, s in i.shape.leaves()]
    dims = leaves[0].as_array().dimensions
    if any(s.as_array().dimensions != dims for s in leaves):
        return None
    cuts: dict[int, _Cut] = {}
    if i.opcode in _MOVED:
        operands = [_recut(write, tiles, places) for tiles, places in zip(operands, axes, strict=True)]
    for tiles, places in zip(operands, axes, strict=True):
        for dim, axis in enumerate(places):
            if not tiles.is_cut(dim):
                continue
            found = _cut_of(tiles, dim, axis, dims) if axis is not None else None
            if axis is None or found is None or cuts.setdefault(axis.dim, found) != found:
                return None
    whole = [cuts[k].whole if k in cuts else n for k, n in enumerate(dims)]
    starts = tuple(tuple(cuts[k].starts[d] if k in cuts else 0 for k in range(len(dims))) for d in _devices(operands))
    if math.prod(whole) > len(set(starts)) * math.prod(dims):
        return None
    wholes = []
    for tiles, places in zip(operands, axes, strict=True):
        missing = {d: cuts[a.dim].whole for d, a in enumerate(places) if a and a.dim in cuts and not tiles.is_cut(d)}
        if any(a is not None and a.window is not None and d in missing for d, a in enumerate(places)):
            return None
        wide = _widened(write, tiles.whole, missing) if missing else tiles.whole
        if wide is None:
            return None
        wholes.append(wide)
    made = _written(write, i, wholes, whole)
    if not isinstance(i.shape, TupleShape):
        return cut(write, Tiles(made, starts, dims))
    columns = [cut(write, Tiles(write.element(made, k), starts, dims)) for k in range(len(leaves))]
    return tuple(write.add(Op.TUPLE, row) for row in zip(*columns, strict=True))


def _devices(operands: Sequence[Tiles]) -> range:
    return range(len(operands[0].starts))


def _cut_of(tiles: Tiles, dim: int, axis: Axis, result: Sequence[int]) -> _Cut | None:
    """How a dimension of an operand cuts that of the result."""
    whole, starts = dimensions(tiles.whole)[dim], tiles.along(dim)
    w = axis.window
    if w is None:
        return _Cut(whole, tiles.sizes[dim], starts)
    plain = not (w.padding_low or w.padding_high) and w.base_dilation == 1
    if not plain or any(s % w.stride for s in starts):
        return None
    reach = (w.size - 1) * w.window_dilation + 1
    return _Cut((whole - reach) // w.stride + 1, result[axis.dim], tuple(s // w.stride for s in starts))


def _widened(write: Writer, value: HloInstruction, sizes: dict[int, int]) -> HloInstruction | None:
    """An array that is the same along some dimensions, with these longer; None where it is not seen to be the same."""
    dims = [sizes.get(k, n) for k, n in enumerate(dimensions(value))]
    shape = of_size(value.shape, dims)
    if value.opcode is Op.BROADCAST and not set(value.ints("dimensions")) & set(sizes):
        return write.add(Op.BROADCAST, value.operands, shape, dimensions=value.ints("dimensions"))
    if value.opcode is Op.IOTA and value.attributes["iota_dimension"] not in sizes:
        return write.add(Op.IOTA, (), shape, iota_dimension=value.attributes["iota_dimension"])
    if value.opcode is Op.CONSTANT and (number := splat(value)) is not None:
        return write.add(Op.BROADCAST, (write.constant(number),), shape, dimensions=())
    if value.opcode.is_elementwise and value.operands:
        wide = [o if not dimensions(o) else _widened(write, o, sizes) for o in value.operands]
        known = [o for o in wide if o is not None]
        return write.copy(value, known, shape) if len(known) == len(wide) else None
    return None


def _written(
    write: Writer, i: HloInstruction, operands: Sequence[HloInstruction], dims: Sequence[int]
) -> HloInstruction:
    """The operation on whole arrays."""
    if i.opcode is Op.TRANSPOSE:
        return write.transpose(operands[0], i.ints("dimensions"))
    if i.opcode.is_elementwise and (moved := _below_a_view(write, i, operands)) is not None:
        return moved
    if i.opcode is Op.COPY:
        return operands[0]
    if i.opcode is Op.CONCATENATE:
        return write.concatenate(operands, i.ints("dimensions")[0])
    changed: dict[str, Any] = {"dynamic_slice_sizes": tuple(dims)} if i.opcode is Op.DYNAMIC_SLICE else {}
    return write.copy(i, operands, _resized(i.shape, dims), **changed)


def _below_a_view(write: Writer, i: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction | None:
    """An elementwise operation on reshaped or transposed arrays, as the same on those before: they may come to their old order again."""
    arrays = [o for o in operands if dimensions(o) and splat(o) is None]
    views = [write.view(o) for o in arrays]
    if not views or any(
        v.factors != views[0].factors or dimensions(v.base) != dimensions(views[0].base) for v in views
    ):
        return None
    if views[0].is_base or any(v.base.parent is not write.target for v in views):
        return None
    bases, dims = iter(v.base for v in views), dimensions(views[0].base)
    inner = []
    for o in operands:
        if not dimensions(o):
            inner.append(o)
        elif splat(o) is None:
            inner.append(next(bases))
        else:
            inner.append(write.add(Op.BROADCAST, (write.constant(splat(o)),), of_size(o.shape, dims), dimensions=()))
    made = write.copy(i, inner, _resized(i.shape, dims))
    return write.of_view(views[0].on(made))


def _resized(shape: Shape, dims: Sequence[int]) -> Shape:
    if isinstance(shape, TupleShape):
        return tuple_of([of_size(s, dims) for s in shape.shapes])
    return of_size(shape, dims)


# -- where dimensions go --------------------------------------------------------------------------------------------


def _ranks(i: HloInstruction) -> list[int]:
    return [len(dimensions(o)) for o in i.operands]


def _identity(i: HloInstruction) -> list[Axes]:
    return [tuple(map(Axis, range(rank))) for rank in _ranks(i)]


def _except(*wholes: Callable[[HloInstruction], Sequence[int]]) -> Callable[[HloInstruction], list[Axes]]:
    """As they are, but for some that have to be whole."""

    def rule(i: HloInstruction) -> list[Axes]:
        kept = {d for w in wholes for d in w(i)}
        return [tuple(None if k in kept else Axis(k) for k in range(rank)) for rank in _ranks(i)]

    return rule


def _broadcast(i: HloInstruction) -> list[Axes]:
    return [tuple(map(Axis, i.ints("dimensions")))]


def _transpose(i: HloInstruction) -> list[Axes]:
    order = i.ints("dimensions")
    return [tuple(Axis(order.index(k)) for k in range(len(order)))]


def _reduce(i: HloInstruction) -> list[Axes]:
    gone = i.ints("dimensions")
    kept = [k for k in range(_ranks(i)[0]) if k not in gone]
    array = tuple(None if k in gone else Axis(kept.index(k)) for k in range(_ranks(i)[0]))
    return [array if rank else () for rank in _ranks(i)]


def _pad(i: HloInstruction) -> list[Axes]:
    padded = [bool(p.low or p.high or p.interior) for p in i.attributes["padding"]]
    return [tuple(None if p else Axis(k) for k, p in enumerate(padded)), ()]


def _dot(i: HloInstruction) -> list[Axes] | None:
    if i.get("sparsity_config") or i.get("block_scaling_config") or len(i.operands) != 2:
        return None
    batch = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
    summed = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
    place, found = len(batch[0]), []
    for rank, batched, gone in zip(_ranks(i), batch, summed, strict=True):
        axes: list[Axis | None] = []
        for k in range(rank):
            if k in gone:
                axes.append(None)
            elif k in batched:
                axes.append(Axis(batched.index(k)))
            else:
                axes.append(Axis(place))
                place += 1
        found.append(tuple(axes))
    return found


def _gather(i: HloInstruction) -> list[Axes] | None:
    """Rows of a whole array by indices that may be cut."""
    if i.get("operand_batching_dims") or i.get("start_indices_batching_dims"):
        return None
    vector, offsets = i.attributes["index_vector_dim"], i.ints("offset_dims")
    batch = iter(k for k in range(i.array_shape.rank) if k not in offsets)
    table, rank = _ranks(i)
    return [(None,) * table, tuple(None if k == vector else Axis(next(batch)) for k in range(rank))]


def _dynamic_slice(i: HloInstruction) -> list[Axes]:
    sizes = i.array_shape.dimensions
    array = tuple(Axis(k) if n == m else None for k, (n, m) in enumerate(zip(sizes, dimensions(i.operands[0]), strict=True)))  # fmt: skip
    return [array, *[()] * (len(i.operands) - 1)]


def _dynamic_update_slice(i: HloInstruction) -> list[Axes]:
    array, update = dimensions(i.operands[0]), dimensions(i.operands[1])
    axes = tuple(Axis(k) if n == m else None for k, (n, m) in enumerate(zip(array, update, strict=True)))
    return [axes, axes, *[()] * (len(i.operands) - 2)]


def _reduce_window(i: HloInstruction) -> list[Axes]:
    array = tuple(Axis(k, None if w == WindowDimension(1) else w) for k, w in enumerate(i.window.dimensions))
    return [array if rank else () for rank in _ranks(i)]


def _convolution(i: HloInstruction) -> list[Axes] | None:
    if len(i.operands) != 2 or i.get("sparsity_config") or i.get("block_scaling_config"):
        return None
    numbers, window = i.attributes["dim_labels"], i.window.dimensions
    image: list[Axis | None] = [None] * _ranks(i)[0]
    kernel: list[Axis | None] = [None] * _ranks(i)[1]
    if i.get("batch_group_count") in (None, 1):
        image[numbers.input_batch] = Axis(numbers.output_batch)
        if i.get("feature_group_count") in (None, 1):
            kernel[numbers.kernel_output_feature] = Axis(numbers.output_feature)
    for place, to, w in zip(numbers.input_spatial, numbers.output_spatial, window, strict=True):
        image[place] = Axis(to, w)
    return [tuple(image), tuple(kernel)]


_MOVED: Final = frozenset((Op.CONCATENATE, Op.PAD, Op.REVERSE, Op.SORT))
"""Operations that read every element, and for which tiles may be moved to another dimension."""
_RULES: Final[dict[Op, Callable[[HloInstruction], Sequence[Axes] | None]]] = {
    Op.BROADCAST: _broadcast,
    Op.CONCATENATE: _except(lambda i: i.ints("dimensions")),
    Op.CONVOLUTION: _convolution,
    Op.COPY: _identity,
    Op.DOT: _dot,
    Op.DYNAMIC_SLICE: _dynamic_slice,
    Op.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Op.GATHER: _gather,
    Op.PAD: _pad,
    Op.REDUCE: _reduce,
    Op.REDUCE_WINDOW: _reduce_window,
    Op.REVERSE: _except(lambda i: i.ints("dimensions")),
    Op.SORT: _except(lambda i: i.ints("dimensions")),
    Op.TRANSPOSE: _transpose,
}


# -- sums of tiles --------------------------------------------------------------------------------------------------


def _reduced(write: Writer, i: HloInstruction, operands: Sequence[Tiles]) -> Values | None:
    """Each device's reduction of its tile: of the array with the numbers of the tiles in dimensions of their own, which are kept.

    x = f32[8,3] of which devices have f32[2,3]; reduce over dimension 0 => reduce f32[4,2,3] over dimension 1, of which devices have f32[1,3]
    """
    tiles, gone = operands[0], i.ints("dimensions")
    if len(operands) != 2 or not operands[1].is_whole or not tiles.covers:
        return None
    dims, sizes = dimensions(tiles.whole), tiles.sizes
    split: list[int] = []
    numbers: list[int] = []
    elements: list[int] = []
    for k in range(len(dims)):
        cut_here = k in gone and tiles.is_cut(k)
        if cut_here and (dims[k] % sizes[k] or any(s % sizes[k] for s in tiles.along(k))):
            return None
        if cut_here:
            numbers.append(len(split))
        if k in gone:
            elements.append(len(split) + cut_here)
        split += [dims[k] // sizes[k], sizes[k]] if cut_here else [dims[k]]
    kept = [k for k in range(len(split)) if k not in elements]
    partial = write.copy(
        i,
        (write.reshape(tiles.whole, split), operands[1].whole),
        of_size(i.shape, [split[k] for k in kept]),
        dimensions=tuple(elements),
    )
    order = [kept.index(n) for n in numbers] + [n for n, k in enumerate(kept) if k not in numbers]
    count = math.prod(split[n] for n in numbers)
    result = [split[k] for k in kept if k not in numbers]
    whole = write.rearranged(
        partial, dimensions(partial), order, [count * result[0], *result[1:]] if result else [count]
    )
    starts = []
    for s in tiles.starts:
        number = 0
        for k in gone:
            number = number * (dims[k] // sizes[k]) + s[k] // sizes[k]
        rest = [s[k] for k in range(len(dims)) if k not in gone]
        starts.append((number * result[0] + rest[0], *rest[1:]) if result else (number,))
    local = i.array_shape.dimensions
    values = cut(write, Tiles(whole, tuple(starts), local or (1,)))
    return values if local else tuple(write.reshape(v, ()) for v in values)


def _multiplied(write: Writer, i: HloInstruction, left: Tiles, right: Tiles) -> Values | None:
    """Each device's product of its tiles along contracting dimensions: of the arrays with the numbers of the tiles as batch dimensions."""
    axes, dims = _dot(i), i.array_shape.dimensions
    pairs = list(zip(i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims"), strict=True))
    if axes is None or not dims:
        return None
    cuts = [n for n, (a, b) in enumerate(pairs) if left.is_cut(a) or right.is_cut(b)]
    for a, b in (pairs[n] for n in cuts):
        alike = (left.along(a), dimensions(left.whole)[a]) == (right.along(b), dimensions(right.whole)[b])
        if not alike or dimensions(left.whole)[a] % left.sizes[a] or any(s % left.sizes[a] for s in left.along(a)):
            return None
    whole, sides = list(dims), (left, right)
    starts = [[0] * len(dims) for _ in left.starts]
    for tiles, places in zip(sides, axes, strict=True):
        for d, axis in enumerate(places):
            if axis is None or not tiles.is_cut(d):
                continue
            for k, s in enumerate(tiles.along(d)):
                starts[k][axis.dim] = s
            whole[axis.dim] = dimensions(tiles.whole)[d]
    batches = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
    if any(left.is_cut(a) != right.is_cut(b) or left.along(a) != right.along(b) for a, b in zip(*batches, strict=True)):
        return None
    counts = [dimensions(left.whole)[pairs[n][0]] // left.sizes[pairs[n][0]] for n in cuts]
    numbers = [0] * len(starts)
    for n, count in zip(cuts, counts, strict=True):
        a = pairs[n][0]
        numbers = [m * count + s // left.sizes[a] for m, s in zip(numbers, left.along(a), strict=True)]
    distinct = len({(m, *s) for m, s in zip(numbers, starts, strict=True)})
    if math.prod(counts) * math.prod(whole) > distinct * math.prod(dims):
        return None
    operands, changed = [], {}
    for name, tiles, batch, side in zip(("lhs", "rhs"), sides, batches, (0, 1), strict=True):
        contracted = [p[side] for p in pairs]
        split, place = [], []
        for d, n in enumerate(dimensions(tiles.whole)):
            is_number = d in contracted and contracted.index(d) in cuts
            place.append(len(split) + is_number)
            split += [n // tiles.sizes[d], tiles.sizes[d]] if is_number else [n]
        operands.append(write.reshape(tiles.whole, split))
        changed[f"{name}_batch_dims"] = (*(place[contracted[n]] - 1 for n in cuts), *(place[d] for d in batch))
        changed[f"{name}_contracting_dims"] = tuple(place[d] for d in contracted)
    made = write.copy(i, operands, of_size(i.shape, [*counts, *whole]), **changed)
    merged = write.reshape(made, [math.prod(counts) * whole[0], *whole[1:]])
    places = tuple((m * whole[0] + s[0], *s[1:]) for m, s in zip(numbers, starts, strict=True))
    return cut(write, Tiles(merged, places, dims))


# -- reshapes -------------------------------------------------------------------------------------------------------


def _reshaped(write: Writer, i: HloInstruction, tiles: Tiles) -> Values | None:
    """Tiles under other dimensions: the numbers of tiles first among the dimensions that become others, then the elements of a tile."""
    groups = _groups(tiles.sizes, i.array_shape.dimensions)
    if groups is None:
        return None
    dims, sizes = dimensions(tiles.whole), tiles.sizes
    split: list[int] = []
    order: list[int] = []
    whole: list[int] = []
    starts: list[list[int]] = [[] for _ in tiles.starts]
    for inner, outer in groups:
        counts, elements = [], []
        for k in inner:
            if dims[k] % sizes[k] or any(s % sizes[k] for s in tiles.along(k)):
                return None
            counts.append(len(split))
            elements.append(len(split) + 1)
            split += [dims[k] // sizes[k], sizes[k]]
        order += [*counts, *elements]
        number = math.prod(split[c] for c in counts)
        results = [i.array_shape.dimensions[k] for k in outer]
        first = next((n for n, size in enumerate(results) if size > 1), 0)
        if not results and number > 1:
            return None
        whole += [size * number if n == first else size for n, size in enumerate(results)]
        for start, begins in zip(tiles.starts, starts, strict=True):
            place = 0
            for k, c in zip(inner, counts, strict=True):
                place = place * split[c] + start[k] // sizes[k]
            begins += [place * size if n == first else 0 for n, size in enumerate(results)]
    moved = write.rearranged(tiles.whole, split, order, whole)
    return cut(write, Tiles(moved, tuple(map(tuple, starts)), i.array_shape.dimensions))


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Which dimensions become which others, in runs of equally many elements; None where there are no elements."""
    if 0 in before:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        inner, outer, a, b = [i], [j], before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                inner.append(i)
                a, i = a * before[i], i + 1
            else:
                outer.append(j)
                b, j = b * after[j], j + 1
        groups.append((inner, outer))
    rest, more = list(range(i, len(before))), list(range(j, len(after)))
    if not groups:
        return [(rest, more)] if rest or more else []
    groups[-1][0].extend(rest)
    groups[-1][1].extend(more)
    return groups
