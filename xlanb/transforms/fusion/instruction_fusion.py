"""The machinery of fusion (xla/service/instruction_fusion.h): which edges are looked at, in which order, and how one is fused.

What may be fused is a list of named conditions over an Edge, given by the pass of a backend. The pass stops at the first that fails; whoever observes is told each
condition that was looked at with its value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.cost import elements_of
from xlanb.analysis.operand_use import reused_operands
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape
from xlanb.tracing import Decision, Predicate, because, current_cause, emit, is_observed
from xlanb.transforms.fusion.all_paths import AllPaths
from xlanb.transforms.fusion.fusion_indexing import FusionNodeIndexingEvaluation
from xlanb.transforms.fusion_editing import create_fusion, fuse_into

_FILE = "xlanb/transforms/fusion/instruction_fusion.py"
_REDUCTIONS = frozenset((O.REDUCE, O.REDUCE_WINDOW, O.DOT, O.CONVOLUTION, O.SORT))
_NEVER_FUSIBLE = frozenset((O.DOMAIN, O.PARAMETER, O.WHILE, O.CONDITIONAL, O.CALL))
_DUPLICATES, _DUPLICATES_EACH = 2_000, 4
"""How many producers that stay for other users one run may copy: so many, and this many more for each instruction. Chains in which every value is
read twice (a stencil after a stencil) would make each fusion as long as the chain."""


@dataclass(slots=True)
class Edge:
    """A producer, a consumer that uses it as operand `index`, and what the run knows of the computation around them."""

    producer: HloInstruction
    consumer: HloInstruction
    index: int
    run: FusionRun


@dataclass(frozen=True)
class Condition:
    """A named condition: whether it holds, and the value that it looked at in words, which is asked for only where somebody listens.

    `is_required`: an edge that fails it cannot be fused; one that fails another may be, where somebody asks for it (see FusionRun).
    `lasting`: it asks only what a producer is; what it answered once it answers for every consumer.
    `final`: whether a failure for a fusion stays one however that fusion grows; `final_while_shared`: whether it does as long as
    the producer has several users.
    """

    name: str
    holds: Callable[[Edge], bool]
    value: Callable[[Edge], str]
    lasting: bool = False
    is_required: bool = False
    final: Callable[[Edge], bool] = lambda _: False
    final_while_shared: Callable[[Edge], bool] = lambda _: False

    def still_fails(self, edge: Edge) -> bool:
        """Whether it fails for an edge without being asked again, having failed before."""
        return self.lasting or self.final(edge) or (edge.producer.user_count > 1 and self.final_while_shared(edge))


_UNTOLD = Condition("untold", lambda _: False, lambda _: "")
"""Stands for the answer about an edge that nobody was told of."""


class FusionPolicy(ABC):
    """What a backend decides about fusion."""

    @abstractmethod
    def conditions(self, edge: Edge) -> Sequence[Condition]:
        """The conditions that an edge must meet, cheapest and most telling first."""

    @abstractmethod
    def kind(self, edge: Edge) -> str:
        """The fusion kind that fusing an edge gives."""

    @abstractmethod
    def is_expensive(self, i: HloInstruction) -> bool:
        """Whether computing it twice costs more than storing it."""

    @abstractmethod
    def must_materialize(self, i: HloInstruction) -> bool:
        """Whether it must be computed once only, whatever that costs."""

    @abstractmethod
    def skipped(self, module: HloModule) -> set[HloComputation]:
        """Computations to leave as they are."""


class FusionRun:
    """One run over one computation: its queue in reverse post order, its caches.

    `forced` holds pairs of names, producer and consumer, that are fused whatever the conditions say that are not required.
    """

    def __init__(
        self, computation: HloComputation, policy: FusionPolicy, forced: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        self.computation = computation
        self.policy = policy
        self.forced = forced
        self._observed = is_observed()
        self._lasting: dict[int, tuple[dict[HloInstruction, bool], tuple[Condition, ...]]] = {}
        self._answers: dict[tuple[HloInstruction, int], bool] = {}
        self._told: dict[tuple[HloInstruction, HloInstruction], Condition | None] = {}
        self._said: dict[tuple[tuple[str, ...], bool], tuple[Predicate, ...]] = {}
        self._fusible: dict[HloInstruction, bool] = {}
        self._reused: dict[HloInstruction, set[HloInstruction]] = {}
        self._evaluations: dict[HloInstruction, FusionNodeIndexingEvaluation] = {}
        self._shut_out: dict[HloInstruction, set[HloInstruction]] = {}
        self._shut_out_while_shared: dict[HloInstruction, set[HloInstruction]] = {}
        self._failed: dict[tuple[HloInstruction, HloInstruction], Condition] = {}
        self._copies: Counter[HloInstruction] = Counter()
        self._reductions: dict[HloInstruction, int] = {}
        order = computation.post_order()
        self._queue: list[HloInstruction | None] = list(order)
        self._place = {i: n for n, i in enumerate(order) if i.opcode is O.RNG or self.is_fusible(i)}
        """Where producers stand that may be fused yet."""
        self.unfusible = self._globally_unfusible(order)
        self._duplicates_left = _DUPLICATES + _DUPLICATES_EACH * len(order)

    # -- deciding -----------------------------------------------------------------------------------------------

    def should_fuse(self, consumer: HloInstruction, index: int) -> bool:
        """Whether every condition of the backend holds; the answer is told to observers."""
        edge = Edge(consumer.operands[index], consumer, index, self)
        if self.forced and self._is_forced(edge.producer, consumer):
            return self._required_hold(edge)
        if self._observed and not self._silent:
            return self._explained(edge)
        if edge.producer in self._shut_out.get(consumer, ()):
            return False
        if edge.producer in self._shut_out_while_shared.get(consumer, ()) and edge.producer.user_count > 1:
            return False
        # The one user of a producer is asked about before anything is fused, and again when its turn comes: nothing of the two has changed until then.
        lone = edge.producer.user_count == 1 and consumer.opcode is not O.FUSION
        found = self._answers.get((consumer, index)) if lone else None
        if found is None:
            found = self._all_hold(edge)
            if lone:
                self._answers[consumer, index] = found
        return found

    def _is_forced(self, producer: HloInstruction, consumer: HloInstruction) -> bool:
        return (producer.name, consumer.name) in self.forced

    def _required_hold(self, edge: Edge) -> bool:
        """Whether the conditions hold without which an edge cannot be fused; told to observers."""
        required = [c for c in self.policy.conditions(edge) if c.is_required]
        failed = next((c for c in required if not c.holds(edge)), None)
        if self._observed and not self._silent:
            seen = [Predicate("asked for by hand", True, "conditions that are not required are lifted")]
            seen += [Predicate(c.name, c is not failed, c.value(edge)) for c in required]
            emit(Decision(current_cause(), "fuse", (edge.producer.name, edge.consumer.name), failed is None, seen))
        return failed is None

    def _all_hold(self, edge: Edge) -> bool:
        """Whether the conditions hold, those that ask of the producer only asked once of each."""
        lasting, passing = self._split(self.policy.conditions(edge))
        allowed = lasting.get(edge.producer)
        if allowed is None:
            conditions = self.policy.conditions(edge)
            allowed = lasting[edge.producer] = all(c.holds(edge) for c in conditions if c.lasting)
        if not allowed:
            return False
        # A fusion is asked about each of its operands whenever it has grown: what failed before mostly fails again.
        pair = (edge.producer, edge.consumer)
        before = self._failed.get(pair)
        if before is not None and not before.holds(edge):
            return False
        for c in passing:
            if not c.holds(edge):
                self._failed[pair] = c
                if c.final(edge):
                    self._shut_out.setdefault(edge.consumer, set()).add(edge.producer)
                elif c.final_while_shared(edge):
                    self._shut_out_while_shared.setdefault(edge.consumer, set()).add(edge.producer)
                return False
        return True

    def _split(self, conditions: Sequence[Condition]) -> tuple[dict[HloInstruction, bool], tuple[Condition, ...]]:
        """What the lasting ones of some conditions answered by producer, and the others."""
        found = self._lasting.get(id(conditions))
        if found is None:
            found = self._lasting[id(conditions)] = ({}, tuple(c for c in conditions if not c.lasting))
        return found

    def _explained(self, edge: Edge) -> bool:
        """Whether the conditions hold, each told with its value up to the first that fails."""
        pair = (edge.producer, edge.consumer)
        told = self._told.get(pair, _UNTOLD)
        if told is not None and told is not _UNTOLD and told.still_fails(edge):
            return False
        conditions = self.policy.conditions(edge)
        failed: Condition | None = None
        for c in conditions:
            if not c.holds(edge):
                failed = c
                break
        # A consumer is asked again each time it grows: the same answer is told once.
        if told is not failed:
            self._told[pair] = failed
            asked = conditions if failed is None else conditions[: conditions.index(failed) + 1]
            seen = self._predicates(asked, tuple([c.value(edge) for c in asked]), taken=failed is None)
            subject = (edge.producer.name, edge.consumer.name)
            emit(Decision(current_cause(), "fuse", subject, failed is None, seen))
        return failed is None

    def _predicates(self, asked: Sequence[Condition], values: tuple[str, ...], *, taken: bool) -> tuple[Predicate, ...]:
        """The conditions with their values, of which the last one failed where the edge is not taken: most edges of a program say the same, once."""
        found = self._said.get((values, taken))
        if found is None:
            last = len(asked) - 1
            found = tuple(Predicate(c.name, taken or n < last, values[n]) for n, c in enumerate(asked))
            self._said[values, taken] = found
        return found

    def is_fusible(self, i: HloInstruction) -> bool:
        """`is_fusible`, asked once of an instruction: fusion changes no side effect."""
        found = self._fusible.get(i)
        if found is None:
            found = is_fusible(i)
            if i.opcode is not O.RNG:
                self._fusible[i] = found
        return found

    def reused(self, i: HloInstruction) -> set[HloInstruction]:
        """Operands of which `i` uses elements more than once; kept up to date while a fusion grows."""
        found = self._reused.get(i)
        if found is None:
            found = self._reused[i] = reused_operands(i)
        return found

    def copies(self, fusion: HloInstruction) -> int:
        """How many instructions were copied into a fusion that a reduction reads too, so that somebody else computes or stores them in any case."""
        return self._copies[fusion]

    def reductions(self, fusion: HloInstruction) -> int:
        """How many reductions a fusion has by now."""
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

    # -- what may not be duplicated --------------------------------------------------------------------------------

    def _globally_unfusible(self, order: list[HloInstruction]) -> set[HloInstruction]:
        """Producers whose fusion would read more memory than it saves, unless they vanish into all consumers on all paths."""
        self._silent = True  # these are questions on the way to a decision, not decisions
        unfusible = {i for i in order if self.policy.must_materialize(i)}
        suspects = [
            i for i in order if not effectively_at_most_unary(i) and _operand_elements(i) > elements_of(i.shape)
        ]
        if suspects:
            unfusible |= AllPaths(self.computation, self.is_fusible, self.should_fuse).forbidden(suspects)
        self._silent = False
        return unfusible

    # -- fusing -------------------------------------------------------------------------------------------------

    def fuse_all(self) -> None:
        """Fuse every edge that may be, consumers last to first, each consumer's latest operand first."""
        while self._queue:
            consumer = self._queue.pop()
            if consumer is None:
                continue
            self._place.pop(consumer, None)
            if self.is_fusible(consumer) or consumer.opcode is O.FUSION:
                self._fuse_into(consumer)

    def _fuse_into(self, consumer: HloInstruction) -> None:
        candidates = [n for n, o in enumerate(consumer.operands) if o in self._place]
        for n in sorted(candidates, key=lambda n: -self._place[consumer.operands[n]]):
            producer = consumer.operands[n]
            if not self.is_fusible(producer):
                continue
            forced = bool(self.forced) and self._is_forced(producer, consumer)
            if producer in self.unfusible and not forced:
                self._tell_unfusible(producer, consumer)
            elif self._duplicates_left <= 0 and producer.user_count > 1 and not forced:
                self._tell(producer, consumer, "few duplicates in the computation", "no more are allowed")
            elif self.should_fuse(consumer, n):
                parts = (("producer", producer.name), ("consumer", consumer.name))
                with because(rule="fuse", where=f"{_FILE}:{FusionRun._fuse.__code__.co_firstlineno}", parts=parts):
                    self._fuse(Edge(producer, consumer, n, self))
                return

    def _fuse(self, edge: Edge) -> None:
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
        self._duplicates_left -= producer.user_count > 1
        users = evaluation.remove_operand(producer)
        copy = fuse_into(fusion, producer)
        evaluation.update(copy, users)
        self._place[fusion] = len(self._queue)
        self._queue.append(fusion)
        if not producer.users:
            self._queue[self._place.pop(producer)] = None
            self.computation.remove(producer)

    def _tell_unfusible(self, producer: HloInstruction, consumer: HloInstruction) -> None:
        if is_observed():
            value = f"reads {_operand_elements(producer)} elements, gives {elements_of(producer.shape)}, cannot be fused into all of its users"
            self._tell(producer, consumer, "operand can be duplicated", value)

    @staticmethod
    def _tell(producer: HloInstruction, consumer: HloInstruction, name: str, value: str) -> None:
        if is_observed():
            subject = (producer.name, consumer.name)
            emit(Decision(current_cause(), "fuse", subject, False, (Predicate(name, False, value),)))


