"""The fusion algorithm: which edges are checked, in which order, and how one is fused.

A backend's pass gives a list of named conditions over a FusionEdge. The pass stops at the first
condition that fails. Observers get each condition that was checked, with its value.
Source: xla/service/instruction_fusion.h.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.cost import elements_of
from xlanb.analysis.operand_use import reused_operands
from xlanb.conditions import Condition, asked, asked_names, first_failing, predicates_of
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape
from xlanb.tracing import Cause, Predicate, caused_by, current_cause, emit_decision, is_observed, make_tuple
from xlanb.transforms.fusion.all_paths import AllPaths
from xlanb.transforms.fusion.fusion_indexing import FusionNodeIndexingEvaluation
from xlanb.transforms.fusion_editing import create_fusion, fuse_into
from xlanb.transforms.guard_predicates import EdgePredicates
from xlanb.transforms.purpose import place_of

_REDUCTIONS = frozenset((O.REDUCE, O.REDUCE_WINDOW, O.DOT, O.CONVOLUTION, O.SORT))
_NEVER_FUSIBLE = frozenset((O.DOMAIN, O.PARAMETER, O.WHILE, O.CONDITIONAL, O.CALL))
_DUPLICATES, _DUPLICATES_EACH = 2_000, 6
"""Limit on duplicated producers in one run: a constant, plus a number per instruction.

