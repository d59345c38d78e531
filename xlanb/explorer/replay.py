"""Explain the real XLA's decisions by xlanb's own conditions.

A dump shows what a pass of the real XLA did, but not why. Our pass of that name, with the options
of XLA:CPU's pipeline, runs on a copy of the same module and reports its decisions: a replay. What
the real pass did follows from the module after it: a fact. Differences are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING

from xlanb.conditions import asking
from xlanb.cpu.pipelines import RELEASES, pipeline
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer.gpu_fusion import FusionDecisions
from xlanb.explorer.matching import ModuleSide
from xlanb.frames import framed
from xlanb.hlo import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationName, InstructionRecord, ModuleRecord
from xlanb.tracing import Cause, Decision, Predicate, observing
from xlanb.transforms import PASSES, HloPass, HloPassFix, HloPassPipeline
from xlanb.why import FACT, REPLAY

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.explorer.stage import Stage
    from xlanb.explorer.trace import Trace

DECIDING = ("fusion", "cse", "algsimp", "constant_folding")
"""The passes that record decisions."""

_AFTER_LAYOUT = "HLO_passes_after_layout_assignment"
_LARGEST_SHOWN = 600
"""Limit of the instructions of a module for which a page shows the decisions about each edge."""
_LARGEST = 30_000
"""Limit of the instructions of a module on which a pass is rerun (some seconds)."""
_FREE = frozenset((HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT))

Answer = tuple[Decision, int, str]
"""A decision, the index of its stage, and its evidence."""


@dataclass(frozen=True)
class Replay(Displayable):
    """A pass of the real XLA, and our pass of its name run on the module before it.

    `before` and `real` are the modules before and after the real pass, `after` is our pass's result
    from `before`;
    `release` is the JAX release whose XLA:CPU options it used.
    """

    name: str
    stage: int
    before: ModuleRecord
    real: ModuleRecord
    after: ModuleRecord
    decisions: tuple[Decision, ...]
    release: str

    @cached_property
    def _fused(self) -> tuple[_Fused, _Fused]:
        return _Fused(self.real), _Fused(self.after)

    @cached_property
    def _side(self) -> ModuleSide:
        return ModuleSide(self.before)

    @cached_property
    def known(self) -> dict[str, tuple[str, InstructionRecord]]:
        """The instructions of the module before, by name, each with its computation."""
        return {i.name: (c.name, i) for c in self.before.computations for i in c.instructions}

    def together(self, a: str, b: str) -> tuple[str, str]:
        """Return the fusion with both instructions, after the real pass and ours; "" if none."""
        meanings = [self._side.meaning[self.known[n][0], n] for n in (a, b)]
        real, ours = (fused.holder(*meanings) for fused in self._fused)
        return real, ours

    @cached_property
    def _forms(self) -> tuple[dict[str, _Form], dict[str, _Form], dict[str, _Form]]:
        return _forms(self.before), _forms(self.real), _forms(self.after)

    def gone(self, name: str) -> tuple[bool, bool]:
        """Return whether an instruction is gone after the real pass, and after ours."""
        _, real, ours = self._forms
        return name not in real, name not in ours

    def rewritten(self, name: str) -> tuple[str, str]:
        """Return what the real pass, and ours, made of an instruction.

        "" if it has the same opcode, shape, attributes and operand opcodes.
        """
        before, *after = self._forms
        real, ours = ("" if (now := a.get(name)) == before[name] else _in_words(now) for a in after)
        return real, ours

    @cached_property
    def outcomes(self) -> tuple[tuple[str, str, bool, bool], ...]:
        """What the real pass and ours decided.

        For fusion: for each edge between two instructions, whether it is in a fusion afterwards
        (producer, consumer, real, ours). For other passes: for each instruction, whether it was
        removed or rewritten (its name, "", real, ours).
        """
        return tuple(self._edges() if self.name == "fusion" else self._instructions())

    def _edges(self) -> Iterator[tuple[str, str, bool, bool]]:
        inner = {n for c in self.before.computations for i in c.instructions for n in _applied(i)}
        for c in self.before.computations:
            if c.name in inner:
                continue
            for i in c.instructions:
                for o in dict.fromkeys(i.operands):
                    if i.opcode in _FREE or c.by_name[o].opcode in _FREE:
                        continue
                    edge = self._side.meaning[c.name, o], self._side.meaning[c.name, i.name]
                    real, ours = (edge in fused.edges for fused in self._fused)
                    yield o, i.name, real, ours

    def _instructions(self) -> Iterator[tuple[str, str, bool, bool]]:
        for name, (_, i) in self.known.items():
            if i.opcode not in _FREE:
                real, ours = self.rewritten(name)
                yield name, "", bool(real), bool(ours)

    @property
    def agreement(self) -> float:
        """The share of equal outcomes, 0 to 1; 1 if there are none."""
        alike = [real == ours for _, _, real, ours in self.outcomes]
        return sum(alike) / len(alike) if alike else 1.0

    @property
    def differences(self) -> tuple[tuple[str, str, bool, bool], ...]:
        """The outcomes that differ."""
        return tuple(o for o in self.outcomes if o[2] != o[3])

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per outcome.

        Columns: producer, consumer ("" for passes other than fusion), whether the real pass did it,
        whether ours would.
        """
        return framed(list(self.outcomes), ["producer", "consumer", "real", "replay"])

    def __str__(self) -> str:
        what = "edges" if self.name == "fusion" else "instructions"
        unlike = self.differences
        lines = [
            (
                f"{self.name}, stage {self.stage}: xlanb's conditions (XLA:CPU of JAX "
                f"{self.release}) agree with the real XLA on "
                f"{len(self.outcomes) - len(unlike)} of {len(self.outcomes)} {what}"
            )
        ]
        did, would = ("fused", "fuse") if self.name == "fusion" else ("rewrote", "rewrite")
        for a, b, real, _ in unlike[:20]:
            edge = f"{a} -> {b}" if b else a
            lines.append(f"  the real one {did} {edge}" if real else f"  xlanb's conditions would {would} {edge}")
        return "\n".join([*lines, *([f"  and {len(unlike) - 20} more"] if len(unlike) > 20 else [])])

    def __repr__(self) -> str:
        return f"<Replay {self.name}, stage {self.stage}: {self.agreement:.0%} alike>"

    def decided(self) -> Iterator[Decision]:
        """Yield our last decision per edge, of a fusion pass that was asked about every name."""
        last: dict[tuple[str, str], Decision] = {}
        for d in self.decisions:
            first, *others = d.subject
            reading = (*others, *(name for role, name in d.cause.parts if role == "inside"))
            last.update(((first, name), d) for name in reading)
        for a, b, real, ours in self.outcomes:
            where = f"in one fusion after it: {self.together(a, b)[0]}" if real else "not in one fusion after it"
            fact = Predicate("the real XLA (fact: in the dump)", True, where)
            decision = last.get((a, b))
            failed = [p for p in decision.predicates if not p.holds] if decision is not None else []
            if ours != real:
                failed += [
                    Predicate("xlanb's conditions agree with the real XLA", False, "fused" if ours else "not fused")
                ]
            yield Decision(Cause(self.name), "fuse", (a, b), ours, (fact, *failed))

    # -- answers -----------------------------------------------------------------------------------

    def about(self, here: list[list[str]]) -> Iterator[Answer]:
        """Yield our decisions about one or two instructions, and what the real pass did.

        `here` has each one's names in the module before.
        """
        found = [d for d in self.decisions if _is_about(d, here)]
        yield from ((d, self.stage, REPLAY) for d in found)
        if len(here) == 2:
            pairs = [(a, b) for a in here[0] for b in here[1] if a != b]
            yield from self._of_two(pairs, is_decided=bool(found))
        elif self.name != "fusion":
            yield from self._of_one(here[0], is_decided=bool(found))

    def _of_two(self, pairs: list[tuple[str, str]], *, is_decided: bool) -> Iterator[Answer]:
        if self.name == "fusion":
            for a, b in pairs:
                real, ours = self.together(a, b)
                yield from self._compared((a, b), "fuse", "both are in one fusion after the pass", (real, ours))
        elif self.name == "cse" and is_decided:
            for a, b in pairs:
                merged = [any(pair) for pair in zip(self.gone(a), self.gone(b), strict=True)]
                yield from self._compared(
                    (a, b), "cse", "only one of them is left after the pass", (merged[0], merged[1])
                )

    def _of_one(self, names: list[str], *, is_decided: bool) -> Iterator[Answer]:
        for name in names:
            real, ours = self.rewritten(name)
            if is_decided or real or ours:
                yield from self._compared((name,), self.name, "the pass rewrote it", (real, ours))

    def _compared(
        self, subject: tuple[str, ...], action: str, asked: str, did: tuple[str | bool, str | bool]
    ) -> Iterator[Answer]:
        """Yield what the real pass did, and whether ours does the same."""
        real, ours = did
        seen = Predicate(asked, bool(real), real if isinstance(real, str) else "")
        yield Decision(Cause(self.name), action, subject, bool(real), (seen,)), self.stage, FACT
        if bool(real) != bool(ours):
            so = f"yes{f': {ours}' if isinstance(ours, str) else ''}" if ours else "no"
            which = f"by xlanb's conditions (XLA:CPU of JAX {self.release}) {so}"
            same = Predicate("xlanb's conditions agree with the real XLA", False, which)
            yield Decision(Cause(self.name), "agree", subject, False, (same,)), self.stage, REPLAY


