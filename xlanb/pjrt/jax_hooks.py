"""Fill JAX's registries by platform name for xlanb as for the CPU.

They hold lowering rules, donation and callbacks. JAX keeps these in tables that no public function
extends. Each hook names its table, and is skipped if a version of JAX has no such table.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from xlanb.frontends.jax import import_jax
from xlanb.pjrt import dlpack
from xlanb.pjrt.callbacks import Numbered
from xlanb.pjrt.client import PLATFORM


def install() -> None:
    """Install the hooks; repeated calls change nothing."""
    _share_lowerings()
    _allow_donation()
    _emit_callbacks()
    _use_cache()
    _choose_branches()
    dlpack.install()
    _keep_cpu()


def _share_lowerings() -> None:
    """Use the lowering rules of the platform "cpu" for "xlanb".

    They share one table, so rules registered later count too.
    """
    rules = getattr(import_jax("jax._src.interpreters.mlir"), "_platform_specific_lowerings", None)
    if rules is not None:
        rules[PLATFORM] = rules["cpu"]


def _allow_donation() -> None:
    platforms = getattr(import_jax("jax._src.interpreters.mlir"), "_platforms_with_donation", None)
    if platforms is not None and PLATFORM not in platforms:
        platforms.append(PLATFORM)


def _emit_callbacks() -> None:
    """Lower pure_callback, io_callback and debug.callback as for the CPU.

    Their functions are numbered in the process.
    """
    callback = import_jax("jax._src.callback")
    emit = getattr(callback, "emit_python_callback", None)
    if emit is None or hasattr(emit, "of_xlanb"):
        return

    @functools.wraps(emit)
    def emitted(ctx: Any, *args: Any, **named: Any) -> Any:
        if tuple(ctx.module_context.platforms) != (PLATFORM,):
            return emit(ctx, *args, **named)
        module = dataclasses.replace(ctx.module_context, platforms=("cpu",), backend=None, host_callbacks=Numbered())
        results = emit(dataclasses.replace(ctx, module_context=module), *args, **named)
        ctx.module_context.add_keepalive(results[-1])
        return results

    emitted.of_xlanb = True  # type: ignore[attr-defined]
    callback.emit_python_callback = emitted  # type: ignore[attr-defined]


def _use_cache() -> None:
    """Enable the persistent compilation cache, whose list of platforms is inside a function."""
    cache = import_jax("jax._src.compilation_cache")
    is_used = getattr(cache, "is_cache_used", None)
    if is_used is None or hasattr(is_used, "of_xlanb"):
        return

    @functools.wraps(is_used)
    def used(backend: Any) -> bool:
        return bool(is_used(_SERIALIZES if backend.platform == PLATFORM else backend))

    used.of_xlanb = True  # type: ignore[attr-defined]
    cache.is_cache_used = used  # type: ignore[attr-defined]


_SERIALIZES = SimpleNamespace(platform="cpu", supports_executable_serialization=True)
"""A stand-in for a backend whose executables JAX caches."""


def _choose_branches() -> None:
    """Let `lax.platform_dependent` use the CPU's branch if it has none for xlanb and no default."""
    mlir, conditionals = import_jax("jax._src.interpreters.mlir"), import_jax("jax._src.lax.control_flow.conditionals")
    for primitive, rule, option in (
        ("platform_index_p", "_platform_index_lowering", "platforms"),
        ("cond_p", "_cond_lowering", "branches_platforms"),
    ):
        lower = getattr(conditionals, rule, None)
        if lower is not None and not hasattr(lower, "of_xlanb"):
            chosen = _with_branch(lower, option)
            setattr(conditionals, rule, chosen)
            mlir.register_lowering(getattr(conditionals, primitive), chosen)


def _with_branch(lower: Callable[..., Any], option: str) -> Callable[..., Any]:
    @functools.wraps(lower)
    def lowered(ctx: Any, *args: Any, **params: Any) -> Any:
        branches = params.get(option)
        if branches is not None and not any(names is None or PLATFORM in names for names in branches):
            params[option] = tuple((*names, PLATFORM) if "cpu" in names else names for names in branches)
        return lower(ctx, *args, **params)

    lowered.of_xlanb = True  # type: ignore[attr-defined]
    return lowered


def _keep_cpu() -> None:
    """Keep the CPU platform in JAX, because callbacks get CPU arrays as arguments."""
    config = import_jax().config
    platforms = (config.jax_platforms or "").split(",")
    if PLATFORM in platforms and "cpu" not in platforms:
        config.update("jax_platforms", ",".join([*platforms, "cpu"]))


__all__ = ["install"]
