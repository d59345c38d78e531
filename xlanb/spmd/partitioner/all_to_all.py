"""Reshard tiles from one dimension to another by an all-to-all (ReshardWithAllToAll)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlanb.errors import UnimplementedError
from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.collectives import get_partition_groups_across_target_dims
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.permute import reshard_with_collective_permute
from xlanb.spmd.partitioner.shard_windows import (
    pad_data_from_window_reshard,
    reshard_data_for_pad,
    reshard_data_for_slicing,
    slice_data_from_window_reshard,
)
from xlanb.spmd.partitioner.utilities import create_zero, resized, round_up_to, set_sharding
from xlanb.spmd.sharding_util import like

_O = HloOpcode
DimPairs = Sequence[tuple[int, int]]
"""Pairs of dimensions: tiles along the first become tiles along the second."""


def get_reshard_all_to_all_source_target_dims(source: HloSharding, target: HloSharding) -> list[tuple[int, int]] | None:
    """Return the pairs of dimensions to swap to get from one tiling to the other.

    Returns None if swaps cannot do it.
    """
    if (
        source.is_tile_maximal
        or target.is_tile_maximal
        or len(source.dimensions) != len(target.dimensions)
        or source.num_tiles() != target.num_tiles()
    ):
        return None
    sources, targets = _by_size(source, target), _by_size(target, source)
    if not sources or {s: len(d) for s, d in sources.items()} != {s: len(d) for s, d in targets.items()}:
        return None
    pairs = []
    while sources:
        size = min(sources)
        i = sources[size][-1]
        wanted = target.dimension(i)
        if wanted == size:
            _remove(sources, size, i)
            _remove(targets, size, i)
            continue
        candidates = sources[wanted]
        if size == 1:
            j = next((d for d in candidates if target.dimension(d) != 1), candidates[-1])
        elif wanted % size == 0:
            j = next((d for d in candidates if target.dimension(d) == size), candidates[-1])
        else:
            return None
        pairs.append((j, i))
        _remove(targets, wanted, i)
        sources[size][-1] = j
        _remove(sources, wanted, j)
    return pairs


def _by_size(sharding: HloSharding, other: HloSharding) -> dict[int, list[int]]:
    """Return the dimensions that the other sharding tiles differently, by number of tiles."""
    found: dict[int, list[int]] = {}
    for d, tiles in enumerate(sharding.dimensions):
        if tiles != other.dimension(d):
            found.setdefault(tiles, []).append(d)
    return found


def _remove(dims: dict[int, list[int]], size: int, dim: int) -> None:
    dims[size] = [d for d in dims[size] if d != dim]
    if not dims[size]:
        del dims[size]


def _swapped(source: HloSharding, source_dims: Sequence[int], target_dims: Sequence[int]) -> HloSharding:
    """Return the sharding after tiles along the source dimensions move to the target dimensions."""
    devices = source.tile_assignment
    for s, t in zip(source_dims, target_dims, strict=True):
        shape: list[int] = []
        extra = {}
        for d, tiles in enumerate(devices.shape):
            if d == s:
                shape += [devices.shape[t], devices.shape[s] // devices.shape[t]]
                extra[s] = len(shape) - 1
            elif d == t:
                shape += [tiles, 1]
                extra[t] = len(shape) - 1
            else:
                shape.append(tiles)
        perm = list(range(len(shape)))
        perm[extra[s]], perm[extra[t]] = perm[extra[t]], perm[extra[s]]
        after = list(devices.shape)
        after[s], after[t] = after[t], after[s]
        devices = devices.reshape(shape).transpose(perm).reshape(after)
    return like(source, devices)


def reshard_with_all_to_all(
    p: PartitionedHlo, target: HloSharding, pairs: DimPairs, *, several_at_once: bool = True
) -> PartitionedHlo:
    """Reshard by one all-to-all per pair, or for several pairs at once where they divide evenly.

    Then permute the devices.
    """
    if target == p.sharding:
        return p
    if not pairs:
        return reshard_with_collective_permute(p, target)
    if several_at_once:
        return _several_pairs(p, target, pairs)
    source_dim, target_dim = pairs[0]
    sharding, b = p.sharding, p.state.b
    base, shard = p.base_shape.as_array(), p.hlo.shape.as_array()
    group_size = sharding.dimension(source_dim) // sharding.dimension(target_dim)
    between = _swapped(sharding, [source_dim], [target_dim])
    padded = _padded_for(p, between, target_dim)
    result = _exchange(p, padded, between, (source_dim, target_dim), group_size)
    set_sharding(result, between)

    had, needed = list(base.dimensions), list(base.dimensions)
    needed[source_dim] = round_up_to(base.dimensions[source_dim], between.dimension(source_dim))
    had[source_dim] = shard.dimensions[source_dim] * sharding.dimension(source_dim)
    ones, zeros = [1] * base.rank, [0] * base.rank
    whole = PartitionedHlo(result, resized(base, had), p.state)
    sliced = reshard_data_for_slicing(ones, zeros, needed, whole, between)
    if sliced is None:
        raise UnimplementedError(f"{p.hlo.name} cannot be split into tiles after an all-to-all")
    result = slice_data_from_window_reshard(sliced, ones, base, between, b)
    return reshard_with_all_to_all(p.with_hlo(result, between), target, pairs[1:])


def _padded_for(p: PartitionedHlo, between: HloSharding, target_dim: int) -> HloInstruction:
    """Pad this device's part along the target dimension so that it divides into tiles."""
    base, shard, sharding = p.base_shape.as_array(), p.hlo.shape.as_array(), p.sharding
    padding = [PaddingDimension() for _ in range(base.rank)]
    size = round_up_to(base.dimensions[target_dim], between.dimension(target_dim))
    high = size - shard.dimensions[target_dim] * sharding.dimension(target_dim)
    padding[target_dim] = PaddingDimension(0, high)
    zero = create_zero(array(shard.element_type), p.state.b)
    made = reshard_data_for_pad(zero, padding, p, sharding)
    if made is None:
        raise UnimplementedError(f"{p.hlo.name} cannot be padded to tiles before an all-to-all")
    return pad_data_from_window_reshard(made, zero, p.state.b)


