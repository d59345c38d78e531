"""Find the pass that changed the result.

Evaluates the module after each pass in the reference interpreter, and compares with the module
before all passes. The interpreter computes every opcode in one plain way, so a difference comes
from a rewrite and not from the generated code. From layout-assignment on, it reads a value in the
layout that its user expects, as code does: if that differs from the value's own layout, the
elements are out of order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from numpy.typing import NDArray

from xlanb.boundary import boundary
from xlanb.cpu.pipelines import RELEASES, pipeline
from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.numbers import compared, leaves_of, module_of, tolerance_of
from xlanb.explorer.stage import Stage
from xlanb.frames import framed
from xlanb.hlo import HloModule, HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.hooks import Hook
from xlanb.runtime.opt import arguments_for
from xlanb.tracing import Edit, Event, is_same_rewrite, observing
from xlanb.transforms import PASSES, HloPass, HloPassFix, HloPassPipeline
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.layout.layout_assignment import LayoutAssignment

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.explorer.reproducer import Reproducer
    from xlanb.explorer.trace import Trace

reproducer_of: Final[Hook[..., Reproducer]] = Hook("explorer.reproducer_of")
"""Returns a Python file that reproduces what a bisection found."""

_KINDS = ("hlo", "tf2xla", "hlo_pass", "schedule")
_COUNTED = ("replace", "set_root", "update")
_OF_CODE = 8
"""How many times an operation's tolerance compiled code may differ from the interpreter.

Compiled code sums in another order.
"""
_OF_DUMPS = "HLO_passes"
"""Prefix of the name of a dumped stage's first pipeline."""
_BEYOND = 1e100
"""The relative error reported when the expected values are all zero."""


@dataclass(frozen=True)
class Checked:
    """The result after one stage.

    It has the largest relative error of any element, and how many elements are NaN or infinite
    where the reference's are not; or why there is no result.
    """

    stage: Stage
    error: float = 0.0
    broken: int = 0
    failure: str = ""

    def differs(self, tolerance: float) -> bool:
        """Whether the result differs from the reference by more than the tolerance."""
        return bool(self.failure) or self.broken > 0 or not self.error <= tolerance

    def __str__(self) -> str:
        if self.failure:
            return self.failure
        error = f"relative error {self.error:.1e}" if self.error < _BEYOND else "zeros became nonzero"
        return error + (f", {self.broken} elements NaN or infinite" if self.broken else "")


@dataclass(frozen=True)
class Asked:
    """A bisection's inputs: trace, arrays for the program's parameters, and given tolerance."""

    trace: Trace
    inputs: tuple[Any, ...]
    tolerance: float | None


