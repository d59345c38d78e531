"""HloPassPipeline and HloPassFix: passes in order, and passes repeated until nothing changes.

    passes = [AlgebraicSimplifier(), HloDce(), ...]
    simplification = HloPassFix(HloPassPipeline("simplification", passes))
    for result in simplification.steps(module): ...     # exactly one pass a step

Pipelines are values: `without`, `only`, `until`, `insert` and `reorder` return a new one.
Source: xla/hlo/pass/hlo_pass_{pipeline,fix}.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from xlanb.display import Displayable
from xlanb.errors import PassError, nearest
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass, PassRegistry, PassResult, execute


@dataclass(frozen=True, eq=False, slots=True)
class DeferredPass:
    """A member of a pipeline that need not exist before it runs: most modules lack its triggers."""

    name: str
    triggers: frozenset[HloOpcode]
    make: Callable[[], HloPass]
    """Returns the same pass each time."""


@dataclass(frozen=True)
class HloPassPipeline(Displayable):
    """Passes and pipelines that run one after another."""

    name: str
    passes: tuple[AnyPass, ...]

    def __init__(self, name: str, passes: Iterable[AnyPass | DeferredPass] = ()) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_members", tuple(passes))

    def __getattr__(self, name: str) -> Any:
        """Create `passes` when they are first asked for."""
        if name != "passes" or "_members" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        made = tuple([p.make() if isinstance(p, DeferredPass) else p for p in self.__dict__["_members"]])
        object.__setattr__(self, "passes", made)
        return made

    # -- running -----------------------------------------------------------------------------------

    def run(self, module: HloModule, *, verify: bool = False) -> list[PassResult]:
        """Run every pass over `module`, in place.

        Args:
            module: the module to rewrite.
            verify: check the rules of HLO after each pass that changed anything.

        Raises:
            PassError: a pass refused the module or broke it; the message names the pass and shows
                the module.
        """
        return _run(self, module, verify=verify)

    def steps(self, module: HloModule, *, verify: bool = False, records: bool = True) -> Iterator[PassResult]:
        """Run exactly one more pass with each `next()`.

        Passes of nested pipelines and iterations of fixed points count separately. Without
        `records` (and observers) the results have none, as those of `run`, and raising the garbage
        collector's thresholds is up to the caller.
        """
        return _walk(self, module, _PipelineWalk((), 0, snapshots=records, verify=verify))

    def run_unwatched(self, module: HloModule, passed: Callable[[str], None]) -> None:
        """Run every pass over `module` as `steps` does without records, but create no results.

        `passed` is called with the name of each pass after it. Raising the garbage collector's
        thresholds is up to the caller. There must be no observers.
        """
        _run_through(self, module, (), 0, ({}, passed))

    # -- other pipelines of the same passes --------------------------------------------------------

    def without(self, *names: str) -> HloPassPipeline:
        """The pipeline without the passes or pipelines of these names.

        A known pass that is not in the pipeline is ignored.

        Raises:
            PassError: no pass has that name.
        """
        for name in set(names).difference(self.names):
            if name not in PassRegistry(__package__):
                raise self._missing(name)
        return _kept(self, lambda p: p.name not in names)

    def only(self, *names: str) -> HloPassPipeline:
        """The pipeline with only the passes (and whole pipelines) of these names."""
        return _kept(self, lambda p: p.name in names or not isinstance(p, HloPass), whole=names)

    def until(self, name: str) -> HloPassPipeline:
        """Everything up to and including the first run of the pass `name`.

        A loop around it is reduced to one iteration.

        Raises:
            PassError: there is no such pass in the pipeline.
        """
        found, kept = _until(self, name)
        if not found:
            raise self._missing(name)
        return kept

    def at(self, *names: str) -> HloPass:
        """The first pass with a name, as the pipeline configures it.

        Args:
            names: the names of surrounding pipelines, as many as needed, then the name of the pass.

        Raises:
            PassError: there is no such pass in the pipeline, or not within pipelines of these
                names.
        """
        found = _at(self, names)
        if found is None:
            missing = next((n for n in names if n not in self.names and n != self.name), None)
            raise self._missing(missing if missing is not None else "/".join(names))
        return found

    def insert(self, new: AnyPass, *, after: str | None = None, before: str | None = None) -> HloPassPipeline:
        """The pipeline with one more pass after (or before) each pass of a name.

        At the end if neither is given.

        Raises:
            PassError: there is no such pass in the pipeline.
        """
        anchor = after if after is not None else before
        if anchor is None:
            return replace_passes(self, (*self.passes, new))
        if anchor not in self.names:
            raise self._missing(anchor)

        def expanded(pipeline: HloPassPipeline) -> HloPassPipeline:
            out: list[AnyPass] = []
            for p in pipeline.passes:
                inner = p if isinstance(p, HloPass) else _mapped(p, expanded)
                out.extend((inner,) if p.name != anchor else (inner, new) if after is not None else (new, inner))
            return replace_passes(pipeline, out)

        return expanded(self)

    def reorder(self, *names: str) -> HloPassPipeline:
        """The pipeline with its direct members of these names in this order.

        They take the positions that they have together now.

        Raises:
            PassError: a name is not a direct member.
        """
        for n in names:
            if all(p.name != n for p in self.passes):
                raise self._missing(n)
        chosen = iter([p for n in dict.fromkeys(names) for p in self.passes if p.name == n])
        return replace_passes(self, [next(chosen) if p.name in names else p for p in self.passes])

    @property
    def names(self) -> list[str]:
        """The names of all passes and pipelines in it, in order."""
        out: list[str] = []
        for p in self.passes:
            out.append(p.name)
            if not isinstance(p, HloPass):
                out.extend(_inner(p).names)
        return out

    def _missing(self, name: str) -> PassError:
        return PassError(f"no pass {name!r} in pipeline {self.name!r}{nearest(name, self.names)}")

    # -- what it shows -----------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(_tree(self, ""))

    def __repr__(self) -> str:
        return f"<HloPassPipeline {self.name}: {len(self.names)} passes>"


@dataclass(frozen=True)
class HloPassFix(Displayable):
    """A pass or pipeline, repeated until an iteration changes nothing.

    At most `limit` iterations (XLA's limit is 25).
    """

    inner: AnyPass
    limit: int = field(default=25)

    @property
    def name(self) -> str:
        """The name of the repeated pass or pipeline."""
        return self.inner.name

    def run(self, module: HloModule, *, verify: bool = False) -> list[PassResult]:
        """As HloPassPipeline.run."""
        return _run(self, module, verify=verify)

    def steps(self, module: HloModule, *, verify: bool = False, records: bool = True) -> Iterator[PassResult]:
        """As HloPassPipeline.steps."""
        return _walk(self, module, _PipelineWalk((), 0, snapshots=records, verify=verify))

    def __str__(self) -> str:
        return "\n".join(_tree(self, ""))


_UNRECORDED_ROUNDS = 3
"""After this many iterations an unobserved loop checks for iterations that undo their edits."""

AnyPass: TypeAlias = HloPass | HloPassPipeline | HloPassFix


class _PipelineWalk(NamedTuple):
    """The state of a walk: the enclosing pipelines, the iteration of the innermost loop, and the
    options of each run.
    """

    path: tuple[str, ...]
    iteration: int
    snapshots: bool
    verify: bool


def replace_passes(pipeline: HloPassPipeline, passes: Iterable[AnyPass]) -> HloPassPipeline:
    """The pipeline with other passes under the same name."""
    return HloPassPipeline(pipeline.name, passes)


def _run(target: AnyPass, module: HloModule, *, verify: bool) -> list[PassResult]:
    with raised_gc_thresholds():
        return list(_walk(target, module, _PipelineWalk((), 0, snapshots=False, verify=verify)))


@dataclass
class _FixedPointState:
    """What a walk has seen so far.

    `idle` is, by pass, the version of the module that it did not change. `layouts_count` says
    whether layouts were assigned.
    """

    idle: dict[int, int] = field(default_factory=dict)
    layouts_count: bool = False


def _walk(
    target: AnyPass, module: HloModule, walk: _PipelineWalk, state: _FixedPointState | None = None
) -> Iterator[PassResult]:
    state = state or _FixedPointState()
    if isinstance(target, HloPassPipeline):
        inside = walk._replace(path=(*walk.path, target.name))
        for p in target.passes:
            if isinstance(p, (HloPassPipeline, HloPassFix)):
                yield from _walk(p, module, inside, state)
            else:  # inlined, without another generator
                yield _leaf(p, module, inside, state)
    elif isinstance(target, HloPassFix):
        yield from _rounds(target, module, walk, state)
    else:
        yield _leaf(target, module, walk, state)


def _run_through(
    target: AnyPass | DeferredPass,
    module: HloModule,
    path: tuple[str, ...],
    iteration: int,
    walk: tuple[dict[int, int], Callable[[str], None]],
) -> None:
    """Do what `_walk` does, without observers and results.

    In a small module most of some hundred passes have nothing to do; the result would be most of
    their cost.
    """
    if isinstance(target, HloPassPipeline):
        inside = (*path, target.name)
        for p in target.__dict__["_members"]:
            _run_through(p, module, inside, iteration, walk)
        return
    if isinstance(target, HloPassFix):
        for n in _until_still(target, module, watched=False):
            _run_through(target.inner, module, path, n, walk)
        return
    idle, passed = walk
    version, triggers = module.version, target.triggers
    if idle.get(id(target)) != version and (triggers is None or not triggers.isdisjoint(module.opcodes)):
        hlo_pass = target.make() if isinstance(target, DeferredPass) else target
        execute(hlo_pass, module, path, iteration, snapshots=False)
        if module.version == version:
            idle[id(target)] = version
    passed(target.name)


def _leaf(hlo_pass: HloPass, module: HloModule, walk: _PipelineWalk, state: _FixedPointState) -> PassResult:
    """Run one pass, or skip it.

    It is skipped if it left this version of the module unchanged before (a pass is a function of
    the module), or if the module has none of its trigger opcodes.
    """
    version = module.version
    state.layouts_count |= hlo_pass.assigns_layouts
    if state.idle.get(id(hlo_pass)) == version:
        still = True
    else:
        still = hlo_pass.triggers is not None and hlo_pass.triggers.isdisjoint(module.opcodes)
    if still:
        if not walk.snapshots and not is_observed():
            return _still(hlo_pass.name, walk.path, walk.iteration)
        same = module.record()
        return PassResult(hlo_pass.name, False, 0.0, same, same, walk.path, walk.iteration)
    # without snapshots the thresholds are raised for the whole walk
    with raised_gc_thresholds() if walk.snapshots else _AS_IT_IS:
        result = execute(
            hlo_pass,
            module,
            walk.path,
            walk.iteration,
            snapshots=walk.snapshots,
            verify=walk.verify,
            layouts_count=state.layouts_count,
        )
    if module.version == version:
        state.idle[id(hlo_pass)] = version
    return result


_AS_IT_IS = nullcontext()


@lru_cache(maxsize=4096)
def _still(name: str, path: tuple[str, ...], iteration: int) -> PassResult:
    """The result of a pass that did not run."""
    return PassResult(name, False, 0.0, None, None, path, iteration)


def _rounds(fix: HloPassFix, module: HloModule, walk: _PipelineWalk, state: _FixedPointState) -> Iterator[PassResult]:
    for n in _until_still(fix, module, watched=walk.snapshots):
        yield from _walk(fix.inner, module, walk._replace(iteration=n), state)


def _until_still(fix: HloPassFix, module: HloModule, *, watched: bool) -> Iterator[int]:
    """The iterations of a loop; the caller runs each one before it takes the next."""
    before: ModuleRecord | None = None
    for n in range(fix.limit):
        version = module.version
        # An iteration that undoes its own edits also ends the loop. Detecting it takes records,
        # which most loops are too short to pay for.
        if before is None and (n >= _UNRECORDED_ROUNDS or watched or is_observed()):
            before = module.record()
        yield n
        if module.version == version:
            return
        if before is not None:
            after = module.record()
            if after is before:
                return
            before = after
    # As in XLA this warrants a warning, not an error: the module is still correct.
    if is_observed():
        reached = Predicate("reached a fixed point", False, f"still changing after {fix.limit} rounds")
        emit(Decision(current_cause(), "fixed point", (fix.name,), False, (reached,)))


def _inner(p: HloPassPipeline | HloPassFix) -> HloPassPipeline:
    if isinstance(p, HloPassPipeline):
        return p
    return HloPassPipeline(p.name, (p.inner,)) if isinstance(p.inner, HloPass) else _inner(p.inner)


def _mapped(
    p: HloPassPipeline | HloPassFix, f: Callable[[HloPassPipeline], HloPassPipeline]
) -> HloPassPipeline | HloPassFix:
    return f(p) if isinstance(p, HloPassPipeline) else HloPassFix(f(_inner(p)), p.limit)


def _kept(pipeline: HloPassPipeline, keep: Callable[[AnyPass], bool], whole: tuple[str, ...] = ()) -> HloPassPipeline:
    """The pipeline with the members for which `keep` holds.

    Pipelines named in `whole` stay as they are; others are filtered likewise, and dropped if empty.
    """
    out: list[AnyPass] = []
    for p in pipeline.passes:
        if not keep(p):
            continue
        if isinstance(p, HloPass) or p.name in whole:
            out.append(p)
            continue
        inner = _mapped(p, lambda q: _kept(q, keep, whole))
        if _inner(inner).passes:
            out.append(inner)
    return replace_passes(pipeline, out)


def _at(within: AnyPass, names: tuple[str, ...]) -> HloPass | None:
    """The first pass on a path through all of these names, in order."""
    rest = names[1:] if names and within.name == names[0] else names
    if isinstance(within, HloPass):
        return within if not rest else None
    if not rest:
        return None
    return next((found for p in _inner(within).passes if (found := _at(p, rest)) is not None), None)


def _until(pipeline: HloPassPipeline, name: str) -> tuple[bool, HloPassPipeline]:
    """Whether the pipeline has a pass of this name, and everything up to it."""
    out: list[AnyPass] = []
    for p in pipeline.passes:
        found, part = (p.name == name, p) if isinstance(p, HloPass) or p.name == name else _until(_inner(p), name)
        out.append(part if found else p)
        if found:
            return True, replace_passes(pipeline, out)
    return False, pipeline


def _tree(p: AnyPass, indent: str) -> Iterator[str]:
    if isinstance(p, HloPass):
        yield f"{indent}{p}"
        return
    loop = f" (to a fixed point, at most {p.limit} iterations)" if isinstance(p, HloPassFix) else ""
    yield f"{indent}{p.name}{loop}"
    for q in _inner(p).passes:
        yield from _tree(q, indent + "  ")