def _exchange(
    p: PartitionedHlo, padded: HloInstruction, between: HloSharding, pair: tuple[int, int], group_size: int
) -> HloInstruction:
    """Split the target dimension, exchange the pieces, and join them along the source dimension."""
    source_dim, target_dim = pair
    b = p.state.b
    sizes = list(padded.shape.as_array().dimensions)
    split = [*sizes[:target_dim], group_size, sizes[target_dim] // group_size, *sizes[target_dim + 1 :]]
    groups = get_partition_groups_across_target_dims(between, [target_dim], [group_size])
    exchanged = p.state.collectives.all_to_all([b.reshape(padded, split)], groups, target_dim)
    new_source = source_dim + 1 if target_dim < source_dim else source_dim
    permutation: list[int] = []
    for d in range(len(split)):
        if d == target_dim:
            continue
        permutation += [target_dim, d] if d == new_source else [d]
    merged = list(sizes)
    merged[target_dim] //= group_size
    merged[source_dim] *= group_size
    return b.reshape(b.transpose(exchanged, permutation), merged)


def _several_pairs(p: PartitionedHlo, target: HloSharding, pairs: DimPairs) -> PartitionedHlo:
    """Write one all-to-all for all disjoint pairs that divide evenly.

    Follows TryMultipleSourceTargetDims.
    """
    base, sharding = p.base_shape.as_array(), p.sharding
    seen: set[int] = set()
    sources: list[int] = []
    targets: list[int] = []
    rest: list[tuple[int, int]] = []
    for s, t in sorted(pairs, key=lambda pair: pair[1]):
        even = base.dimensions[s] % sharding.dimension(s) == 0 and base.dimensions[t] % target.dimension(t) == 0
        if even and not seen & {s, t}:
            sources.append(s)
            targets.append(t)
            seen |= {s, t}
        else:
            rest.append((s, t))
    if len(sources) < 2:
        return reshard_with_all_to_all(p, target, pairs, several_at_once=False)
    sizes = [sharding.dimension(s) // sharding.dimension(t) for s, t in zip(sources, targets, strict=True)]
    between = _swapped(sharding, sources, targets)
    result = _exchange_several(p, between, sources, targets, sizes)
    return reshard_with_all_to_all(p.with_hlo(result, between), target, rest, several_at_once=False)


def _exchange_several(
    p: PartitionedHlo, between: HloSharding, sources: Sequence[int], targets: Sequence[int], sizes: Sequence[int]
) -> HloInstruction:
    """Exchange the pieces of several target dimensions in one all-to-all.

    Moves the pieces to the front, and after the exchange behind their source dimensions.
    """
    b, count = p.state.b, len(sources)
    split: list[int] = []
    front: list[int] = []
    for d, size in enumerate(p.hlo.shape.as_array().dimensions):
        if d in targets:
            group = sizes[targets.index(d)]
            front.append(len(split))
            split += [group, size // group]
        else:
            split.append(size)
    order = [*front, *(n for n in range(len(split)) if n not in front)]
    transposed = b.transpose(b.reshape(p.hlo, split), order)
    dims = transposed.shape.as_array().dimensions
    flat = b.reshape(transposed, [math.prod(dims[:count]), *dims[count:]])
    groups = get_partition_groups_across_target_dims(between, targets, sizes)
    exchanged = p.state.collectives.all_to_all([flat], groups, 0)
    back = list(range(count, count + len(p.base_shape.as_array().dimensions)))
    for n, s in enumerate(sources):
        back.insert(back.index(s + count), n)
    transposed = b.transpose(b.reshape(exchanged, dims), back)
    merged: list[int] = []
    of = transposed.shape.as_array().dimensions
    n = 0
    while n < len(back):
        merged.append(of[n] * of[n + 1] if back[n] < count else of[n])
        n += 2 if back[n] < count else 1
    return b.reshape(transposed, merged)


def reshard_partial_replicate_with_all_to_all(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Reshard between [2,3] and [1,2,3 replicated] with devices in the same order.

    Goes through an intermediate tiling that replicates the last dimension.
    """
    source = p.sharding
    from_partial = source.replicate_on_last_tile_dim
    partial, tiled = (source, target) if from_partial else (target, source)
    if not partial.replicate_on_last_tile_dim or tiled.replicate_on_last_tile_dim or tiled.is_tile_maximal:
        return None
    copies = partial.dimensions[-1]
    if len(tiled.dimensions) + 1 != len(partial.dimensions) or partial.dimension(0) != 1:
        return None
    split = [d for d, tiles in enumerate(tiled.dimensions) if tiles > 1]
    if not split or tiled.dimension(split[-1]) != copies or tiled.dimensions != partial.dimensions[1:]:
        return None
    if not np.array_equal(partial.tile_assignment.reshape(tiled.dimensions), tiled.tile_assignment):
        return None
    dims = list(tiled.dimensions)
    dims[split[-1]] = 1
    between = HloSharding.partial_tile(tiled.tile_assignment.reshape([*dims, copies]))
    if from_partial:
        pairs = get_reshard_all_to_all_source_target_dims(source, between)
        return None if pairs is None else reshard_with_all_to_all(p, between, pairs).reshard(target)
    resharded = p.reshard(between)
    pairs = get_reshard_all_to_all_source_target_dims(resharded.sharding, target)
    return None if pairs is None else reshard_with_all_to_all(resharded, target, pairs)
