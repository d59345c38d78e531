"""Reshard an array: the steps of PartitionedHlo::ReshardNoCache, cheapest first.

replicated -> tiled                  dynamic-slice
same tiles, other devices            collective-permute
same number of tiles                 all-to-all
partially replicated -> tiled        dynamic-slice; or all-to-all, then that
tiled -> partially replicated        all-gather; or that, then all-to-all
in between                           split or merge a dimension, or group the equal dimensions, and
                                     retry
otherwise                            replicate, then slice: involuntary full rematerialization
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_logging import logger
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.all_to_all import (
    get_reshard_all_to_all_source_target_dims,
    reshard_partial_replicate_with_all_to_all,
    reshard_with_all_to_all,
)
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.grouping import (
    align_groups_with,
    align_groups_with_if_compatible,
    per_group_slice_from_replicated,
)
from xlanb.spmd.partitioner.partial import (
    reshard_from_partial_replicate_with_dynamic_slice,
    reshard_to_partial_replicate_with_all_gather,
)
from xlanb.spmd.partitioner.partitioned_hlo import (
    PartitionedHlo,
    reshard_array_hook,
    reshard_as_windowed_input_hook,
)
from xlanb.spmd.partitioner.permute import can_reshard_with_collective_permute, reshard_with_collective_permute
from xlanb.spmd.partitioner.split_and_merge import try_complex_reshard_handling
from xlanb.spmd.partitioner.utilities import (
    make_partition_offsets,
    make_partitioned_shape,
    pad_base_shape_before_uneven_tiled_sharding,
    resized,
    set_sharding,
)
from xlanb.spmd.partitioner.windows import reshard_as_windowed_input
from xlanb.spmd.sharding_util import get_manual_subgroup_sharding, group_sharding_on_dims, ungroup_sharding

__all__ = [
    "can_reshard_with_collective_permute",
    "get_reshard_all_to_all_source_target_dims",
    "reshard_array",
]

_O = HloOpcode
_LOG = logger(__name__)
reshard_as_windowed_input_hook.implement(reshard_as_windowed_input)


@reshard_array_hook.implement
def reshard_array(
    p: PartitionedHlo, target: HloSharding, pad_value: Any | None, *, allow_full_replication: bool
) -> PartitionedHlo:
    """Reshard `p` to `target`, which differs from its sharding.

    Returns `p` itself if only full replication would do and it is not allowed.
    """
    source, b = p.sharding, p.state.b
    if source.is_manual_subgroup or target.is_manual_subgroup:
        return _within_manual_subgroups(p, target)
    if p.hlo.opcode is _O.BROADCAST and p.hlo.operands[0].shape.as_array().is_scalar:
        shape = make_partitioned_shape(p.base_shape, target).as_array()
        return p.with_hlo(b.broadcast(p.hlo.operands[0], shape), target)
    if can_reshard_with_collective_permute(source, target):
        return reshard_with_collective_permute(p, target)
    pairs = get_reshard_all_to_all_source_target_dims(source, target)
    if pairs is not None:
        return reshard_with_all_to_all(p, target, pairs)
    made = _with_partial_replication(p, target)
    if made is not None:
        return made
    if not source.is_replicated:
        return _from_tiles(p, target, allow_full_replication=allow_full_replication)
    if target.is_tile_maximal:
        return p.with_hlo(b.add(_O.COPY, (p.hlo,), p.hlo.shape), target)
    return _from_replicated(p, target, pad_value)


def _with_partial_replication(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Try the steps from or to partially replicated tiles."""
    source = p.sharding
    if not target.is_tile_maximal and source.replicate_on_last_tile_dim:
        made = reshard_from_partial_replicate_with_dynamic_slice(p, target)
        if made is None:
            made = reshard_partial_replicate_with_all_to_all(p, target)
        if made is not None:
            return made
    if not source.is_tile_maximal and target.replicate_on_last_tile_dim:
        made = reshard_to_partial_replicate_with_all_gather(p, target)
        return reshard_partial_replicate_with_all_to_all(p, target) if made is None else made
    return None


