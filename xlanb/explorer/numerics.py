"""Compute a program's results after every pass in the reference interpreter.

It evaluates every opcode in one plain way. If ranges or errors change from one pass to the next, a
rewrite caused it, not the generated code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.boundary import boundary
from xlanb.cpu.profile import operations
from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError
from xlanb.evaluator import Evaluator
from xlanb.explorer.bisection import compiled_meaning, hlo_stages_of, start_of
from xlanb.explorer.numbers import compared, leaves_of, module_of
from xlanb.explorer.stage import Stage
from xlanb.frames import framed
from xlanb.hlo import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.opt import arguments_for

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.explorer.trace import Trace

MAX_STEPS = 1_000_000
MAX_BYTES = 1 << 29
MAX_FLOPS = 20_000_000_000
"""The most flops of one evaluation: some seconds of NumPy."""
_COLUMNS = ("stage", "pass", "result", "min", "max", "nan", "inf", "err", "failure")


@dataclass(frozen=True)
class ResultNumbers:
    """One result after one stage; `name` is its instruction in the module before all passes.

    `min` and `max` are those of the finite elements (None if there are none; complex numbers by
    magnitude), `nan` and `inf` are counts. `err` is the largest error relative to the reference's
    largest magnitude, None if elements are finite on one side only.
    """

    name: str
    min: float | None
    max: float | None
    nan: int
    inf: int
    err: float | None


@dataclass(frozen=True)
class StageNumbers:
    """The results after one stage, or `failure`: why there are none."""

    stage: Stage
    results: tuple[ResultNumbers, ...] = ()
    failure: str = ""

    @property
    def err(self) -> float | None:
        """The largest error of any result, or None if it has none."""
        errors = [r.err for r in self.results]
        return None if not errors or None in errors else max(e for e in errors if e is not None)


@dataclass(frozen=True)
class Numerics(Displayable, Plottable):
    """The results before all passes, and after each pass that changed something, in order."""

    stages: tuple[StageNumbers, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per stage and result."""
        rows = [
            (s.stage.index, s.stage.name, r.name, r.min, r.max, r.nan, r.inf, r.err, "")
            for s in self.stages
            for r in s.results
        ]
        rows += [(s.stage.index, s.stage.name, "", None, None, 0, 0, None, s.failure) for s in self.stages if s.failure]
        return framed(rows, columns=list(_COLUMNS)).sort_values(["stage"], kind="stable", ignore_index=True)

    def to_dataframe(self) -> pd.DataFrame:
        """Return `table`: a row for each stage and result."""
        return self.table

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return (("results after each pass, by the reference interpreter", self.table),)

    @property
    def data(self) -> dict[int, list[dict[str, Any]]]:
        """Return JSON data for the step view: by stage, a row for each result.

        A stage without results has a row that says why.
        """
        return {
            s.stage.index: [vars(r) for r in s.results]
            or [{"name": s.failure, "min": None, "max": None, "nan": 0, "inf": 0, "err": None}]
            for s in self.stages
        }

    @property
    def headline(self) -> str:
        """The largest error of any result after any stage."""
        count = f"{len(self.stages)} stage{'s' * (len(self.stages) != 1)} evaluated"
        failed = [s for s in self.stages if s.failure]
        broken = [s for s in self.stages if s.results and s.err is None]
        worst = max((s for s in self.stages if s.err is not None), key=lambda s: s.err or 0.0, default=None)
        words = [count]
        if worst is not None:
            after = f" after {worst.stage.name} (stage {worst.stage.index})" if worst.err else ""
            words.append(f"largest relative error {worst.err:.1e}{after}")
        if broken:
            words.append(f"elements NaN or infinite on one side only after {broken[0].stage.name}")
        if failed:
            words.append(f"{len(failed)} without a result ({failed[0].failure})")
        return ", ".join(words)

    def __str__(self) -> str:
        return self.table.to_string(index=False)

    def __repr__(self) -> str:
        return f"<Numerics after {len(self.stages)} stages>"


@boundary("evaluate each stage")
def numerics(trace: Trace, inputs: Sequence[Any] = (), *, seconds: float = 20.0) -> Numerics:
    """See Trace.numerics."""
    deadline = time.monotonic() + seconds
    stages = hlo_stages_of(trace)
    start = start_of(trace)
    arrays = _inputs(trace, start, inputs)
    reference = leaves_of(_evaluated(start, arrays, deadline))
    names = _result_names(start, len(reference))
    first = StageNumbers(stages[0], _numbers(names, reference, reference))
    rest = [_after(trace, s, arrays, names, reference, deadline) for s in stages[1:] if s.changed]
    return Numerics((first, *rest))


def _inputs(trace: Trace, start: HloModule, given: Sequence[Any]) -> Sequence[Any]:
    if len(given):
        return start.flat_arguments(given)
    if trace.inputs and len(trace.inputs) == len(start.entry_computation.parameters):
        return trace.inputs
    return arguments_for(start, None)


def _after(
    trace: Trace,
    stage: Stage,
    arrays: Sequence[Any],
    names: Sequence[str],
    reference: list[NDArray[Any]],
    deadline: float,
) -> StageNumbers:
    if not isinstance(stage.after, ModuleRecord):
        return StageNumbers(stage, failure="no HLO")
    try:
        module = compiled_meaning(trace, stage)(module_of(stage.after))
        results = leaves_of(_evaluated(module, arrays, deadline))
    except XlanbError as error:
        return StageNumbers(stage, failure=str(error).splitlines()[0])
    if [r.shape for r in results] != [r.shape for r in reference]:
        return StageNumbers(stage, failure="the results have different shapes")
    return StageNumbers(stage, _numbers(names, results, reference))


def _evaluated(module: HloModule, arrays: Sequence[Any], deadline: float) -> Any:
    """Evaluate the results within limits.

    Raises:
        XlanbError: the module is too large, or the interpreter cannot evaluate it.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise XlanbError("too large: the time limit was reached")
    flops = sum(operations(i) for i in module.instructions() if i.opcode is not HloOpcode.FUSION)
    if flops > MAX_FLOPS:
        raise XlanbError(f"too large: {flops:.2g} operations, more than the limit of {MAX_FLOPS:.2g}")
    evaluator = Evaluator(max_steps=MAX_STEPS, max_bytes=MAX_BYTES, max_seconds=left)
    return evaluator.run(module.entry_computation, arrays)


def _numbers(
    names: Sequence[str], results: Sequence[NDArray[Any]], reference: Sequence[NDArray[Any]]
) -> tuple[ResultNumbers, ...]:
    return tuple(_of_result(*row) for row in zip(names, results, reference, strict=True))


def _of_result(name: str, value: NDArray[Any], reference: NDArray[Any]) -> ResultNumbers:
    wide = np.abs(value.astype(np.complex128)) if value.dtype.kind == "c" else value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    nan = int(np.isnan(wide).sum())
    error, broken = compared(value, reference)
    return ResultNumbers(
        name,
        float(finite.min()) if finite.size else None,
        float(finite.max()) if finite.size else None,
        nan,
        wide.size - finite.size - nan,
        None if broken or not np.isfinite(error) else error,
    )


def _result_names(module: HloModule, count: int) -> list[str]:
    """Return a name for each result: the elements of a root tuple."""
    root = module.entry_computation.root
    names = [o.name for o in root.operands] if root.opcode is HloOpcode.TUPLE else [root.name]
    return names if len(names) == count else [f"{root.name}.{k}" for k in range(count)]