@dataclass(frozen=True)
class Bisection(Displayable, Plottable):
    """What a bisection found.

    Attributes:
        checked: every stage that was evaluated, in order.
        stage: the first that changed the result, or None.
        rewrite: the rewrite in it.
        asked: the bisection's inputs.
        code: if no pass changed the result, what the compiled program returned, if the trace has
            one and it changed the result.
        is_replay: the pass is another compiler's; `rewrite` is what xlanb's pass of that name does
            to the same module.
    """

    tolerance: float
    checked: tuple[Checked, ...]
    stage: Stage | None = None
    rewrite: Edit | None = None
    asked: Asked | None = field(default=None, repr=False, compare=False)
    code: Checked | None = None
    is_replay: bool = False

    @property
    def changed(self) -> bool:
        """Whether a pass, or the generated code, changed the result."""
        return self.stage is not None or self.code is not None

    @property
    def moved(self) -> bool:
        """Deprecated name of `changed`."""
        return self.changed

    def reproducer(self, *, seconds: float = 60.0) -> Reproducer:
        """Return one Python file that shows the fault; the program is reduced for up to `seconds`.

        Print it, or `.write("fault.py")`. For a pass of ours, it contains the module before the
        pass, and runs the pass. For the real XLA's, it contains a program that the real XLA
        computes wrong, and needs only JAX; if the installed XLA computes it right, the modules
        before and after the pass.

        Raises:
            ArgumentError: nothing changed the result.
            XlanbError: a module of the trace cannot be evaluated, or its constants are not known.
        """
        return reproducer_of(self, seconds=seconds)

    @property
    def errors(self) -> pd.DataFrame:
        """One row per evaluated stage.

        Columns: index, pass, pipeline, the largest relative error, broken elements, whether it
        exceeds the tolerance.
        """
        rows = [
            {
                "stage": c.stage.index,
                "pass": c.stage.name,
                "pipeline": "/".join(c.stage.pipeline),
                "error": c.error if not c.failure else float("nan"),
                "broken": c.broken,
                "differs": c.differs(self.tolerance),
                "failure": c.failure,
            }
            for c in self.checked
        ]
        return framed(rows, columns=["stage", "pass", "pipeline", "error", "broken", "differs", "failure"])

    def to_dataframe(self) -> pd.DataFrame:
        """Return `errors`: a row per evaluated stage."""
        return self.errors

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return (("error after each pass that was evaluated", self.errors),)

    def __str__(self) -> str:
        return self.summary()

    def summary(self, *, written: str = "", on_command_line: bool = False) -> str:
        """Return what was found, and how to write it to a file.

        Names a call, or on the command line an option, or the file if it was `written`.
        """
        if not self.changed or self.asked is None:
            hint = []
        elif written:
            hint = [f"  {written} reproduces it with a reduced module"]
        elif on_command_line:
            hint = ["  --reproducer fault.py writes a file that reproduces it with a reduced module"]
        else:
            hint = ['  .reproducer().write("fault.py") writes a file that reproduces it with a reduced module']
        return "\n".join([*self._found(), *hint])

    def _found(self) -> list[str]:
        if self.stage is None:
            worst = max((c.error for c in self.checked), default=0.0)
            none = (
                f"no pass changed the numbers by more than {self.tolerance:.1e}: the largest "
                f"relative error is {worst:.1e}"
            )
            code = f"the compiled code did: {self.code}, compared with the interpreter on the same HLO"
            return [none] if self.code is None else [none, code]
        at = next(c for c in self.checked if c.stage is self.stage)
        lines = [
            f"{self.stage.name} (stage {self.stage.index}) changed the numbers: {at}, tolerance {self.tolerance:.1e}"
        ]
        if self.rewrite is not None:
            cause = self.rewrite.cause
            if self.is_replay:
                lines.append(f"  xlanb's {self.stage.name} changes them too on the same module, by")
            rule = (cause.rule or cause.pass_name).removesuffix(".")
            lines.append(f"  rewrite {rule}{f' ({cause.where})' if cause.where else ''}:")
            lines += [f"    the rule keeps: {cause.keeps}"] if cause.keeps else []
            lines += [
                f"    {sign} {r}" for sign, r in (("-", self.rewrite.old), ("+", self.rewrite.new)) if r is not None
            ]
        return lines

    def __repr__(self) -> str:
        code = "the compiled code" if self.code is not None else "nothing moved"
        return f"<Bisection: {self.stage.name if self.stage is not None else code}>"


@boundary("bisect")
def bisect(
    trace: Trace,
    inputs: Sequence[Any],
    *,
    tolerance: float | None = None,
    within: bool = True,
    exhaustive: bool = False,
) -> Bisection:
    """See Trace.bisect."""
    rest = [s for s in hlo_stages_of(trace)[1:] if s.changed]
    start = start_of(trace)
    inputs = start.flat_arguments(inputs) if inputs else inputs_of(trace, start)
    reference = leaves_of(evaluate(start, *inputs))
    limit = tolerance_of(reference) if tolerance is None else tolerance
    check = _Check(trace, inputs, reference)
    checked = [check(s) for s in rest] if exhaustive else _halved(rest, check, limit)
    guilty = next((c.stage for c in checked if c.differs(limit)), None)
    rewrite = _rewrite(guilty, check, limit) if guilty is not None and within else None
    code = check.code() if guilty is None else None
    if code is not None and not code.differs(limit if tolerance is not None else _OF_CODE * limit):
        code = None
    asked = Asked(trace, tuple(inputs), tolerance)
    return Bisection(limit, tuple(checked), guilty, rewrite, asked, code, guilty is not None and is_foreign(trace))


def inputs_of(trace: Trace, start: HloModule) -> tuple[Any, ...]:
    """Return the arrays of the last run, or the example arrays, if they match; else random ones."""
    if len(trace.inputs) == len(start.entry_computation.parameters):
        return tuple(trace.inputs)
    return tuple(arguments_for(start, None))


def is_foreign(trace: Trace) -> bool:
    """Whether the trace is a dump of the real XLA: no edits, and no pipeline of ours."""
    if trace.program is not None or any(s.edits or s.decisions for s in trace.stages):
        return False
    return any(s.pipeline and s.pipeline[0].startswith(_OF_DUMPS) for s in trace.stages)


