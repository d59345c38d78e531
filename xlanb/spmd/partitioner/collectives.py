"""Create the partitioner's collectives and their device groups.

Follows SPMDCollectiveOpsCreator and GetPartitionGroups... The partitioner may work within groups of
devices. Then device numbers are those within a group, and a collective is made for all groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

import numpy as np

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Shape, TupleShape
from xlanb.spmd.hlo_sharding import Devices, HloSharding
from xlanb.spmd.partitioner.builder import UNREDUCED, SpmdBuilder
from xlanb.spmd.partitioner.causes import Causes
from xlanb.spmd.partitioner.utilities import create_zero, resized, table_lookup

_O = HloOpcode


@dataclass(frozen=True)
class ReplicaGroups:
    """Device groups with their XLA text.

    `is_listed` if the text is the plain list; groups derived from it are listed too.
    """

    rows: tuple[tuple[int, ...], ...]
    text: str
    is_listed: bool = False

    @staticmethod
    def listed(rows: Iterable[Iterable[int]]) -> ReplicaGroups:
        """Return groups with text like `{{0,1},{2,3}}`."""
        groups = tuple(tuple(int(d) for d in row) for row in rows)
        return ReplicaGroups(groups, "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}", True)

    @staticmethod
    def iota(rows: Devices) -> ReplicaGroups:
        """Return groups with text like `[2,2]<=[4]`, or listed if no iota expresses them."""
        text = str(HloSharding.tile(rows)).removeprefix("{devices=").removesuffix("}")
        if "<=" not in text:
            return ReplicaGroups.listed(rows.tolist())
        return ReplicaGroups(tuple(map(tuple, rows.tolist())), text)

    @property
    def group_size(self) -> int:
        """Number of devices per group."""
        return len(self.rows[0]) if self.rows else 0

    def within(self, device_groups: Devices) -> ReplicaGroups:
        """Return the same groups in every group of devices (ExpandDeviceGroups)."""
        if not self.rows:
            return ReplicaGroups.listed(device_groups.tolist())
        expanded = device_groups[:, np.array(self.rows)].reshape(-1, self.group_size)
        return ReplicaGroups.listed(expanded.tolist()) if self.is_listed else ReplicaGroups.iota(expanded)

    def over_replicas(self, num_replicas: int, num_partitions: int) -> ReplicaGroups:
        """Return the same groups in every replica."""
        if num_replicas == 1:
            return self
        offsets = np.arange(num_replicas).reshape(-1, 1, 1) * num_partitions
        rows = (offsets + np.array(self.rows)).reshape(-1, self.group_size)
        return ReplicaGroups.listed(rows.tolist()) if self.is_listed else ReplicaGroups.iota(rows)


EVERYONE = ReplicaGroups((), "{}", True)
"""All partitions as one group."""


@dataclass
class Channels:
    """Numbers a module's channels, and records why each was opened."""

    causes: Causes
    next: int = 1

    def open(self, collective: str) -> int:
        """Return a new channel id for a collective of this opcode."""
        channel, self.next = self.next, self.next + 1
        self.causes.record(channel, collective)
        return channel


