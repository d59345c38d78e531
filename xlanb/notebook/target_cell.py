"""`%%xla_jit --target`: compile a cell's program for absent hardware, without running it.

The real XLA or xlanb itself compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from xlanb.errors import ArgumentError, MissingPeerError
from xlanb.frontends.stablehlo import parse_text
from xlanb.notebook.cell import LastCall, run_cell, run_cell_to_call
from xlanb.notebook.program import as_tuple, holds_hlo
from xlanb.notebook.shell import evaluated
from xlanb.peers.targets.compare import AnyTrace
from xlanb.peers.targets.installed import check_installed
from xlanb.peers.targets.names import parse_target
from xlanb.peers.targets.own import OWN, own_target, trace_for

_EXECUTING = ("live", "until", "check", "against", "bisect", "annotate", "disable", "repeat")
"""Options of `%%xla_jit` that run the program, or the passes of this package."""
_NOT_GIVEN = {"disable": ("",), "repeat": (0,)}
"""Defaults of these, if not None or False."""


def check_targets(options: Any) -> list[str]:
    """Return the targets of `--target`.

    Raises:
        ArgumentError: a name is unknown, or an option is for local runs.
        MissingPeerError: a target's compiler is not installed, and xlanb cannot compile for it.
    """
    refused = [f"--{name}" for name in _EXECUTING if getattr(options, name) not in _NOT_GIVEN.get(name, (None, False))]
    if refused:
        raise ArgumentError(f"{', '.join(refused)}: a program for {options.target} is only compiled, not run")
    names = [n.strip() for n in options.target.strip("\"'").split(",") if n.strip()]
    if not names:
        raise ArgumentError("--target is empty: give h100, a100:8, 'tpu v5e:2x2', or several separated by commas")
    return [_possible(name) for name in names]


def _possible(name: str) -> str:
    """Return the name of an available target.

    If the real compiler is not installed, xlanb itself compiles for an NVIDIA GPU.
    """
    if own_target(name) is not None:
        return name
    target = parse_target(name)
    try:
        check_installed(target)
    except MissingPeerError as error:
        is_own = (
            target.device is not None and target.device.architecture.platform == "CUDA" and target.device_count == 1
        )
        if not is_own:
            raise
        display({"text/plain": f"Compiled by xlanb itself: {error}"}, raw=True)
        return f"{OWN} {name}"
    return name


def target_traces(shell: InteractiveShell, options: Any, cell: str, names: list[str]) -> list[AnyTrace]:
    """Compile a cell's program for each target.

    It is a call at its end, a function with `--args` (or `-f`), HLO or StableHLO.

    Raises:
        XlanbError: the cell ends in none of these, or the real XLA rejects the program.
        BaseException: the cell's exception.
    """
    __tracebackhide__ = True
    x, args, named = _program(shell, options, cell)
    placed = {k: evaluated(shell, getattr(options, k)) for k in ("shardings", "mesh")}
    made = []
    for name in names:
        with _progress(name) as progress:
            made.append(trace_for(x, args, name, named=named, progress=progress, **placed))
    return made


def _program(shell: InteractiveShell, options: Any, cell: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    __tracebackhide__ = True
    if holds_hlo(options.lang, cell):
        return parse_text("\n" + cell, as_tuple(evaluated(shell, options.args))), (), {}
    if options.function:
        run_cell(shell, cell)
        value = shell.user_ns.get(options.function)
        if not callable(value):
            raise ArgumentError(f"-f {options.function}: the cell does not define this function")
    else:
        value = run_cell_to_call(shell, cell)
    if isinstance(value, LastCall):
        if options.args is None:
            return value.function, value.args, value.named
        return value.function, as_tuple(evaluated(shell, options.args)), {}
    if callable(value) and options.args is not None:
        return value, as_tuple(evaluated(shell, options.args)), {}
    raise ArgumentError(
        "--target needs a cell that ends in a program: a call of a JAX function, as in f(x, w), a function with "
        "--args, or HLO"
    )


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str], None]]:
    """Show the compiler's progress below the cell, until it is done."""
    handle = DisplayHandle()
    handle.display({"text/plain": f"{name}: ..."}, raw=True)

    def show(text: str) -> None:
        handle.update({"text/plain": f"{name}: {text}"}, raw=True)

    try:
        yield show
    finally:
        handle.update({"text/plain": ""}, raw=True)
