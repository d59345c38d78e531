"""Measure the effect of each pass: compile the program with all passes, and without each one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlanb.boundary import filtered_traceback
from xlanb.debug_options import current, flags
from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace
from xlanb.frames import framed
from xlanb.hlo import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.compiler import compiled
from xlanb.runtime.opt import arguments_for
from xlanb.runtime.program import to_module
from xlanb.threads import HAS_THREADS
from xlanb.tracing import unobserved

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.executable import Executable

_COLUMNS = ("without", "instructions", "kernels", "temp_bytes", "compile_ms", "run_us", "failure")


@dataclass(frozen=True)
class Ablation(Displayable, Plottable):
    """The measurements.

    `table` has one row for the whole pipeline ("" in `without`), then one for each omitted pass.
    Its columns: instructions after all passes, kernels, bytes of temporaries, milliseconds to
    compile and microseconds to run (medians), and the error if the program does not compile without
    the pass.
    """

    name: str
    table: pd.DataFrame

    @property
    def relative(self) -> pd.DataFrame:
        """Every figure as a ratio to the whole pipeline's.

        run_us 2.0 means twice as slow without the pass.
        """
        numbers = self.table.set_index("without")[list(_COLUMNS[1:-1])].astype(float)
        ratios: pd.DataFrame = numbers.div(numbers.loc[""].replace(0.0, float("nan")))
        return ratios.drop(index="").sort_values("run_us", ascending=False)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks: the ratios, slowest first."""
        return (("without each pass, relative to all", self.relative.reset_index().round(2)),)

    def to_dataframe(self) -> pd.DataFrame:
        """Return `table`: a row for the whole pipeline, then one for each omitted pass."""
        return self.table

    @property
    def headline(self) -> str:
        """Return what was measured, in one line."""
        passes = len(self.table) - 1
        return (
            f"{self.name}: run times and compile times without each of {passes} "
            f"pass{'es' * (passes != 1)} in turn, relative to all passes"
        )

    def __str__(self) -> str:
        return f"{self.name}: without each pass in turn\n{self.table.to_string(index=False)}"

    def __repr__(self) -> str:
        return f"<Ablation {self.name}: {len(self.table) - 1} passes>"