class _Fused:
    """The contents of a module's fusions, by what they compute."""

    def __init__(self, module: ModuleRecord) -> None:
        side = ModuleSide(module)
        self.edges: set[tuple[int, int]] = set()
        self._inside: dict[str, set[int]] = {}
        for name, (_, caller) in side.callers.items():
            inside = self._inside.setdefault(caller, set())
            for i in module.by_name[name].instructions:
                meaning = side.meaning[name, i.name]
                if i.opcode is not HloOpcode.PARAMETER:
                    inside.add(meaning)
                    for o in i.operands:
                        if module.by_name[name].by_name[o].opcode is not HloOpcode.PARAMETER:
                            self.edges.add((side.meaning[name, o], meaning))

    def holder(self, a: int, b: int) -> str:
        """Return a fusion that contains both values."""
        return next((name for name, inside in self._inside.items() if a in inside and b in inside), "")


class _Decisions(list[Decision]):
    """Collects the decisions of a pass run."""

    def on_event(self, event: object) -> None:
        if isinstance(event, Decision):
            self.append(event)


@dataclass(frozen=True)
class _ReplayedRun:
    """A run of a real XLA pass that can be replayed."""

    name: str
    index: int
    before: ModuleRecord
    after: ModuleRecord
    pipeline: str
    has_layouts: bool


