"""HloPassPipeline and HloPassFix: passes in an order, and passes until nothing changes (xla/hlo/pass/hlo_pass_{pipeline,fix}.h).

    simplification = HloPassFix(HloPassPipeline("simplification", [AlgebraicSimplifier(), HloDce(), ...]))
    for result in simplification.steps(module): ...     # exactly one pass a step

Pipelines are values: `without`, `only`, `until`, `insert` and `reorder` give another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from xlanb.display import Displayable
from xlanb.errors import PassError, nearest
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.hlo.module import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass, PassRegistry, PassResult, execute


@dataclass(frozen=True)
class HloPassPipeline(Displayable):
    """Passes and pipelines that run one after the other."""

    name: str
    passes: tuple[AnyPass, ...] = ()

    def __init__(self, name: str, passes: Iterable[AnyPass] = ()) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "passes", tuple(passes))

    # -- running ------------------------------------------------------------------------------------------------

    def run(self, module: HloModule, *, verify: bool = False) -> list[PassResult]:
        """Run every pass over `module`, in place.

        Args:
            module: what is rewritten.
            verify: check the rules of HLO after each pass that changed anything.

        Raises:
            PassError: a pass refused the module or broke it; the message names the pass and shows the module.
        """
        return _run(self, module, verify=verify)

    def steps(self, module: HloModule, *, verify: bool = False, records: bool = True) -> Iterator[PassResult]:
        """Run exactly one more pass with each `next()`, pipelines within pipelines and rounds of fixed points included.

        Without `records` (and observers) the results have none, as those of `run`, and holding back the garbage collector (see `seldom`) is up to the caller.
        """
        return _walk(self, module, _Walk((), 0, snapshots=records, verify=verify))

    def run_unwatched(self, module: HloModule, passed: Callable[[str], None]) -> None:
        """Run every pass over `module` as `steps` does without records, without a result for each; `passed` is called with the name of each pass after it.

        Holding back the garbage collector is up to the caller, and there are to be no observers.
        """
        _run_through(self, module, (), 0, ({}, passed))

    # -- other pipelines of the same passes ----------------------------------------------------------------------

    def without(self, *names: str) -> HloPassPipeline:
        """The same without the passes or pipelines of these names; a pass that is not in it anyway is left out too.

        Raises:
            PassError: no pass has that name.
        """
        for name in set(names).difference(self.names):
            if name not in PassRegistry(__package__):
                raise self._missing(name)
        return _kept(self, lambda p: p.name not in names)

    def only(self, *names: str) -> HloPassPipeline:
        """Only the passes of these names (and whole pipelines of these names)."""
        return _kept(self, lambda p: p.name in names or not isinstance(p, HloPass), whole=names)

    def until(self, name: str) -> HloPassPipeline:
        """Everything up to the first run of the pass `name`, which is the last to run; a loop around it is cut to one round.

        Raises:
            PassError: there is no such pass in the pipeline.
        """
        found, kept = _until(self, name)
        if not found:
            raise self._missing(name)
        return kept

    def at(self, *names: str) -> HloPass:
        """The first pass of a name, as it is configured there: the names of pipelines around it, those that matter, then its own.

        Raises:
            PassError: there is no such pass in the pipeline, or not within pipelines of these names.
        """
        found = _at(self, names)
        if found is None:
            missing = next((n for n in names if n not in self.names and n != self.name), None)
            raise self._missing(missing if missing is not None else "/".join(names))
        return found

    def insert(self, new: AnyPass, *, after: str | None = None, before: str | None = None) -> HloPassPipeline:
        """With one more pass, after (or before) each pass of a name; at the end where neither is given.

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
        """The direct members of these names in this order, at the places that they hold together now.

        Raises:
            PassError: a name is no direct member.
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

    # -- what it shows --------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(_tree(self, ""))

    def __repr__(self) -> str:
        return f"<HloPassPipeline {self.name}: {len(self.names)} passes>"


@dataclass(frozen=True)
class HloPassFix(Displayable):
    """A pass or a pipeline, repeated until a round changes nothing, at most `limit` times (XLA's limit is 25)."""

    inner: AnyPass
    limit: int = field(default=25)

    @property
    def name(self) -> str:
        """The name of what is repeated."""
        return self.inner.name

    def run(self, module: HloModule, *, verify: bool = False) -> list[PassResult]:
        """As HloPassPipeline.run."""
        return _run(self, module, verify=verify)

    def steps(self, module: HloModule, *, verify: bool = False, records: bool = True) -> Iterator[PassResult]:
        """As HloPassPipeline.steps."""
        return _walk(self, module, _Walk((), 0, snapshots=records, verify=verify))

    def __str__(self) -> str:
        return "\n".join(_tree(self, ""))


_UNRECORDED_ROUNDS = 3
"""Iterations of an unobserved fixed-point loop before it checks for iterations that undo their own edits."""

AnyPass: TypeAlias = HloPass | HloPassPipeline | HloPassFix


class _Walk(NamedTuple):
    """The state of a walk: the enclosing pipelines, the iteration of the innermost loop, and the
    options of each run.
    """

    path: tuple[str, ...]
    iteration: int
    snapshots: bool
    verify: bool


def replace_passes(pipeline: HloPassPipeline, passes: Iterable[AnyPass]) -> HloPassPipeline:
    """The same name over other passes."""
    return HloPassPipeline(pipeline.name, passes)


def _run(target: AnyPass, module: HloModule, *, verify: bool) -> list[PassResult]:
    with raised_gc_thresholds():
        return list(_walk(target, module, _Walk((), 0, snapshots=False, verify=verify)))


@dataclass
class _State:
    """What a walk has seen: by pass the version of the module on which it stood still, and whether layouts count by now."""

    idle: dict[int, int] = field(default_factory=dict)
    layouts_count: bool = False


def _walk(target: AnyPass, module: HloModule, walk: _Walk, state: _State | None = None) -> Iterator[PassResult]:
    state = state or _State()
    if isinstance(target, HloPassPipeline):
        inside = walk._replace(path=(*walk.path, target.name))
        for p in target.passes:
            if isinstance(p, (HloPassPipeline, HloPassFix)):
                yield from _walk(p, module, inside, state)
            else:  # without a generator of its own
                yield _leaf(p, module, inside, state)
    elif isinstance(target, HloPassFix):
        yield from _rounds(target, module, walk, state)
    else:
        yield _leaf(target, module, walk, state)


def _run_through(
    target: AnyPass,
    module: HloModule,
    path: tuple[str, ...],
    iteration: int,
    walk: tuple[dict[int, int], Callable[[str], None]],
) -> None:
    """What `_walk` does where nobody watches: of some hundred passes most have nothing to look for in a small module, and then a result is most of their price."""
    if isinstance(target, HloPassPipeline):
        inside = (*path, target.name)
        for p in target.passes:
            _run_through(p, module, inside, iteration, walk)
        return
    if isinstance(target, HloPassFix):
        for n in _until_still(target, module, watched=False):
            _run_through(target.inner, module, path, n, walk)
        return
    idle, passed = walk
    version, triggers = module.version, target.triggers
    if idle.get(id(target)) != version and (triggers is None or not triggers.isdisjoint(module.opcodes)):
        execute(target, module, path, iteration, snapshots=False)
        if module.version == version:
            idle[id(target)] = version
    passed(target.name)


def _leaf(hlo_pass: HloPass, module: HloModule, walk: _Walk, state: _State) -> PassResult:
    """Run one pass, unless it stood still on this very state of the module before (it is a function of the module), or has nothing to look for in it."""
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
    with raised_gc_thresholds() if walk.snapshots else _AS_IT_IS:  # without snapshots it is so for the whole walk
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


def _rounds(fix: HloPassFix, module: HloModule, walk: _Walk, state: _State) -> Iterator[PassResult]:
    for n in _until_still(fix, module, watched=walk.snapshots):
        yield from _walk(fix.inner, module, walk._replace(iteration=n), state)


def _until_still(fix: HloPassFix, module: HloModule, *, watched: bool) -> Iterator[int]:
    """The rounds of a loop, each of which is run before the next is asked for."""
    before: ModuleRecord | None = None
    for n in range(fix.limit):
        version = module.version
        # A round that undoes its own edits stands still too; records tell that, but most loops end before they are worth their price.
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
    # As in XLA this is worth a word, not an error: every round kept the meaning.
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
    """The members that `keep` takes; pipelines of the names in `whole` as they are, others cut down likewise and left out where nothing remains."""
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
    """The first pass that is reached through all of these names, in their order."""
    rest = names[1:] if names and within.name == names[0] else names
    if isinstance(within, HloPass):
        return within if not rest else None
    if not rest:
        return None
    return next((found for p in _inner(within).passes if (found := _at(p, rest)) is not None), None)


def _until(pipeline: HloPassPipeline, name: str) -> tuple[bool, HloPassPipeline]:
    """Whether a pass of the name is in it, and everything up to there."""
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