def start_of(trace: Trace) -> HloModule:
    """Return the module before all passes.

    Raises:
        XlanbError: the trace does not have it, or it was dumped without its constants.
    """
    stages = hlo_stages_of(trace)
    if not stages:
        raise XlanbError(f"trace {trace.name} holds no HLO")
    start = stages[0].after if stages[0].kind in ("hlo", "tf2xla") else stages[0].before
    if not isinstance(start, ModuleRecord):
        raise XlanbError(f"trace {trace.name} does not contain the HLO before its passes")
    return module_of(start)


def hlo_stages_of(trace: Trace) -> list[Stage]:
    """Return the stages with HLO: the input, the passes, the schedule."""
    return [s for s in trace.stages if s.kind in _KINDS and isinstance(s.after, ModuleRecord)]


def compiled_meaning(trace: Trace, stage: Stage) -> Callable[[HloModule], HloModule]:
    """Return a function that makes a stage's module behave in the interpreter as compiled code.

    From layout-assignment on, bytes in the wrong order are read in the wrong order.
    """
    return _with_bytes_read if reads_bytes(trace, stage) else lambda module: module


def reads_bytes(trace: Trace, stage: Stage) -> bool:
    """Whether arrays have layouts at a stage.

    They do after layout-assignment, or if the program was already scheduled.
    """
    stages = hlo_stages_of(trace)
    first = stages[0].after
    has_run = isinstance(first, ModuleRecord) and dict(first.header).get("is_scheduled") == "true"
    for s in stages:
        has_run |= s.kind == "hlo_pass" and s.name == LayoutAssignment.name
        if s is stage:
            break
    return has_run


def _with_bytes_read(module: HloModule) -> HloModule:
    agree(module, HloOpcode.BITCAST)
    return module


class _Check:
    """Evaluates a stage's module and compares it with the reference."""

    def __init__(self, trace: Trace, inputs: Sequence[Any], reference: list[NDArray[Any]]) -> None:
        self.trace = trace
        self.inputs = inputs
        self.reference = reference

    def __call__(self, stage: Stage) -> Checked:
        if not isinstance(stage.after, ModuleRecord):
            return Checked(stage, failure="no HLO")
        record = stage.after
        return replace(self.module(stage, lambda: module_of(record)), stage=stage)

    def module(self, stage: Stage, make: Callable[[], HloModule]) -> Checked:
        """Compare a module that is made here for a stage."""
        return self._results(lambda: evaluate(compiled_meaning(self.trace, stage)(make()), *self.inputs))

    def code(self) -> Checked | None:
        """Compare the compiled program's results; None if there is no program to run."""
        program = self.trace.program
        if program is not None:
            return self._results(lambda: program.flat(*self.inputs))
        found = self.trace.results_on(self.inputs)
        return None if found is None else self._results(lambda: found)

    def _results(self, run: Callable[[], Any]) -> Checked:
        nowhere = Stage("hlo_pass", "", None, None)
        try:
            results = leaves_of(run())
        except XlanbError as error:
            return Checked(nowhere, failure=str(error).splitlines()[0])
        if [r.shape for r in results] != [r.shape for r in self.reference]:
            return Checked(nowhere, failure="the results have different shapes")
        pairs = [compared(a, b) for a, b in zip(results, self.reference, strict=True)]
        return Checked(nowhere, max((e for e, _ in pairs), default=0.0), sum(b for _, b in pairs))


def _halved(stages: list[Stage], check: Callable[[Stage], Checked], limit: float) -> list[Checked]:
    """Check stages by binary search for the first that changes the result.

    It finds one only if the last result changed.
    """
    if not stages:
        return []
    known = {len(stages) - 1: check(stages[-1])}
    low, high = -1, len(stages) - 1
    if not known[high].differs(limit):
        return [known[high]]
    while high - low > 1:
        middle = (low + high) // 2
        known[middle] = check(stages[middle])
        low, high = (low, middle) if known[middle].differs(limit) else (middle, high)
    return [known[k] for k in sorted(known)]


# -- inside a pass ---------------------------------------------------------------------------------


class _Stop(BaseException):
    pass


