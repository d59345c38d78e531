"""Partition parameters, tuples, calls, loops and conditionals.

Also the program's own collectives, and the boundaries of its manual regions.
"""

from __future__ import annotations

import numpy as np

from xlanb.errors import UnimplementedError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.replica_groups import replica_groups
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.elementwise import handle_elementwise
from xlanb.spmd.partitioner.utilities import (
    as_tuple,
    create_r0,
    evenly_partitions,
    make_partitioned_shape,
    set_sharding,
)
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles, handles_target
from xlanb.spmd.sharding_util import get_manual_subgroup_sharding, ungroup_sharding

_O = HloOpcode


@handles("parameter")
def handle_parameter(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a parameter into one tile."""
    replicated = {k: w for k, w in hlo.attributes.items() if k == "parameter_replication"}
    number = hlo.attributes["parameter_number"]
    shape = make_partitioned_shape(hlo.shape, v.sharding(hlo))
    v.set_partitioned(hlo, v.b.add(_O.PARAMETER, (), shape, name="param", parameter_number=number, **replicated))


@handles("tuple")
def handle_tuple(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition each element by its sharding in the tuple."""
    sharding = v.sharding(hlo)
    operands = [
        v.resharded(hlo, n, sharding.subsharding(hlo.shape, n), "the tuple has another sharding for this element").hlo
        for n in range(len(hlo.operands))
    ]
    v.set_partitioned(hlo, v.b.add(_O.TUPLE, operands))


@handles("get-tuple-element")
def handle_get_tuple_element(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Take the element with the tuple's sharding, then reshard it."""
    if v.sharding(hlo).is_manual:
        v.default_action(hlo)
        return
    whole, index = v.partitioned(hlo.operands[0]), hlo.attributes["index"]
    base = as_tuple(whole.base_shape)
    made = v.b.get_tuple_element(whole.hlo, index)
    v.set_partitioned(hlo, v.arrived(hlo, made, whole.sharding.subsharding(base, index), base.shapes[index]))


@handles("call")
def handle_call(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Call the partitioned computation, whose parameters are sharded as the operands are."""
    operands = [v.partitioned(o).hlo for o in hlo.operands]
    v.set_partitioned(hlo, v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, v.sharding(hlo))))


@handles("while")
def handle_while(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Write the loop over one device's part of the state."""
    sharding = v.sharding(hlo)
    operand = v.resharded(hlo, 0, sharding, "the state of a loop has the sharding of its result").hlo
    v.set_partitioned(hlo, v.b.clone(hlo, [operand], make_partitioned_shape(hlo.shape, sharding)))


@handles("conditional")
def handle_conditional(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Write one conditional; the predicate is replicated, so all devices take the same branch."""
    operands = [v.partitioned(o).hlo for o in hlo.operands]
    sharding = v.sharding(hlo.operands[0])
    reason = "all devices must take the same branch"
    if sharding.is_manual_subgroup:
        grouped = get_manual_subgroup_sharding(sharding)
        whole = ungroup_sharding(
            type(grouped)(
                grouped.device_groups,
                grouped.group_dims,
                grouped.group_dim_sizes,
                grouped.data_rank,
                HloSharding.replicate(),
                grouped.subgroup_manual,
            )
        )
        operands[0] = v.resharded(hlo, 0, whole, reason).hlo
    elif not sharding.is_manual:
        operands[0] = v.replicated(hlo, 0, reason).hlo
    v.set_partitioned(hlo, v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, v.sharding(hlo))))


@handles("all-reduce")
def handle_all_reduce(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition an all-reduce across replicas elementwise.

    One across partitions is supported only in a manual region.
    """
    channel = hlo.attributes.get("channel_id")
    if channel is None:
        if len(hlo.operands) == 1:
            handle_elementwise(v, hlo)
        else:
            v.default_action(hlo)
        return
    if len(hlo.operands) != 1:
        raise UnimplementedError(f"an all-reduce of several arrays in a manual region is not supported: {hlo}")
    sharding = v.sharding(hlo)
    if not (sharding.is_manual or sharding.is_replicated):
        _check_groups(v, hlo, sharding)
    handle_elementwise(v, hlo)


def _check_groups(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> None:
    """Raise where an all-reduce crosses the groups of its manual subgroup."""
    if not sharding.is_manual_subgroup or not hlo.attributes.get("use_global_device_ids"):
        raise UnimplementedError(f"an all-reduce over partitions outside of a manual region is not supported: {hlo}")
    rest = np.moveaxis(sharding.tile_assignment, sharding.subgroup_manual_dim, -1)
    group_of = np.zeros(sharding.num_devices, np.int64)
    rows = rest.reshape(-1, rest.shape[-1])
    group_of[rows] = np.arange(rows.shape[0]).reshape(-1, 1)
    for group in replica_groups(str(hlo.attributes.get("replica_groups") or "{}")):
        if len({int(group_of[d % v.num_partitions]) for d in group}) > 1:
            raise UnimplementedError(f"an all-reduce over devices of several manual subgroups is not supported: {hlo}")


@handles("collective-permute")
def handle_collective_permute(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Keep a collective-permute of a manual region as it is."""
    if "channel_id" in hlo.attributes:
        handle_elementwise(v, hlo)
    else:
        v.default_action(hlo)


@handles("partition-id")
def handle_partition_id(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Return the device's number in a manual region."""
    sharding = v.sharding(hlo)
    if not sharding.is_manual:
        raise UnimplementedError(f"a partition-id outside of a manual region is ambiguous: {hlo}")
    set_sharding(hlo, HloSharding.assign_device(0))
    v.default_action(hlo)


@handles_target("SPMDFullToShardShape")
def handle_full_to_shard(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Enter a manual region: from here on the program works on the tile, padded with zero."""
    operand = v.partitioned(hlo.operands[0])
    if not evenly_partitions(hlo.shape, operand.sharding):
        operand = operand.pad_with_value(create_r0(hlo.shape.as_array().element_type, 0, v.b))
    v.set_partitioned(hlo, v.b.add(_O.COPY, (operand.hlo,), operand.hlo.shape))


@handles_target("SPMDShardToFullShape")
def handle_shard_to_full(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Leave a manual region."""
    operand = v.partitioned(hlo.operands[0]).hlo
    v.set_partitioned(hlo, v.b.add(_O.COPY, (operand,), operand.shape))
