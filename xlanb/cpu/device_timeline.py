"""Timeline of a run on several devices: arrivals at collectives, and who waited for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from xlanb.display import Plottable
from xlanb.hlo.device_groups import DeviceGrid, device_groups, device_pairs
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pandas as pd

_PERMUTES = (Op.COLLECTIVE_PERMUTE, Op.COLLECTIVE_PERMUTE_START)


@dataclass(frozen=True, eq=False)
class DeviceTimeline(Plottable):
    """One run: `visits` from Executable.timeline, of `module` on the devices of `grid`."""

    visits: pd.DataFrame
    module: HloModule
    grid: DeviceGrid

    @property
    def program(self) -> str:
        """The name of the module."""
        return self.module.name

    @cached_property
    def _by_name(self) -> Mapping[str, HloInstruction]:
        return {i.name: i for i in self.module.instructions()}

    def links(self, collective: str, came: Mapping[int, float]) -> Iterator[tuple[int, int]]:
        """Yield (device, waiting device) for one collective.

        The first is the last of its group to arrive, or the source of the value that the second
        receives.
        `came` is each device's arrival time.
        """
        i = self._by_name.get(collective)
        if i is None:
            return
        if i.opcode in _PERMUTES:
            pairs = {p for device in range(self.grid.count) for p in device_pairs(i, device, self.grid)}
            yield from (p for p in sorted(pairs) if all(d in came for d in p) and came[p[0]] > came[p[1]])
            return
        for group in _groups(i, self.grid):
            members = [d for d in group if d in came]
            if members:
                last = max(members, key=lambda d: came[d])
                yield from ((last, d) for d in members if d != last)


def _groups(i: HloInstruction, grid: DeviceGrid) -> tuple[tuple[int, ...], ...]:
    return device_groups(i, grid) if i.get("replica_groups") is not None else (tuple(range(grid.count)),)
