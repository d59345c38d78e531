"""Facts about TPU chips, for rooflines and for interpreting dumps.

Sources: Google Cloud's pages "TPU v4", "v5e", "v5p", "v6e" and "TPU7x" (peaks, HBM, cores,
interconnect); the appendix of Google DeepMind's "How to Scale Your Model" (links);
jax/_src/pallas/mosaic/tpu_info.py of jax 0.10.2 (VMEM, matrix units); "TPU v4: An Optically
Reconfigurable Supercomputer" (ISCA 2023; the clock of v4). The other clocks follow from the peak:
v5e and v5p do one row of 128 x 128 multiply-adds per cycle in each matrix unit, v6e and tpu7x two
of 256 x 256 (libtpu's hlo-static-bundle-profile: a packed bfloat16 matmul of 16 rows every 8
bundles), which gives 1.5, 1.75, 1.75 and 2.2 GHz.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True)
class TpuChip:
    """One chip.

    Peaks in operations per second and bandwidths in bytes per second are of the whole chip.

    Attributes:
        mxu: the side of a matrix unit.
        mxus: matrix units per core.
        vmem_bytes: VMEM per core.
        ici_links: links to its neighbors.
        ici_bandwidth: of one link in one direction.
        codename: its name in libtpu's dumps.
        int8_ops: 0 if int8 is not multiplied faster than bfloat16.
        fp8_flops: 0 if fp8 is not multiplied faster than bfloat16.
        devices: how many JAX devices it is: one for both cores of v4 and v5p, one for each core of
            tpu7x. A compiled program is for one device.
    """

    name: str
    codename: str
    clock: float
    cores: int
    devices: int
    mxu: int
    mxus: int
    bf16_flops: float
    int8_ops: float
    fp8_flops: float
    hbm_bytes: int
    hbm_bandwidth: float
    vmem_bytes: int
    ici_links: int
    ici_bandwidth: float

    @property
    def device_flops(self) -> float:
        """Peak bfloat16 operations per second of one device."""
        return self.bf16_flops / self.devices

    @property
    def device_bandwidth(self) -> float:
        """HBM bytes per second of one device."""
        return self.hbm_bandwidth / self.devices

    @property
    def ridge(self) -> float:
        """Operations per byte of HBM above which arithmetic is the limit."""
        return self.bf16_flops / self.hbm_bandwidth

    def seconds(self, bundles: float) -> float:
        """Return the time of a number of bundles, one per cycle."""
        return bundles / self.clock

    def roofline(self, flops: float, bytes_accessed: float) -> tuple[float, str]:
        """Return a device's minimum seconds, and the bound: "compute" or "memory".

        The inputs are bfloat16 flops and bytes of HBM.
        """
        compute = flops / self.device_flops
        memory = bytes_accessed / self.device_bandwidth
        return (compute, "compute") if compute > memory else (memory, "memory")


CHIPS: Final = {
    c.name: c
    for c in (
        TpuChip("v4", "PUFFERFISH", 1.05e9, 2, 1, 128, 4, 275e12, 275e12, 0, 32 * _GIB, 1.228e12, 16 * _MIB, 6, 45e9),
        TpuChip(
            "v5e", "VIPERFISH lite", 1.5e9, 1, 1, 128, 4, 197e12, 394e12, 0, 16 * _GIB, 0.819e12, 128 * _MIB, 4, 45e9
        ),
        TpuChip("v5p", "VIPERFISH", 1.75e9, 2, 1, 128, 4, 459e12, 918e12, 0, 95 * _GIB, 2.765e12, 64 * _MIB, 6, 90e9),
        TpuChip(
            "v6e", "GHOSTLITE", 1.75e9, 1, 1, 256, 2, 918e12, 1836e12, 918e12, 32 * _GIB, 1.64e12, 128 * _MIB, 4, 90e9
        ),
        TpuChip(
            "tpu7x", "6acc60406", 2.2e9, 2, 2, 256, 2, 2307e12, 0, 4614e12, 192 * _GIB, 7.38e12, 64 * _MIB, 6, 90e9
        ),
    )
}
"""By the prefix of a topology's name: "v5e:2x2" has chip "v5e"."""

_VERSION = re.compile(r'\bversion: TPU_VERSION_(\w{1,40})(?:\s+variant: "(\w{1,40})")?')
_CODENAMES = {c.codename: c for c in CHIPS.values()}


def chip_of_target(text: str) -> TpuChip | None:
    """Return the chip of a module's target_arguments.txt, or None if it names no known one."""
    found = _VERSION.search(text)
    return _CODENAMES.get(" ".join(part for part in found.groups() if part)) if found is not None else None
