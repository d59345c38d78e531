"""xlanb as a backend of JAX: `JAX_PLATFORMS=xlanb python train.py` runs an unmodified program on this compiler.

JAX finds `initialize` by the entry point `jax_plugins`. See docs/how-to/as-jax-backend.md.
"""

from __future__ import annotations

from typing import Any


def initialize() -> None:
    """What JAX calls when it looks for its backends: register xlanb where `JAX_PLATFORMS` names it.

    Every program that uses JAX comes here once xlanb is installed; the others are not to wait for a compiler to be loaded.
    """
    from xlanb.frontends.jax import import_jax

    if "xlanb" in (import_jax().config.jax_platforms or "").split(","):
        register()


def register() -> None:
    """Register the platform "xlanb" with JAX, which creates its client when it is first asked for; once a process.

    `JAX_PLATFORMS=xlanb` does it by itself; a program calls this before it first uses JAX, to have `jax.devices("xlanb")`.
    """
    from xlanb.frontends.jax import import_jax
    from xlanb.pjrt import jax_hooks
    from xlanb.pjrt.client import DEVICE_COUNT, PLATFORM
    from xlanb.pjrt.plugin import PRIORITY, device_count, plugin

    def options() -> dict[str, Any]:
        return {DEVICE_COUNT: device_count()}

    bridge = import_jax("jax._src.xla_bridge")
    if bridge.is_known_platform(PLATFORM):
        return
    bridge.register_plugin(PLATFORM, c_api=plugin().capsule, priority=PRIORITY, options=options)
    jax_hooks.install()


__all__ = ["initialize", "register"]
