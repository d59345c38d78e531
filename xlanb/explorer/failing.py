"""What a module may do wrong, as tests for `xlanb.reduce`: results that differ, a process that dies, a pass that
raises.

Each is a function of a module, and of arrays for its parameters: without arrays random ones are made, the same for
the same shapes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xlanb.cpu.compiler import compile_module
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.numbers import compared, leaves_of, tolerance_of
from xlanb.hlo import HloModule
from xlanb.runtime.compiler import options_in_force
from xlanb.runtime.opt import random_value
from xlanb.transforms import PASSES, HloPass

Run = Callable[[HloModule, Sequence[Any]], Any]
Test = Callable[..., bool]

_CHILD = """
import sys
from xlanb.hlo import parse
from xlanb.runtime.opt import random_value
module = parse(open(sys.argv[1], encoding="utf-8").read())
arrays = [random_value(p.shape, k) for k, p in enumerate(module.entry_computation.parameters)]
"""
_RUN_REAL = f"{_CHILD}from xlanb.peers.xla import RealExecutable\nRealExecutable(module)(*arrays)\n"
_RUN_OURS = f"{_CHILD}import xlanb\nxlanb.compile(module)(*arrays)\n"


def compiled(module: HloModule, arrays: Sequence[Any]) -> Any:
    """What our compiled code gives."""
    return compile_module(module, options_in_force())(*arrays)


def interpreted(module: HloModule, arrays: Sequence[Any]) -> Any:
    """What the interpreter gives."""
    return evaluate(module, *arrays)


def without(*passes: str) -> Run:
    """What our compiled code gives without some passes.

    Raises:
        UnknownPassError: there is no such pass.
    """
    for name in passes:
        PASSES[name]  # raises

    def run(module: HloModule, arrays: Sequence[Any]) -> Any:
        return compile_module(module, replace(options_in_force(), disable_passes=passes))(*arrays)

    return run


def differs(run: Run, reference: Run, tolerance: float | None = None) -> Test:
    """Whether two ways to compute a module differ by more than a relative error, or in which elements are finite.

    Without a tolerance some units in the last place.
    """

    def test(module: HloModule, *arrays: Any) -> bool:
        arrays = arrays or _made_up(module)
        found, wanted = leaves_of(run(module, arrays)), leaves_of(reference(module, arrays))
        limit = tolerance_of(wanted) if tolerance is None else tolerance
        for a, b in zip(found, wanted, strict=True):
            error, broken = compared(a, b)
            if broken or not error <= limit:
                return True
        return False

    return test


def raises(hlo_pass: HloPass, message: str = "") -> Test:
    """Whether a pass raises an error over a module, with some words in its message."""

    def test(module: HloModule, *_: Any) -> bool:
        try:
            hlo_pass.run(module)
        except XlanbError as error:
            return message in str(error)
        return False

    return test


def dies(*, real: bool, seconds: float = 60.0) -> Test:
    """Whether a process of its own dies, or does not end in time, that compiles and runs a module.

    By the real XLA, or by xlanb.
    """

    def test(module: HloModule, *_: Any) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "module.hlo"
            file.write_text(str(module), encoding="utf-8")
            command = [sys.executable, "-c", _RUN_REAL if real else _RUN_OURS, str(file)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
            except subprocess.TimeoutExpired:
                return True
        return done.returncode < 0

    return test


def _made_up(module: HloModule) -> tuple[Any, ...]:
    return tuple(random_value(p.shape, k) for k, p in enumerate(module.entry_computation.parameters))
