"""Fuse what a pass refused to fuse.

Shows the estimated cost and savings of a refused fusion, and a branch of the compilation that does
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xlanb.analysis.cost import cost
from xlanb.cpu.machine import limits
from xlanb.display import Displayable
from xlanb.errors import XlanbError, nearest
from xlanb.explorer.branches import Branch, branch, remaining
from xlanb.explorer.comparison import compare
from xlanb.explorer.numbers import module_of, time_text
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.memory import size_text
from xlanb.runtime.compiler import options_in_force
from xlanb.tracing import Cause, Decision, Predicate
from xlanb.transforms.fusion.cpu_instruction_fusion import CpuInstructionFusion, required_conditions
from xlanb.transforms.pipeline import AnyPass, HloPassFix, HloPassPipeline
from xlanb.why import Why

_NOISE = 0.03
"""Relative difference below which runs count as equally fast."""
_SAME = 1e-4
_TRANSCENDENTAL_FLOPS = 20
"""Approximate number of multiply-adds in our vector code for an exp, log or tanh."""


@dataclass(frozen=True)
class Attempt(Displayable):
    """A refused fusion that was done anyway.

    It has seconds per run without and with it (medians, alternating runs), temporary bytes, and
    whether the results agree. `branch` is the trace with the fusion.
    """

    refused: RefusedFusion
    branch: Trace
    seconds: tuple[float, float]
    temp_bytes: tuple[int, int]
    difference: float

    @property
    def why(self) -> Why:
        """Why the pass refused it."""
        return self.refused.why

    @property
    def speedup(self) -> float:
        """The speedup with the fusion, below 1 if it is slower."""
        return self.seconds[0] / self.seconds[1] if self.seconds[1] else float("nan")

    def __str__(self) -> str:
        before, after = (time_text(s) for s in self.seconds)
        change = self.speedup - 1
        verdict = "as fast as before"
        if abs(change) >= _NOISE:
            verdict = f"{change:.0%} faster" if change > 0 else f"{1 / self.speedup - 1:.0%} slower"
        memory = (
            ""
            if self.temp_bytes[0] == self.temp_bytes[1]
            else f"; temporaries {size_text(self.temp_bytes[0])} -> {size_text(self.temp_bytes[1])}"
        )
        wrong = "" if self.difference <= _SAME else f"; results differ by {self.difference:.2g}"
        return (
            f"{self.refused.producer} fused into {self.refused.consumer}: {verdict}, {after} "
            f"per run instead of {before}{memory}{wrong}"
        )

    def __repr__(self) -> str:
        return f"<Attempt {self}>"


@dataclass(frozen=True)
class RefusedFusion:
    """A fusion that a pass refused, and estimates for doing it anyway.

    Estimates are None if the producer is not in the module before the pass (the pass created it by
    fusion).

    Attributes:
        producer: the producer's name.
        consumer: the consumer's name.
        stage: the position of the pass.
        condition: the condition that failed.
        impossible: why the condition cannot be overridden, "" if it can.
        users: users of the producer. With several, the consumer gets a copy and recomputes it.
        copy_seconds: the estimated time of that copy, from its flops and the machine's measured
            peak.
        saved_bytes: bytes no longer read and written: the producer's result, less its inputs, which
            are read instead. Negative if the inputs are larger.
        decision: the recorded decision.
    """

    producer: str
    consumer: str
    stage: int
    condition: Predicate
    impossible: str = ""
    users: int | None = None
    copy_seconds: float | None = None
    saved_bytes: int | None = None
    decision: Decision | None = field(default=None, repr=False, compare=False)

    @property
    def why(self) -> Why:
        """The decision with its conditions."""
        subject = (self.producer, self.consumer)
        decision = self.decision or Decision(Cause("fusion"), "fuse", subject, False, (self.condition,))
        question = f"Why is {self.producer} not fused into {self.consumer}?"
        return Why(
            subject, (decision,), (self.stage,), question=question, answer=str(self), about=" and ".join(subject)
        )

    def __str__(self) -> str:
        if self.impossible:
            return f"{self.producer} cannot be fused into {self.consumer}: {self.impossible}"
        if self.users is None or self.saved_bytes is None:
            return f"{self.producer} was not fused into {self.consumer}: {self.condition.name} ({self.condition.value})"
        effect = f"{self.producer} has one user: fusing duplicates nothing"
        if self.users > 1:
            again = time_text(self.copy_seconds)
            effect = f"{self.producer} has {self.users} users: duplicating it recomputes about {again}"
        if self.saved_bytes > 0:
            return f"{effect}, saves {size_text(self.saved_bytes)} of traffic"
        return f"{effect}, {f'reads {size_text(-self.saved_bytes)} more' if self.saved_bytes else 'saves no traffic'}"


def refused_fusion(trace: Trace, a: str, b: str) -> RefusedFusion:
    """Return our fusion pass's last decision not to fuse two instructions.

    Raises:
        XlanbError: the trace holds no such decision, or its passes are not ours.
    """
    stage, decision = _decision(trace, a, b)
    producer, consumer = decision.subject[:2]
    failed = next((p for p in decision.predicates if not p.holds), Predicate("fused", False))
    found = RefusedFusion(producer, consumer, stage.index, failed, decision=decision)
    if failed.name in required_conditions():
        return replace(found, impossible=f"{failed.name}: {failed.value}")
    record = next((i for c in stage.before.computations for i in c.instructions if i.name == producer), None)
    return found if record is None else _weighed(found, stage.before, record)


def force(trace: Trace, a: str, b: str) -> tuple[RefusedFusion, Branch]:
    """Return a branch that fuses these two; all other passes run as before.

    It starts before the fusion pass.

    Raises:
        XlanbError: there is no such decision, or the failed condition cannot be overridden.
    """
    found = refused_fusion(trace, a, b)
    if found.impossible:
        raise XlanbError(str(found))
    at = found.stage - 1
    passes = _forcing(remaining(trace, at), (found.producer, found.consumer))
    name = f"{found.producer} fused into {found.consumer}"
    return found, branch(trace, at, pipeline=passes, name=name)


def measured(trace: Trace, refused: RefusedFusion, made: Trace) -> Attempt:
    """Run the program without and with the fusion alternately, on the same inputs.

    Raises:
        XlanbError: one of them was not fully compiled, or another condition prevented the fusion.
    """
    pair = (refused.producer, refused.consumer)
    asked = [d for s in made.stages[refused.stage :] for d in s.decisions if d.action == "fuse" and d.subject == pair]
    if not any(d.taken for d in asked):
        failed = next((p for d in asked for p in d.predicates if not p.holds), None)
        why = f"{failed.name}: {failed.value}" if failed else "one of them is already in another fusion"
        raise XlanbError(str(replace(refused, impossible=why)))
    table = compare(trace, made).table
    seconds = [us * 1e-6 for us in table["run_us"]]
    for t, s in zip((trace, made), seconds, strict=True):
        t.runs.append(s)
    before, after = (int(b) for b in table["temp_bytes"])
    return Attempt(refused, made, (seconds[0], seconds[1]), (before, after), float(table["difference"][1]))


def _decision(trace: Trace, a: str, b: str) -> tuple[Stage, Decision]:
    if trace.pipeline is None:
        raise XlanbError(f"{trace.name!r} was not compiled by xlanb's passes: other fusions cannot be tried on it")
    refused = [
        (s, d)
        for s in trace
        if s.kind == "hlo_pass" and s.name == CpuInstructionFusion.name and isinstance(s.before, ModuleRecord)
        for d in s.decisions
        if d.action == "fuse" and not d.taken
    ]
    found = next(((s, d) for s, d in reversed(refused) if set(d.subject) == {a, b}), None)
    if found is None:
        partners = [n for _, d in refused if a in d.subject for n in d.subject if n != a]
        hint = nearest(b, partners) if partners else f": {a!r} takes part in no decision against a fusion"
        raise XlanbError(f"no pass decided against fusing {a!r} and {b!r}{hint}")
    return found


def _weighed(found: RefusedFusion, module: ModuleRecord, producer: InstructionRecord) -> RefusedFusion:
    """Return the refused fusion with estimates of its cost and savings."""
    i = next(x for x in module_of(module).instructions() if x.name == producer.name)
    size = i.shape.byte_size
    if i.user_count <= 1:
        return replace(
            found, users=i.user_count, copy_seconds=0.0, saved_bytes=2 * size
        )  # the result is neither written nor read
    consumer = next((u for u in i.users if u.name == found.consumer), None)
    known = () if consumer is None else consumer.operands
    instead = sum(o.shape.byte_size for o in dict.fromkeys(i.operands) if o not in known)
    counts = cost(i)
    # a fused multiply-add counts as two
    flops = counts.flops + 2 * _TRANSCENDENTAL_FLOPS * counts.transcendentals
    machine = limits(None if options_in_force().multi_thread else 1)
    seconds = flops / machine.flops[4] if machine.flops.get(4) else None
    return replace(found, users=i.user_count, copy_seconds=seconds, saved_bytes=size - instead)


def _forcing(pipeline: HloPassPipeline, pair: tuple[str, str]) -> HloPassPipeline:
    """Return the same passes, with the fusion passes forced to fuse the pair."""

    def changed(p: AnyPass) -> AnyPass:
        if isinstance(p, HloPassPipeline):
            return HloPassPipeline(p.name, [changed(q) for q in p.passes])
        if isinstance(p, HloPassFix):
            return HloPassFix(changed(p.inner), p.limit)
        return replace(p, forced=(*p.forced, pair)) if isinstance(p, CpuInstructionFusion) else p

    return HloPassPipeline(pipeline.name, [changed(p) for p in pipeline.passes])
