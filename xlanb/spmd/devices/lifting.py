"""Lift an operation that all devices run on tiles to one operation on the whole arrays.

    a = f32[2] slice(x), slice={[0:2]}          y = f32[8] tanh(x)
    b = f32[2] slice(x), slice={[2:4]}    =>    f32[2] slice(y), slice={[0:2]}
    ...                                         f32[2] slice(y), slice={[2:4]}
    f32[2] tanh(a)
    f32[2] tanh(b)
    ...

An operand dimension may be tiled if the operation treats its elements independently: it is then a
dimension of the result, and a window may slide along it. Every other dimension must be whole on
every device. The operation is lifted only if the whole result has no more elements than the tiles
have together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.spmd.devices.axes import Axes, DeviceAxis, axes_of
from xlanb.spmd.devices.tile_numbers import multiplied, reduced, reshaped
from xlanb.spmd.devices.tiles import Tiles, Values, cut, tiles_of, widened
from xlanb.spmd.devices.writing import Writer, dimensions, of_size, splat

_MOVED: Final = frozenset((Op.CONCATENATE, Op.PAD, Op.REVERSE, Op.SORT))
"""Operations that read every element; their tiles may move to another dimension."""


def lifted(write: Writer, i: HloInstruction, operands: Sequence[Values]) -> Values | None:
    """Return the results of an operation on all devices as tiles of one result, or None.

    Args:
        write: the writer of the merged computation.
        i: the operation in the program of a device.
        operands: each operand's values on the devices.
    """
    tiles = [tiles_of(write, values) for values in operands]
    found = [t for t in tiles if t is not None]
    if len(found) < len(tiles) or all(t.is_whole for t in found):
        return None
    if i.opcode is Op.RESHAPE:
        return reshaped(write, i, found[0])
    if i.opcode is Op.REDUCE and any(found[0].is_cut(d) for d in i.ints("dimensions")):
        return reduced(write, i, found)
    if i.opcode is Op.DOT and any(found[0].is_cut(d) for d in i.ints("lhs_contracting_dims")):
        return multiplied(write, i, found[0], found[1])
    axes = axes_of(i)
    return _at_once(write, i, found, axes) if axes is not None else None


def _recut(write: Writer, tiles: Tiles, axes: Axes) -> Tiles:
    """Re-tile an array along another dimension where a tiled dimension must be whole."""
    free = [k for k, a in enumerate(axes) if a is not None and a.window is None]
    for dim, axis in enumerate(axes):
        if axis is None and tiles.is_cut(dim) and free:
            tiles = _retile(write, tiles, dim, free[0]) or tiles
    return tiles


def _retile(write: Writer, tiles: Tiles, dim: int, to: int) -> Tiles | None:
    """Re-tile an array along another dimension."""
    dims, size = list(dimensions(tiles.whole)), tiles.sizes[dim]
    if dims[dim] % size or dims[to] % tiles.sizes[to] or any(s % size for s in tiles.along(dim)):
        return None
    count = dims[dim] // size
    split: list[int] = []
    place: dict[int, int] = {}
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
    """How a result dimension is tiled: its whole size, the tile size, and each device's start."""

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
        wide = widened(write, tiles.whole, missing) if missing else tiles.whole
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


def _cut_of(tiles: Tiles, dim: int, axis: DeviceAxis, result: Sequence[int]) -> _Cut | None:
    """Return the tiling of a result dimension that follows from an operand dimension's tiling."""
    whole, starts = dimensions(tiles.whole)[dim], tiles.along(dim)
    w = axis.window
    if w is None:
        return _Cut(whole, tiles.sizes[dim], starts)
    plain = not (w.padding_low or w.padding_high) and w.base_dilation == 1
    if not plain or any(s % w.stride for s in starts):
        return None
    reach = (w.size - 1) * w.window_dilation + 1
    return _Cut((whole - reach) // w.stride + 1, result[axis.dim], tuple(s // w.stride for s in starts))


def _written(
    write: Writer, i: HloInstruction, operands: Sequence[HloInstruction], dims: Sequence[int]
) -> HloInstruction:
    """Write the operation on whole arrays."""
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
    """Move an elementwise operation above equal reshapes or transposes of its operands.

    Later ones may then restore the original order and cancel.
    """
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
