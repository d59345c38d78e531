"""Create the program of one device from a program with a sharding on each instruction.

p = f32[8] parameter(0), sharding={devices=[4]<=[4]}      p = f32[2] parameter(0)
s = f32[] reduce(p, zero), to_apply=add              =>   r = f32[] reduce(p, zero), to_apply=add
                                                          s = f32[] all-reduce(r), to_apply=add,
                                                              replica_groups={{0,1,2,3}}
"""

from __future__ import annotations

from typing import ClassVar

from xlanb.hlo.module import HloModule
from xlanb.spmd.partitioner.driver import clear_shardings, is_partitioned, partition
from xlanb.transforms.base import HloPass
from xlanb.transforms.verdict import REAL, Verdict


class SpmdPartitioning(HloPass):
    """Partition a module over its num_partitions devices.

    If it is partitioned already, only remove the shardings.
    """

    name: ClassVar[str] = "spmd-partitioning"
    keeps: ClassVar[Verdict] = REAL  # each device sums its part first
    ulps: ClassVar[float] = 4.0

    def apply(self, module: HloModule) -> None:
        if not is_partitioned(module):
            partition(
                module, int(module.header.get("num_partitions", "1")), int(module.header.get("replica_count", "1"))
            )
        clear_shardings(module)