def replay(trace: Trace, stage: int | str = "fusion", names: Iterable[str] = ()) -> Replay:
    """Replay a pass of the real XLA with xlanb's conditions; check all of them for `names`.

    Raises:
        XlanbError: the stage's pass reports no decisions, its module is too large, or our pass
            cannot run on it.
    """
    runs = list(_runs(trace))
    wanted = [r for r in runs if stage in (r.name, r.index)]
    if not wanted:
        known = ", ".join(f"{r.name} (stage {r.index})" for r in runs) or "none: " + unreplayable(trace)
        raise XlanbError(f"no pass {stage!r} in trace {trace.name!r} that can be replayed; those that can: {known}")
    return _best(wanted[-1], frozenset(names))


def answers(trace: Trace, names: Mapping[str, Collection[str]]) -> Iterator[Answer]:
    """Yield what xlanb's conditions say about one or two instructions, and what the real pass did.

    Covers each pass that can be replayed. `names` are all names that each ever had.
    """
    for run in _runs(trace):
        if len(names) == 2 and run.name not in ("fusion", "cse"):
            continue
        there = {i.name for c in run.before.computations for i in c.instructions}
        here = [[name] if name in there else sorted(there.intersection(others)) for name, others in names.items()]
        if not all(here):
            continue
        asked = frozenset(n for some in here for n in some)
        try:
            yield from _best(run, asked).about(here)
        except XlanbError as error:
            failed = Predicate("xlanb's pass runs on this module", False, str(error).splitlines()[0])
            yield Decision(Cause(run.name), "replay", tuple(sorted(asked)), False, (failed,)), run.index, REPLAY


def edges_of(trace: Trace, stage: Stage) -> tuple[Decision, ...]:
    """Return xlanb's decision for each edge of the module before a real fusion pass.

    Each has the failed conditions, preceded by what the real pass did. Returns () for our own
    passes, other passes, large modules, or if our pass cannot run.
    """
    if stage.name != "fusion" or stage.decisions or stage.edits:
        return ()
    run = next((r for r in _runs(trace) if r.index == stage.index and r.name == "fusion"), None)
    if run is None or sum(len(c.instructions) for c in run.before.computations) > _LARGEST_SHOWN:
        return ()
    try:
        found = _best(run, frozenset(i.name for c in run.before.computations for i in c.instructions))
    except XlanbError:  # the page then shows the facts, and trace.why the error
        return ()
    return tuple(found.decided())


def unreplayable(trace: Trace) -> str:
    """Return what of a trace cannot be replayed and why, or ""."""
    if any(s.kind in ("llo", "tpu_schedule", "memory_space_assignment") for s in trace):
        return "the fusion rules of XLA:TPU are not public: only the facts in its dump are shown"
    if any(isinstance(s.decisions, FusionDecisions) for s in trace):
        return (
            "XLA:GPU fuses by a cost model, and its dump holds these decisions; cse and algsimp are replayed "
            "with XLA:CPU's options"
        )
    return ""


