"""Devices of nodes and clusters: full names, XLA's policy per kind, and the device of several
nodes.

Source: TensorFlow's device_util.cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from xlanb.graph.device import parse_device
from xlanb.graph.operation import Operation

IF_ASKED, IF_ENABLED, ALWAYS = "if explicitly requested", "if enabled globally", "always"


@dataclass(frozen=True, slots=True)
class CompilationDevice:
    """XLA's registration for a kind of device.

    `jit_device` has the kernels, `policy` says when nodes are compiled by default.
    `compiles_everything`: stateful random numbers, assertions, variants, stacks, arrays and slow
    operations too.
    """

    jit_device: str
    policy: str
    compiles_everything: bool = False


_COMPILATION_DEVICES = {
    "CPU": CompilationDevice("XLA_CPU_JIT", IF_ASKED),
    "GPU": CompilationDevice("XLA_GPU_JIT", IF_ENABLED),
    "XLA_CPU": CompilationDevice("XLA_CPU_JIT", ALWAYS, compiles_everything=True),
    "XLA_GPU": CompilationDevice("XLA_GPU_JIT", ALWAYS, compiles_everything=True),
}


@lru_cache(maxsize=1024)
def full_device_name(name: str) -> str:
    """Complete a device name as the placer does, with the local CPU's parts.

    Raises:
        GraphValueError: a malformed name.
    """
    parts = {"job": "localhost", "replica": "0", "task": "0", "device": "CPU:0", **parse_device(name)}
    device = parts["device"].replace("*", "0")
    return f"/job:{parts['job']}/replica:{parts['replica']}/task:{parts['task']}/device:{device}"


def device_of(op: Operation) -> str:
    """The full name of a node's device."""
    return full_device_name(op.device)


def device_type(name: str) -> str:
    """`CPU` of a full name."""
    return name.rpartition("device:")[2].partition(":")[0]


def compilation_device(name: str) -> CompilationDevice | None:
    """Return XLA's registration for a device, or None."""
    return _COMPILATION_DEVICES.get(device_type(name))


def pick_device(names: Iterable[str]) -> str:
    """Return the device of a cluster of nodes on these devices; "" if they cannot be combined.

    One GPU can be combined with one CPU; a device of another kind with neither.
    """
    by_kind: dict[str, str] = {}
    for name in names:
        kind = device_type(name) if device_type(name) in ("CPU", "GPU") else "unknown"
        if by_kind.setdefault(kind, name) != name:
            return ""
    if "unknown" in by_kind and len(by_kind) > 1:
        return ""
    return by_kind.get("GPU") or by_kind.get("unknown") or by_kind.get("CPU", "")
