"""Estimate the bytes and the time of a collective from published bandwidth and latency.

With n members in a group and B operand bytes on each device, the best known (ring) algorithm sends
from each device:

    all-gather          (n - 1) B          each part passes every device but the last
    reduce-scatter      (n - 1) B / n
    all-reduce        2 (n - 1) B / n      a reduce-scatter, then an all-gather
    all-to-all          (n - 1) B / n
    collective-permute          B          if the target is another device
    collective-broadcast        B

The time is latency times steps plus bytes over bandwidth. It ignores contention and overlap with
other work, so use it to compare two plans, not to predict a run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from xlanb.errors import UnimplementedError, XlanbError, nearest
from xlanb.lazy_dataclass import dataclass


class Topology(Enum):
    """How the devices are connected."""

    MEMORY = "memory"
    SWITCH = "switch"
    RING = "ring"


@dataclass(frozen=True)
class Interconnect:
    """The link that devices send over.

    Attributes:
        bandwidth: bytes per second in one direction, from a device to the switch or to memory, or
            over one link of a ring.
        latency: seconds per step.
        source: where both figures come from.
    """

    name: str
    topology: Topology
    bandwidth: float
    latency: float
    source: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.bandwidth / 1e9:g} GB/s a direction, {self.latency * 1e6:g} us a step ({self.source})"
        )


_BOOK: Final = (
    "How to Scale Your Model, jax-ml.github.io/scaling-book/tpus: one-way ICI bandwidth a link, about 1 us a hop"
)
_CPU: Final = "threads of one process: an assumption; a run's timeline measures"
_H100: Final = "NVIDIA H100 data sheet: NVLink 900 GB/s both ways; NCCL's tuning table: 1.9 us a ring step"
_A100: Final = "NVIDIA A100 data sheet: NVLink 600 GB/s both ways; NCCL's tuning table: 1.9 us a ring step"
_INFINIBAND: Final = "NDR InfiniBand, 400 Gbit/s a port; latency an assumption"
INTERCONNECTS: Final[Mapping[str, Interconnect]] = {
    i.name: i
    for i in (
        Interconnect("cpu", Topology.MEMORY, 5e9, 2e-5, _CPU),
        Interconnect("h100", Topology.SWITCH, 450e9, 1.9e-6, _H100),
        Interconnect("a100", Topology.SWITCH, 300e9, 1.9e-6, _A100),
        Interconnect("v4", Topology.RING, 45e9, 1e-6, _BOOK),
        Interconnect("v5e", Topology.RING, 45e9, 1e-6, _BOOK),
        Interconnect("v5p", Topology.RING, 90e9, 1e-6, _BOOK),
        Interconnect("v6e", Topology.RING, 90e9, 1e-6, _BOOK),
        Interconnect("infiniband", Topology.SWITCH, 50e9, 5e-6, _INFINIBAND),
    )
}
"""Interconnects by name: threads, NVLink (GPUs), ICI (TPUs), InfiniBand (between machines)."""


def interconnect(name: str | Interconnect) -> Interconnect:
    """Return the interconnect of that name.

    Raises:
        XlanbError: there is no such interconnect; the message lists the nearest names.
    """
    if isinstance(name, Interconnect):
        return name
    if name not in INTERCONNECTS:
        raise XlanbError(f"unknown interconnect {name!r}{nearest(name, INTERCONNECTS)}")
    return INTERCONNECTS[name]


def bytes_moved(kind: str, operand_bytes: int, members: int) -> int:
    """Return the bytes that each device sends in a collective.

    The collective is given by its opcode's text and the number of members per group.

    Raises:
        UnimplementedError: the cost of this opcode is not known.
    """
    if members <= 1:
        return 0
    match kind:
        case "all-gather":
            return operand_bytes * (members - 1)
        case "all-reduce":
            return 2 * operand_bytes * (members - 1) // members
        case "reduce-scatter" | "all-to-all" | "ragged-all-to-all":
            return operand_bytes * (members - 1) // members
        case "collective-permute" | "collective-broadcast":
            return operand_bytes
    raise UnimplementedError(f"no cost model for a collective of kind {kind}")


def seconds(kind: str, operand_bytes: int, members: int, link: Interconnect) -> float:
    """Estimate the time of a collective in seconds.

    Raises:
        UnimplementedError: the cost of this opcode is not known.
    """
    moved = bytes_moved(kind, operand_bytes, members)
    if not moved:
        return 0.0
    return link.latency * _steps(kind, members, link.topology) + moved / _bandwidth(kind, members, link)


def _steps(kind: str, members: int, topology: Topology) -> int:
    if kind == "collective-permute":
        return 1
    passes = 2 if kind == "all-reduce" else 1
    if topology is Topology.MEMORY or (topology is Topology.SWITCH and "all-to-all" in kind):
        return passes
    # A ring uses both directions, so the farthest device is half of it away.
    return passes * (max(1, members // 2) if topology is Topology.RING else members - 1)


def _bandwidth(kind: str, members: int, link: Interconnect) -> float:
    if link.topology is not Topology.RING or kind == "collective-permute" or members == 2:
        return link.bandwidth
    if "all-to-all" in kind:
        # Data crosses n/4 links on average: n B n/4 bytes over 2 n links. Only (n - 1) B / n of
        # them count as sent.
        return 8 * link.bandwidth * (members - 1) / members**2
    return 2 * link.bandwidth


def seconds_text(time: float) -> str:
    """Format a time with its unit."""
    if time < 1e-3:
        return f"{time * 1e6:.1f} us"
    return f"{time * 1e3:.2f} ms" if time < 1 else f"{time:.2f} s"
