"""Tiles: the tiles of one array on several devices."""

from __future__ import annotations

import math

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.spmd.devices.writing import Writer, dimensions, of_size, splat

Values = tuple[HloInstruction, ...]
"""Each device's value, by device number; the same instruction for devices with the same value."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Each device's tile of one array: where it begins, and the tile size."""

    whole: HloInstruction
    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    def is_cut(self, dim: int) -> bool:
        """Whether a dimension is tiled."""
        return self.sizes[dim] != dimensions(self.whole)[dim]

    @property
    def is_whole(self) -> bool:
        return not any(map(self.is_cut, range(len(self.sizes))))

    @property
    def covers(self) -> bool:
        """Whether the tiles together have at least as many elements as the array."""
        return math.prod(dimensions(self.whole)) <= len(set(self.starts)) * math.prod(self.sizes)

    def of(self, whole: HloInstruction) -> Tiles:
        """Return the same tiles of another array."""
        return Tiles(whole, self.starts, self.sizes)

    def along(self, dim: int) -> tuple[int, ...]:
        """Return where each device's tile begins along a dimension."""
        return tuple(s[dim] for s in self.starts)


def tiles_of(write: Writer, values: Values) -> Tiles | None:
    """Recognize values as tiles of one array, or return None.

    A value that is the same for all devices is one whole tile.
    """
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
    low = [min(d.start for d in column) for column in columns]
    strides = [max(d.stride for d in column) for column in columns]
    for column, start, stride in zip(columns, low, strides, strict=True):
        if any(d.stride != stride or (d.start - start) % stride for d in column):
            return None
    high = [max(d.limit for d in column) for column in columns]
    seen = [SliceDimension(*d) for d in zip(low, high, strides, strict=True)]  # the union of all devices' tiles
    starts = tuple(tuple((d.start - s) // n for d, s, n in zip(box, low, strides, strict=True)) for box in boxes)
    return Tiles(write.slice(whole, seen), starts, first.shape.dimensions)


def cut(write: Writer, tiles: Tiles) -> Values:
    """Write the tiles as slices."""
    return tuple(
        write.slice(tiles.whole, [SliceDimension(s, s + n, 1) for s, n in zip(start, tiles.sizes, strict=True)])
        for start in tiles.starts
    )


def whole_of(write: Writer, values: Values, like: Tiles) -> HloInstruction | None:
    """Return the array whose tiles the values are, or None if they are not such tiles."""
    found = tiles_of(write, values)
    if found is None:
        return None
    if (found.starts, found.sizes, dimensions(found.whole)) == (like.starts, like.sizes, dimensions(like.whole)):
        return found.whole
    if not found.is_whole:
        return None
    wanted = dimensions(like.whole)
    return widened(write, found.whole, {k: n for k, n in enumerate(wanted) if like.is_cut(k)})


def widened(write: Writer, value: HloInstruction, sizes: dict[int, int]) -> HloInstruction | None:
    """Extend an array along dimensions in which its elements are the same.

    Returns None if they are not known to be the same.
    """
    dims = [sizes.get(k, n) for k, n in enumerate(dimensions(value))]
    shape = of_size(value.shape, dims)
    if value.opcode is Op.BROADCAST and not set(value.ints("dimensions")) & set(sizes):
        return write.add(Op.BROADCAST, value.operands, shape, dimensions=value.ints("dimensions"))
    if value.opcode is Op.IOTA and value.attributes["iota_dimension"] not in sizes:
        return write.add(Op.IOTA, (), shape, iota_dimension=value.attributes["iota_dimension"])
    if value.opcode is Op.CONSTANT and (number := splat(value)) is not None:
        return write.add(Op.BROADCAST, (write.constant(number),), shape, dimensions=())
    if value.opcode.is_elementwise and value.operands:
        wide = [o if not dimensions(o) else widened(write, o, sizes) for o in value.operands]
        known = [o for o in wide if o is not None]
        return write.copy(value, known, shape) if len(known) == len(wide) else None
    return None