@filtered_traceback()
def ablate(
    x: Any,
    *args: Any,
    passes: Sequence[str] | None = None,
    runs: int = 5,
    workers: int = 1,
    client: Any = None,
    **named: Any,
) -> Ablation:
    """Omit each pass in turn and measure; `x` and its arguments are those of `compile`.

    `passes` are the passes to omit, by default each that changed something. Every process also
    measures the whole pipeline, alternating with what it omits. Compilations and runs are spread
    over `workers` processes (times then disturb one another: use it for counts, or with cores to
    spare), or over a Dask cluster if its
    `client` is given.

    Raises:
        XlanbError: the program does not compile with all passes.
    """
    with unobserved():
        module = to_module(x, *args, **named)
    names = list(passes) if passes is not None else _changing(module)
    text = module.to_string("short")
    workers = 1 if client is not None else max(workers, 1)
    share = -(-len(names) // workers) if client is None else 1
    jobs = [(tuple(names[k : k + share]), text, runs) for k in range(0, max(len(names), 1), max(share, 1))]
    rows = _joined(list(_mapped(measure, jobs, workers, client)))
    if rows[0]["failure"]:
        raise XlanbError(f"{module.name} does not compile: {rows[0]['failure']}")
    return Ablation(module.name, framed(rows, columns=list(_COLUMNS)))


def measure(job: tuple[tuple[str, ...], str, int]) -> list[dict[str, Any]]:
    """Measure the program (HLO text) with all passes, then without each of some; return a row each.

    All variants are compiled, and then run, in alternation. The first of each is not counted, so
    that warm-up and other load affect all equally.
    """
    names, text, runs = job
    variants = [Variant(name, text) for name in ("", *names)]
    _in_turns([v.compile for v in variants], 1)
    for variant, seconds in zip(variants, _in_turns([v.compile for v in variants], runs), strict=True):
        variant.row["compile_ms"] = _median(seconds) * 1e3
    _in_turns([v.run for v in variants], 2)
    for variant, seconds in zip(variants, _in_turns([v.run for v in variants], 10 * runs), strict=True):
        variant.row["run_us"] = _median(seconds) * 1e6
    return [v.row for v in variants]


class Variant:
    """The program without one pass ("": with all)."""

    def __init__(self, name: str, text: str) -> None:
        self.row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"without": name, "failure": ""}
        self.text = text
        self.disabled = (*current().xla_disable_hlo_passes, *([name] if name else []))
        self.executable: Executable | None = None
        self.arguments: Sequence[Any] = ()

    def compile(self) -> None:
        """Compile it; the first time, record the result's figures."""
        if self.row["failure"]:
            return
        try:
            module = to_module(self.text)
            with flags(xla_disable_hlo_passes=self.disabled), unobserved():
                made = compiled(module)
            if self.executable is None:
                self.arguments = arguments_for(module, None)
                self._describe(made)
            self.executable = made
        except XlanbError as error:
            self._fail(error)

    def run(self) -> None:
        """Run it once."""
        if self.executable is None or self.row["failure"]:
            return
        try:
            self.executable.flat(*self.arguments)
        except XlanbError as error:
            self._fail(error)

    def seconds(self) -> float | None:
        """Return the wall seconds of a run, or None if it does not compile or run."""
        begin = time.perf_counter()
        self.run()
        return None if self.row["failure"] else time.perf_counter() - begin

    def _describe(self, made: Executable) -> None:
        self.row |= {
            "instructions": made.hlo_module.record().instruction_count,
            "kernels": len(made.kernels),
            "temp_bytes": made.buffer_assignment.temp_size,
        }

    def _fail(self, error: XlanbError) -> None:
        self.row["failure"] = str(error).splitlines()[0]


def _in_turns(work: Sequence[Callable[[], None]], rounds: int) -> list[list[float]]:
    """Return the seconds of each piece of work, in alternating rounds."""
    seconds: list[list[float]] = [[] for _ in work]
    for _ in range(max(rounds, 1)):
        for one, mine in zip(work, seconds, strict=True):
            begin = time.perf_counter()
            one()
            mine.append(time.perf_counter() - begin)
    return seconds


def _median(seconds: Sequence[float]) -> float:
    return statistics.median(seconds)


def _joined(parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Combine the measurements of several processes in one table.

    Times are scaled as if the whole pipeline had taken as long in each process as in the first.
    """
    first = parts[0][0]
    rows = [first]
    for base, *rest in parts:
        for row in rest:
            for figure in ("compile_ms", "run_us"):
                if row[figure] and base[figure] and first[figure]:
                    row[figure] *= first[figure] / base[figure]
            rows.append(row)
    return [r | dict.fromkeys(_COLUMNS[1:-1]) if r["failure"] else r for r in rows]


def _changing(module: HloModule) -> list[str]:
    """Return the passes that change something, in order."""
    compilation = Compilation(module)
    trace: Trace = compilation.trace
    while (stage := compilation.step()) is not None and not (
        stage.kind == "schedule" or not isinstance(stage.after, ModuleRecord)
    ):
        trace = compilation.trace
    return list(dict.fromkeys(s.name for s in trace if s.kind == "hlo_pass" and s.changed))


def _mapped(
    work: Callable[[Any], list[dict[str, Any]]], jobs: Sequence[Any], workers: int, client: Any
) -> Iterable[list[dict[str, Any]]]:
    if client is not None:
        gathered: list[list[dict[str, Any]]] = client.gather(client.map(work, jobs, pure=False))
        return gathered
    if workers <= 1 or not HAS_THREADS:
        return [work(job) for job in jobs]
    from concurrent.futures import ProcessPoolExecutor  # not in a browser
    from multiprocessing import get_context

    # Threads of compiled code do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, jobs))
