"""Branches: compilations that fork from another after a stage.

A branch has an edited module, omits passes, or runs them in another order. It shares the past
stages. The remaining passes follow from the stages that have run and the pipeline that they came
from.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.cpu.compiler import CompileOptions
from xlanb.cpu.executable import Executable
from xlanb.cpu.pipelines import pipeline as named_pipeline
from xlanb.errors import HloParseError, PassError, XlanbError, nearest
from xlanb.explorer.lineage import HAND_EDIT
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule, parse
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.compiler import finished, hlo_stages, options_in_force, start_compilation
from xlanb.stage import Stages
from xlanb.transforms import PASSES
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import AnyPass, HloPassFix, HloPassPipeline

if TYPE_CHECKING:
    from xlanb.gpu.executable import GpuExecutable

_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_DEFINITION = re.compile(r"\s*(?:ROOT\s+)?%?([\w.-]+)\s*=")


class HloEditError(XlanbError):
    """An edited module cannot be compiled.

    `line` and `column` (1-based) are the position in its text, 1 if unknown.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        self.line, self.column = max(line, 1), max(column, 1)
        super().__init__(message)


@dataclass(frozen=True)
class Branch:
    """All that is needed to continue from a stage.

    `past` is shared; `module` is the module at the stage, edited if `is_edited`; `passes` are the
    remaining passes.
    """

    past: Trace
    at: int
    before: ModuleRecord
    module: HloModule
    passes: HloPassPipeline
    is_edited: bool = False
    target: str = ""
    """The target GPU; "" for the CPU."""

    def stages(self) -> Stages[Executable] | Stages[GpuExecutable]:
        """Compile the rest, one stage at a time."""
        key = start_compilation(self.past.name)
        if self.is_edited:
            record = self.module.record()
            yield finished(key, Stage("hlo_pass", HAND_EDIT, self.before, record))
        # Verify after each pass: an edited module or a new pass order should fail where it breaks.
        if self.target:
            from xlanb.gpu.compiler import GpuCompileOptions  # not loaded for the CPU
            from xlanb.runtime.gpu_compiler import gpu_hlo_stages

            gpu = GpuCompileOptions(self.target, self.passes, verify=True)
            return (yield from gpu_hlo_stages(self.module, key, gpu))
        options = CompileOptions(self.passes, multi_thread=options_in_force().multi_thread, verify=True)
        return (yield from hlo_stages(self.module, key, options))


def branch(
    trace: Trace,
    at: int | str = -1,
    *,
    text: str | None = None,
    without: Iterable[str] = (),
    move: Mapping[str, str] | None = None,
    pipeline: HloPassPipeline | str | None = None,
    name: str = "",
) -> Branch:
    """See Compilation.fork.

    Raises:
        XlanbError: there is no such stage, or it has no HLO.
        HloEditError: the edited text is not a module, or violates a rule of HLO.
        PassError: a pass to move is not among the remaining ones.
    """
    index = _index(trace, at)
    origin = _origin(trace, index)
    index, record = _module_at(origin, index)
    passes = _passes(origin, index, pipeline)
    off = tuple(without)
    passes = _move_passes(passes.without(*(n for n in off if n in passes.names)) if off else passes, move or {})
    module = HloModule.from_record(record) if text is None else edited(text, record)
    module.host_callbacks = record.host_callbacks
    module.calling = record.calling
    label = name or _label(origin.stages[index], off, move or {}, text is not None, pipeline is not None)
    past = Trace(f"{root_of(trace).name} | {label}", origin.stages[: index + 1])
    past.parent, past.forked_at = origin, index
    past.inputs = origin.inputs
    return Branch(past, index, record, module, passes, text is not None)


def root_of(trace: Trace) -> Trace:
    """Return the trace that a branch, or its parent branches, forked from originally."""
    while trace.parent is not None:
        trace = trace.parent
    return trace


def remaining(trace: Trace, at: int | str = -1) -> HloPassPipeline:
    """Return the passes that remain after a stage.

    A pass of the pipeline that the stages lack was omitted, and is skipped. If the stages are not
    from our pipeline (a dump of the real XLA) and do not follow its order, all of our passes
    remain.

    Raises:
        XlanbError: there is no such stage, or it has no HLO.
    """
    index = _index(trace, at)
    origin = _origin(trace, index)
    return _passes(origin, _module_at(origin, index)[0], None)


def edited(text: str, before: ModuleRecord) -> HloModule:
    """Parse an edited text; constants whose values the text omits (`{...}`) keep their values.

    Raises:
        HloEditError: the text is not a module, or violates a rule of HLO.
    """
    try:
        module = parse(text)
        _restore_constants(module, before)
        module.verify(executable=True)
    except HloParseError as error:
        raise HloEditError(str(error), error.line, error.column) from error
    except XlanbError as error:
        raise HloEditError(str(error), *_error_position(text, str(error))) from error
    return module


# -- the stage -------------------------------------------------------------------------------------


def _index(trace: Trace, at: int | str) -> int:
    if isinstance(at, str):
        return trace[at].index
    count = len(trace.stages)
    if not -count <= at < count:
        raise XlanbError(f"trace {trace.name!r} has {count} stages: no stage {at}")
    return at % count


