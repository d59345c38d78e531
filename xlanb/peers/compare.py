"""Compare a program compiled by xlanb and by the real XLA:CPU: passes, HLO, run time, results.

Also disable the real compiler's passes in turn.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.diff import TraceDiff, diff_traces
from xlanb.explorer.explore import trace as our_trace
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.peers.child import RealTrace, compile_in_child, empty_program
from xlanb.peers.xla import as_module
from xlanb.peers.xla import trace as real_trace
from xlanb.runtime.compile import compile as compile_program
from xlanb.shape.narrow_types import finfo
from xlanb.shape.primitive_type import from_dtype

if TYPE_CHECKING:
    import pandas as pd


_LEAST = 0.2
"""The least net run time for a comparison, as a fraction of the call overhead."""


@dataclass(frozen=True)
class PeerComparison(Displayable):
    """A comparison of xlanb and the real XLA.

    `diff` aligns the passes and compares the HLO, `ulp` is the largest distance of each result in
    units in the last place. `our_seconds` and `their_seconds` are median wall times of a call from
    Python on existing arrays; `our_call` and `their_call` those of an empty program with the same
    arguments. A call of the real XLA through JAX takes some tens of microseconds, nearly all of the
    time of a small program.
    """

    ours: Trace
    theirs: RealTrace
    diff: TraceDiff
    ulp: tuple[float, ...]
    our_seconds: float
    their_seconds: float
    our_call: float = 0.0
    their_call: float = 0.0

    @property
    def call_ratio(self) -> float:
        """Their median wall time of a call over ours, the call's own time included."""
        return self.their_seconds / self.our_seconds

    @property
    def run_ratio(self) -> float:
        """Their time over ours, both without the time of an empty call: above 1, ours is faster.

        NaN if either exceeds an empty call by less than a fifth, because then mostly the calls were
        timed.
        """
        ours, theirs = self.our_seconds - self.our_call, self.their_seconds - self.their_call
        known = ours > _LEAST * self.our_call and theirs > _LEAST * self.their_call
        return theirs / ours if known else math.nan

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables for a notebook."""
        return self.diff.tables

    @property
    def traces(self) -> list[Trace]:
        """Both, for the step view."""
        return [self.ours, self.theirs]

    def __str__(self) -> str:
        far = ", ".join(f"{u:.3g}" for u in self.ulp)
        times = [
            f"{who} {seconds * 1e6:.1f} us (an empty call {call * 1e6:.1f} us)"
            for who, seconds, call in (
                ("ours", self.our_seconds, self.our_call),
                ("XLA:CPU", self.their_seconds, self.their_call),
            )
        ]
        ratio = self.run_ratio
        said = (
            "too short compared with the call overhead"
            if math.isnan(ratio)
            else f"ratio without call overhead {ratio:.2f}"
        )
        return f"results differ by {far} ulp; run: {', '.join(times)}, {said}\n{self.diff}"


def compare(x: Any, *arrays: Any, runs: int = 20) -> PeerComparison:
    """Compile a program with xlanb and, in a child process, with the real XLA:CPU; run both on
    `arrays`.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: one of the two rejects the program; or there are no arrays.
    """
    if not arrays:
        raise XlanbError("to compare results and times, give the arguments")
    module = as_module(x, *arrays)
    theirs = real_trace(module, *arrays, runs=runs)
    ours = our_trace(module)
    executable = compile_program(module)
    results = _leaves(executable(*arrays))
    nothing = compile_program(parse(empty_program(module)))
    seconds: list[float] = []
    empty: list[float] = []
    for _ in range(runs):
        for run, times in ((executable, seconds), (nothing, empty)):
            begin = time.perf_counter()
            run(*arrays)
            times.append(time.perf_counter() - begin)
    distances = tuple(ulp_distance(a, b) for a, b in zip(results, theirs.results, strict=True))
    their_seconds = statistics.median(theirs.runs)
    medians = statistics.median(seconds), their_seconds, statistics.median(empty), theirs.call_seconds
    return PeerComparison(ours, theirs, diff_traces(ours, theirs), distances, *medians)


def ulp_distance(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the largest distance of elements in units in the last place of `b`.

    Infinite if one is finite or NaN and the other is not; for integers, the largest difference.
    """
    if a.size == 0:
        return 0.0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    if a.dtype.kind == "b" or from_dtype(a.dtype).is_integral:
        return float(np.max(np.abs(x - y)))
    eps, tiny = float(finfo(b.dtype).eps), float(finfo(b.dtype).tiny)
    with np.errstate(all="ignore"):
        distance = np.abs(x - y) / (np.maximum(np.abs(y), tiny) * eps)
    distance = np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))
    return float(np.max(distance))


@dataclass(frozen=True)
class LeftOut(Displayable):
    """The real compiler with each pass disabled in turn.

    `table` has the error against the reference with and without the pass; `guilty` are the passes
    without which the results are right.
    """

    table: pd.DataFrame
    tolerance: float

    @property
    def guilty(self) -> list[str]:
        """The passes with which the result exceeds the tolerance, and without which it does not."""
        whole = float(self.table["error"].iloc[0])
        if whole <= self.tolerance:
            return []
        rest = self.table.iloc[1:]
        return [str(n) for n in rest[rest["error"] <= self.tolerance]["without"]]

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables for a notebook."""
        return (("error without each pass", self.table),)

    def __str__(self) -> str:
        whole = float(self.table["error"].iloc[0])
        if whole <= self.tolerance:
            return f"the real XLA is accurate to {whole:.1e} (tolerance {self.tolerance:.1e})"
        found = ", ".join(self.guilty) or "no single pass"
        return f"the real XLA is off by {whole:.1e} (tolerance {self.tolerance:.1e}); not without {found}"


def leave_out(x: Any, *arrays: Any, tolerance: float = 1e-4, passes: Sequence[str] | None = None) -> LeftOut:
    """Find the pass of the real XLA:CPU that changes the result, against the reference interpreter.

    The program is compiled with --xla_disable_hlo_passes for each pass that changed something.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: the real XLA rejects the program with all passes on.
    """
    import pandas as pd

    module = as_module(x, *arrays)
    reference = _leaves(evaluate(module, *arrays))
    flat = module.flat_arguments(arrays)
    whole = real_trace(module, *arrays, runs=1)
    names = passes if passes is not None else list(dict.fromkeys(s.name for s in whole.changed if s.kind == "hlo_pass"))
    rows: list[dict[str, Any]] = [{"without": "", "error": _error(whole.results, reference), "failure": ""}]
    for name in names:
        row: dict[str, Any] = {"without": name, "error": float("nan"), "failure": ""}
        try:
            made = compile_in_child(str(module), flat, runs=1, flags=f"--xla_disable_hlo_passes={name}")
            row["error"] = _error(made.results, reference)
            made.discard()
        except XlanbError as error:
            row["failure"] = str(error).splitlines()[0]
        rows.append(row)
    return LeftOut(pd.DataFrame(rows), tolerance)


def _error(results: Sequence[NDArray[Any]], reference: Sequence[NDArray[Any]]) -> float:
    """The largest error relative to the larger of 1 and the element of the reference."""
    worst = 0.0
    for a, b in zip(results, reference, strict=True):
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            off = np.abs(x - y) / np.maximum(1, np.abs(y))
        worst = max(worst, float(np.max(np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, off), initial=0)))
    return worst


def _leaves(value: Any) -> list[NDArray[Any]]:
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [] if value is None else [np.asarray(value)]