@dataclass(frozen=True)
class CollectiveOps:
    """Makes collectives over all partitions, or within nested groups of them.

    `within` lists the groupings, innermost last.
    """

    b: SpmdBuilder
    channels: Channels
    num_partitions: int
    num_replicas: int = 1
    within: tuple[Devices, ...] = field(default=(), repr=False)

    def in_groups(self, device_groups: Devices) -> CollectiveOps:
        """Return a copy that makes collectives within each of these groups (rows of devices)."""
        if device_groups.shape[0] == 1 and np.array_equal(device_groups[0], np.arange(device_groups.shape[1])):
            return self
        return replace(self, within=(*self.within, device_groups))

    def on(self, b: SpmdBuilder) -> CollectiveOps:
        """Return a copy that writes to another builder's computation."""
        return replace(self, b=b)

    def _expand(self, groups: ReplicaGroups) -> ReplicaGroups:
        for device_groups in reversed(self.within):
            groups = groups.within(device_groups)
        return groups

    def partition_id(self) -> HloInstruction:
        """Return the number of this partition within its group."""
        found = self.b.add(_O.PARTITION_ID)
        for device_groups in self.within:
            found = in_group_partition_id(found, device_groups, self.b)
        return found

    def all_reduce(
        self, operand: HloInstruction, computation: HloComputation, groups: ReplicaGroups = EVERYONE
    ) -> HloInstruction:
        """Reduce `operand` over each group; the computation is cloned."""
        channel = self.channels.open("all-reduce")
        groups = self._expand(groups)
        if groups.is_listed and len(groups.rows) <= 1:
            groups = ReplicaGroups.listed([range(self.num_partitions)])
        return self.b.add(
            _O.ALL_REDUCE,
            (operand,),
            operand.shape,
            channel_id=channel,
            replica_groups=groups.over_replicas(self.num_replicas, self.num_partitions).text,
            use_global_device_ids=True,
            to_apply=self.b.module.clone_computation(computation, f"{computation.name}.clone"),
        )

    def all_gather(
        self, operand: HloInstruction, shape: Shape, groups: ReplicaGroups, dimension: int
    ) -> HloInstruction:
        """Concatenate the operands of each group along a dimension."""
        channel = self.channels.open("all-gather")
        return self.b.add(
            _O.ALL_GATHER,
            (operand,),
            shape,
            channel_id=channel,
            replica_groups=self._expand(groups).over_replicas(self.num_replicas, self.num_partitions).text,
            dimensions=(dimension,),
            use_global_device_ids=True,
        )

    def all_to_all(
        self,
        operands: Sequence[HloInstruction],
        groups: ReplicaGroups,
        split_dimension: int | None = None,
    ) -> HloInstruction:
        """Send a piece of each device's operand to each other device of its group.

        The pieces are along `split_dimension`, or without one, an operand each.
        """
        channel = self.channels.open("all-to-all")
        shapes = [o.shape for o in operands]
        return self.b.add(
            _O.ALL_TO_ALL,
            operands,
            shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes)),
            channel_id=channel,
            replica_groups=self._expand(groups).over_replicas(self.num_replicas, self.num_partitions).text,
            dimensions=None if split_dimension is None else (split_dimension,),
        )

    def collective_permute(self, operand: HloInstruction, pairs: Iterable[tuple[int, int]]) -> HloInstruction:
        """Send each source's operand to its target; targets without a source get zero.

        Returns the operand itself if no device sends to another.
        """
        channel = self.channels.open("collective-permute")
        pairs = [(int(s), int(t)) for s, t in pairs]
        for device_groups in reversed(self.within):
            pairs = [(int(row[s]), int(row[t])) for row in device_groups for s, t in pairs]
        if not pairs:
            return create_zero(operand.shape, self.b)
        if len(pairs) == self.num_partitions and all(s == t for s, t in pairs):
            return operand
        return self.b.add(
            _O.COLLECTIVE_PERMUTE,
            (operand,),
            operand.shape,
            channel_id=channel,
            source_target_pairs=tuple(pairs),
        )


def in_group_partition_id(partition_id: HloInstruction, device_groups: Devices, b: SpmdBuilder) -> HloInstruction:
    """Return a partition's number within its group (GetInGroupPartitionId)."""
    table = np.zeros(device_groups.size, np.uint32)
    table[device_groups] = np.arange(device_groups.shape[1], dtype=np.uint32)
    return table_lookup(table, partition_id, b)


# -- device groups ---------------------------------------------------------------------------------


