"""Split whole arrays into device shards and join them, by HLO shardings.

Follows xla/hlo/ir/hlo_sharding.h. A dimension is split into equal tiles, rounded up. The last tiles
may therefore hold elements beyond the end of the whole array; splitting fills them with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError, EvaluationError, UnimplementedError
from xlanb.evaluator.values import Array, Value
from xlanb.hlo.text.parse_sharding import sharding_elements
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.spmd.hlo_sharding import HloSharding


@dataclass(frozen=True, slots=True)
class ShardTiling:
    """How an array is tiled: the number of tiles along each dimension, and each device's tile."""

    tiles: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    def tile_dimensions(self, whole: Sequence[int]) -> tuple[int, ...]:
        """Return a tile's dimensions for whole dimensions `whole`."""
        return tuple(-(-n // t) for n, t in zip(whole, self.tiles, strict=True))

    def slices(self, device: int, tile: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of the whole array that a device holds, given a tile's dimensions.

        They may extend beyond the end.
        """
        return tuple(slice(p * n, (p + 1) * n) for p, n in zip(self.places[device], tile, strict=True))


@lru_cache(maxsize=1024)
def tiling(text: str, rank: int, devices: int) -> ShardTiling | None:
    """Return how a sharding's canonical text tiles an array of this rank over the devices.

    Returns None if each device, or a single device, holds the whole array.

    Raises:
        UnimplementedError: the sharding is for another number of devices.
    """
    sharding = HloSharding.parse(text) if text else HloSharding.replicate()
    if not sharding.is_tiled:
        return None
    if sharding.num_devices != devices:
        raise UnimplementedError(f"the sharding {text} is for {sharding.num_devices} devices, not for {devices}")
    index = sharding.tile_indices
    return ShardTiling(sharding.dimensions[:rank], tuple(index[d][:rank] for d in range(devices)))


def parts_of(text: str | None, shape: Shape) -> list[str]:
    """Return the sharding of each leaf of a shape, "" if it has none."""
    count = sum(1 for _ in shape.leaves())
    if not text:
        return [""] * count
    parts = sharding_elements(text) if isinstance(shape, TupleShape) else [text]
    return parts if len(parts) == count else [text] * count


def shards(whole: Any, text: str, shape: ArrayShape, devices: int, label: str) -> list[Array]:
    """Split a whole array into each device's shard, of the shape that its program's parameter has.

    Raises:
        ArgumentError: tiles of this shape cannot make up the array's dimensions.
    """
    array = np.asarray(whole, None if hasattr(whole, "dtype") else shape.dtype)
    lies = tiling(text, shape.rank, devices)
    tile = shape.dimensions
    if lies is None:
        return [array] * devices
    if array.ndim != shape.rank or lies.tile_dimensions(array.shape) != tile:
        most = "x".join(str(n * t) for n, t in zip(tile, lies.tiles, strict=True))
        raise ArgumentError(
            f"{label}: expected a whole array of at most {most} elements, split into tiles "
            f"{shape.text(layout=False)} by {text}, got shape {array.shape}"
        )
    padded = array
    missing = [(0, n * t - size) for n, t, size in zip(tile, lies.tiles, array.shape, strict=True)]
    if any(after for _, after in missing):
        padded = np.pad(array, missing)
    cut: dict[tuple[int, ...], Array] = {}
    for place in lies.places:
        if place not in cut:
            cut[place] = padded[tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, tile, strict=True))]
    return [cut[place] for place in lies.places]


def whole(shards: Sequence[Array], text: str, dimensions: Sequence[int] | None = None) -> Array:
    """Join the devices' shards into the whole array.

    `dimensions` are those of the whole array if its tiles extend beyond its end.

    Raises:
        EvaluationError: the shards differ and no sharding says how to combine them.
    """
    first = shards[0]
    at_one = HloSharding.parse(text).unique_device if text else None
    if at_one is not None:
        return shards[at_one]
    lies = tiling(text, first.ndim, len(shards))
    if lies is None:
        if not text and any(s.shape != first.shape or s.tobytes() != first.tobytes() for s in shards[1:]):
            raise EvaluationError(
                "the devices' results differ, and they have no sharding to combine them "
                "by: run_shards(...) and evaluate_shards(...) return each of them"
            )
        return first
    result = np.empty([n * t for n, t in zip(first.shape, lies.tiles, strict=True)], first.dtype)
    for device, shard in enumerate(shards):
        result[lies.slices(device, first.shape)] = shard
    return result if dimensions is None else result[tuple(slice(0, n) for n in dimensions)]


def whole_value(
    values: Sequence[Value], parts: Sequence[str], shapes: Sequence[Sequence[int] | None] | None = None
) -> Value:
    """Join the devices' values, which have the same nesting, leaf by leaf."""
    remaining = iter(parts)
    sizes = iter(shapes) if shapes is not None else None

    def join(rows: Sequence[Value]) -> Value:
        if isinstance(rows[0], tuple):
            return tuple(join(column) for column in zip(*rows, strict=True))
        text, dims = next(remaining), next(sizes) if sizes is not None else None
        return rows[0] if rows[0] is None else whole(rows, text, dims)

    return join(values)