def _from_tiles(p: PartitionedHlo, target: HloSharding, *, allow_full_replication: bool) -> PartitionedHlo:
    """Reshard by a detour, within equal dimensions, or by full replication."""
    source = p.sharding
    if target.is_replicated:
        return p.replicate().reshard(target)
    if source.is_tiled and target.is_tiled:
        made = try_complex_reshard_handling(p, target)
        if made is None:
            made = _within_equal_dims(p, target)
        if made is not None:
            return made
    if not allow_full_replication:
        return p
    reason = (
        f"the partitioner has no cheaper conversion from {source} to {target}: "
        "every device gets the whole array and slices out its tile (involuntary full rematerialization)"
    )
    if not p.state.causes.is_trial:
        _LOG.warning("%s of shape %s: %s", p.hlo.name, p.base_shape, reason)
    with p.state.because(None, None, source, target, reason, kind=CauseKind.FULL_REMATERIALIZATION):
        return p.replicate().reshard(target)


def _within_equal_dims(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Reshard within the groups of devices along equally tiled dimensions; None without any."""
    source, b = p.sharding, p.state.b
    shard = p.hlo.shape.as_array()
    equal = [d for d in range(shard.rank) if source.dimension(d) != 1 and source.dimension(d) == target.dimension(d)]
    if not equal:
        return None
    grouped = group_sharding_on_dims(source, equal)
    grouped_target = align_groups_with(group_sharding_on_dims(target, equal), grouped)
    sizes = list(p.base_shape.as_array().dimensions)
    for d in equal:
        sizes[d] = shard.dimensions[d]
    state = p.state.per_group(grouped.device_groups)
    copy = set_sharding(b.add(_O.COPY, (p.hlo,), shard), grouped.sharding)
    inner = PartitionedHlo(copy, resized(p.base_shape, sizes), state)
    made = inner.reshard_no_cache(grouped_target.sharding).hlo
    return p.with_hlo(made, ungroup_sharding(grouped_target)).reshard_no_cache(target)


def _within_manual_subgroups(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo:
    """Reshard within each group of devices that the program leaves to the partitioner."""
    source = p.sharding
    aligned = None
    if source.is_manual_subgroup and target.is_manual_subgroup:
        grouped = get_manual_subgroup_sharding(source)
        aligned = align_groups_with_if_compatible(get_manual_subgroup_sharding(target), grouped)
    if aligned is None:
        raise UnimplementedError(f"{p.hlo.name}: {source} and {target} have different manual subgroups")
    set_sharding(p.hlo, grouped.sharding)
    inner = PartitionedHlo(p.hlo, p.base_shape, p.state.per_group(grouped.device_groups))
    made = inner.reshard_no_cache(aligned.sharding).hlo
    set_sharding(p.hlo, source)
    return p.with_hlo(made, target)


def _from_replicated(p: PartitionedHlo, target: HloSharding, pad_value: Any | None) -> PartitionedHlo:
    """Slice each device's tile from the whole."""
    b, state = p.state.b, p.state
    if target.replicate_on_last_tile_dim:
        dims = list(range(len(target.dimensions) - 1))
        grouped = group_sharding_on_dims(target, dims)
        return p.with_hlo(per_group_slice_from_replicated(p.hlo, state.partition_id, grouped, dims, b), target)
    shape = p.hlo.shape.as_array()
    padded = pad_base_shape_before_uneven_tiled_sharding(p.hlo, target, b, pad_value)
    shard = make_partitioned_shape(shape, target).as_array()
    offsets = make_partition_offsets(shape, target, state.partition_id, b)
    return p.with_hlo(b.add(_O.DYNAMIC_SLICE, (padded, *offsets), shard, dynamic_slice_sizes=shard.dimensions), target)
