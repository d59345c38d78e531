"""Measure the effect of each pass of a compilation.

Compiles and runs the program without each in turn, reporting along the way.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xlanb.errors import XlanbError
from xlanb.explorer.ablation import Variant
from xlanb.explorer.numbers import module_of
from xlanb.explorer.trace import Trace
from xlanb.hlo.records import ModuleRecord

_ROUNDS = 30
_SECONDS = 20.0
"""Time budget for all runs: no round starts after it, but at least one is run."""


@dataclass
class Worth:
    """The measurements so far.

    By omitted pass ("" for none) it has the median seconds of a run, the temporary bytes, and why
    it failed if it did. `done` of about `total` pieces of work are done; the last was without the
    pass `name`.
    """

    total: int
    done: int = 0
    name: str = ""

    seconds: dict[str, float] = field(default_factory=dict)
    temp_bytes: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, dict[str, Any]]:
        """The effects by pass.

        `run` is the time of a run without it relative to all passes (2: the pass halves the time),
        `temp` the temporary bytes without it less those with it, and `failure` the error.
        """
        whole, bytes_ = self.seconds.get(""), self.temp_bytes.get("", 0)
        rows: dict[str, dict[str, Any]] = {n: {"failure": text} for n, text in self.failures.items()}
        for name, seconds in self.seconds.items():
            if name and whole:
                rows[name] = {"run": seconds / whole, "temp": self.temp_bytes[name] - bytes_}
        return rows


def measured_worth(trace: Trace) -> Iterator[Worth]:
    """Measure the passes that changed something in a trace; yield results after each piece of work.

    Raises:
        XlanbError: the trace holds no HLO before its passes, or the program does not compile with
            all passes.
    """
    start = next((s.after for s in trace if s.kind in ("hlo", "tf2xla") and isinstance(s.after, ModuleRecord)), None)
    if start is None:
        raise XlanbError(f"{trace.name!r} holds no HLO before its passes, so none of them can be left out")
    names = list(dict.fromkeys(s.name for s in trace if s.kind == "hlo_pass" and s.changed))
    text = module_of(start).to_string("short")
    variants = [Variant(name, text) for name in ("", *names)]
    worth = Worth(len(variants) * (1 + _ROUNDS))
    for v in variants:
        v.compile()
        _note(worth, v)
        yield worth
    times: dict[str, list[float]] = {v.row["without"]: [] for v in variants}
    begin = time.monotonic()
    for n in range(_ROUNDS):
        for v in variants:
            seconds = v.seconds()
            if seconds is not None and n:  # the first run has cold caches
                times[v.row["without"]].append(seconds)
                worth.seconds[v.row["without"]] = statistics.median(times[v.row["without"]])
            _note(worth, v)
            yield worth
        if n and time.monotonic() - begin > _SECONDS:
            return


def _note(worth: Worth, v: Variant) -> None:
    name = worth.name = v.row["without"]
    worth.done += 1
    if v.row["failure"]:
        if not name:
            raise XlanbError(f"the program does not compile: {v.row['failure']}")
        worth.failures[name] = v.row["failure"]
        worth.seconds.pop(name, None)
    elif v.row["temp_bytes"] is not None:
        worth.temp_bytes[name] = v.row["temp_bytes"]