def run_fusion(module: HloModule, policy: FusionPolicy, forced: frozenset[tuple[str, str]] = frozenset()) -> None:
    """Fuse in every computation of a module that is not itself a body of a fusion; `forced` as FusionRun takes it."""
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
    """Whether at most one operand is as large as the result; broadcasts, iotas and scalar constants cost nothing to read."""
    rank = max((true_rank(s) for _, s in i.shape.leaves() if s.is_array), default=0)
    large = 0
    for o in i.operands:
        if o.opcode in (O.BROADCAST, O.IOTA) or (o.opcode is O.CONSTANT and is_effective_scalar(o.shape)):
            continue
        large += true_rank(o.shape) >= rank
    return large <= 1


def is_always_duplicable(i: HloInstruction) -> bool:
    """Whether duplicating it into consumers makes them read less: widening conversions and broadcasts."""
    return i.opcode is O.BROADCAST or (i.opcode is O.CONVERT and i.operands[0].shape.byte_size < i.shape.byte_size)


def is_reduced_too(producer: HloInstruction) -> bool:
    """Whether a reduction is among several users of it."""
    return producer.user_count > 1 and any(u.opcode in _REDUCTIONS for u in producer.users)


def _operand_elements(i: HloInstruction) -> int:
    return sum(elements_of(o.shape) for o in dict.fromkeys(i.operands))
