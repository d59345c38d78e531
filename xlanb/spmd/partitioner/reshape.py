"""Partition reshapes: on each device if tiles map to tiles, else by halos, else on the whole."""

from __future__ import annotations

import math

from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.grouping import align_groups_with
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import (
    ceil_of_ratio,
    create_zero,
    make_partitioned_shape,
    resized,
    set_sharding,
    unique_tiled_dim,
    with_devices,
)
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    group_sharding_on_dims,
    propagate_sharding_through_reshape,
    reshape_sharding,
    ungroup_sharding,
)

_O = HloOpcode


@handles("reshape")
def handle_reshape(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Reshape between a pair of shardings whose tiles map to each other.

    Otherwise reshape within groups of devices.
    """
    sharding = v.sharding(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    operand = v.partitioned(hlo.operands[0])
    pairs = _pairs(operand.sharding, sharding, hlo.operands[0].shape.as_array(), hlo.shape.as_array())
    if not pairs:
        reason = "the tiles of the reshape's operand are not tiles of its result"
        with v.state.because(hlo, 0, operand.sharding, sharding, reason):
            v.set_partitioned(hlo, _through_groups(operand, sharding, hlo.shape.as_array()))
        return
    before, after = pairs[0]
    resharded = v.resharded(hlo, 0, before).hlo
    made = v.b.clone(hlo, [resharded], make_partitioned_shape(hlo.shape, after))
    arrived = v.arrived(hlo, made, after, hlo.shape)
    v.set_partitioned(hlo, arrived.hlo)
    if len(pairs) == 2 and pairs[1][0] == operand.sharding and pairs[1][1] != sharding:
        other = pairs[1][1]
        cached = v.b.clone(hlo, [operand.hlo], make_partitioned_shape(hlo.shape, other))
        set_sharding(cached, other)
        arrived.add_reshard_cache(other, PartitionedHlo(cached, hlo.shape, v.state))


def _pairs(
    operand: HloSharding, result: HloSharding, before: ArrayShape, after: ArrayShape
) -> list[tuple[HloSharding, HloSharding]]:
    """Return operand and result shardings between which each tile is reshaped on its own."""
    found = []
    wanted = reshape_sharding(after, before, result)
    if wanted is not None:
        found.append((wanted, result))
    given = reshape_sharding(before, after, operand)
    if given is not None:
        back = reshape_sharding(after, before, given)
        if back is not None:
            found.append((back, given))
    return [(b, a) for b, a in found if b.num_tiles() == a.num_tiles()]


def _through_groups(operand: PartitionedHlo, sharding: HloSharding, shape: ArrayShape) -> HloInstruction:
    """Reshape within the groups of devices along the dimensions that carry over.

    The rest is done by `_reshape_tiles`.
    """
    base, b = operand.base_shape.as_array(), operand.state.b
    propagated = propagate_sharding_through_reshape(base, shape, operand.sharding)
    back = reshape_sharding(shape, base, propagated) if propagated.is_tiled else None
    if back is None:
        return _reshape_tiles(operand, sharding, shape)
    inner_base, inner_shape = list(base.dimensions), list(shape.dimensions)
    operand_dims, result_dims = [], []
    for d in range(base.rank):
        if back.dimension(d) > 1:
            operand_dims.append(d)
            inner_base[d] = operand.hlo.shape.as_array().dimensions[d]
    use_result = sharding.num_tiles() > propagated.num_tiles()
    for d in range(shape.rank):
        tiles = propagated.dimension(d)
        if tiles > 1:
            inner_shape[d] = ceil_of_ratio(shape.dimensions[d], tiles)
            result_dims.append(d)
            use_result = use_result and tiles == sharding.dimension(d)
    operand_groups = group_sharding_on_dims(operand.sharding, operand_dims)
    result_groups = group_sharding_on_dims(sharding if use_result else propagated, result_dims)
    if use_result:
        result_groups = align_groups_with(result_groups, operand_groups)
    state = operand.state.per_group(operand_groups.device_groups)
    copy = set_sharding(b.add(_O.COPY, (operand.hlo,), operand.hlo.shape), operand_groups.sharding)
    inner = PartitionedHlo(copy, resized(base, inner_base), state)
    made = _through_groups(inner, result_groups.sharding, resized(shape, inner_shape))
    set_sharding(made, ungroup_sharding(result_groups))
    return PartitionedHlo(made, shape, operand.state).reshard(sharding).hlo


def _on_the_whole(operand: PartitionedHlo, sharding: HloSharding, shape: ArrayShape) -> HloInstruction:
    made = operand.state.b.add(_O.RESHAPE, (operand.replicate().hlo,), shape)
    set_sharding(made, HloSharding.replicate())
    return PartitionedHlo(made, shape, operand.state).reshard(sharding).hlo


def _reshape_tiles(operand: PartitionedHlo, sharding: HloSharding, shape: ArrayShape) -> HloInstruction:
    """Split a tiled dimension, or merge it with others, with a halo where tile boundaries differ.

    If that is not possible, reshape the whole.
    """
    source = operand.sharding
    before, after = unique_tiled_dim(source), unique_tiled_dim(sharding)
    if source.num_tiles() != sharding.num_tiles() or before is None or after is None:
        return _on_the_whole(operand, sharding, shape)
    base = operand.base_shape.as_array()
    if math.prod(base.dimensions[:before]) != math.prod(shape.dimensions[:after]):
        return _on_the_whole(operand, sharding, shape)
    operand = operand.reshard(with_devices(sharding, sharding.tile_assignment.reshape(source.dimensions)))
    copies = sharding.dimensions[-1] if sharding.replicate_on_last_tile_dim else 1
    tiles = sharding.num_devices // copies
    had, wanted = base.dimensions[before], shape.dimensions[after]
    shard = make_partitioned_shape(shape, sharding).as_array()
    made: HloInstruction | None = None
    if had % wanted == 0:
        size = shard.dimensions[after] * (had // wanted)
        exchanged = _with_halo(operand, operand.sharding, shape.rank, before, size * tiles - had)
        made = None if exchanged is None else operand.state.b.add(_O.RESHAPE, (exchanged,), shard)
    elif wanted % had == 0:
        local = make_partitioned_shape(base, operand.sharding).as_array().dimensions[before] * (wanted // had)
        sizes = list(shard.dimensions)
        sizes[after] = local
        reshaped = operand.state.b.add(_O.RESHAPE, (operand.hlo,), resized(shard, sizes))
        set_sharding(reshaped, sharding)
        sizes[after] = local * tiles
        whole = PartitionedHlo(reshaped, resized(shard, sizes), operand.state)
        made = _with_halo(whole, sharding, shape.rank, after, wanted - local * tiles)
    return _on_the_whole(operand, sharding, shape) if made is None else made


def _with_halo(p: PartitionedHlo, target: HloSharding, rank: int, dim: int, padding_high: int) -> HloInstruction | None:
    """Pad (or trim) the end of one dimension, so that its tiles begin at other offsets."""
    rank = max(rank, p.base_shape.as_array().rank)
    window = Window(tuple(WindowDimension(1, padding_high=padding_high if d == dim else 0) for d in range(rank)))
    zero = create_zero(array(p.base_shape.as_array().element_type), p.state.b)
    made = p.reshard_as_windowed_input(window, target, zero, mask_invalid_region=False)
    return None if made is None else made.sharded_input
