"""Reports of `%%xla_jit` options: differences, reasons, checks, the guilty pass, the annotated
cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from xlanb.errors import ArgumentError, XlanbError
from xlanb.explorer.annotation import annotate
from xlanb.explorer.bisection import Bisection, start_of
from xlanb.explorer.check import check
from xlanb.explorer.numbers import leaves_of
from xlanb.explorer.running import inputs_for
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule
from xlanb.notebook.cell import cell_title
from xlanb.notebook.observation import Observation, why_uncompiled
from xlanb.notebook.program import holds_hlo
from xlanb.peers import xla
from xlanb.view.annotate import annotated_html

_SECONDS = 10.0
"""Time limit for reducing the reproducer of a fault in a cell."""


def check_report_options(options: Any) -> None:
    """Check the options before the cell runs; `--against` implies `--check`.

    Raises:
        ArgumentError: `-d` does not name two stages, or the tolerance of `--check` is not a number.
        MissingPeerError: `--against xla` without JAX.
    """
    if options.diff:
        _stages(options.diff)
    if options.against is not None and options.check is None:
        options.check = ""  # to compare is to check
    if options.check:
        _tolerance(options.check)
    if options.against == "xla":
        xla.check_installed()


def show_reports(shell: InteractiveShell, options: Any, seen: Observation, cell: str) -> None:
    """Show what was asked for.

    Raises:
        XlanbError: it cannot be had, or `--check` found a difference (which is shown first).
    """
    __tracebackhide__ = True
    if not any((options.diff, options.why, options.annotate, options.bisect, options.check is not None)):
        return
    if not seen.traces:
        raise XlanbError("nothing was compiled in this cell, so it has no stages to show (-F recompiles)")
    uncompiled = why_uncompiled(seen.traces)
    if uncompiled and (options.annotate or options.bisect or options.check is not None):
        raise XlanbError(f"this cell has no compiled program to annotate, check or bisect: {uncompiled}")
    if options.diff:
        _show(_difference(seen.trace, options.diff))
    if options.why:
        names = [n.strip() for n in options.why.split(",") if n.strip()]
        for trace in seen.traces:
            _show(trace.why(*names))
    if options.annotate:
        title = "" if holds_hlo(options.lang, cell) else cell_title(shell)
        found = annotate(seen.traces, "\n" + cell, title)
        display({"text/html": annotated_html(found), "text/plain": str(found)}, raw=True)
    if options.bisect:
        _show_guilty(seen.trace.bisect(*inputs_for(seen.trace)))
    if options.check is not None:
        _check(seen.traces, options.check, options.against)


def _show(found: Any) -> None:
    if isinstance(found, str):
        display({"text/plain": found}, raw=True)
    else:
        display(found)


def _difference(trace: Trace, stages: str) -> Any:
    a, b = _stages(stages)
    return trace.diff(_key(a), _key(b))


def _stages(stages: str) -> tuple[str, str]:
    a, _, b = stages.partition(":")
    if not a or not b:
        raise ArgumentError(f"-d {stages!r}: expected two stages separated by a colon, as in algsimp:fusion or 3:17")
    return a, b


def _tolerance(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ArgumentError(f"--check={text}: the tolerance must be a number") from None


def _key(word: str) -> int | str:
    return int(word) if word.lstrip("-").isdigit() else word


def _check(traces: Sequence[Trace], tolerance: str, against: str | None) -> None:
    __tracebackhide__ = True
    limit = _tolerance(tolerance)
    programs = [t for t in traces if t.program is not None]
    if not programs:
        raise XlanbError("--check: no compilation of this cell was completed (-F recompiles)")
    if against == "xla":
        found = [check(t, tolerance=limit, witness=_real_xla, name="real XLA") for t in programs]
    else:
        found = [check(t, tolerance=limit) for t in programs]
    for c in found:
        display(c)
    wrong = [(t, c) for t, c in zip(programs, found, strict=True) if not c.agrees]
    for t, c in wrong:
        _show_cause(t, c.tolerance, against)
    if wrong:
        raise XlanbError("; ".join(c.verdict for _, c in wrong))


def _show_cause(trace: Trace, tolerance: float, against: str | None) -> None:
    """Show the guilty pass and rule, with a reproducer; if ours is right, the real XLA's."""
    inputs = inputs_for(trace)
    found = trace.bisect(*inputs, tolerance=tolerance)
    _show_guilty(found)
    if against == "xla" and not found.changed:
        real = xla.trace(start_of(trace), *leaves_of(tuple(inputs)), runs=1)
        _show_guilty(real.bisect(*inputs, tolerance=tolerance))


def _show_guilty(found: Bisection) -> None:
    """Show a bisection, and the reproducer for a bug report if it found anything."""
    _show(found)
    if not found.changed:
        return
    try:
        _show(found.reproducer(seconds=_SECONDS))
    except XlanbError as error:  # what moved the numbers is known still
        _show(f"no reproducer was written: {error}")


def _real_xla(module: HloModule, arrays: Sequence[Any]) -> Any:
    made = xla.trace(module, *leaves_of(tuple(arrays)), runs=1)
    return tuple(getattr(made, "results", ()))
