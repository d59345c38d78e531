"""Estimate how long one launch takes on a GPU, by a roofline.

Data moves at the memory's speed, and computation runs at that of the units. This is a simple model
to compare launches, not to predict their time: all bytes go to memory once, repeated reads come
from the cache, multiprocessors without a block are idle, and few threads in flight do not hide the
memory's latency.
"""

from __future__ import annotations

from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.kernel_cost import KernelCost
from xlanb.gpu.occupancy import Occupancy
from xlanb.lazy_dataclass import dataclass

LAUNCH_SECONDS = 1e-6
"""The launch overhead assumed by XLA's model of fusion times."""

_LATENCY_S = 6e-7  # latency of a memory read
_IN_FLIGHT = 16  # bytes in flight per thread: one vector load
_CORE_BYTES = 64  # per clock that one multiprocessor reads from the cache
_LINK = ((7, 20e9), (10, 25e9))  # NVLink bytes per second and direction, below a compute capability
_LATEST_LINK = 50e9
_LIBRARY_BLOCKS = 1 << 30  # a library call is assumed to fill the device


@dataclass(frozen=True)
class Estimate:
    """The seconds of one launch, and the bottleneck.

    The bottleneck is "memory", "compute", "cache" (operands that are read once per tile),
    "occupancy" (too few threads to keep the memory busy), "launch" or "network". `memory` and
    `compute` are the seconds that each would take by itself.
    """

    seconds: float
    bound: str
    memory: float = 0.0
    compute: float = 0.0

    def __str__(self) -> str:
        return f"{duration(self.seconds)}, bound by {self.bound}"


def duration(seconds: float) -> str:
    """Format a time: "12.5 us", "1.54 ms"."""
    return f"{seconds * 1e6:.3g} us" if seconds < 999.5e-6 else f"{seconds * 1e3:.3g} ms"


def estimate(
    device: GpuDevice,
    work: KernelCost,
    blocks: int = 0,
    threads: int = 0,
    held: Occupancy | None = None,
    unit: str = "",
    cache_bytes: float = 0.0,
) -> Estimate:
    """Estimate the time of one launch of `blocks` of `threads`, with its occupancy.

    `unit` is the dtype that tensor cores multiply ("tf32", "bf16"), or "" for ordinary units.
    `blocks` is 0 for a library call, whose launch is not known. `cache_bytes` are what all blocks
    together read of their operands, if that exceeds the operands.
    """
    if work.network_bytes:
        return _collective(device, work)
    busy = min(blocks or _LIBRARY_BLOCKS, device.cores)
    share = busy / device.cores
    rate = _rate(device, work.dtype, unit, library=not blocks) * share
    compute = work.flops / rate if rate else 0.0
    cached = busy * _CORE_BYTES * device.clock_ghz * 1e9
    stream = min(device.bandwidth, cached)
    in_flight = _threads_in_flight(device, blocks, threads, held) * _IN_FLIGHT / _LATENCY_S
    memory = work.bytes / min(stream, in_flight)
    longest = max(compute, memory, cache_bytes / cached)
    bound = (
        "launch"
        if longest < LAUNCH_SECONDS
        else "cache"
        if longest > max(compute, memory)
        else "compute"
        if compute >= memory
        else "memory"
        if in_flight >= device.bandwidth
        else "occupancy"
    )
    return Estimate(LAUNCH_SECONDS + longest, bound, memory, compute)


def _rate(device: GpuDevice, dtype: str, unit: str, *, library: bool) -> float:
    """Return operations per second: of the tensor cores if used, else of ordinary units."""
    if unit or library:
        return device.flops(unit or dtype)
    fma = device.architecture.fma
    return 2e9 * device.cores * device.clock_ghz * (fma.get(dtype) or fma.get("f32", 0))


def _threads_in_flight(device: GpuDevice, blocks: int, threads: int, held: Occupancy | None) -> float:
    most = device.cores * device.architecture.threads_per_core
    if not blocks or not threads:
        return most
    at_once = device.cores * held.blocks if held is not None else blocks
    return min(most, min(blocks, at_once) * threads)


def _collective(device: GpuDevice, work: KernelCost) -> Estimate:
    """Estimate a collective, from the bytes that a device sends over all of its links."""
    link = next((rate for below, rate in _LINK if device.architecture.capability[0] < below), _LATEST_LINK)
    seconds = work.network_bytes / (max(device.links, 1) * link)
    return Estimate(LAUNCH_SECONDS + seconds, "network" if seconds > LAUNCH_SECONDS else "launch")
