"""The targets that can be compiled for here, and packages to install for the others."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from xlanb.errors import MissingPeerError, XlanbError
from xlanb.gpu.devices import DEVICES
from xlanb.peers.targets.names import ALIASES_BY_KEY, PLATFORMS, TPUS, TargetName

if TYPE_CHECKING:
    import pandas as pd

_TERA, _GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Needs:
    """A platform's requirements: one of the distributions (its JAX plugins), and the install
    command.

    `obstacle` says what else is needed if the plugin does not start without the device, else "".
    """

    plugins: tuple[str, ...]
    command: str
    obstacle: str = ""


NEEDS = {
    "cuda": Needs(("jax-cuda12-plugin", "jax-cuda13-plugin"), "pip install 'xlanb[gpu]'"),
    "rocm": Needs(
        ("jax-rocm7-plugin", "jax-rocm60-plugin"),
        "pip install jax-rocm7-plugin jax-rocm7-pjrt",
        "only on a machine with an AMD GPU: JAX's ROCm plugin requires one, and loads AMD's ROCm libraries (not "
        "on PyPI)",
    ),
    "oneapi": Needs(("jax-oneapi-plugin",), "pip install 'xlanb[intel]'"),
    "tpu": Needs(("libtpu",), "pip install 'xlanb[tpu]'"),
}

_VERSIONED = (
    "jax",
    "jaxlib",
    *(plugin for needs in NEEDS.values() for plugin in needs.plugins),
    "jax-oneapi-pjrt",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-cuda-nvdisasm",
)
"""The inputs that a compilation depends on."""

_ASK = """
import json, importlib.metadata as metadata, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@cache
def versions(python: str = "") -> dict[str, str]:
    """The versions of JAX and its plugins in this environment, or in that of another Python.

    Raises:
        XlanbError: the other Python cannot be run.
    """
    if not python or python == sys.executable:
        return {name: here for name in _VERSIONED if (here := _version(name))}
    try:
        done = subprocess.run([python, "-c", _ASK, *_VERSIONED], capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise XlanbError(f"python={python!r} cannot list its packages: {error}") from error
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_installed(target: TargetName, python: str = "") -> None:
    """Raise MissingPeerError if a target's compiler is not installed; the message has the
    command.
    """
    found = versions(python)
    needs = NEEDS[target.platform]
    where = f" in the environment of {python}" if python else ""
    if "jaxlib" not in found or not any(p in found for p in needs.plugins):
        wanted = "JAX" if "jaxlib" not in found else needs.plugins[0]
        more = f" ({needs.obstacle})" if needs.obstacle else ""
        raise MissingPeerError(f"{target} needs {wanted}, which is not installed{where}: {needs.command}{more}")


def targets() -> pd.DataFrame:
    """Return a table of devices that can be compiled for, one row each.

    Columns: target, device, compiles ("yes", the command that installs the compiler, or what else
    it takes), cores, memory (GB), bandwidth (GB a second), bf16 and f32 (10^12 operations a second,
    0 without units for it). A GPU's name may be followed by ":8" (eight in one host) or ":2x8", a
    TPU's by its slice.
    """
    import pandas as pd

    found = versions()
    rows = []
    for key, device in DEVICES.items():
        platform = PLATFORMS[device.architecture.platform]
        rows.append({
            "target": ALIASES_BY_KEY.get(key, key),
            "device": device.name,
            "compiles": _here(platform, found),
            "cores": device.cores,
            "memory GB": round(device.memory_bytes / _GIGA),
            "bandwidth GB/s": round(device.bandwidth / _GIGA),
            "bf16 TFLOP/s": round(device.flops("bf16") / _TERA),
            "f32 TFLOP/s": round(device.flops("f32") / _TERA, 1),
        })  # fmt: skip
    rows += [
        {
            "target": f"tpu {c.removeprefix('tpu')}:{s}",
            "device": f"TPU {c.removeprefix('tpu')}",
            "compiles": _here("tpu", found),
        }
        for c, s in TPUS.items()
    ]
    frame = pd.DataFrame(rows)
    for name in ("cores", "memory GB", "bandwidth GB/s", "bf16 TFLOP/s"):
        frame[name] = frame[name].astype("Int64")
    return frame


def _here(platform: str, found: dict[str, str]) -> str:
    needs = NEEDS[platform]
    if needs.obstacle:
        return needs.obstacle
    return "yes" if "jaxlib" in found and any(p in found for p in needs.plugins) else needs.command
