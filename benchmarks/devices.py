"""Sharded programs on eight virtual devices, on one, and on the real XLA's eight CPU devices.

`python -m benchmarks devices [small] [large] [PART OF A NAME]`. All run in one process,
alternately; figures are medians of wall time. `large` has arrays of some megabytes, `small` of some
kilobytes. xlanb takes and returns whole NumPy arrays; XLA's arguments and results are on its
devices.

Columns: kilobytes of arguments; microseconds of a call on one device, on eight, and on eight that
keep their own shards (`run_shards`, which excludes whole arrays); eight by one; the same for XLA;
and XLA's time on eight by ours, above 1 where xlanb is faster. `one program` says whether the
programs of the devices were compiled as one; if that takes time, it is in one of the first calls,
which `first ms` includes.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

SIZES = {"small": 1, "large": 256}
_DEVICES = 8
_ROUNDS = 21
_SECONDS = 0.004
_FIRST = 4
"""Calls before any that is measured."""


def table(*words: str) -> pd.DataFrame:
    """A row per program and size, and the geometric means of each size."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={_DEVICES}"
    from benchmarks._sharded import PROGRAMS

    sizes = [s for s in SIZES if s in words] or list(SIZES)
    parts = [w for w in words if w not in SIZES]
    found = []
    for size in sizes:
        names = [n for n in PROGRAMS if not parts or any(p in n for p in parts)]
        rows = pd.DataFrame([_row(size, n, PROGRAMS[n](SIZES[size])) for n in names])
        ratios = {c: math.exp(statistics.fmean(map(math.log, rows[c]))) for c in _RATIOS}
        mean = {"size": size, "program": "geometric mean", **ratios}
        most = {"size": size, "program": "largest", **{c: rows[c].max() for c in _RATIOS[:2]}}
        found += [rows, pd.DataFrame([mean, most])]
    return pd.concat(found, ignore_index=True).round(2)


_RATIOS = ("eight by one", "XLA eight by one", "XLA by ours")


def _row(size: str, name: str, program: Any) -> dict[str, Any]:
    import jax

    import xlanb

    arrays = [np.ascontiguousarray(a) for a, _ in program.arguments]
    calls: dict[str, Callable[[], Any]] = {}
    for label, devices in (("one", jax.devices()[:1]), ("eight", jax.devices())):
        function, placed = program.jitted(program.mesh(devices))
        calls[f"XLA {label}"] = lambda f=function, x=placed: jax.block_until_ready(f(*x))
        begin = time.perf_counter()
        executable = xlanb.compile(function, *arrays)
        calls[label] = lambda e=executable.flat: e(*arrays)
        for _ in range(_FIRST):
            result = calls[label]()
        first = time.perf_counter() - begin
        _check(name, result, jax.tree.leaves(calls[f"XLA {label}"]()))
    devices = executable.devices
    rows = devices.distribution.split(arrays)
    calls["shards"] = lambda: devices.run_shards(rows)
    times = _medians(calls)
    return {
        "size": size,
        "program": name,
        "kB": sum(a.nbytes for a in arrays) / 1e3,
        "one us": times["one"] * 1e6,
        "eight us": times["eight"] * 1e6,
        "eight by one": times["eight"] / times["one"],
        "shards us": times["shards"] * 1e6,
        "one program": devices.merged is not None,
        "first ms": first * 1e3,
        "XLA one us": times["XLA one"] * 1e6,
        "XLA eight us": times["XLA eight"] * 1e6,
        "XLA eight by one": times["XLA eight"] / times["XLA one"],
        "XLA by ours": times["XLA eight"] / times["eight"],
    }


def _check(name: str, ours: Any, real: list[Any]) -> None:
    """Raise if a result is not XLA's."""
    found = list(ours) if isinstance(ours, (tuple, list)) else [ours]
    for a, b in zip(found, real, strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=2e-4, atol=2e-4, err_msg=name)


def _medians(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of a call of each, in turns."""
    repeats = {k: _repeats(call) for k, call in calls.items()}
    wall: dict[str, list[float]] = {k: [] for k in calls}
    for _ in range(_ROUNDS):
        for k, call in calls.items():
            begin = time.perf_counter()
            for _ in range(repeats[k]):
                call()
            wall[k].append((time.perf_counter() - begin) / repeats[k])
    return {k: statistics.median(v) for k, v in wall.items()}


def _repeats(call: Callable[[], Any]) -> int:
    call()
    begin = time.perf_counter()
    call()
    return max(1, min(2000, int(_SECONDS / (time.perf_counter() - begin))))