def _origin(trace: Trace, index: int) -> Trace:
    """Return the trace whose own compilation made a stage; branches share earlier stages."""
    while trace.parent is not None and index <= trace.forked_at:
        trace = trace.parent
    return trace


def _module_at(trace: Trace, index: int) -> tuple[int, ModuleRecord]:
    """Return the last HLO before the backend, at or before a stage."""
    for k in range(index, -1, -1):
        stage = trace.stages[k]
        if stage.kind in ("hlo", "tf2xla", "hlo_pass") and not stage.failed and isinstance(stage.after, ModuleRecord):
            return k, stage.after
    first = next((s for s in trace if s.kind in ("hlo", "tf2xla", "hlo_pass")), None)
    hint = f"; the first HLO is at stage {first.index} ({first.name})" if first is not None else ""
    raise XlanbError(f"stage {index} of {trace.name!r} holds no HLO to continue from{hint}")


# -- remaining passes ------------------------------------------------------------------------------


def _passes(trace: Trace, index: int, given: HloPassPipeline | str | None) -> HloPassPipeline:
    if isinstance(given, str):
        return named_pipeline(given)
    if given is not None:
        return given
    whole = trace.pipeline or named_pipeline()
    start = trace.passes_from if trace.pipeline is not None else 0
    ran = deque(s for s in trace.stages[start : index + 1] if s.kind == "hlo_pass" and s.name != HAND_EDIT)
    left = _remaining_stages(whole, ran)
    if ran:  # the stages do not follow this pipeline
        return whole
    return next((p for p in left if isinstance(p, HloPassPipeline)), HloPassPipeline(whole.name))


def _remaining_stages(target: AnyPass, ran: deque[Stage]) -> list[AnyPass]:
    """Remove the stages that ran from `ran`; return the rest of the pass or pipeline."""
    if isinstance(target, HloPassPipeline):
        inner = [q for p in target.passes for q in _remaining_stages(p, ran)]
        return [HloPassPipeline(target.name, inner)] if inner else []
    if isinstance(target, HloPassFix):
        return _left_of_loop(target, ran)
    if not ran:
        return [target]
    if ran[0].name == target.name:
        ran.popleft()
    return []


def _left_of_loop(fix: HloPassFix, ran: deque[Stage]) -> list[AnyPass]:
    """Return the rest of the current round, then the loop with its remaining rounds."""
    for n in range(fix.limit):
        if not ran:
            return [HloPassFix(fix.inner, fix.limit - n)]
        round_ = list(ran)
        left = _remaining_stages(fix.inner, ran)
        done = round_[: len(round_) - len(ran)]
        if left:
            rest: list[AnyPass] = [HloPassFix(fix.inner, fix.limit - n - 1)] if n + 1 < fix.limit else []
            return [*left, *rest]
        if not done or done[0].given_before is done[-1].given_after:
            return []
    return []


def _move_passes(passes: HloPassPipeline, move: Mapping[str, str]) -> HloPassPipeline:
    for name, anchor in move.items():
        if name not in passes.names:
            raise PassError(f"no pass {name!r} is left to be moved{nearest(name, passes.names)}")
        passes = passes.without(name).insert(_pass(passes, name), after=anchor)
    return passes


def _pass(passes: HloPassPipeline, name: str) -> AnyPass:
    """Return the pass with a name, with its options in the pipeline."""
    for p in passes.passes:
        if p.name == name:
            return p
        inner = p.inner if isinstance(p, HloPassFix) else p
        if isinstance(inner, HloPassPipeline) and name in inner.names:
            return _pass(inner, name)
        if isinstance(inner, HloPass) and inner.name == name:
            return inner
    return PASSES[name]()


def _label(stage: Stage, off: Sequence[str], move: Mapping[str, str], is_edited: bool, is_other: bool) -> str:
    parts = [f"without {', '.join(off)}"] if off else []
    parts += [f"{name} after {anchor}" for name, anchor in move.items()]
    parts += ["edited"] if is_edited else []
    parts += ["other passes"] if is_other else []
    return f"{'; '.join(parts) or 'branch'} from {stage.index} {stage.name}"


# -- text ------------------------------------------------------------------------------------------


def _restore_constants(module: HloModule, before: ModuleRecord) -> None:
    known = {i.name: i for c in before.computations for i in c.instructions if i.opcode is HloOpcode.CONSTANT}
    for i in module.instructions():
        if i.opcode is not HloOpcode.CONSTANT or not i.literal.is_elided:
            continue
        old = known.get(i.name)
        literal = old.attributes["literal"] if old is not None else None
        if (
            literal is None
            or literal.is_elided
            or old is None
            or old.shape.without_layout() != i.shape.without_layout()
        ):
            raise XlanbError(f"the values of constant {i.name} are unknown: write them out instead of {{...}}")
        i.parent.update(i, attributes={"literal": literal})


def _error_position(text: str, message: str) -> tuple[int, int]:
    """Return line and column of the first instruction that a message names."""
    places: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _DEFINITION.match(line)
        if found:
            places.setdefault(found[1], (number, found.start(1) + 1))
    return next((places[n] for n in _NAME.findall(message) if n in places), (1, 1))
