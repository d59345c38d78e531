"""Times of kernels, and the arithmetic of their estimates (gpu_performance_model_base.h).

Times are whole ticks of a quarter of a nanosecond, as in XLA, so that priorities compare equally.
Numbers are rounded to single precision where XLA rounds them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from xlanb.gpu.devices import GpuDevice
from xlanb.lazy_dataclass import dataclass

TICKS_PER_MICROSECOND: Final = 4000
LAUNCH_OVERHEAD: Final = TICKS_PER_MICROSECOND
_OVERLAP: Final = 0.95
"""The fraction of the shorter of compute time and memory time that overlaps with the longer."""
_L2_SPEEDUP: Final = 2.5
_L1_SPEEDUP: Final = 8.0


@dataclass(frozen=True, slots=True)
class RunTime:
    """An estimate for one kernel, in ticks."""

    flops: int
    bytes_read: int
    bytes_written: int
    read_time: int
    write_time: int
    compute_time: int

    @property
    def exec_time(self) -> int:
        """The time of the kernel without its launch."""
        return combined(self.compute_time, self.read_time + self.write_time)


NEVER: Final = RunTime(0, 0, 0, 1 << 60, 0, 0)
"""The estimate for a kernel that needs too many registers."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a producer and its consumers in ticks, launches included.

    `fused` is with the producer fused into each consumer.
    """

    unfused: int
    fused: int

    @property
    def saved(self) -> int:
        """What fusing saves, in ticks."""
        return self.unfused - self.fused

    def __str__(self) -> str:
        return f"{microseconds(self.unfused)} us unfused, {microseconds(self.fused)} us fused"


def microseconds(ticks: int) -> float:
    """Return ticks in microseconds."""
    return ticks / TICKS_PER_MICROSECOND


def combined(compute_time: int, memory_time: int) -> int:
    """Return the time of computing and of memory accesses, which mostly overlap."""
    return compute_time + memory_time - rounded(min(compute_time, memory_time) * _OVERLAP)


def compute_time(device: GpuDevice, flops: int, blocks: int, threads: int) -> int:
    """Return the ticks of some operations in this many blocks."""
    active = min(blocks, device.cores) * min(threads, device.architecture.fpus_per_core)
    per_nanosecond = int(f32(device.clock_ghz) * 2 * active)
    return rounded(f32(f32(flops) / per_nanosecond) * 4) if per_nanosecond else 0


def read_time(device: GpuDevice, size: int, total: int, blocks: int, rate: float) -> int:
    """Return the ticks to read `total` bytes of a `size`-byte array, at `rate` (1: coalesced)."""
    arch = device.architecture
    net = min(size, total)
    memory = float(int(device.bandwidth))
    dram = f32(memory * rate)
    cached = f32(memory)
    if net < device.l2_bytes:
        cached = f32(cached * _L2_SPEEDUP)
        if net < arch.l1_bytes * device.cores:
            cached = f32(cached * _L1_SPEEDUP)
    else:
        cached = f32(cached * rate)
    most = f32(blocks * f32(f32(f32(device.clock_ghz) * f32(1e9)) * arch.transaction_bytes_per_clock))
    dram, cached = min(dram, most), min(cached, most)
    first = min(net, total)
    return seconds(f32(f32(first) / dram)) + seconds(f32(f32(total - first) / cached))


def f32(number: float) -> float:
    """Round to single precision."""
    return float(np.float32(number))


def seconds(number: float) -> int:
    """Return seconds in ticks."""
    return rounded(number * TICKS_PER_MICROSECOND * 1e6)


def rounded(number: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(number + 0.5) if number >= 0 else -math.floor(0.5 - number)
