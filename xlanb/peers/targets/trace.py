"""A compilation for a target as a Trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlanb.errors import ArgumentError
from xlanb.explorer.dump_trace import dump_trace
from xlanb.explorer.trace import Trace
from xlanb.frontends.jax_lowering import JaxProgram, lower_for
from xlanb.hlo import HloModule
from xlanb.peers.targets.compiling import TIMEOUT_S, TargetCompilation, compile_for
from xlanb.peers.targets.names import TargetName, parse_target
from xlanb.runtime.functions import is_over_jax
from xlanb.runtime.program import to_module


class TargetTrace(Trace):
    """The real compiler's trace for absent hardware.

    `target` is the target, `compile_seconds` the compiler's own time, `cost` and `memory` its
    figures, `final_text` the final module as in `compile().as_text()`.
    """

    def __init__(self, made: TargetCompilation) -> None:
        kind = "XLA:TPU" if made.target.is_tpu else "XLA:GPU"
        super().__init__(f"{kind} ({made.target}): {made.answer['name']}", dump_trace(made.files, made.cost).stages)
        self.target: TargetName = made.target
        self.compilation = made
        self.cost = made.cost
        self.memory = made.memory

    @property
    def compile_seconds(self) -> float:
        """The compiler's own time."""
        return self.compilation.compile_seconds

    @property
    def release(self) -> str:
        """The JAX release whose XLA compiled it."""
        return self.compilation.versions.get("jaxlib", "")

    @property
    def device_kind(self) -> str:
        """JAX's name of the devices."""
        return str(self.compilation.answer["device_kind"])

    @property
    def final_text(self) -> str:
        """The final module, as `compile().as_text()` has it."""
        return self.compilation.final_text


def trace_target(
    x: Any,
    args: tuple[Any, ...],
    target: str,
    *,
    named: Mapping[str, Any] | None = None,
    devices: int = 0,
    shardings: Any = None,
    out_shardings: Any = None,
    mesh: Any = None,
    all_passes: bool = False,
    flags: str = "",
    python: str = "",
    timeout: float = TIMEOUT_S,
    progress: Callable[[str], None] | None = None,
) -> TargetTrace:
    """The compilation of `x` for a target as a Trace; see `xlanb.peers.xla.trace`."""
    found = parse_target(target, devices)
    options = {"shardings": shardings, "out_shardings": out_shardings, "mesh": mesh}
    program = program_for(found, x, args, named, portable=bool(python), **options)
    made = compile_for(
        found, program, all_passes=all_passes, flags=flags, python=python, timeout=timeout, progress=progress
    )
    return TargetTrace(made)


def program_for(
    target: TargetName,
    x: Any,
    args: tuple[Any, ...],
    named: Mapping[str, Any] | None = None,
    *,
    portable: bool = False,
    **options: Any,
) -> JaxProgram:
    """Return the program to compile: lower JAX functions for the target's platform, take others as
    HLO.

    Raises:
        XlanbError: it cannot be understood or lowered.
    """
    if callable(x) and not isinstance(x, HloModule) and is_over_jax(x, args, named or {}):
        count = target.device_count
        return lower_for(target.platform, x, args, named, device_count=count, portable=portable, **options)
    if any(v is not None for v in options.values()):
        raise ArgumentError("shardings can only be given for JAX functions: HLO has its own")
    module = to_module(x, *args, **(named or {}))
    partitions, replicas = _count(module, "num_partitions"), _count(module, "replica_count")
    text = str(module).encode()
    return JaxProgram(module.name, text, text, is_hlo=True, partitions=partitions, replicas=replicas)


def _count(module: HloModule, name: str) -> int:
    return int(module.header.get(name, "1"))
