"""Check a program's results against the reference interpreter or another reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.bisection import start_of
from xlanb.explorer.numbers import compared, leaves_of, tolerance_of
from xlanb.explorer.running import inputs_for, program_of
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule

if TYPE_CHECKING:
    import pandas as pd

Witness = Callable[[HloModule, Sequence[Any]], Any]


@dataclass(frozen=True)
class Check(Displayable):
    """The comparison of each result.

    It has the largest relative error, the number of elements that are finite on one side only, and
    whether that is within `tolerance`.
    """

    name: str
    witness: str
    tolerance: float
    table: pd.DataFrame

    @property
    def agrees(self) -> bool:
        """Whether all results agree."""
        return bool(self.table["agrees"].all())

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return ((f"{self.name} against the {self.witness}", self.table),)

    @property
    def verdict(self) -> str:
        """Return whether they agree, and the error, in one line."""
        verdict = "agrees with" if self.agrees else "DIFFERS from"
        worst = self.table["error"].max() if len(self.table) else 0.0
        return (
            f"{self.name} {verdict} the {self.witness}: largest relative error {worst:.2g}, "
            f"tolerance {self.tolerance:.2g}"
        )

    def __str__(self) -> str:
        hint = "" if self.agrees else "\n  use the trace's .bisect() to find the pass and rule responsible"
        return self.verdict + hint

    def __repr__(self) -> str:
        return f"<Check: {self.verdict}>"


@boundary("check the results")
def check(
    trace: Trace,
    inputs: Sequence[Any] = (),
    *,
    tolerance: float | None = None,
    witness: Witness | None = None,
    name: str = "reference interpreter",
) -> Check:
    """Run a trace's program and a reference on the same inputs, and compare the results.

    The reference is by default the interpreter, on the module before all passes. Inputs are given,
    or the last run's, or random. `tolerance` is relative to the largest magnitude of a result, by
    default some units in the last place of the coarsest dtype times the root of the longest likely
    sum.

    Raises:
        XlanbError: there is no program, the inputs do not match, or the reference rejects the
            module.
    """
    import pandas as pd

    arrays = inputs_for(trace, inputs)
    start = start_of(trace)
    expected = leaves_of(witness(start, arrays) if witness is not None else evaluate(start, *arrays))
    got = leaves_of(program_of(trace).flat(*arrays))
    if len(got) != len(expected):
        raise XlanbError(f"{trace.name} gives {len(got)} results, the {name} {len(expected)}")
    limit = tolerance if tolerance is not None else _SUMS * tolerance_of(expected)
    rows = []
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        error, broken = compared(a, b) if a.shape == b.shape else (float("inf"), 0)
        shape = f"{a.dtype}{list(a.shape)}"
        rows.append(
            {"result": k, "shape": shape, "error": error, "broken": broken, "agrees": error <= limit and not broken}
        )
    return Check(trace.name, name, limit, pd.DataFrame(rows, columns=["result", "shape", "error", "broken", "agrees"]))


_SUMS = 8
"""How many times one operation's tolerance reordered sums of about a thousand elements differ."""
