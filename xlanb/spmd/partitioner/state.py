"""The partitioner's state for one computation: builder, options and caches.

Follows PartitionedHlo::PartitioningState.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.hlo_sharding import Devices, HloSharding
from xlanb.spmd.partitioner.builder import SpmdBuilder
from xlanb.spmd.partitioner.causes import CauseKind, Causes
from xlanb.spmd.partitioner.collectives import CollectiveOps, all_reduce_along_sharding_dims, in_group_partition_id
from xlanb.spmd.partitioner.utilities import make_binary_add, sharding_of

if TYPE_CHECKING:
    from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo


@dataclass(frozen=True)
class PartitionerOptions:
    """XLA's SpmdPartitionerOptions, with the values of XLA:CPU.

    Sizes are in MiB (`threshold_for_windowed_einsum_mib`) or bytes
    (`total_bytes_windowed_einsum_threshold`; None means that the former applies).
    `preferred_*_partition_methods` are names of XLA's GatherScatterPartitioningMethod.
    """

    conv_halo_exchange_always_on_lhs: bool = True
    threshold_for_windowed_einsum_mib: int = 100000
    unroll_windowed_einsum: bool = False
    bidirectional_windowed_einsum: bool = False
    allow_module_signature_change: bool = True
    cache_all_gather: bool = True
    choose_faster_windowed_einsum_over_mem: bool = False
    bidirectional_decomposed_all_gather: bool = False
    skip_checking_windowed_einsum_users: bool = False
    enable_windowed_einsum_for_all_gather: bool = True
    enable_windowed_einsum_for_reduce_scatter: bool = True
    disable_ag_rewrite_for_multiple_consumers: bool = False
    partial_windowed_einsum: bool = False
    preferred_gather_partition_methods: tuple[str, ...] = ("explicit-batch", "index-parallel")
    preferred_scatter_partition_methods: tuple[str, ...] = ("explicit-batch", "index-parallel")
    total_bytes_windowed_einsum_threshold: int | None = None
    max_windowed_einsum_iteration: int = 32


@dataclass
class HloCache:
    """Cached reshards of one instruction.

    `reshard` is by target sharding, `window_reshard` by (target, window).
    """

    reshard: dict[HloSharding, PartitionedHlo] = field(default_factory=dict)
    window_reshard: dict[Any, Any] = field(default_factory=dict)


@dataclass
class ReshardCache:
    """Cached reshards of one computation.

    `grouped` are the caches within groups of devices, by group.
    """

    per_hlo: dict[HloInstruction, HloCache] = field(default_factory=dict)
    grouped: dict[tuple[tuple[int, ...], bytes], ReshardCache] = field(default_factory=dict)

    def of(self, hlo: HloInstruction) -> HloCache:
        """Return the cache of one instruction."""
        return self.per_hlo.setdefault(hlo, HloCache())

    def windowed(self, hlo: HloInstruction) -> dict[Any, Any]:
        """Return the cached windowed reshards of one instruction."""
        return self.of(hlo).window_reshard

    def within(self, device_groups: Devices) -> ReshardCache:
        """Return the cache within these groups of devices."""
        return self.grouped.setdefault((device_groups.shape, device_groups.tobytes()), ReshardCache())


@dataclass(frozen=True)
class PartitioningState:
    """The state of partitioning.

    `b` adds to the device's computation. `partition_id` and `collectives` are those of all devices,
    or of a group of them.
    """

    b: SpmdBuilder
    num_partitions: int
    num_replicas: int
    partition_id: HloInstruction
    collectives: CollectiveOps
    options: PartitionerOptions
    causes: Causes
    reshard_cache: ReshardCache = field(default_factory=ReshardCache)

    @property
    def module(self) -> HloModule:
        """The module that is partitioned."""
        return self.b.module

    @property
    def computation(self) -> HloComputation:
        """The device's computation."""
        return self.b.computation

    @property
    def builder(self) -> SpmdBuilder:
        """Alias of `b`."""
        return self.b

    def because(
        self,
        hlo: HloInstruction | None,
        operand: int | None,
        have: HloSharding | None,
        want: HloSharding | None,
        reason: str,
        *,
        kind: CauseKind | None = None,
        estimates: tuple[tuple[str, int], ...] = (),
        weak: bool = False,
    ) -> AbstractContextManager[None]:
        """Give every collective made in this block this reason.

        Without `kind`, a reason that begins with a kind and a colon ("halo: ...") names it;
        otherwise it is a reshard.

        Args:
            hlo: the source instruction.
            operand: number of the operand to move; None for the result.
            have: the sharding that it has.
            want: the sharding that it needs.
            reason: the reason in words.
            kind: what the collectives are for.
            estimates: costs in bytes, by name, that decided.
            weak: the cause counts only if the enclosing block has no reason.
        """
        if kind is None:
            word, colon, rest = reason.partition(": ")
            said = next((k for k in CauseKind if k.value == word), None) if colon else None
            kind, reason = (said, rest) if said is not None else (CauseKind.RESHARD, reason)
        if self.collectives.within and not weak:
            reason = f"{reason} (within groups of {self.num_partitions} devices)"
        if self.collectives.within:
            # Shardings within a group mean nothing outside it: name those of the source program.
            have = want = None
            if hlo is not None and operand is not None:
                have = sharding_of(hlo.operands[operand])
            elif hlo is not None:
                want = sharding_of(hlo)
        return self.causes.because(
            kind, reason, hlo=hlo, operand=operand, have=have, want=want, estimates=estimates, weak=weak
        )

    def per_group(self, device_groups: Devices) -> PartitioningState:
        """Return the state within groups of devices, one group per row."""
        return create_per_group_partitioning_state(self, device_groups)

    def all_reduce_along_sharding_dims(
        self,
        operand: HloInstruction,
        sharding: HloSharding,
        dims: Sequence[int],
        reduction: HloComputation | None = None,
    ) -> HloInstruction:
        """Reduce (by default sum) over the devices along some dimensions of a sharding."""
        if reduction is None:
            reduction = make_binary_add(operand.shape.as_array().element_type, self.module)
        return all_reduce_along_sharding_dims(operand, sharding, dims, self.collectives, reduction)


def create_per_group_partitioning_state(state: PartitioningState, device_groups: Devices) -> PartitioningState:
    """Return the state within groups of devices, one group per row.

    Partition 0 is the first of each group.
    """
    collectives = state.collectives.in_groups(device_groups)
    partition_id = in_group_partition_id(state.partition_id, device_groups, state.b)
    return replace(
        state,
        num_partitions=device_groups.shape[1],
        collectives=collectives,
        partition_id=partition_id,
        reshard_cache=state.reshard_cache.within(device_groups),
    )
