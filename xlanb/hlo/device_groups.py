"""The participants of a collective: its replica groups, or pairs, as groups of devices.

Source: GetParticipatingDevices in collective_ops_utils.cc. A device's number is replica *
partitions + partition. `group_mode` says what the numbers in an instruction's groups mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from xlanb.errors import HloVerifierError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.replica_groups import replica_groups
from xlanb.hlo.verifier.collectives import group_mode
from xlanb.lazy_dataclass import dataclass

_O = HloOpcode
_PERMUTES: Final = frozenset((_O.COLLECTIVE_PERMUTE, _O.COLLECTIVE_PERMUTE_START))

IN_GROUPS: Final = frozenset(
    {
        _O.ALL_GATHER, _O.ALL_GATHER_START, _O.ALL_REDUCE, _O.ALL_REDUCE_START, _O.ALL_TO_ALL, _O.RAGGED_ALL_TO_ALL,
        _O.REDUCE_SCATTER, _O.COLLECTIVE_BROADCAST, _O.COLLECTIVE_REDUCE,
    }
)  # fmt: skip
"""Collectives among the members of a group.

A collective-permute has sources and targets instead.
"""

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DeviceGrid:
    """The number of devices that a module runs on: replicas, and partitions per replica."""

    replicas: int = 1
    partitions: int = 1

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions

    def of(self, device: int) -> tuple[int, int]:
        """Replica and partition of a device."""
        return divmod(device, self.partitions)


def device_groups(i: HloInstruction, grid: DeviceGrid) -> Groups:
    """The groups of devices of a collective, each in the order of its members.

    For a collective-permute, the groups of devices among which it may send.

    Raises:
        HloVerifierError: the groups name a participant that does not exist, or are empty but must
            not be.
    """
    if i.opcode in _PERMUTES:
        return _all_groups("{}", group_mode(i), grid)
    text: str = i.attributes.get("replica_groups") or "{}"
    try:
        return _all_groups(text, group_mode(i), grid)
    except IndexError:
        raise HloVerifierError(
            f"replica_groups={text} name a participant outside of the {grid.replicas} replicas and "
            f"{grid.partitions} partitions:\n  {i}"
        ) from None


@lru_cache(maxsize=4096)
def _all_groups(text: str, mode: str, grid: DeviceGrid) -> Groups:
    """The groups of a mode as groups of devices.

    Each group of replicas occurs once per partition, each group of partitions once per replica.
    """
    devices = np.arange(grid.count).reshape(grid.replicas, grid.partitions)
    numbered = replica_groups(text)
    everybody = {"cross_partition": grid.partitions, "flattened_id": grid.count}.get(mode, grid.replicas)
    groups = [list(g) for g in numbered] or [list(range(everybody))]
    if mode == "flattened_id":
        return tuple(tuple(devices.reshape(-1)[g].tolist()) for g in groups)
    if mode == "cross_partition":
        return tuple(row for g in groups for row in map(tuple, devices[:, g].tolist()))
    if mode == "cross_replica_and_partition":
        return tuple(tuple(devices[g].reshape(-1).tolist()) for g in groups)
    return tuple(row for g in groups for row in map(tuple, devices[g].T.tolist()))


def group_of(i: HloInstruction, device: int, grid: DeviceGrid) -> tuple[int, ...]:
    """The group of a device.

    Raises:
        HloVerifierError: it is in no group.
    """
    found = next((g for g in device_groups(i, grid) if device in g), None)
    if found is None:
        raise HloVerifierError(f"device {device} takes part in {i.name}, but is in none of its groups:\n  {i}")
    return found


def device_pairs(i: HloInstruction, device: int, grid: DeviceGrid) -> list[tuple[int, int]]:
    """(source, target) devices of a collective-permute, among those that `device` permutes with."""
    return pairs_of_devices(i.attributes.get("source_target_pairs") or (), group_mode(i), device, grid)


def pairs_of_devices(pairs: Sequence[Sequence[int]], mode: str, device: int, grid: DeviceGrid) -> list[tuple[int, int]]:
    """Pairs of replicas or partitions as pairs of devices."""
    replica, partition = grid.of(device)
    if mode == "cross_partition":
        return [(replica * grid.partitions + s, replica * grid.partitions + t) for s, t in pairs]
    return [(s * grid.partitions + partition, t * grid.partitions + partition) for s, t in pairs]


def device_grid(module: HloModule) -> DeviceGrid:
    """The devices that a module runs on.

    Taken from its header or, if that has no counts, from the largest number in its groups.
    """
    replicas, partitions = (int(module.header.get(k) or 1) for k in ("replica_count", "num_partitions"))
    if replicas * partitions > 1:
        return DeviceGrid(replicas, partitions)
    for i in module.instructions():
        if i.opcode in IN_GROUPS or i.opcode in _PERMUTES:
            count = _largest_member(i) + 1
            if group_mode(i) in ("cross_partition", "flattened_id"):
                partitions = max(partitions, count)
            else:
                replicas = max(replicas, count)
    return DeviceGrid(replicas, partitions)


MOST_DEVICES: Final = 4096
"""Groups with more members are not expanded."""


def _largest_member(i: HloInstruction) -> int:
    if i.opcode in _PERMUTES:
        return max((n for pair in i.attributes.get("source_target_pairs") or () for n in pair), default=0)
    text: str = i.attributes.get("replica_groups") or "{}"
    tile = re.match(r"\[(\d+),(\d+)\]<=", text)
    if tile is not None and int(tile[1]) * int(tile[2]) > MOST_DEVICES:
        return int(tile[1]) * int(tile[2]) - 1
    return max((n for g in replica_groups(text) for n in g), default=0)
