"""Write a GpuTargetConfigProto, XLA:GPU's description of a device, in protobuf's text form.

Source: xla/stream_executor/device_description.proto.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlanb.errors import DumpError
from xlanb.gpu.devices import GpuDevice
from xlanb.shape.primitive_type import PrimitiveType

_DNN = (9, 10, 0)
"""The version of cuDNN to report."""
_RUNTIME = (12, 8, 0)
_TENSOR_CORES = 4
_UNIT_FIELDS = (("scalar_unit_description", "fma"), ("matrix_unit_description", "matrix_fma"))
_PLATFORM = re.compile(r'^\s*platform_name\s*:\s*"(\w+)"', re.MULTILINE)
_NAME = re.compile(r'^\s*(?:device_description_str|name)\s*:\s*"([^"\n]{1,200})"', re.MULTILINE)


@dataclass(frozen=True)
class Described:
    """A description's platform, "CUDA", "ROCM" or "SYCL", and its device's name."""

    platform: str
    name: str


def described(text: str) -> Described:
    """Return the platform and the name in a GpuTargetConfigProto's text.

    Raises:
        DumpError: it is not one, or its platform is unknown.
    """
    if "gpu_device_info" not in text:
        raise DumpError("not a GpuTargetConfigProto in text form: gpu_device_info is missing")
    platform, name = _PLATFORM.search(text), _NAME.search(text)
    if platform is None or platform[1] not in ("CUDA", "ROCM", "SYCL"):
        raise DumpError('a GpuTargetConfigProto needs platform_name: "CUDA", "ROCM" or "SYCL"')
    return Described(platform[1], name[1] if name else "")


def config_text(device: GpuDevice) -> str:
    """Describe a device, with all that is known about it.

    A plugin rejects fields that are newer than itself; the caller must remove them.
    """
    lines = ["gpu_device_info {", *(f"  {line}" for line in _device_lines(device)), "}"]
    lines.append(f'platform_name: "{device.architecture.platform}"')
    if device.architecture.platform == "CUDA":
        lines.append(f"dnn_version_info {{ major: {_DNN[0]} minor: {_DNN[1]} patch: {_DNN[2]} }}")
    lines.append(f'device_description_str: "{device.name}"')
    return "\n".join([*lines, ""])


def _device_lines(device: GpuDevice) -> list[str]:
    a = device.architecture
    values: dict[str, object] = {
        "threads_per_block_limit": 1024,
        "threads_per_warp": a.threads_per_warp,
        "shared_memory_per_block": a.shared_memory_per_block,
        "shared_memory_per_core": a.shared_memory_per_core,
        "threads_per_core_limit": a.threads_per_core,
        "core_count": device.cores,
        "fpus_per_core": a.fpus_per_core,
        "block_dim_limit_x": a.block_dim_limit[0],
        "block_dim_limit_y": a.block_dim_limit[1],
        "block_dim_limit_z": a.block_dim_limit[2],
        "memory_bandwidth": round(device.bandwidth),
        "l2_cache_size": device.l2_bytes,
        "clock_rate_ghz": device.clock_ghz,
        "device_memory_size": device.memory_bytes,
        "shared_memory_per_block_optin": a.shared_memory_per_block_optin,
        "registers_per_core_limit": a.registers_per_core or -1,
        "registers_per_block_limit": a.registers_per_core or -1,
        "thread_dim_limit_x": 1024,
        "thread_dim_limit_y": 1024,
        "thread_dim_limit_z": 64 if a.platform == "CUDA" else 1024,
        "name": f'"{device.name}"',
    }
    lines = [f"{name}: {value}" for name, value in values.items()]
    lines += _capability_lines(device)
    for field, rates in _UNIT_FIELDS:
        lines += _rate_lines(device, field, rates)
    if device.links:
        lines.append(f"device_interconnect_info {{ active_links: {device.links} }}")
    return lines


def _capability_lines(device: GpuDevice) -> list[str]:
    a = device.architecture
    if a.platform == "ROCM":
        return [f'rocm_compute_capability {{ gcn_arch_name: "{a.name}:sramecc+:xnack-" }}']
    if a.platform == "SYCL":
        return [f'oneapi_compute_capability {{ architecture: "{a.name}" }}']
    features = "ACCELERATED_FEATURES" if a.is_accelerated else "NONE"
    major, minor = a.capability
    versions = {
        "dnn_version": _DNN,
        "runtime_version": _RUNTIME,
        "driver_version": (13, 0, 0),
        "compile_time_toolkit_version": _RUNTIME,
    }
    return [
        f"cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}",
        *(f'{name}: "{".".join(map(str, v))}"' for name, v in versions.items()),
        f"max_blocks_per_multiprocessor: {a.blocks_per_core}",
        f"reserved_shared_memory_per_block: {a.reserved_shared_memory_per_block}",
        "collective_memory_granularity: 2097152",
    ]


def _rate_lines(device: GpuDevice, field: str, rates: str) -> list[str]:
    """Write the units' rates by dtype.

    A fused multiply-add counts as one operation; a core has four tensor cores.
    """
    scalar = rates == "fma"
    clock = device.clock_ghz if scalar else device.matrix_clock_ghz or device.clock_ghz
    lines = []
    for dtype, rate in getattr(device.architecture, rates).items():
        kind = "f32" if dtype == "tf32" else dtype
        units, each = (round(rate), 1) if scalar else (_TENSOR_CORES, round(rate / _TENSOR_CORES))
        number = PrimitiveType[kind.upper()].number
        value = f"clock_rate_ghz: {clock} units_per_core: {units} ops_per_clock: {each}"
        lines.append(f"  rate_infos {{ key: {number} value {{ {value} }} }}")
    return [f"{field} {{", *lines, "}"] if lines else []