def get_partition_groups_for_replication(sharding: HloSharding, dims: Sequence[int]) -> ReplicaGroups:
    """Group the devices whose tiles differ only along these tile-assignment dimensions."""
    devices = sharding.tile_assignment
    size = math.prod(devices.shape[d] for d in dims)
    order = [d for d in range(devices.ndim) if d not in dims] + sorted(dims)
    rows = devices.transpose(order).reshape(-1, size)
    if not is_iota(sharding):
        return ReplicaGroups.listed(rows.tolist())
    if not dims:
        return ReplicaGroups.iota(rows)
    return ReplicaGroups(_rows(rows), _mesh_text(sharding, [f"'axis_{d}'" for d in dims]))


def get_partition_groups_across_target_dims(
    sharding: HloSharding, target_dims: Sequence[int], group_sizes: Sequence[int]
) -> ReplicaGroups:
    """Group `group_sizes` adjacent devices along the target dimensions of the tile assignment."""
    devices = sharding.tile_assignment
    split: list[int] = []
    minor: dict[int, int] = {}
    for d, tiles in enumerate(devices.shape):
        if d in target_dims:
            size = group_sizes[list(target_dims).index(d)]
            split += [tiles // size, size]
            minor[d] = len(split) - 1
        else:
            split.append(tiles)
    size = math.prod(group_sizes)
    listed = not is_iota(sharding)
    grouped = [minor[d] for d in sorted(target_dims)]
    order = [n for n in range(len(split)) if n not in grouped] + grouped
    rows = devices.reshape(split).transpose(order).reshape(-1, size)
    if listed or not target_dims:
        return ReplicaGroups.listed(rows.tolist())
    axes = []
    for d, group in zip(target_dims, group_sizes, strict=True):
        tiles = devices.shape[d]
        axes.append(f"'axis_{d}'" + ("" if tiles == group else f":({tiles // group}){group}"))
    return ReplicaGroups(_rows(rows), _mesh_text(sharding, axes))


def is_iota(sharding: HloSharding) -> bool:
    """Whether XLA keeps the tile assignment as an iota, not as a list of devices."""
    return "<=" in str(sharding)


def _rows(rows: Devices) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, rows.tolist()))


def _mesh_text(sharding: HloSharding, axes: Sequence[str]) -> str:
    """Return `mesh['axis_0'=4,'axis_1'=2] {'axis_1'}`: tile-assignment dimensions as mesh axes."""
    sizes = ",".join(f"'axis_{d}'={n}" for d, n in enumerate(sharding.dimensions))
    numbered = str(HloSharding.tile(sharding.tile_assignment.reshape(-1))).partition("<=")[2].removesuffix("}")
    ids = f", device_ids=({numbered})" if "T" in numbered else ""
    return f"mesh[{sizes}]{ids} {{{','.join(axes)}}}"


# -- along the dimensions of a sharding ------------------------------------------------------------


def all_gather_shards(
    operand: HloInstruction, sharding: HloSharding, dims: Sequence[int], collectives: CollectiveOps
) -> HloInstruction:
    """Gather tiles along some dimensions by one all-gather per dimension, last dimension first.

    Follows SpmdPartitioner::AllGatherShards.
    """
    for d in reversed(dims):
        if sharding.dimension(d) == 1:
            continue
        groups = get_partition_groups_for_replication(sharding, [d])
        shape = operand.shape.as_array()
        sizes = list(shape.dimensions)
        sizes[d] *= groups.group_size
        operand = collectives.all_gather(operand, resized(shape, sizes), groups, d)
    return operand


def all_reduce_along_sharding_dims(
    operand: HloInstruction,
    sharding: HloSharding,
    dims: Sequence[int],
    collectives: CollectiveOps,
    reduction: HloComputation,
) -> HloInstruction:
    """Sum over the devices along some sharding dimensions.

    Writes one all-reduce per dimension, last dimension first.
    """
    if any(name == UNREDUCED for name, _ in operand.frontend_attributes):
        return operand
    for d in reversed(dims):
        if sharding.dimension(d) == 1:
            continue
        groups = get_partition_groups_for_replication(sharding, [d])
        operand = collectives.all_reduce(operand, reduction, groups)
    return operand
