"""Measure JAX programs on the backend xlanb, by `xlanb.jit`, and on JAX's CPU backend.

All three run in one process, in turns; medians of wall time and of processor time.
Run it under `taskset -c 0` to measure one thread.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

ROUNDS = 31
_SECONDS = 0.01

Program = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


def beside_cpu(programs: Mapping[str, tuple[Callable[[], Program], bool]]) -> pd.DataFrame:
    """A row per program, and the geometric means.

    Each program comes with whether it takes 64-bit types; it is made once for each device, as
    JAX's default device. `plugin` and `jit` are the time on
    JAX's CPU backend divided by the time on the backend xlanb and by `xlanb.jit`: above 1,
    xlanb is faster.
    """
    os.environ["JAX_PLATFORMS"] = "xlanb,cpu"
    import jax

    import xlanb.pjrt

    xlanb.pjrt.initialize()
    rows = []
    for name, (make, wide) in programs.items():
        with jax.enable_x64(wide):
            rows.append({"program": name, **measured(make)})
    found = pd.DataFrame(rows)
    columns = [c for c in found if str(c).startswith(("plugin", "jit,")) or c == "jit"]
    means = {c: math.exp(statistics.fmean(map(math.log, found[c]))) for c in columns}
    whole = pd.DataFrame([{"program": f"geometric mean, {threads()} threads", **means}])
    return pd.concat([found, whole], ignore_index=True).round(2)


def hlo_text(lowered: Any, compiled: Any) -> str:
    """Return the HLO text of a `Lowered`, with the entry layouts of its `Compiled`.

    Otherwise results have the layouts of the last operations, and need copies that XLA does not
    make.
    """
    layouts = re.compile(r"entry_computation_layout=(\{.*?\)->.*?\})(?=, \w+=|$)", re.MULTILINE)
    found = layouts.search(compiled.as_text())
    if found is None:
        raise ValueError("the compiled module's header has no layouts")
    text: str = lowered.as_text(dialect="hlo")
    return layouts.sub(lambda _: found[0], text, count=1)


def threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measured(make: Callable[[], Program]) -> dict[str, float]:
    """Milliseconds of wall time on each, and ratios of wall and of processor time."""
    import jax

    import xlanb

    calls: dict[str, Callable[[], Any]] = {}
    for platform in ("xlanb", "cpu"):
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            function, given = make()
        compiled, placed = jax.jit(function), jax.device_put(given, device)
        calls[platform] = lambda f=compiled, x=placed: jax.block_until_ready(f(*x))
    jitted = xlanb.jit(function)
    calls["jit"] = lambda: jitted(*given)
    w, s = _medians(calls)
    return {
        "cpu ms": w["cpu"] * 1e3,
        "xlanb ms": w["xlanb"] * 1e3,
        "jit ms": w["jit"] * 1e3,
        "plugin": w["cpu"] / w["xlanb"],
        "jit": w["cpu"] / w["jit"],
        "plugin, processor": s["cpu"] / s["xlanb"],
        "jit, processor": s["cpu"] / s["jit"],
    }


def _medians(calls: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of wall and of processor time of a call of each."""
    repeats = {k: _repeats(call) for k, call in calls.items()}
    wall: dict[str, list[float]] = {k: [] for k in calls}
    spent: dict[str, list[float]] = {k: [] for k in calls}
    for _ in range(ROUNDS):
        for k, call in calls.items():
            begin, used = time.perf_counter(), time.process_time()
            for _ in range(repeats[k]):
                call()
            wall[k].append((time.perf_counter() - begin) / repeats[k])
            spent[k].append((time.process_time() - used) / repeats[k])
    wall_medians, spent_medians = ({k: statistics.median(v) for k, v in t.items()} for t in (wall, spent))
    return wall_medians, spent_medians


def _repeats(call: Callable[[], Any]) -> int:
    call()
    begin = time.perf_counter()
    call()
    return max(1, min(1000, int(_SECONDS / (time.perf_counter() - begin))))
