"""Names of targets: "h100", "a100:8", "tpu v5e:2x2", the path of a GpuTargetConfigProto."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from xlanb.errors import ArgumentError, DumpError, nearest
from xlanb.files import is_file, read_regular
from xlanb.gpu.devices import ALIASES, DEVICES, GpuDevice, device_of
from xlanb.peers.targets.config_proto import config_text, described

_TPU = re.compile(r"(?:tpu[ _:-]*)?(?P<chip>v\d[a-z]?|tpu\d+x|\d+x)(?::(?P<shape>\d+(?:x\d+)*))?")
_GPU = re.compile(r"(?P<name>[a-z][\w-]*?)(?::(?P<shape>\d+(?:x\d+)?))?")
_MAX_CONFIG = 1 << 20
_MAX_DEVICES = 1 << 16

TPUS = {
    "v2": "2x2", "v3": "2x2", "v4": "2x2x1", "v5e": "2x2", "v5p": "2x2x1", "v6e": "2x2", "tpu7x": "2x2x1",
}  # fmt: skip
"""The generations of TPU that are supported, and the default slice: that of one host."""


ALIASES_BY_KEY = {key: alias for alias, key in ALIASES.items() if not alias.startswith("mi2")}
"""The short name of each device that has one."""


@dataclass(frozen=True)
class TargetName:
    """A compilation target.

    `name` is its canonical name, `platform` its JAX platform ("cuda", "rocm", "oneapi", "tpu"),
    `topology` the slice in that platform's notation ("1x8x1": hosts x GPUs x 1; "v5e:2x2").
    `config` is a GpuTargetConfigProto in text form and `device` the GPU, None if the table has no
    such device.
    """

    name: str
    platform: str
    topology: str
    config: str = ""
    device: GpuDevice | None = None

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU."""
        return self.platform == "tpu"

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return not self.is_tpu

    @property
    def device_count(self) -> int:
        """Return the topology's number of devices, by its shape; some TPUs have two per chip."""
        return _count(self.topology.rpartition(":")[2])

    def __str__(self) -> str:
        return self.name


def parse_target(name: str, devices: int = 0) -> TargetName:
    """Parse a target's name.

    GPUs: a key or short name of `xlanb.gpu.devices`, with ":8" for eight of them in one host or
        ":2x8" for two such hosts, or the path of a GpuTargetConfigProto (`.txtpb`, `.pbtxt`).
    TPUs: "tpu v5e:2x2", "v5p:2x2x1"; without a shape the slice of one host.

    `devices` is the number of GPUs if the name does not state it.

    Raises:
        ArgumentError: the name is unknown; the message lists the known ones.
    """
    text = name.strip()
    if text.endswith((".txtpb", ".pbtxt")):
        return _of_file(Path(text), devices)
    plain = text.lower()
    tpu = _TPU.fullmatch(plain)
    if tpu is not None:
        return _tpu(tpu["chip"], tpu["shape"], name)
    gpu = _GPU.fullmatch(plain)
    key = gpu["name"].replace("-", "_") if gpu is not None else ""
    device = DEVICES.get(ALIASES.get(key, key))
    if gpu is None or device is None:
        raise ArgumentError(f"unknown target {name!r}{nearest(key or plain, known_names())} {_WHAT_THERE_IS}")
    return _gpu(key, device, gpu["shape"] or "", devices, config_text(device))


def known_names() -> list[str]:
    """All names without a shape: short ones first."""
    return [*ALIASES, *(k for k in DEVICES if k not in ALIASES.values()), *(f"tpu {_plain(c)}" for c in TPUS)]


def _plain(chip: str) -> str:
    return chip.removeprefix("tpu")


_WHAT_THERE_IS = "(xlanb.targets() lists them; the .txtpb file of a GpuTargetConfigProto is also accepted)"


def _tpu(chip: str, shape: str | None, name: str) -> TargetName:
    key = chip if chip in TPUS else f"tpu{chip}"
    if key not in TPUS:
        raise ArgumentError(f"unknown TPU {name!r}; known TPUs: {', '.join(f'tpu {_plain(c)}' for c in TPUS)}")
    wanted = shape or TPUS[key]
    if wanted.count("x") != TPUS[key].count("x"):
        raise ArgumentError(f"{name!r}: a slice of {_plain(key)} is written as tpu {_plain(key)}:{TPUS[key]}")
    _check_count(wanted, name)
    return TargetName(f"tpu {_plain(key)}:{wanted}", "tpu", f"{key}:{wanted}")


def _gpu(key: str, device: GpuDevice | None, shape: str, devices: int, config: str) -> TargetName:
    wanted = shape or (str(devices) if devices > 1 else "")
    count = _check_count(wanted or "1", key)
    if shape and devices > 1 and devices != count:
        raise ArgumentError(f"{key}:{shape} has {count} devices, but devices={devices} was given")
    platform = described(config).platform if device is None else device.architecture.platform
    hosts, _, each = (wanted or "1").rpartition("x")
    name = f"{key}:{wanted}" if wanted and wanted != "1" else key
    return TargetName(name, PLATFORMS[platform], f"{hosts or 1}x{each}x1", config, device)


PLATFORMS = {"CUDA": "cuda", "ROCM": "rocm", "SYCL": "oneapi"}
"""JAX's name of a GPU's platform."""


def _count(shape: str) -> int:
    return math.prod(int(part[:9]) for part in shape.split("x"))


def _check_count(shape: str, name: str) -> int:
    count = _count(shape)
    if not 1 <= count <= _MAX_DEVICES:
        raise ArgumentError(f"{name!r}: a slice has 1 to {_MAX_DEVICES:,} devices, not {shape}")
    return count


def _of_file(path: Path, devices: int) -> TargetName:
    """The target that a GpuTargetConfigProto describes."""
    if not is_file(path):
        raise ArgumentError(f"{path}: no such file")
    data = read_regular(path, _MAX_CONFIG)
    if len(data) > _MAX_CONFIG:
        raise ArgumentError(f"{path}: expected a GpuTargetConfigProto of at most {_MAX_CONFIG:,} bytes")
    text = data.decode("utf-8", "replace")
    try:
        found = described(text)
    except DumpError as error:
        raise ArgumentError(f"{path}: {error}") from error
    return _gpu(path.name.partition(".")[0], device_of(found.name), "", devices, text)
