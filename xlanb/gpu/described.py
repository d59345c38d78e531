"""A GPU from the description that a program was compiled for.

Starts from the table of devices and overrides what the description states.

    gpu_device_info {
      core_count: 132
      cuda_compute_capability { major: 9 }
      ...
    }
    device_description_str: "NVIDIA H100 80GB HBM3"

Source of the fields: GpuTargetConfigProto and GpuDeviceInfoProto of
xla/stream_executor/device_description.proto.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from xlanb.gpu.devices import DEVICES, GpuDevice, device_of

_NAME = re.compile(r'^\s*(?:device_description_str|name)\s*:\s*"([^"\n]{1,200})"', re.MULTILINE)
_NUMBER = re.compile(r"^\s*(\w+)\s*:\s*(\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?)\s*$", re.MULTILINE)
_CAPABILITY = re.compile(r"\bcuda_compute_capability\s*\{([^{}]{0,400})\}")
_OF_ARCHITECTURE = {
    "threads_per_warp": "threads_per_warp",
    "threads_per_core": "threads_per_core_limit",
    "fpus_per_core": "fpus_per_core",
    "blocks_per_core": "max_blocks_per_multiprocessor",
    "registers_per_core": "registers_per_core_limit",
    "shared_memory_per_core": "shared_memory_per_core",
    "shared_memory_per_block": "shared_memory_per_block",
    "shared_memory_per_block_optin": "shared_memory_per_block_optin",
    "reserved_shared_memory_per_block": "reserved_shared_memory_per_block",
}


def device_name(text: str) -> str:
    """Return the device's name in a description, or ""."""
    names = _NAME.findall(text)
    return names[-1] if names else ""


def described_device(text: str) -> GpuDevice | None:
    """Return the GPU of a GpuTargetConfigProto in text form, or None if the table has none like it.

    For a device that is not in the table, missing facts come from the newest device of the same
    compute capability.
    """
    name = device_name(text)
    base = device_of(name) or _alike(text)
    if base is None:
        return None
    # The device's figures come first; its units have equally named clocks later.
    given = {key: float(value) for key, value in reversed(_NUMBER.findall(text))}
    arch = base.architecture
    limits = {ours: int(given[theirs]) for ours, theirs in _OF_ARCHITECTURE.items() if given.get(theirs, 0) > 0}
    found = replace(
        base,
        name=name or base.name,
        architecture=replace(arch, **limits),  # type: ignore[arg-type]
        cores=int(given.get("core_count", 0)) or base.cores,
        clock_ghz=given.get("clock_rate_ghz", 0.0) or base.clock_ghz,
        memory_bytes=int(given.get("device_memory_size", 0)) or base.memory_bytes,
        bandwidth=given.get("memory_bandwidth", 0.0) or base.bandwidth,
        l2_bytes=int(given.get("l2_cache_size", 0)) or base.l2_bytes,
    )
    return found if all(map(math.isfinite, _figures(found))) else None


def _figures(device: GpuDevice) -> Iterable[float]:
    return device.clock_ghz, device.bandwidth, float(device.cores)


def _alike(text: str) -> GpuDevice | None:
    """Return the newest device of the table with the same compute capability."""
    found = _CAPABILITY.search(text)
    if found is None:
        return None
    numbers = {key: int(n) for key, n in re.findall(r"(major|minor)\s*:\s*(\d{1,4})", found[1])}
    wanted = (numbers.get("major", 0), numbers.get("minor", 0))
    return next((d for d in reversed(tuple(DEVICES.values())) if d.architecture.capability == wanted), None)
