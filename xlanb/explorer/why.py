"""Explain why two instructions or nodes are fused or clustered together, or not.

Uses what the passes decided, under all names that they had, and what became of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.gpu_fusion import FusionDecisions
from xlanb.explorer.lineage import Provenance
from xlanb.explorer.replay import answers, unreplayable
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.stage import named_parts
from xlanb.tracing import Cause, Decision, Predicate
from xlanb.why import DECIDED, FACT, REPLAY, Why

if TYPE_CHECKING:
    from xlanb.explorer.stage import Stage
    from xlanb.explorer.trace import Trace

_KERNELS = 4
"""Number of kernels to name in a short answer."""


@boundary("explain")
def why(trace: Trace, subject: Sequence[str]) -> Why:
    """See Trace.why."""
    if not subject:
        raise ArgumentError(
            "expected the names of one or two instructions or nodes: trace.why(name) or trace.why(a, b)"
        )
    names = tuple(s.removeprefix("%") for s in subject)
    wanted = set(names)
    found = [(d, s.index) for s in trace.stages for d in s.decisions if wanted <= set(d.subject)]
    outcome: Iterable[Decision] = ()
    question: _Question | None = None
    if len(names) == 2 and names[0] != names[1]:
        question = _Question(trace, names[0], names[1])
        found = found or list(question.under_other_names()) or list(question.about_their_fusions())
        outcome = question.outcome()
    if not found:
        _check_names(trace, names)
    recorded = any(s.decisions or s.edits for s in trace.stages)
    rows = [(d, index, DECIDED) for d, index in found]
    answer = _fate(trace, names) if recorded else ""
    if trace.pipeline is None and any(s.kind == "hlo_pass" for s in trace.stages):
        asked = question or _Question(trace, names[0], names[0])
        ever = (asked.names_a, asked.names_b)
        rows += answers(trace, dict(zip(names, ever, strict=False)))
    at_the_end = list(outcome)
    last = DECIDED if trace.pipeline is not None else FACT
    rows += [(d, -1, last) for d in at_the_end]
    recorded = recorded or any(basis == REPLAY for _, _, basis in rows)
    return Why(
        names,
        [d for d, _, _ in rows],
        [index for _, index, _ in rows],
        recorded=recorded,
        answer=_in_short(at_the_end[-1]) if at_the_end else answer,
        bases=[basis for _, _, basis in rows],
        note="" if recorded else unreplayable(trace),
    )


def _in_short(d: Decision) -> str:
    """Summarize what became of two instructions or nodes."""
    first = d.predicates[0]
    if d.action == "same cluster":
        return f"both in {first.value}" if d.taken else "not in one cluster"
    if d.taken:
        return f"in one kernel, {first.value}"
    return "in different kernels" if first.name == "in one kernel" else "not both in the final module"


def _fate(trace: Trace, names: Sequence[str]) -> str:
    """Return what made one instruction, and what became of it: the pass that removed it, and its
    result's kernels.

    "" for a node of a graph, or if no edits were recorded.
    """
    modules = [s.after for s in trace.stages if isinstance(s.after, ModuleRecord)]
    if len(names) != 1 or not modules:
        return ""
    question, final = _Question(trace, names[0], names[0]), _Final(modules[-1])
    kernels = ", ".join(final.kernels(question.names_a)[:_KERNELS])
    made = question.creation()
    if names[0] in final.by_name:
        fate = f"in {kernels}" if kernels and kernels != names[0] else "in the final module"
    else:
        fate = question.removal({names[0]})
        if fate and kernels:
            fate = f"{fate}; its replacement is in {kernels}"
    return "; ".join(filter(None, (made, fate)))


def _check_names(trace: Trace, names: Iterable[str]) -> None:
    """Raise XlanbError if no stage has an instruction, computation or node of a name."""
    sections = {id(parts): (name, parts) for s in trace.stages for name, parts in named_parts(s.after).items()}
    known = dict.fromkeys(n for name, parts in sections.values() for n in (name, *parts) if n)
    known |= dict.fromkeys(n for s in trace.stages for e in s.edits for i in (e.old, e.new) if i for n in (i.name,))
    known |= dict.fromkeys(n for s in trace.stages for d in s.decisions for n in d.subject)
    known |= dict.fromkeys(i.metadata.op_name for _, parts in sections.values() for i in parts.values() if _is_named(i))
    for name in names:
        if name not in known:
            raise XlanbError(f"no instruction and no node {name!r} in trace {trace.name!r}{nearest(name, known)}")


def _is_named(part: Any) -> bool:
    """Whether an instruction says which node it was made for."""
    return isinstance(part, InstructionRecord) and bool(part.metadata.op_name)


class _Question:
    """Two names, and all names that they had in earlier and later stages."""

    def __init__(self, trace: Trace, a: str, b: str) -> None:
        self.trace, self.a, self.b = trace, a, b
        try:
            self._provenance: Provenance | None = Provenance(trace.stages)
        except XlanbError:
            self._provenance = None
        self.names_a, self.names_b = self._names(a), self._names(b)

    def _names(self, name: str) -> set[str]:
        """Return an instruction's names, and those of its sources and results; also for a node."""
        if self._provenance is None:
            return {name}
        try:
            lineage = self._provenance.lineage(name)
        except XlanbError:
            return {name}
        links = {n for k in lineage.links for n in (k.old, k.new)}
        return {name, *lineage.sources, *lineage.results, *links}

    def under_other_names(self) -> Iterable[tuple[Decision, int]]:
        """Yield decisions about the two under their names at the time, with the stage's index."""
        a, b = self.names_a | self._fusions(self.names_a), self.names_b | self._fusions(self.names_b)
        for s in self.trace.stages:
            for d in s.decisions:
                if any(x in a and y in b and x != y for x, y in permutations(d.subject, 2)):
                    yield d, s.index

    def about_their_fusions(self) -> Iterable[tuple[Decision, int]]:
        """Yield decisions against fusing one of the two, or its fusion, with the other's fusion."""
        for s in self.trace.stages:
            if isinstance(s.decisions, FusionDecisions):
                a, b = (names | s.decisions.companions(names) for names in (self.names_a, self.names_b))
                if not a & b:
                    refused = (d for d in s.decisions if not d.taken and not a.isdisjoint(d.subject))
                    yield from ((d, s.index) for d in refused if not b.isdisjoint(d.subject))

    def _fusions(self, names: set[str]) -> set[str]:
        """Return the fusions that contained any of these names after some pass."""
        modules = [s.after for s in self.trace.stages if s.changed and isinstance(s.after, ModuleRecord)]
        between = (s.decisions.holders(names) for s in self.trace.stages if isinstance(s.decisions, FusionDecisions))
        return set().union(*between) | {
            f.name
            for m in modules
            for c in m.computations
            for f in c.instructions
            if f.opcode is HloOpcode.FUSION
            and any(i.name in names for called in f.called_computations for i in m.by_name[called].instructions)
        }

    def outcome(self) -> Iterable[Decision]:
        """Return what became of the two, as far as the trace shows."""
        graph = next((g for s in reversed(self.trace.stages) if (g := _marked(s)) is not None), None)
        nodes = {} if graph is None else {n.name: n for n in graph.nodes}
        if self.a in nodes and self.b in nodes:
            yield self._clusters(nodes[self.a], nodes[self.b])
        modules = [(s, s.after) for s in self.trace.stages if isinstance(s.after, ModuleRecord)]
        if modules:
            yield from self._hlo(modules[-1][1])

    def _clusters(self, a: NodeRecord, b: NodeRecord) -> Decision:
        inside = tuple(
            Predicate(f"{n.name} is in a cluster", bool(n.cluster), n.cluster or n.reason or "no reason was recorded")
            for n in (a, b)
        )
        together = bool(a.cluster) and a.cluster == b.cluster
        predicates = inside
        if all(p.holds for p in inside):
            between = [
                p.value
                for s in self.trace.stages
                for d in s.decisions
                if d.action == "contract" and set(d.subject) & {a.name, b.name, a.cluster, b.cluster}
                for p in d.predicates
            ]
            value = a.cluster if together else "; ".join(dict.fromkeys(between)) or f"{a.cluster} and {b.cluster}"
            predicates = (*inside, Predicate("the clusters were merged", together, value))
        return Decision(Cause("mark_for_compilation"), "same cluster", (a.name, b.name), together, predicates)

    def _hlo(self, last: ModuleRecord) -> Iterable[Decision]:
        final = _Final(last)
        in_a, in_b = final.kernels(self.names_a), final.kernels(self.names_b)
        if not in_a and not in_b:
            return
        gone = [n for n, found in ((self.a, in_a), (self.b, in_b)) if not found]
        if gone:
            yield Decision(Cause(""), "same kernel", (self.a, self.b), False, tuple(self._gone(n) for n in gone))
            return
        shared = [k for k in in_a if k in in_b]
        merged = self.names_a & self.names_b & set(final.by_name)
        value = ", ".join(shared) or f"{', '.join(in_a)} and {', '.join(in_b)}"
        predicates = [Predicate("in one kernel", bool(shared), value)]
        if self.a not in self.names_b and merged and shared:
            predicates.append(Predicate("they share instructions", True, ", ".join(sorted(merged)[:6])))
        if not shared:
            reads = any(final.reads(x, y) for x in in_a for y in in_b)
            predicates.append(
                Predicate(
                    "one kernel uses the other's result", reads, "" if reads else "nothing is saved by fusing them"
                )
            )
        yield Decision(Cause(""), "same kernel", (self.a, self.b), bool(shared), tuple(predicates))

    def _gone(self, name: str) -> Predicate:
        """Return which pass removed an instruction, by which rule."""
        names = self.names_a if name == self.a else self.names_b
        value = self.removal(names) or "it is not in the last module"
        return Predicate(f"{name} is still there", False, value)

    def creation(self) -> str:
        """Return the pass and rule that made the first instruction, and from which, or ""."""
        for s in self.trace.stages:
            if s.kind != "hlo_pass":
                continue
            made = [e for e in s.edits if e.new is not None and e.new.name == self.a and e.kind in ("add", "replace")]
            if made:
                source = next((e.old.name for e in made if e.old is not None and e.old.name != self.a), "")
                of = f" from {source}" if source else ""
                return _by_what(s, made[-1].cause, f"made it{of}")
        return ""

    def removal(self, names: Container[str]) -> str:
        """Return the pass and rule that removed the last of these instructions, or ""."""
        for s in reversed(self.trace.stages):
            for e in reversed(s.edits):
                if e.kind == "remove" and e.old is not None and e.old.name in names:
                    return _by_what(s, e.cause, "removed it")
        return ""


