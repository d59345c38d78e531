"""User passes from a notebook: create one, try it on a module, add it to the pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlanb.cpu.pipelines import join, leave
from xlanb.display import Displayable
from xlanb.errors import PassError, XlanbError
from xlanb.explorer.bisection import start_of
from xlanb.explorer.numerics import Numerics
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.compiler import finished, start_compilation
from xlanb.stage import Stage, size_text
from xlanb.tracing import observing, unobserved
from xlanb.transforms import PASSES, HloPass, match
from xlanb.transforms.builder import Builder

_NAME = re.compile(r"[\w-]+")
_TOLERANCE = 1e-5

HELPERS: dict[str, Any] = {
    "HloModule": HloModule,
    "HloOpcode": HloOpcode,
    "HloPass": HloPass,
    "Builder": Builder,
    "match": match,
}
"""Names available in a cell that defines a pass."""


@dataclass(frozen=True)
class Trial(Displayable):
    """A pass run on one module.

    `trace` holds what it did, `numerics` the results before and after by the reference interpreter
    (None if it cannot evaluate the module; `problem` says why).
    """

    name: str
    trace: Trace
    numerics: Numerics | None
    problem: str = ""

    @property
    def keeps_the_result(self) -> bool:
        """Whether the results are the same up to rounding, on random inputs."""
        errors = [s.err for s in self.numerics.stages] if self.numerics is not None else []
        return all(e is not None and e <= _TOLERANCE for e in errors)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Return the traces for notebooks."""
        return (self.trace,)

    def __str__(self) -> str:
        did = self.trace.stages[-1].describe()
        if self.numerics is None:
            return f"{did}; not compared with the reference interpreter: {self.problem}"
        verdict = "keeps the result" if self.keeps_the_result else "CHANGES THE RESULT"
        return f"{did}; {verdict}, by the reference interpreter on random inputs"


def _instance(kind: type[HloPass]) -> HloPass:
    try:
        return kind()
    except TypeError as error:  # no apply, or arguments without defaults
        raise PassError(f"cannot create a pass from the class {kind.__name__}: {error}") from error


def make_pass(source: Any, name: str = "") -> HloPass:
    """Make a pass from a function of a module, or from a subclass or instance of HloPass.

    It has the given name, else the function's or class's. HLO's rules are checked after every run.

    Raises:
        PassError: it is none of these, or the name is invalid or that of one of xlanb's own passes.
    """
    inner: Any = _instance(source) if isinstance(source, type) and issubclass(source, HloPass) else source
    is_pass = isinstance(inner, HloPass)
    if not is_pass and not callable(inner):
        raise PassError(
            f"{type(source).__name__} is not a pass: write a function of a module, or a subclass of HloPass"
        )
    title = name or (inner.name if is_pass else getattr(inner, "__name__", "").replace("_", "-"))
    if not _NAME.fullmatch(title):
        raise PassError(f"{title!r} is not a valid pass name: use letters, digits, - and _ only")
    if title in PASSES and PASSES[title].__module__.startswith("xlanb.transforms"):
        raise PassError(f"xlanb already has a pass {title!r}: choose another name (-n NAME)")
    function: Callable[[HloModule], Any] = inner.apply if is_pass else inner

    def apply(_: HloPass, module: HloModule) -> None:
        function(module)
        try:
            module.verify(executable=True)
        except XlanbError as error:
            raise PassError(f"{title} left an invalid module: {error}") from error

    doc = getattr(source, "__doc__", None) or f"The pass {title}, written in a notebook."
    made: Any = type(
        title,
        (HloPass,),
        {
            "name": title,
            "apply": apply,
            "defining_function": classmethod(lambda _: function),
            "__doc__": doc,
            "__module__": getattr(source, "__module__", "__main__"),
        },
    )
    new: HloPass = made()
    return new


def try_pass(hlo_pass: HloPass, module: HloModule, inputs: Sequence[Any] = ()) -> Trial:
    """Run a pass on a copy of a module, recorded, and compare the results before and after.

    Raises:
        PassError: the pass fails or breaks the module.
        BaseException: whatever the pass raises.
    """
    with unobserved():
        copy = module.clone()
    recorder = Recorder()
    with observing(recorder):
        key = start_compilation(f"{hlo_pass.name} on {module.name}")
        given = copy.record()
        finished(key, Stage("hlo", "before", None, given, summary=size_text(given)))
        result = hlo_pass.run(copy)
        finished(key, Stage("hlo_pass", hlo_pass.name, result.before, result.after, seconds=result.seconds))
    (trace,) = recorder.traces
    try:
        numerics, problem = trace.numerics(*inputs), ""
    except XlanbError as error:
        numerics, problem = None, str(error).splitlines()[0]
    failed = [s.failure for s in numerics.stages if s.failure] if numerics is not None else []
    return Trial(hlo_pass.name, trace, None if failed else numerics, failed[0] if failed else problem)


def join_pipeline(hlo_pass: HloPass, after: str | None = None) -> None:
    """Add the pass to later compilations: after a pass, or at the end.

    Raises:
        PassError: the default pipeline has no such pass.
    """
    join(hlo_pass, after=after)


def leave_pipeline(name: str) -> None:
    """Remove a pass from later compilations."""
    leave(name)


def as_module(value: Any) -> HloModule:
    """Return the module in a value.

    It may be a module or its text, a record, a trace or an object that has one (its HLO before all
    passes), or an executable.

    Raises:
        XlanbError: there is none.
    """
    if isinstance(value, HloModule):
        return value
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, ModuleRecord):
        return HloModule.from_record(value)
    trace = value if isinstance(value, Trace) else getattr(value, "trace", None)
    if isinstance(trace, Trace):
        return start_of(trace)
    for name in ("source_module", "hlo_module"):
        module = getattr(value, name, None)
        if isinstance(module, HloModule):
            return module
    raise XlanbError(f"{type(value).__name__} contains no HLO module")
