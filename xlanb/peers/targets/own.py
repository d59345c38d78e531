"""Targets that xlanb itself compiles for: "xlanb a100" is an A100 by xlanb's passes and code
generator.

One table can compare xlanb and the real XLA: `side_by_side(f, x, targets=["xlanb a100", "a100"])`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from xlanb.errors import ArgumentError
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace
from xlanb.peers.targets.names import TargetName, parse_target
from xlanb.peers.targets.trace import TargetTrace, trace_target

OWN = "xlanb"
"""Prefix of the name of a GPU that xlanb itself compiles for."""


class OwnTrace(Trace):
    """Our own compilation for a GPU, with the facts that a TargetTrace has of the real one."""

    def __init__(self, compilation: Compilation, target: TargetName, seconds: float) -> None:
        made = compilation.trace
        super().__init__(f"xlanb ({target}): {made.name}", made.stages)
        self.pipeline, self.passes_from, self.sources = made.pipeline, made.passes_from, made.sources
        self.gpu_program = made.gpu_program
        self.target = target
        self._seconds = seconds
        self.release = OWN
        self.cost: Mapping[str, float] = {}
        self.memory = _memory(compilation.result)

    @property
    def compile_seconds(self) -> float:
        """The time of the compilation."""
        return self._seconds

    @property
    def device_kind(self) -> str:
        """The device's name."""
        return self.target.device.name if self.target.device is not None else str(self.target)


def own_target(name: str) -> TargetName | None:
    """Parse the target after "xlanb "; None for a name without this prefix.

    Raises:
        ArgumentError: the rest is not a GPU, or several.
    """
    first, _, rest = name.strip().partition(" ")
    if first.lower() != OWN:
        return None
    target = parse_target(rest)
    if target.device is None or target.device.architecture.platform != "CUDA" or target.device_count > 1:
        raise ArgumentError(f"{name!r}: xlanb's own compiler targets one NVIDIA GPU, as in 'xlanb a100'")
    return target


def trace_own(
    x: Any,
    args: tuple[Any, ...],
    target: TargetName,
    *,
    named: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> OwnTrace:
    """Compile a program for a GPU by xlanb, and record it.

    Raises:
        ArgumentError: an option is for the real compiler alone.
        XlanbError: the program is refused.
    """
    given = [n for n, v in options.items() if v]
    if given or target.device is None:
        raise ArgumentError(
            f"{', '.join(given) or target}: only valid for targets compiled by the real XLA, not for {OWN} {target}"
        )
    begin = time.perf_counter()
    compilation = Compilation(x, *args, target=target.device.key, **(named or {}))
    while (stage := compilation.step()) is not None:
        if progress is not None:
            progress(stage.name)
    return OwnTrace(compilation, target, time.perf_counter() - begin)


def trace_for(x: Any, args: tuple[Any, ...], name: str, **options: Any) -> TargetTrace | OwnTrace:
    """Compile for a named target: with xlanb if it begins with "xlanb ", else with the real
    compiler.

    Raises:
        MissingPeerError: the real compiler is not installed.
        ArgumentError: the name is unknown.
        XlanbError: the compiler rejects the program.
    """
    own = own_target(name)
    if own is None:
        return trace_target(x, args, name, **options)
    return trace_own(x, args, own, **options)


def _memory(executable: Any) -> dict[str, int]:
    """Bytes by JAX's names for them."""
    kinds = {"parameter": "argument_size_in_bytes", "output": "output_size_in_bytes", "temp": "temp_size_in_bytes"}
    found = dict.fromkeys(kinds.values(), 0)
    for memory in executable.program.memories:
        if memory.kind in kinds:
            found[kinds[memory.kind]] += memory.size
    return found
