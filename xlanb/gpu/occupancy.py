"""Occupancy: how many blocks of a kernel a multiprocessor holds at once, and what limits that.

The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h). Registers are allocated to
warps in units of 256 in each partition of a multiprocessor, shared memory to blocks in the
architecture's unit. Shared memory that the system reserves per block counts too.
"""

from __future__ import annotations

import math

from xlanb.gpu.devices import Architecture, GpuDevice
from xlanb.lazy_dataclass import dataclass

REGISTER_UNIT = 256
MAX_REGISTERS = 255
"""Per thread."""
_THREADS_PER_BLOCK = 1024


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one multiprocessor holds at once, out of `max_warps`.

    Attributes:
        limited_by: the first limit: "threads", "registers", "shared memory" or "blocks".
        limits: how many blocks each of them would allow.
        waves: how many times the launch fills all multiprocessors; 0 if its grid is not known.
    """

    blocks: int
    warps: int
    max_warps: int
    limited_by: str
    limits: tuple[tuple[str, int], ...]
    waves: float = 0.0

    @property
    def fraction(self) -> float:
        """Warps held as a fraction of the maximum, 0 to 1."""
        return self.warps / self.max_warps if self.max_warps else 0.0

    def __str__(self) -> str:
        waves = f", {self.waves:.3g} wave{'s' * (self.waves != 1)}" if self.waves else ""
        return f"{self.fraction:.0%} ({self.warps} of {self.max_warps} warps), limited by {self.limited_by}{waves}"


def occupancy(
    device: GpuDevice, threads: int, registers: int = 0, shared_bytes: int = 0, blocks: int = 0
) -> Occupancy | None:
    """Return the occupancy of a kernel, or None if it has no threads or if no block fits.

    Args:
        device: the GPU.
        threads: threads per block.
        registers: registers per thread; 0 (unknown) imposes no limit.
        shared_bytes: shared memory per block.
        blocks: blocks launched.
    """
    arch = device.architecture
    warps = math.ceil(threads / arch.threads_per_warp)
    if not 0 < threads <= _THREADS_PER_BLOCK:
        return None
    limits = (
        ("threads", arch.warps_per_core // warps),
        ("registers", _by_registers(arch, warps, registers)),
        ("shared memory", _by_shared_memory(arch, shared_bytes)),
        ("blocks", arch.blocks_per_core),
    )
    held = min(count for _, count in limits)
    if held <= 0:
        return None
    return Occupancy(
        held,
        held * warps,
        arch.warps_per_core,
        next(name for name, count in limits if count == held),
        limits,
        blocks / (held * device.cores),
    )


def _by_registers(arch: Architecture, warps: int, registers: int) -> int:
    """Return how many blocks' registers fit; a warp's are in one partition of a multiprocessor."""
    if registers <= 0 or not arch.registers_per_core:
        return arch.blocks_per_core
    partitions = 2 if arch.capability == (6, 0) else 4
    of_warp = _rounded(registers * arch.threads_per_warp, REGISTER_UNIT)
    # The launch limit assumes that the warps fill all partitions equally.
    if registers > MAX_REGISTERS or of_warp * _rounded(warps, partitions) > arch.registers_per_core:
        return 0
    return arch.registers_per_core // partitions // of_warp * partitions // warps


def _by_shared_memory(arch: Architecture, shared_bytes: int) -> int:
    taken = _rounded(shared_bytes + arch.reserved_shared_memory_per_block, arch.shared_memory_unit)
    if shared_bytes > max(arch.shared_memory_per_block_optin, arch.shared_memory_per_block):
        return 0
    return arch.shared_memory_per_core // taken if taken else arch.blocks_per_core


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