Without it, chains in which every value is used twice (a stencil after a stencil) would make each
fusion as long as the chain.
"""
_FREE_TO_DUPLICATE = frozenset((O.CONSTANT, O.BROADCAST, O.BITCAST, O.IOTA))
"""Producers that the limit on duplication ignores: recomputing them costs less than storing."""


@dataclass(slots=True)
class FusionEdge:
    """A producer, a consumer that uses it as operand `index`, and the run that checks them."""

    producer: HloInstruction
    consumer: HloInstruction
    index: int
    run: FusionRun


_UNREPORTED: Condition[FusionEdge] = Condition("unreported", lambda _: False)
"""Marks a decision about an edge that has not been reported."""


class FusionPolicy(ABC):
    """What a backend decides about fusion."""

    @abstractmethod
    def conditions(self, edge: FusionEdge) -> Sequence[Condition[FusionEdge]]:
        """The conditions that an edge must meet, cheapest and most informative first."""

    @abstractmethod
    def kind(self, edge: FusionEdge) -> str:
        """The kind of the fusion that results from fusing an edge."""

    @abstractmethod
    def is_expensive(self, i: HloInstruction) -> bool:
        """Whether computing it twice costs more than storing it."""

    @abstractmethod
    def must_materialize(self, i: HloInstruction) -> bool:
        """Whether it must be computed only once, whatever that costs."""

    @abstractmethod
    def skipped(self, module: HloModule) -> set[HloComputation]:
        """Computations to leave as they are."""


class _Asked:
    """The conditions that can fail for these opcodes of producer and consumer.

    `lasting` are those that depend on the producer only, `answers` their combined result by
    producer; `passing` are the others.
    """

    __slots__ = ("_conditions", "_numbered", "_opcodes", "_passing", "_values", "answers", "lasting", "passing")

    def __init__(
        self,
        conditions: Sequence[Condition[FusionEdge]],
        producer: O,
        consumer: O,
        answers: dict[HloInstruction, bool],
    ) -> None:
        self._conditions, self._opcodes = conditions, (producer, consumer)
        self._values: list[str | Callable[[FusionEdge], str]] = []
        self._numbered = [(n, c) for n, c in enumerate(conditions) if c.may_fail(producer, consumer)]
        self.lasting = [c for _, c in self._numbered if c.lasting]
        self._passing = [(n, c) for n, c in self._numbered if not c.lasting]
        self.passing = [c for _, c in self._passing]
        self.answers = answers

    def first_failing(self, edge: FusionEdge) -> tuple[int | None, Condition[FusionEdge] | None]:
        """Return the first condition that fails and its index in the whole list, or None twice."""
        allowed = self.answers.get(edge.producer)
        for n, c in self._passing if allowed else self._numbered:
            if not c.holds(edge):
                return n, c
        if allowed is None:
            self.answers[edge.producer] = True
        return None, None

    def predicates(self, failed: int | None, edge: FusionEdge) -> Sequence[Predicate]:
        """The conditions with their values, up to the one that failed."""
        if not self._values:
            self._values = [_value_if_holds(c, *self._opcodes) for c in self._conditions]
        values = self._values if failed is None else self._values[:failed]
        told = tuple([v if v.__class__ is str else v(edge) for v in values])  # type: ignore[operator]
        if failed is None:
            return EdgePredicates(self._conditions, told, None)
        last = self._conditions[failed]
        return EdgePredicates(self._conditions, told, (last.value(edge), last.remedy(edge)))


def _value_if_holds(c: Condition[FusionEdge], producer: O, consumer: O) -> str | Callable[[FusionEdge], str]:
    """The value of a condition that holds, or how to get it for an edge of these opcodes."""
    known = c.value_if_holds
    if callable(known):
        known = known(producer, consumer)
    return c.value if known is None else known


class FusionRun:
    """One run over one computation: its queue in reverse post order, and its caches.

    `forced` holds pairs of names, producer and consumer, that are fused if all required conditions
    hold; the other conditions are ignored.
    """

    def __init__(
        self, computation: HloComputation, policy: FusionPolicy, forced: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        self.computation = computation
        self.policy = policy
        self.forced = forced
        self._observed = is_observed()
        self._asked = asked_names()
        self._inside: dict[HloInstruction, frozenset[str]] = {}
        """The instructions inside the fusions created in this run; filled on demand."""
        self._lasting: dict[int, tuple[Sequence[Condition[FusionEdge]], dict[HloInstruction, bool]]] = {}
        self._asked_by_opcodes: dict[tuple[int, O, O], _Asked] = {}
        self._answers: dict[tuple[HloInstruction, int], bool] = {}
        self._reported: dict[tuple[HloInstruction, HloInstruction], Condition[FusionEdge] | None] = {}
        self._fusible: dict[HloInstruction, bool] = {}
        self._reused: dict[HloInstruction, set[HloInstruction]] = {}
        self._evaluations: dict[HloInstruction, FusionNodeIndexingEvaluation] = {}
        self._shut_out: dict[HloInstruction, set[HloInstruction]] = {}
        self._shut_out_while_shared: dict[HloInstruction, set[HloInstruction]] = {}
        self._failed: dict[tuple[HloInstruction, HloInstruction], Condition[FusionEdge]] = {}
        self._copies: Counter[HloInstruction] = Counter()
        self._reductions: dict[HloInstruction, int] = {}
        order = computation.post_order()
        self._queue: list[HloInstruction | None] = list(order)
        self._place = {i: n for n, i in enumerate(order) if i.opcode is O.RNG or self.is_fusible(i)}
        """Positions of producers that may still be fused."""
        self.unfusible = self._globally_unfusible(order)
        self._duplicates_left = _DUPLICATES + _DUPLICATES_EACH * len(order)

    # -- deciding ----------------------------------------------------------------------------------

    def should_fuse(self, consumer: HloInstruction, index: int) -> bool:
        """Whether every condition of the backend holds; the answer is reported to observers."""
        return self.should_fuse_edge(FusionEdge(consumer.operands[index], consumer, index, self))

    def should_fuse_edge(self, edge: FusionEdge) -> bool:
        """The same as `should_fuse`, for an edge."""
        producer, consumer = edge.producer, edge.consumer
        if self.forced and self._is_forced(producer, consumer):
            return self._required_hold(edge)
        if self._observed and not self._silent:
            return self._explained(edge)
        if producer in self._shut_out.get(consumer, ()):
            return False
        if producer in self._shut_out_while_shared.get(consumer, ()) and producer.user_count > 1:
            return False
        # see `_is_answered`
        if consumer.opcode is O.FUSION or producer.user_count != 1:
            return self._all_hold(edge)
        key = consumer, edge.index
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._all_hold(edge)
        return found

    def _is_answered(self, edge: FusionEdge) -> bool:
        """Whether all conditions are known to hold between a producer and its only user.

        They are checked before anything is fused, and again at the user's turn; neither instruction
        has changed in between, unless the user became a fusion.
        """
        return edge.producer.user_count == 1 and self._answers.get((edge.consumer, edge.index), False)

    def _is_forced(self, producer: HloInstruction, consumer: HloInstruction) -> bool:
        return (producer.name, consumer.name) in self.forced

    def _required_hold(self, edge: FusionEdge) -> bool:
        """Whether all required conditions hold; reported to observers."""
        required = [c for c in self.policy.conditions(edge) if c.is_required]
        failed = first_failing(required, edge)
        if self._observed and not self._silent:
            by_hand = Predicate("requested manually", True, "optional conditions are ignored")
            self._emit(edge, failed is None, (by_hand, *predicates_of(required, failed, edge)))
        return failed is None

    def _all_hold(self, edge: FusionEdge) -> bool:
        """Whether the conditions hold; those on the producer alone are checked once."""
        producer = edge.producer
        asked = self._asked_of(self.policy.conditions(edge), edge)
        allowed = asked.answers.get(producer)
        if allowed is None:
            allowed = asked.answers[producer] = first_failing(asked.lasting, edge) is None
        if not allowed:
            return False
        # Whenever a fusion has grown, all its operands are checked again; most that failed fail
        # again.
        pair = (producer, edge.consumer)
        before = self._failed.get(pair)
        if before is not None and not before.holds(edge):
            return False
        for c in asked.passing:
            if not c.holds(edge):
                break
        else:
            return True
        self._failed[pair] = c
        if c.final(edge):
            self._shut_out.setdefault(edge.consumer, set()).add(producer)
        elif c.final_while_shared(edge):
            self._shut_out_while_shared.setdefault(edge.consumer, set()).add(producer)
        return False

    def _asked_of(self, conditions: Sequence[Condition[FusionEdge]], edge: FusionEdge) -> _Asked:
        """Return the conditions to check for an edge, by the opcodes of its ends."""
        key = id(conditions), edge.producer.opcode, edge.consumer.opcode
        found = self._asked_by_opcodes.get(key)
        if found is None:
            answers = self._lasting.setdefault(id(conditions), (conditions, {}))[
                1
            ]  # with the list, so that no other one has its id
            found = self._asked_by_opcodes[key] = _Asked(conditions, key[1], key[2], answers)
        return found

    def _explained(self, edge: FusionEdge) -> bool:
        """Whether the conditions hold; reports each with its value up to the first that fails."""
        pair = (edge.producer, edge.consumer)
        before = self._reported.get(pair, _UNREPORTED)
        if before is not None and before is not _UNREPORTED and _still_fails(before, edge):
            return False
        conditions = self.policy.conditions(edge)
        asked_of = self._asked_of(conditions, edge)
        if edge.consumer.opcode is not O.FUSION and self._is_answered(edge):
            n, failed = None, None
        else:
            n, failed = asked_of.first_failing(edge)
        # A consumer is checked again each time it grows; the same answer is reported once.
        if before is not failed:
            self._reported[pair] = failed
            if self._asked and self._is_asked(edge):
                self._emit(edge, n is None, self._to_the_end(edge, conditions, n))
            else:
                self._emit(edge, n is None, asked_of.predicates(n, edge))
        return n is None

    def _is_asked(self, edge: FusionEdge) -> bool:
        """Whether an observer asked about this producer, and about the consumer or its contents."""
        inside = self._inside.get(edge.consumer, frozenset((edge.consumer.name,)))
        return edge.producer.name in self._asked and not inside.isdisjoint(self._asked)

    def _to_the_end(
        self, edge: FusionEdge, conditions: Sequence[Condition[FusionEdge]], failed: int | None
    ) -> tuple[Predicate, ...]:
        """All conditions with their values, those of the run first."""
        inside = sorted(self._inside.get(edge.consumer, frozenset()) & self._asked)
        grown = [Predicate(f"{name} is already in {edge.consumer.name}", True) for name in inside]
        return (*grown, *asked(_OF_THE_RUN, edge), *predicates_of(conditions, failed, edge, to_the_end=True))

    def _emit(self, edge: FusionEdge, taken: bool, predicates: Sequence[Predicate]) -> None:
        cause = current_cause()
        if self._asked:
            parts = tuple(("inside", n) for n in sorted(self._inside.get(edge.consumer, frozenset()) & self._asked))
            cause = cause._replace(parts=parts)
        emit_decision(cause, "fuse", (edge.producer.name, edge.consumer.name), taken, predicates)

    def is_fusible(self, i: HloInstruction) -> bool:
        """`is_fusible`, cached per instruction: fusion changes no side effect."""
        found = self._fusible.get(i)
        if found is None:
            found = is_fusible(i)
            if i.opcode is not O.RNG:
                self._fusible[i] = found
        return found

    def reused(self, i: HloInstruction) -> set[HloInstruction]:
        """Operands whose elements `i` uses more than once; kept up to date as a fusion grows."""
        found = self._reused.get(i)
        if found is None:
            found = self._reused[i] = reused_operands(i)
        return found

    def copies(self, fusion: HloInstruction) -> int:
        """How many instructions in a fusion are copies of ones that a reduction also reads.

        These are computed or stored elsewhere in any case.
        """
        return self._copies[fusion]

    def reductions(self, fusion: HloInstruction) -> int:
        """The number of reductions in a fusion so far."""
        found = self._reductions.get(fusion)
        if found is None:
            found = self._reductions[fusion] = sum(i.opcode is O.REDUCE for i in fusion.fused_computation)
        return found

    def evaluation(self, fusion: HloInstruction) -> FusionNodeIndexingEvaluation:
        """How often the emitter would emit each part of a fusion."""
        found = self._evaluations.get(fusion)
        if found is None:
            found = self._evaluations[fusion] = FusionNodeIndexingEvaluation(fusion)
        return found

    @property
    def may_duplicate(self) -> bool:
        """Whether producers with other users may still be copied."""
        return self._duplicates_left > 0

    # -- what may not be duplicated ----------------------------------------------------------------

    def _globally_unfusible(self, order: list[HloInstruction]) -> set[HloInstruction]:
        """Producers whose fusion would read more memory than it saves.

        Excluded are those that can be fused into all consumers on all paths.
        """
        self._silent = True  # these checks prepare a decision; don't report them
        unfusible = {i for i in order if self.policy.must_materialize(i)}
        suspects = [
            i for i in order if not effectively_at_most_unary(i) and _operand_elements(i) > elements_of(i.shape)
        ]
        if suspects:
            unfusible |= AllPaths(self.computation, self.is_fusible, self.should_fuse).forbidden(suspects)
        self._silent = False
        return unfusible

    # -- fusing ------------------------------------------------------------------------------------

    def fuse_all(self) -> None:
        """Fuse every permitted edge: consumers last to first, latest operand first."""
        while self._queue:
            consumer = self._queue.pop()
            if consumer is None:
                continue
            self._place.pop(consumer, None)
            if self.is_fusible(consumer) or consumer.opcode is O.FUSION:
                self._fuse_into(consumer)

    def _fuse_into(self, consumer: HloInstruction) -> None:
        place = self._place
        candidates = [(-place[o], n) for n, o in enumerate(consumer.operands) if o in place]
        candidates.sort()
        for _, n in candidates:
            producer = consumer.operands[n]
            if not self.is_fusible(producer):
                continue
            edge = FusionEdge(producer, consumer, n, self)
            refused = self._refused_by(edge)
            if refused is not None:
                if self._observed:
                    self._report(edge, refused)
            elif self.should_fuse_edge(edge):
                if self._observed:
                    with caused_by(self._cause_of(edge)):
                        self._fuse(edge)
                else:
                    self._fuse(edge)
                return

    def _refused_by(self, edge: FusionEdge) -> int | None:
        """The condition of the run that fails for an edge that is not forced."""
        if edge.producer not in self.unfusible and self.may_duplicate:
            return None
        forced = bool(self.forced) and self._is_forced(edge.producer, edge.consumer)
        return None if forced else first_failing(_OF_THE_RUN, edge)

    @staticmethod
    @cache
    def _place_of_fuse() -> str:
        return place_of(FusionRun._fuse)

    @classmethod
    def _cause_of(cls, edge: FusionEdge) -> Cause:
        outer = current_cause()
        parts = (("producer", edge.producer.name), ("consumer", edge.consumer.name))
        return make_tuple(Cause, (outer.pass_name, "fuse", cls._place_of_fuse(), "", parts, outer.purpose, outer.keeps))

    def _fuse(self, edge: FusionEdge) -> None:
        producer, fusion = edge.producer, edge.consumer
        kind = self.policy.kind(edge)
        if fusion.opcode is not O.FUSION:
            fusion = create_fusion(fusion, kind, name=f"{producer.opcode}_{fusion.opcode}_fusion")
        elif fusion.get("kind") != kind:
            self.computation.update(fusion, attributes={"kind": kind})
        reused, evaluation = self.reused(fusion), self.evaluation(fusion)
        self._reductions[fusion] = self.reductions(fusion) + (producer.opcode is O.REDUCE)
        if producer in reused:
            reused.discard(producer)
            reused.update(producer.operands)
        else:
            reused |= self.reused(producer)
        self._copies[fusion] += is_reduced_too(producer)
        self._duplicates_left -= producer.user_count > 1 and producer.opcode not in _FREE_TO_DUPLICATE
        if self._asked:
            self._inside[fusion] = self._inside.get(edge.consumer, frozenset((edge.consumer.name,))) | {producer.name}
        users = evaluation.remove_operand(producer)
        copy = fuse_into(fusion, producer)
        evaluation.update(copy, users)
        self._place[fusion] = len(self._queue)
        self._queue.append(fusion)
        if not producer.user_count:
            self._queue[self._place.pop(producer)] = None
            self.computation.remove(producer)

    def _report(self, edge: FusionEdge, refused: int) -> None:
        """Report the condition of the run that an edge fails.

        If an observer asked about the pair, report all other conditions too.
        """
        if not (self._asked and self._is_asked(edge)):
            pair, condition = (edge.producer, edge.consumer), _OF_THE_RUN[refused]
            if self._reported.get(pair) is not condition:  # a consumer is asked again each time it grows
                self._reported[pair] = condition
                self._emit(edge, False, (condition.predicate(edge, holds=False),))
            return
        policy = asked(self.policy.conditions(edge), edge, to_the_end=True)
        self._emit(edge, False, (*predicates_of(_OF_THE_RUN, refused, edge, to_the_end=True), *policy))


def _still_fails(condition: Condition[FusionEdge], edge: FusionEdge) -> bool:
    """Whether a condition that failed for an edge is known to fail without checking it again."""
    return (
        condition.lasting
        or condition.final(edge)
        or (edge.producer.user_count > 1 and condition.final_while_shared(edge))
    )


def _vanishes_in_words(edge: FusionEdge) -> str:
    p = edge.producer
    if p not in edge.run.unfusible:
        return "it can"
    return (
        f"reads {_operand_elements(p)} elements, writes {elements_of(p.shape)}, cannot be fused into all of its users"
    )


def one_user(edge: FusionEdge) -> str:
    """How a producer with several users could be fused: with one user it needs no copy."""
    others = [f"`{u.name}`" for u in edge.producer.users if u is not edge.consumer]
    if not others:
        return ""
    rest = f" and {len(others) - 3} more" if len(others) > 3 else ""
    verb = "use" if len(others) > 1 else "uses"
    return f"let `{edge.producer.name}` have one user: {', '.join(others[:3])}{rest} {verb} it too"


_OF_THE_RUN: tuple[Condition[FusionEdge], ...] = (
    Condition("operand can be duplicated", lambda e: e.producer not in e.run.unfusible, _vanishes_in_words, one_user),
    Condition(
        "the limit of duplicates is not reached",
        lambda e: e.run.may_duplicate or e.producer.user_count <= 1 or e.producer.opcode in _FREE_TO_DUPLICATE,
        lambda e: "more are allowed" if e.run.may_duplicate else "no more are allowed",
        one_user,
    ),
)
"""Conditions checked before those of the backend."""


def run_fusion(module: HloModule, policy: FusionPolicy, forced: frozenset[tuple[str, str]] = frozenset()) -> None:
    """Run fusion over every computation of a module that is not a fusion's body.

    `forced` as in FusionRun.
    """
    skipped = policy.skipped(module)
    for c in nonfusion_computations(module):
        if c not in skipped and len(c) > 1:
            FusionRun(c, policy, forced).fuse_all()


def is_fusible(i: HloInstruction) -> bool:
    """Whether it makes sense to fuse it at all."""
    if i.opcode in _NEVER_FUSIBLE:
        return False
    if i.opcode is O.RNG:
        return i.user_count <= 1
    if i.control_predecessors or i.control_successors:
        return False
    return i.opcode is O.FUSION or not i.has_side_effect


def true_rank(shape: Shape) -> int:
    """Number of dimensions whose size is not 1."""
    return sum(d != 1 for d in shape.dimensions) if isinstance(shape, ArrayShape) else 0


def is_effective_scalar(shape: Shape) -> bool:
    """Whether it is an array of one element."""
    return shape.is_array and true_rank(shape) == 0


def effectively_at_most_unary(i: HloInstruction) -> bool:
    """Whether at most one operand has as many dimensions larger than 1 as the result.

    Broadcasts, iotas and scalar constants are ignored: they cost nothing to read.
    """
    rank = max((true_rank(s) for _, s in i.shape.leaves() if s.is_array), default=0)
    large = 0
    for o in i.operands:
        if o.opcode in (O.BROADCAST, O.IOTA) or (o.opcode is O.CONSTANT and is_effective_scalar(o.shape)):
            continue
        large += true_rank(o.shape) >= rank
    return large <= 1


def is_always_duplicable(i: HloInstruction) -> bool:
    """Whether duplicating it into consumers reduces their reads: broadcasts, widening converts."""
    return i.opcode is O.BROADCAST or (i.opcode is O.CONVERT and i.operands[0].shape.byte_size < i.shape.byte_size)


def is_reduced_too(producer: HloInstruction) -> bool:
    """Whether it has several users and one of them is a reduction."""
    return producer.user_count > 1 and any(u.opcode in _REDUCTIONS for u in producer.users)


def _operand_elements(i: HloInstruction) -> int:
    return sum(elements_of(o.shape) for o in dict.fromkeys(i.operands))