def _by_what(stage: Stage, cause: Cause, did: str) -> str:
    """Return what a pass did, by which rule, and its stage."""
    rule = f" by {cause.rule.removesuffix('.')}" if cause.rule else ""
    return f"{cause.pass_name or stage.name} {did}{rule} (stage {stage.index})"


def _marked(stage: Stage) -> GraphRecord | None:
    if stage.kind != "mark_for_compilation" or not isinstance(stage.after, GraphRecord):
        return None
    return stage.after


class _Final:
    """The last module: which kernels (instructions of the entry) contain an instruction."""

    def __init__(self, module: ModuleRecord) -> None:
        self.module = module

    @cached_property
    def by_name(self) -> dict[str, InstructionRecord]:
        return {i.name: i for c in self.module.computations for i in c.instructions}

    @cached_property
    def _kernel_of(self) -> dict[str, str]:
        """The launched instruction for each instruction: itself, or the fusion that contains it."""
        found: dict[str, str] = {}
        for c in self.module.computations:
            for i in c.instructions:
                found.setdefault(i.name, i.name)
                if i.opcode is HloOpcode.FUSION:
                    for name in i.called_computations:
                        found.update((j.name, i.name) for j in self.module.by_name[name].instructions)
        return found

    def kernels(self, names: Iterable[str]) -> list[str]:
        """Return the kernels that contain any of these names."""
        found = (self._kernel_of[n] for n in sorted(names) if n in self._kernel_of)
        free = (HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT)
        return list(dict.fromkeys(k for k in found if self.by_name[k].opcode not in free))

    def reads(self, a: str, b: str) -> bool:
        """Whether one of two kernels reads the other's result."""
        return b in self.by_name[a].operands or a in self.by_name[b].operands
