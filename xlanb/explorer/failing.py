"""Failure tests for `xlanb.reduce`: differing results, a crashing process, a failing pass.

A pass fails if it raises or changes the result. Each test takes a module and arrays for its
parameters; without arrays, it uses random ones that depend only on the shapes. Each is also data,
from which
`xlanb.explorer.reproducer` writes a file that shows the fault.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from xlanb.cpu.compiler import compile_module
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.numbers import compared, leaves_of, tolerance_of
from xlanb.hlo import HloModule, HloOpcode
from xlanb.hooks import Hook
from xlanb.runtime.compiler import options_in_force
from xlanb.runtime.opt import random_value
from xlanb.transforms import PASSES, HloPass, HloPassFix
from xlanb.transforms.layout.layout_agreement import agree

Run = Callable[[HloModule, Sequence[Any]], Any]

_CHILD = """
import sys
from xlanb.hlo import parse
from xlanb.runtime.opt import random_value
module = parse(open(sys.argv[1], encoding="utf-8").read())
arrays = [random_value(p.shape, k) for k, p in enumerate(module.entry_computation.parameters)]
"""
_RUN_REAL = f"{_CHILD}from xlanb.peers.xla import RealExecutable\nRealExecutable(module)(*arrays)\n"
_RUN_OURS = f"{_CHILD}import xlanb\nxlanb.compile(module)(*arrays)\n"


@dataclass(frozen=True)
class Way:
    """A way to compute a module, called with it and its arrays.

    Attributes:
        name: what computes it, in words.
        run: the function.
        code: a Python expression over `module` and `arrays` that does the same in a file that
            imports xlanb.
        flags: the flags for it.
        is_real: the real XLA computes it, so that a file needs only JAX.
    """

    name: str
    run: Run
    code: str = ""
    flags: str = ""
    is_real: bool = False

    def __call__(self, module: HloModule, arrays: Sequence[Any]) -> Any:
        return self.run(module, arrays)


compiled = Way(
    "xlanb's compiled code",
    lambda module, arrays: compile_module(module, options_in_force())(*arrays),
    "xlanb.compile(module)(*arrays)",
)
"""Computes by our compiled code."""

interpreted = Way(
    "xlanb's interpreter", lambda module, arrays: evaluate(module, *arrays), "xlanb.evaluate(module, *arrays)"
)
"""Computes by the interpreter."""


real_xla: Final[Hook[[], Way]] = Hook("explorer.real_xla")
"""Computes by the real XLA:CPU."""


def without(*passes: str) -> Way:
    """Compute by our compiled code without some passes.

    Raises:
        UnknownPassError: there is no such pass.
    """
    for name in passes:
        PASSES[name]  # raises

    def run(module: HloModule, arrays: Sequence[Any]) -> Any:
        return compile_module(module, replace(options_in_force(), disable_passes=passes))(*arrays)

    flags = f"--xla_disable_hlo_passes={','.join(passes)}"
    return Way(f"xlanb's compiled code without {', '.join(passes)}", run, compiled.code, flags)


@dataclass(frozen=True)
class Differs:
    """Whether two ways to compute a module differ: see `differs`."""

    run: Run
    reference: Run
    tolerance: float | None = None

    def __call__(self, module: HloModule, *arrays: Any) -> bool:
        arrays = arrays or made_up(module)
        found, wanted = leaves_of(self.run(module, arrays)), leaves_of(self.reference(module, arrays))
        limit = tolerance_of(wanted) if self.tolerance is None else self.tolerance
        return _is_apart(found, wanted, limit)


def differs(run: Run, reference: Run, tolerance: float | None = None) -> Differs:
    """Test whether two ways to compute a module differ.

    They differ by more than a relative error, or in which elements are finite. The default
    tolerance is some units in the last place.
    """
    return Differs(run, reference, tolerance)


@dataclass(frozen=True)
class Raises:
    """Whether a pass raises an error over a module: see `raises`."""

    hlo_pass: HloPass
    message: str = ""

    def __call__(self, module: HloModule, *_: Any) -> bool:
        try:
            self.hlo_pass.run(module)
        except XlanbError as error:
            return self.message in str(error)
        return False


def raises(hlo_pass: HloPass, message: str = "") -> Raises:
    """Test whether a pass raises an error on a module, with some words in its message."""
    return Raises(hlo_pass, message)


@dataclass(frozen=True)
class ChangesResult:
    """Tests whether a pass of the default pipeline changes a module's result, by the interpreter.

    Attributes:
        hlo_pass: the pass as configured at `path`.
        path: the names of the enclosing pipelines in `source`; empty for the pass with defaults.
        tolerance: the relative error to exceed.
        reads_bytes: whether a value is read in its user's layout, as code does after
            layout-assignment.
        source: the expression that makes the pipeline.
    """

    hlo_pass: HloPass | HloPassFix
    path: tuple[str, ...] = ()
    tolerance: float | None = None
    reads_bytes: bool = False
    source: str = "xlanb.cpu.pipeline()"

    def __call__(self, module: HloModule, *arrays: Any) -> bool:
        arrays = arrays or made_up(module)
        after = module.clone()
        self.hlo_pass.run(after)
        wanted, found = (leaves_of(evaluate(self.as_read(m), *arrays)) for m in (module, after))
        limit = tolerance_of(wanted) if self.tolerance is None else self.tolerance
        return _is_apart(found, wanted, limit)

    def as_read(self, module: HloModule) -> HloModule:
        """Prepare the module for evaluation, in place, and return it."""
        if self.reads_bytes:
            agree(module, HloOpcode.BITCAST)
        return module


def _is_apart(found: Sequence[Any], wanted: Sequence[Any], limit: float) -> bool:
    pairs = [compared(a, b) for a, b in zip(found, wanted, strict=True)]
    return any(broken or not error <= limit for error, broken in pairs)


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    `status` is its exit status, negative if a signal ended it, None on timeout; `said` is its
    standard error.
    """

    status: int | None
    said: str = ""

    @property
    def is_dead(self) -> bool:
        """Whether it crashed or timed out."""
        return self.status is None or self.status < 0

    @property
    def reason(self) -> str:
        """The check that failed, or the last line of standard error, or ""."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        return next((line for line in lines if "Check failed" in line), lines[-1] if lines else "")


@dataclass(frozen=True)
class Dies:
    """Whether a process dies that compiles and runs a module: see `dies`."""

    real: bool
    seconds: float = 60.0
    message: str = ""

    def __call__(self, module: HloModule, *_: Any) -> bool:
        ended = self.ended(module)
        return ended.is_dead and self.message in ended.said

    def ended(self, module: HloModule) -> Ended:
        """Run the process; return how it ended and its standard error."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "module.hlo"
            file.write_text(str(module), encoding="utf-8")
            command = [sys.executable, "-c", _RUN_REAL if self.real else _RUN_OURS, str(file)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=self.seconds, check=False)
            except subprocess.TimeoutExpired as late:
                return Ended(None, (late.stderr or b"").decode(errors="replace"))
        return Ended(done.returncode, done.stderr.decode(errors="replace"))


def dies(*, real: bool, seconds: float = 60.0, message: str = "") -> Dies:
    """Test whether a separate process that compiles and runs a module crashes or times out.

    It uses the real XLA, or xlanb. `message` is a part of its standard error, so that different
    faults are not confused.
    """
    return Dies(real, seconds, message)


def made_up(module: HloModule) -> tuple[Any, ...]:
    """Return random arrays for a module's parameters, the same for the same shapes."""
    return tuple(random_value(p.shape, k) for k, p in enumerate(module.entry_computation.parameters))
