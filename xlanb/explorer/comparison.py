"""Compare several compilations of one program: instructions, kernels, memory, time, results."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError
from xlanb.explorer.numbers import compared, leaves_of
from xlanb.explorer.running import inputs_for, program_of
from xlanb.explorer.trace import Trace
from xlanb.frames import framed

if TYPE_CHECKING:
    import pandas as pd

_MOST_SECONDS = 1.0


@dataclass(frozen=True)
class Comparison(Displayable, Plottable):
    """The measurements; `table` has a row for each branch.

    Its columns: instructions after all passes, kernels, bytes of temporaries and at the peak,
    milliseconds of all stages, and microseconds of a run (median). For the results, the largest
    relative difference from the first branch's, and how many elements are finite on one side only
    (-1: their shapes differ).
    """

    table: pd.DataFrame

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return (("branches, with results compared to those of the first", self.table),)

    def to_dataframe(self) -> pd.DataFrame:
        """Return `table`: a row for each branch."""
        return self.table

    @property
    def headline(self) -> str:
        """Return how many branches there are, and the fastest one."""
        fastest = min(self.table.to_dict("records"), key=lambda row: row["run_us"])
        count = len(self.table)
        return (
            f"{count} branch{'es' * (count != 1)}, the fastest: {fastest['branch']} "
            f"({fastest['run_us']:,.4g} us per run)"
        )

    def __str__(self) -> str:
        return self.table.to_string(index=False)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.table)} branches>"


def compare(*traces: Trace, inputs: Sequence[Any] = (), runs: int = 20) -> Comparison:
    """Run the programs of several traces alternately on the same inputs, and measure.

    Inputs are given, or the first trace's last ones, or random.

    Raises:
        XlanbError: a trace has no program, or the inputs do not match one.
    """
    if not traces:
        raise XlanbError("nothing to compare")
    arrays = inputs_for(traces[0], inputs)
    first = leaves_of(program_of(traces[0]).flat(*arrays))
    rows = [_row(t, arrays, first) for t in traces]
    times = _timed(traces, arrays, runs)
    for row, seconds in zip(rows, times, strict=True):
        row["run_us"] = statistics.median(seconds) * 1e6
    return Comparison(framed(rows))


def _row(trace: Trace, arrays: Sequence[Any], first: Sequence[Any]) -> dict[str, Any]:
    program = program_of(trace)
    memory = program.buffer_assignment.record()
    results = leaves_of(program.flat(*arrays))
    fits = [r.shape for r in results] == [r.shape for r in first]
    pairs = [compared(a, b) for a, b in zip(results, first, strict=True)] if fits else []
    return {
        "branch": trace.name,
        "instructions": len(program.hlo_module.entry_computation.instructions),
        "kernels": trace.kernel_count,
        "temp_bytes": memory.temp_bytes,
        "peak_bytes": memory.peak_bytes,
        "compile_ms": (trace.compile_seconds or 0.0) * 1e3,
        "run_us": 0.0,
        "difference": max((e for e, _ in pairs), default=0.0) if fits else float("nan"),
        "broken": sum(b for _, b in pairs) if fits else -1,
    }


def _timed(traces: Sequence[Trace], arrays: Sequence[Any], runs: int) -> list[list[float]]:
    """Return the seconds of each run.

    Runs alternate, so that other load affects all equally, and are limited in total time.
    """
    times: list[list[float]] = [[] for _ in traces]
    begin = time.perf_counter()
    for _ in range(max(runs, 1)):
        for trace, mine in zip(traces, times, strict=True):
            start = time.perf_counter()
            program_of(trace).flat(*arrays)
            mine.append(time.perf_counter() - start)
        if time.perf_counter() - begin > _MOST_SECONDS * len(traces):
            break
    return times
