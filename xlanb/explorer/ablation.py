"""What each pass is worth: the program compiled once with every pass and once without each, measured side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.compiler import compiled
from xlanb.runtime.opt import arguments_for
from xlanb.runtime.program import to_module
from xlanb.tracing import unobserved

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("without", "instructions", "kernels", "temp_bytes", "compile_ms", "run_us", "failure")


@dataclass(frozen=True)
class Ablation(Displayable):
    """The measurements: `table` has one row for the whole pipeline ("" in `without`), then one for each pass left out.

    Its columns: instructions after all passes, kernels, bytes of temporaries, milliseconds to compile and microseconds to run (medians), and the error where the program does not compile
    without the pass.
    """

    name: str
    table: pd.DataFrame

    @property
    def relative(self) -> pd.DataFrame:
        """Every figure as a ratio to that of the whole pipeline: run_us 2.0 means twice as slow without the pass."""
        numbers = self.table.set_index("without")[list(_COLUMNS[1:-1])].astype(float)
        ratios: pd.DataFrame = numbers.div(numbers.loc[""].replace(0.0, float("nan")))
        return ratios.drop(index="").sort_values("run_us", ascending=False)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """What a notebook shows: the ratios, the slowest first."""
        return (("without each pass, relative to all", self.relative.reset_index().round(2)),)

    def plot(self) -> Any:
        """The ratios as a plotly figure: one bar for each pass and figure."""
        from importlib import import_module

        return import_module("xlanb.view.ablation").ablation_figure(self.relative, self.name)

    def __str__(self) -> str:
        return f"{self.name}: without each pass in turn\n{self.table.to_string(index=False)}"

    def __repr__(self) -> str:
        return f"<Ablation {self.name}: {len(self.table) - 1} passes>"


def ablate(
    x: Any,
    *args: Any,
    passes: Sequence[str] | None = None,
    runs: int = 5,
    workers: int = 1,
    client: Any = None,
    **named: Any,
) -> Ablation:
    """Leave out each pass in turn and measure; `x` and its arguments are what `compile` takes.

    `passes` are those to leave out, by default each that changed something. Compilations and runs are spread over `workers` processes (times then disturb one another: use it for counts, or where there are
    cores to spare), or over a Dask cluster when its `client` is given.

    Raises:
        XlanbError: the program does not compile with all passes.
    """
    with unobserved():
        module = to_module(x, *args, **named)
    names = list(passes) if passes is not None else _changing(module)
    text = module.to_string("short")
    jobs = [("", text, runs), *((name, text, runs) for name in names)]
    rows = list(_mapped(measure, jobs, workers, client))
    if rows[0]["failure"]:
        raise XlanbError(f"{module.name} does not compile: {rows[0]['failure']}")
    import pandas as pd

    return Ablation(module.name, pd.DataFrame(rows, columns=list(_COLUMNS)))


def measure(job: tuple[str, str, int]) -> dict[str, Any]:
    """One row: the program (HLO text) compiled and run so many times without one pass ("": with all)."""
    from xlanb.debug_options import current, flags

    name, text, runs = job
    row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"without": name, "failure": ""}
    disabled = (*current().xla_disable_hlo_passes, *([name] if name else []))
    try:
        module = to_module(text)
        arguments = arguments_for(module, None)
        with flags(xla_disable_hlo_passes=disabled), unobserved():
            executable, compiling = _timed(lambda: compiled(module), runs)
        executable(*arguments)
        _, running = _timed(lambda: executable(*arguments), 10 * runs)
    except XlanbError as error:
        return row | {"failure": str(error).splitlines()[0]}
    record = executable.hlo_module.record()
    return row | {
        "instructions": record.instruction_count,
        "kernels": len(executable.kernels),
        "temp_bytes": executable.buffer_assignment.temp_size,
        "compile_ms": compiling * 1e3,
        "run_us": running * 1e6,
    }


def _changing(module: HloModule) -> list[str]:
    """The passes that change something, in order."""
    compilation = Compilation(module)
    trace: Trace = compilation.trace
    while (stage := compilation.step()) is not None and not (
        stage.kind == "schedule" or not isinstance(stage.after, ModuleRecord)
    ):
        trace = compilation.trace
    return list(dict.fromkeys(s.name for s in trace if s.kind == "hlo_pass" and s.changed))


def _timed(work: Callable[[], Any], runs: int) -> tuple[Any, float]:
    seconds = []
    value: Any = None
    for _ in range(max(runs, 1)):
        begin = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - begin)
    return value, statistics.median(seconds)


def _mapped(
    work: Callable[[Any], dict[str, Any]], jobs: Sequence[Any], workers: int, client: Any
) -> Iterable[dict[str, Any]]:
    if client is not None:
        gathered: list[dict[str, Any]] = client.gather(client.map(work, jobs, pure=False))
        return gathered
    if workers <= 1:
        return [work(job) for job in jobs]
    # Threads of compiled code do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, jobs))
