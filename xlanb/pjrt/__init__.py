"""xlanb as a JAX backend: `JAX_PLATFORMS=xlanb python train.py` runs unmodified programs on it.

JAX finds `initialize` through the entry point `jax_plugins`. See docs/how-to/as-jax-backend.md.
"""

from __future__ import annotations

from typing import Any


def initialize() -> None:
    """Register xlanb if `JAX_PLATFORMS` names it; JAX calls this when it looks for backends.

    It runs in every JAX program once xlanb is installed, so it loads no compiler for the others.
    """
    from xlanb.frontends.jax import import_jax

    if "xlanb" in (import_jax().config.jax_platforms or "").split(","):
        register()


def register() -> None:
    """Register the platform "xlanb" with JAX, once per process.

    JAX creates its client on first use. `JAX_PLATFORMS=xlanb` registers it too; otherwise call this
    before JAX is first used, to have `jax.devices("xlanb")`.
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
