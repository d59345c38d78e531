"""The table of functions passed to JAX, and its registration."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from functools import cache
from typing import Any

from xlanb.frontends.jax import import_jax
from xlanb.pjrt import c_api, client, executables, layouts
from xlanb.pjrt.buffers import BUFFERS
from xlanb.pjrt.functions import FUNCTIONS, as_callback, missing
from xlanb.pjrt.native import DESTROYED, STOPPED, NativeFunctions
from xlanb.pjrt.native_text import NATIVE, UNUSUAL_FUNCTIONS
from xlanb.pjrt.words import RANKS

_PARTS = (client, executables, layouts)
"""Modules that fill the table when imported."""

_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
PRIORITY = -100
"""Below that of JAX's own backends: xlanb is only used on request."""


class Plugin:
    """A PJRT_Api with functions in machine code or Python, for the lifetime of the process."""

    def __init__(self) -> None:
        callbacks = {name: as_callback(name, function) for name, function in FUNCTIONS.items()}
        unusual = {name: callbacks[name] for name in UNUSUAL_FUNCTIONS}
        stopped = STOPPED(executables.stopped)
        destroyed = DESTROYED(executables.forget_destroyed)
        self.native = NativeFunctions(unusual, stopped, destroyed)
        BUFFERS.native = self.native
        self.native.set_layouts([layouts.row_major(rank).address for rank in range(RANKS)])
        self._callbacks = callbacks | {
            name: missing(name) for name in c_api.FUNCTIONS if name not in callbacks and name not in NATIVE
        }
        self.extension = self._extension()
        self.api = c_api.Api(
            ctypes.sizeof(c_api.Api),
            ctypes.addressof(self.extension),
            c_api.Version(ctypes.sizeof(c_api.Version), None, *c_api.VERSION),
            *(self._address(name) for name in c_api.FUNCTIONS),
        )
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._name = ctypes.c_char_p(b"pjrt_c_api")  # a capsule does not copy its name
        self.capsule: Any = make(ctypes.addressof(self.api), self._name, None)

    def _extension(self) -> c_api.LayoutsExtension:
        functions = (self._address(name) for name in c_api.LAYOUT_FUNCTIONS)
        return c_api.LayoutsExtension(ctypes.sizeof(c_api.LayoutsExtension), c_api.LAYOUTS_EXTENSION, None, *functions)

    def _address(self, name: str) -> int:
        native = self.native.functions.get(name)
        return native if native is not None else ctypes.cast(self._callbacks[name], ctypes.c_void_p).value or 0

    def retire(self) -> None:
        """Stop destroying objects for C, because the interpreter is exiting."""
        for name in c_api.FUNCTIONS:
            if name == "LoadedExecutable_Destroy" or (name not in NATIVE and name.endswith(("_Destroy", "_Delete"))):
                setattr(self.api, name, self.native.nothing)


@cache
def plugin() -> Plugin:
    """Return this process's plugin."""
    made = Plugin()
    atexit.register(made.retire)
    # JAX calls its functions until the process ends
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def device_count() -> int:
    """Return the number of devices for JAX, all on this processor.

    It is as many as JAX's own CPU backend would have.
    """
    bridge = import_jax("jax._src.xla_bridge")
    wanted = getattr(bridge, "num_cpu_devices", None)
    if wanted is not None and wanted.value > 0:
        return int(wanted.value)
    found = _COUNT.search(os.environ.get("XLA_FLAGS", ""))
    return int(found[1]) if found else 1


__all__ = ["PRIORITY", "Plugin", "device_count", "plugin"]
