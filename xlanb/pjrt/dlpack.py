"""DLPack for xlanb's arrays, which pass as the CPU's without a copy.

JAX exports and imports only arrays of platforms that it knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlanb.frontends.jax import import_jax
from xlanb.pjrt.client import PLATFORM


def install() -> None:
    """Install the hooks; repeated calls change nothing."""
    array, inner, public = (import_jax(name) for name in ("jax._src.array", "jax._src.dlpack", "jax.dlpack"))
    if hasattr(inner.from_dlpack, "of_xlanb"):
        return
    for name in ("__dlpack__", "__dlpack_device__"):
        setattr(array.ArrayImpl, name, _exporting(getattr(array.ArrayImpl, name)))
    imported = _importing(inner.from_dlpack)
    for module in (inner, public):
        setattr(module, "from_dlpack", imported)  # noqa: B010 - a module has no such attribute for mypy


def _exporting(export: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `export`: an xlanb array is exported as a CPU array with the same memory."""

    @functools.wraps(export)
    def exported(array: Any, **named: Any) -> Any:
        if _device(array) is not None:
            array = _placed(array, import_jax().local_devices(backend="cpu")[0])
        return export(array, **named)

    return exported


def _importing(from_dlpack: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `from_dlpack` to return xlanb arrays if the target device is xlanb's.

    The target is the requested device, the given array's, or the default.
    """

    @functools.wraps(from_dlpack)
    def imported(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
        wanted = _target(external_array, device)
        if wanted is None:
            return from_dlpack(external_array, device=device, copy=copy)
        # in CPU memory, which XLA:CPU shares or copies according to `copy`
        return _placed(from_dlpack(external_array, copy=copy), wanted)

    imported.of_xlanb = True  # type: ignore[attr-defined]
    return imported


def _target(external: Any, device: Any) -> Any:
    """Return the xlanb device for an imported array, or None for another platform's."""
    jax = import_jax()
    if device is not None:
        found = device.device_set if isinstance(device, jax.sharding.Sharding) else {device}
        return device if all(getattr(d, "platform", None) == PLATFORM for d in found) else None
    if isinstance(external, jax.Array):
        return _device(external)
    if int(external.__dlpack_device__()[0]) != _CPU or jax.default_backend() != PLATFORM:
        return None
    chosen = jax.config.jax_default_device or jax.devices()[0]
    return chosen if getattr(chosen, "platform", None) == PLATFORM else None


_CPU = 1
"""DLPack's kDLCPU."""


def _device(array: Any) -> Any:
    """Return the xlanb device that an array is on, or None if another or several."""
    devices = array.devices()
    (first, *others) = devices
    return first if not others and first.platform == PLATFORM else None


def _placed(array: Any, device: Any) -> Any:
    """Return an array in the same memory on another platform's device of this processor."""
    return import_jax().device_put(np.asarray(array), device, may_alias=True)


__all__ = ["install"]