def _runs(trace: Trace) -> Iterator[_ReplayedRun]:
    """Yield the runs that can be replayed, in order.

    A pass that changed nothing is not in a dump; that nothing was fused follows from later stages.
    """
    has_layouts = fusion_seen = False
    is_cpu = not unreplayable(trace)
    for s in trace:
        if not isinstance(s.before, ModuleRecord) or not isinstance(s.after, ModuleRecord) or s.edits:
            continue
        within = s.pipeline[-1] if s.pipeline else ""
        if s.name == "fusion" or (s.kind == "hlo_pass" and s.name in DECIDING):
            fusion_seen = fusion_seen or s.name == "fusion"
            yield _ReplayedRun(s.name, s.index, s.before, s.after, within, has_layouts)
        elif is_cpu and not fusion_seen and _AFTER_LAYOUT in s.pipeline and not _has_fusions(s.before):
            fusion_seen = True
            yield _ReplayedRun("fusion", s.index, s.before, s.before, _AFTER_LAYOUT, has_layouts)
        has_layouts = has_layouts or s.name == "layout-assignment"


def _best(run: _ReplayedRun, names: frozenset[str]) -> Replay:
    """Return the replay by the XLA:CPU release whose options agree best with the real pass."""
    count = sum(len(c.instructions) for c in run.before.computations)
    if count > _LARGEST:
        raise XlanbError(f"{run.name} cannot be replayed on {count:,} instructions, the limit is {_LARGEST:,}")
    best: Replay | None = None
    for release in RELEASES:
        made = _replayed(run, release, names)
        if best is None or made.agreement > best.agreement:
            best = made
        if best.agreement == 1.0:
            break
    if best is None:
        raise XlanbError("unknown release of XLA:CPU")
    return best


def _replayed(run: _ReplayedRun, release: str, names: frozenset[str]) -> Replay:
    module = HloModule.from_record(run.before)
    decisions = _Decisions()
    with observing(decisions), asking(names):
        _pass(run, release).run(module)
    return Replay(run.name, run.index, run.before, run.after, module.record(), tuple(decisions), release)


def _pass(run: _ReplayedRun, release: str) -> HloPass:
    """Return our pass as a release's XLA:CPU pipeline configures it.

    Prefers the same place; otherwise one with the same layout sensitivity.
    """
    passes = list(_leaves(pipeline(xla=release)))
    named = [(within, p) for within, p in passes if p.name == run.name]
    in_place = [p for within, p in named if within == run.pipeline]
    alike = [p for _, p in named if bool(getattr(p, "is_layout_sensitive", False)) == run.has_layouts]
    return (in_place or alike or [p for _, p in named] or [PASSES[run.name]()])[0]


def _leaves(p: HloPassPipeline) -> Iterator[tuple[str, HloPass]]:
    """Yield a pipeline's passes, including nested ones, each with its own pipeline's name."""
    for one in p.passes:
        inner = one.inner if isinstance(one, HloPassFix) else one
        if isinstance(inner, HloPassPipeline):
            yield from _leaves(inner)
        elif isinstance(inner, HloPass):
            yield p.name, inner


def _is_about(d: Decision, here: list[list[str]]) -> bool:
    """Whether a decision is about one or two instructions; the reader may be fused by then."""
    if len(here) == 1:
        return not set(d.subject).isdisjoint(here[0])
    first, *others = d.subject
    reading = {*others, *(name for role, name in d.cause.parts if role == "inside")}
    return any(first in a and not reading.isdisjoint(b) for a, b in permutations(here))


_Form = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _forms(module: ModuleRecord) -> dict[str, _Form]:
    """Return each instruction's own opcode, shape and attributes, and its operands' opcodes."""
    found = {}
    for c in module.computations:
        for i in c.instructions:
            attributes = tuple(
                f"{k}={v}" for k, v in sorted(i.attributes.items()) if not isinstance(v, ComputationName | tuple)
            )
            operands = tuple(c.by_name[o].opcode.text for o in i.operands)
            found[i.name] = (i.opcode.text, str(i.shape), attributes, operands)
    return found


def _in_words(form: _Form | None) -> str:
    return "gone" if form is None else f"now {form[0]} of {', '.join(form[3]) or 'nothing'}, {form[1]}"


def _applied(i: InstructionRecord) -> tuple[str, ...]:
    """Return the computations that instructions apply to elements, or that are fused."""
    loops = (HloOpcode.WHILE, HloOpcode.CONDITIONAL, HloOpcode.CALL)
    return () if i.opcode in loops else tuple(i.called_computations)


def _has_fusions(module: ModuleRecord) -> bool:
    return any(i.opcode is HloOpcode.FUSION for c in module.computations for i in c.instructions)