class _Budget:
    """Limits how many rewrites a pass makes; keeps the last one and the module after it.

    Within a rewrite the module may be wrong, because an operand is exchanged before the result. It
    is therefore inspected only between rewrites.
    """

    def __init__(self, module: HloModule, rewrites: int | None = None) -> None:
        self.module = module
        self.rewrites = rewrites
        self.begun = 0
        self.last: Edit | None = None
        """The last replacement of the rewrite; otherwise its first relevant edit."""
        self.state: ModuleRecord | None = None
        self._before: Edit | None = None
        self._is_counted = False

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Edit):
            return
        if self._before is None or not is_same_rewrite(self._before, event):
            self._is_counted = False
        self._before = event
        if event.kind in _COUNTED:
            if not self._is_counted:
                if self.begun == self.rewrites:
                    raise _Stop
                self.begun += 1
                self._is_counted, self.last = True, event
            elif event.kind == "replace":
                self.last = event
        if self._is_counted and self.begun == self.rewrites:
            with suppress(XlanbError):  # a computation that is being built has no root yet
                self.state = self.module.record()

    def result(self) -> HloModule:
        """Return the module after the last rewrite.

        Raises:
            XlanbError: the rewrite left no readable module.
        """
        return self.module if self.state is None else module_of(self.state)


def _rewrite(stage: Stage, check: _Check, limit: float) -> Edit | None:
    """Find the first rewrite of one of our passes that changes the result.

    Runs the pass with a budget of rewrites.
    """
    before = stage.before
    if stage.kind != "hlo_pass" or stage.name not in PASSES or not isinstance(before, ModuleRecord):
        return None

    def run(hlo_pass: HloPass, rewrites: int | None) -> _Budget:
        budget = _Budget(module_of(before), rewrites)
        with suppress(_Stop), observing(budget):  # stops before further rewrites
            hlo_pass.run(budget.module)
            budget.state = None
        return budget

    def changes_result(hlo_pass: HloPass, rewrites: int | None) -> bool:
        return check.module(stage, lambda: run(hlo_pass, rewrites).result()).differs(limit)

    for hlo_pass, _, _ in as_configured(stage):
        if not changes_result(hlo_pass, None):
            continue  # with these options it does not change the result
        low, high = 0, run(hlo_pass, None).begun
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if changes_result(hlo_pass, middle) else (middle, high)
        return run(hlo_pass, high).last
    return None


class Configured(NamedTuple):
    """A pass with options.

    `path` are the names of the enclosing pipelines, outermost first, and `source` is the Python
    expression that makes the outermost one; both are empty for a pass with defaults.
    """

    hlo_pass: HloPass
    path: tuple[str, ...] = ()
    source: str = ""


def as_configured(stage: Stage) -> list[Configured]:
    """Return our pass with a stage's name, as configured there and with defaults.

    The pipeline is the one that ran, or for the real XLA:CPU, that of each of its releases.
    """
    path = tuple(n for n in stage.pipeline if not _ROUND.fullmatch(n))
    found = [
        Configured(p, around, source)
        for source, whole in _pipelines(path)
        for around, p in _leaves(whole, ())
        if p.name == stage.name and path in (around, around[1:])
    ]
    distinct: dict[HloPass, Configured] = {}
    for c in (*found, Configured(PASSES[stage.name]())):
        distinct.setdefault(c.hlo_pass, c)
    return list(distinct.values())


_ROUND = re.compile(r"round \d+")
"""How a dump of the real XLA numbers the rounds of a fixed-point pipeline."""


def _pipelines(path: tuple[str, ...]) -> Iterator[tuple[str, HloPassPipeline]]:
    """Yield the pipelines that a stage may have run in, with the expression that makes each."""
    device = path[0].removeprefix("gpu ") if path and path[0].startswith("gpu ") else ""
    if device:
        from xlanb.gpu.pipelines import pipeline as gpu_pipeline

        yield f"xlanb.gpu.pipeline({device!r})", gpu_pipeline(device)
        return
    ours = [("xlanb.cpu.pipeline()", pipeline())]
    faithful = [(f"xlanb.cpu.pipeline(xla={release!r})", pipeline(xla=release)) for release in RELEASES]
    is_dumped = bool(path) and path[0].startswith(_OF_DUMPS)
    yield from faithful + ours if is_dumped else ours + faithful


def _leaves(
    p: HloPass | HloPassPipeline | HloPassFix, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], HloPass]]:
    if isinstance(p, HloPass):
        yield path, p
    elif isinstance(p, HloPassFix):
        yield from _leaves(p.inner, path)
    else:
        for q in p.passes:
            yield from _leaves(q, (*path, p.name))
