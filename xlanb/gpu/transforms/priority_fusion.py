"""Fuse producers into all of their users, the one that saves most time first (priority_fusion.cc).

    m = f32[8] multiply(a, b)
    ROOT r = f32[8] add(m, c)
    =>  fusion(c, a, b), kind=kLoop, calls={ m = multiply(p1, p2), ROOT r = add(m, p0) }

A producer's priority is the time that fusing saves: its and its users' unfused times less their
fused times, by the performance model (xlanb.gpu.model.performance_model). A producer is skipped if
fusing saves no time, or if it cannot be fused into some user. Bitcasts are fused first, because
they cost nothing, and scalar constants last. After each fusion, the priorities of its neighbors are
updated.

CONDITIONS are checked in order; all must hold.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import field
from math import inf
from typing import Any, Final

from xlanb.conditions import Condition, asked_names, first_failing, objecting, predicates_of
from xlanb.gpu.backend_config import changed
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.model.fusible import (
    budget_objection,
    is_elementwise_gpu,
    is_triton_fusion,
    keeps_bit_width,
    parameter_objection,
    scatter_objection,
    significant_reduction,
)
from xlanb.gpu.model.fusion_analysis import TRITON_KIND, EmitterKind, FusionAnalyses
from xlanb.gpu.model.in_place import objection as in_place_objection
from xlanb.gpu.model.performance_model import PerformanceModel
from xlanb.gpu.model.run_time import LAUNCH_OVERHEAD, Times, microseconds
from xlanb.gpu.model.tiling import Tiling
from xlanb.gpu.triton.support import objection as triton_objection
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.tracing import Decision, Predicate, because, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion.instruction_fusion import is_fusible as has_no_side_effect
from xlanb.transforms.fusion_editing import create_fusion, fuse_into, merge_fusion

_FILE = "xlanb/gpu/transforms/priority_fusion.py"
_FUSIBLE = frozenset(
    (O.COPY, O.IOTA, O.CONSTANT, O.REDUCE, O.BROADCAST, O.CONCATENATE, O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE,
    O.GATHER,
     O.PAD, O.REDUCE_WINDOW, O.RESHAPE, O.REVERSE, O.SCATTER, O.SLICE, O.TRANSPOSE)
)  # fmt: skip
_NEVER: Final = -inf
_FIRST: Final = inf
_KINDS = {
    EmitterKind.LOOP: "kLoop",
    EmitterKind.TRITON: "kCustom",
    EmitterKind.CUSTOM: "kCustom",
    EmitterKind.CUDNN: "kCustom",
    EmitterKind.SORT: "kCustom",
}


@dataclass(frozen=True)
class PriorityFusion(HloPass):
    """Fuses producers into all of their users, the one that saves most first.

    CONDITIONS list what must hold.
    """

    name = "priority-fusion"

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))
    """The GPU of the cost model."""

    def apply(self, module: HloModule) -> None:
        for c in fusible_computations(module):
            _PriorityRun(c, self.device).fuse_all()


def fusible_computations(module: HloModule) -> list[HloComputation]:
    """Return the computations whose instructions are launched one by one, callees first.

    Excludes bodies of fusions, reducers and calls.
    """
    excluded: set[HloComputation] = set()
    for i in module.instructions():
        if i.opcode.may_call and i.opcode not in (O.WHILE, O.CONDITIONAL) and not _is_stream_annotated(i):
            excluded.update(i.called_computations)
    return [c for c in module.post_order() if c not in excluded]


def _is_stream_annotated(i: HloInstruction) -> bool:
    return i.opcode is O.CALL and any(key == "_xla_stream_annotation" for key, _ in i.frontend_attributes)


# -- conditions ------------------------------------------------------------------------------------


@dataclass(slots=True)
class PriorityFusionEdge:
    """A producer, a consumer that uses it, and the current run."""

    producer: HloInstruction
    consumer: HloInstruction
    run: _PriorityRun


def is_fusible(i: HloInstruction) -> bool:
    """Whether the emitters support it within a fusion."""
    if not has_no_side_effect(i):
        return False
    if i.opcode is O.BITCAST:
        return keeps_bit_width(i)
    if i.opcode is O.FUSION:
        return i.get("kind") != "kCustom" or is_triton_fusion(i) or is_elementwise_gpu(i)
    return i.opcode in _FUSIBLE or is_elementwise_gpu(i)


def _is_fusible_bitcast(i: HloInstruction) -> bool:
    return i.opcode is O.BITCAST and keeps_bit_width(i)


def _reductions(e: PriorityFusionEdge) -> str:
    first, second = significant_reduction(e.producer), significant_reduction(e.consumer)
    return f"{first.name} and {second.name}" if first is not None and second is not None else ""


def _epilogue(e: PriorityFusionEdge) -> str:
    analyses = e.run.model.analyses
    if analyses.of(e.producer).kind is not EmitterKind.REDUCTION:
        return ""
    fused = analyses.of(e.producer, e.consumer).kind
    return (
        f"{e.producer.name} is a reduction, fused with {e.consumer.name} it would become a loop"
        if (fused is EmitterKind.LOOP)
        else ""
    )


def _size(e: PriorityFusionEdge) -> str:
    return f"{e.run.model.costs.merged_size(e.producer, e.consumer)} instructions would be emitted"


_ANY: tuple[Condition[PriorityFusionEdge], ...] = (
    Condition(
        "producer is not the root",
        lambda e: not e.producer.is_root,
        lambda e: "it is the result of the computation" if e.producer.is_root else "",
    ),
    Condition("producer is fusible", lambda e: e.run.is_fusible(e.producer), lambda e: str(e.producer.opcode)),
    Condition("consumer is fusible", lambda e: e.run.is_fusible(e.consumer), lambda e: str(e.consumer.opcode)),
)

CONDITIONS: tuple[Condition[PriorityFusionEdge], ...] = (
    *_ANY,
    Condition(
        "consumer is not just a bitcast",
        lambda e: not _is_fusible_bitcast(e.consumer),
        lambda e: str(e.consumer.opcode),
    ),
    objecting("scatter can be emitted", lambda e: scatter_objection(e.producer, e.consumer)),
    objecting("at most one of them is a significant reduction", _reductions),
    objecting("result of a reduction stays a reduction", _epilogue),
    objecting(
        "kernel fits in shared memory, registers and parameters",
        lambda e: budget_objection(e.consumer, e.producer, e.run.device, is_consumer_producer=True),
    ),
    Condition(
        "code is small enough",
        lambda e: not e.run.model.costs.merged_is_too_large(e.producer, e.consumer),
        _size,
    ),
    objecting("an array updated in place has no other readers", lambda e: in_place_objection(e.producer, e.consumer)),
)
"""Conditions for fusing a producer and a consumer with XLA:GPU's own emitters."""


def _untileable(e: PriorityFusionEdge) -> str:
    found = e.run.model.tiling(e.producer, e.consumer)
    return found if isinstance(found, str) else ""


def _tile(e: PriorityFusionEdge) -> str:
    found = e.run.model.tiling(e.producer, e.consumer)
    return "" if isinstance(found, str) else f"tiles of {'x'.join(map(str, found.sizes))}, {found.warps} warps"


TRITON_CONDITIONS: tuple[Condition[PriorityFusionEdge], ...] = (
    *_ANY,
    objecting("producer can be emitted by Triton", lambda e: _not_triton(e.producer, e.run.device)),
    objecting("consumer can be emitted by Triton", lambda e: _not_triton(e.consumer, e.run.device)),
    objecting(
        "kernel has few parameters",
        lambda e: parameter_objection(e.consumer, e.producer, is_consumer_producer=True),
    ),
    objecting("the fusion has tiles", _untileable, _tile),
)
"""Conditions if one of them is a Triton fusion; the result must be one too."""


def _not_triton(i: HloInstruction, device: GpuDevice) -> str:
    return "" if is_triton_fusion(i) else triton_objection(i, device)


def _saves(e: PriorityFusionEdge) -> str:
    times, saved = e.run.times(e.producer), e.run.priority(e.producer)
    return f"priority {microseconds(saved):g} us: {times}" if isinstance(saved, int) else "it is free"


_SAVES: Condition[PriorityFusionEdge] = Condition(
    "fusing into all users saves time",
    lambda e: e.run.priority(e.producer) >= 0,
    _saves,
)


# -- one run ---------------------------------------------------------------------------------------


_NUMBERED = re.compile(r"(.*?)(?:\.(\d{1,9}))?\.\d{1,9}")


def creation_ranks(computation: HloComputation) -> dict[HloInstruction, int]:
    """Rank a computation's instructions by creation order, as far as it is known.

    XLA numbers instructions as they are created; text has them in post-order. Names show which of
    equal names came first (`mul.3.0` before `mul.12.0`: the last number is added by
    rename-instructions). JAX's array constants are created before everything else, the latest
    first.
    """
    order = computation.post_order()
    places: dict[str, list[int]] = {}
    members: dict[str, list[tuple[int, int]]] = {}
    for n, i in enumerate(order):
        found = _NUMBERED.fullmatch(i.name)
        base, number = (found[1], int(found[2] or -1)) if found else (i.name, -1)
        places.setdefault(base, []).append(n)
        members.setdefault(base, []).append((number, n))
    keys: list[tuple[int, int, int]] = [(0, 0, 0)] * len(order)
    for base, found_at in places.items():
        for place, (number, n) in zip(found_at, sorted(members[base]), strict=True):
            keys[n] = _creation_key(order[n], base, number, n, place)
    ranked = sorted(range(len(order)), key=keys.__getitem__)
    return {order[n]: rank for rank, n in enumerate(ranked)}


def _creation_key(i: HloInstruction, base: str, number: int, at: int, place: int) -> tuple[int, int, int]:
    if i.opcode is O.FUSION:  # made by a pass
        return (2, 0, place)
    if i.opcode is O.BROADCAST and i.operands[0].opcode is O.CONSTANT:
        return (0, 1, number) if base == "broadcast" else (0, 0, -at)
    return (1, 0, place)


class _PriorityRun:
    """One run on one computation, with its queue and caches."""

    def __init__(self, computation: HloComputation, device: GpuDevice) -> None:
        self.computation = computation
        self.device: GpuDevice = device
        self.model = PerformanceModel(device, FusionAnalyses(device))
        self._fusible: dict[HloInstruction, bool] = {}
        self._failing: dict[HloInstruction, dict[HloInstruction, int | None]] = {}
        self._priorities: dict[HloInstruction, float] = {}
        self._queue: list[tuple[float, int, HloInstruction]] = []
        self._queued: dict[HloInstruction, float] = {}
        """The priorities of the producers in the queue."""
        self._ranks = creation_ranks(computation)
        """The order of creation: among equal priorities the latest is first."""
        self._observed = is_observed()
        self._asked = asked_names()
        self._inside: dict[HloInstruction, frozenset[str]] = {}
        self._said: dict[tuple[str, str], tuple[bool, tuple[Predicate, ...]]] = {}

    # -- for conditions ----------------------------------------------------------------------------

    def is_fusible(self, i: HloInstruction) -> bool:
        """Return the cached `is_fusible`."""
        found = self._fusible.get(i)
        if found is None:
            found = self._fusible[i] = is_fusible(i)
        return found

    def priority(self, producer: HloInstruction) -> float:
        """Return what fusing a producer saves in ticks, by the last estimate."""
        return self._priorities[producer]

    def times(self, producer: HloInstruction) -> Times:
        """Return the times of a producer and its users, unfused and fused."""
        users = [u for u in producer.users if not _is_fusible_bitcast(u)]
        return self.model.times(producer, users)

    # -- priorities --------------------------------------------------------------------------------

    def fuse_all(self) -> None:
        """Fuse producers by priority until none saves time, then scalar constants."""
        for i in self.computation.post_order():
            if self._is_candidate(i):
                self._set_priority(i, {})
        while self._queue:
            negative, _, producer = heapq.heappop(self._queue)
            if self._queued.get(producer) != -negative:
                continue
            del self._queued[producer]
            consumers = [u for u in producer.users if not _is_fusible_bitcast(u)]
            if _is_fusible_bitcast(producer):
                consumers = [c for c in consumers if self._first_failing(producer, c) is None]
            if consumers:
                self._fuse_into_all(producer, consumers)
        self._fuse_constants()

    def _is_candidate(self, i: HloInstruction) -> bool:
        is_value = i.opcode not in (O.PARAMETER, O.TUPLE, O.GET_TUPLE_ELEMENT)
        return is_value and bool(i.users) and has_no_side_effect(i)

    def _set_priority(self, producer: HloInstruction, removed: dict[HloInstruction, _PriorityUpdate]) -> None:
        """Estimate a producer's priority, and queue it if it saves time."""
        priority = self._priorities[producer] = self._estimate(producer, removed.get(producer))
        if self._queued.get(producer) == priority:
            return
        self._queued.pop(producer, None)
        if priority >= 0:
            self._queued[producer] = priority
            rank = self._ranks.setdefault(producer, len(self._ranks))
            heapq.heappush(self._queue, (-priority, -rank, producer))
        elif priority != _NEVER and self._observed:
            self._tell_all(producer)

    def _estimate(self, producer: HloInstruction, update: _PriorityUpdate | None) -> float:
        if _is_fusible_bitcast(producer):
            return _FIRST
        if producer.opcode is O.CONSTANT or not self._may_fuse_into_all(producer):
            return _NEVER
        if update is None:
            return self.model.times(producer, producer.users).saved
        # As in XLA, estimate only the change: the new consumers, less those fused into them.
        times = self.model.times(producer, update.new)
        return self._queued[producer] + (times.unfused - update.gone.unfused) - (times.fused - update.gone.fused)

    def _may_fuse_into_all(self, producer: HloInstruction) -> bool:
        """Whether the producer may be fused into every user that is not a bitcast."""
        users = [u for u in producer.users if not _is_fusible_bitcast(u)]
        for u in users:
            failed = self._first_failing(producer, u)
            if failed is not None:
                if self._observed:
                    self._tell(PriorityFusionEdge(producer, u, self), failed)
                return False
        return bool(users)

    def _first_failing(self, producer: HloInstruction, consumer: HloInstruction) -> int | None:
        """Return the index of the first failing condition, or None."""
        known = self._failing.setdefault(producer, {})
        if consumer not in known:
            known[consumer] = first_failing(
                self._conditions(producer, consumer), PriorityFusionEdge(producer, consumer, self)
            )
        return known[consumer]

    def _conditions(
        self, producer: HloInstruction, consumer: HloInstruction
    ) -> Sequence[Condition[PriorityFusionEdge]]:
        return TRITON_CONDITIONS if is_triton_fusion(producer) or is_triton_fusion(consumer) else CONDITIONS

    # -- fusing ------------------------------------------------------------------------------------

    def _fuse_into_all(self, producer: HloInstruction, consumers: list[HloInstruction]) -> None:
        """Fuse a producer into its consumers, and update neighboring estimates."""
        affected: dict[HloInstruction, None] = {}
        new: dict[HloInstruction, list[HloInstruction]] = {}
        tilings = {c: self._tiling(producer, c) for c in consumers}
        for consumer in consumers:
            if self._observed:
                self._tell(PriorityFusionEdge(producer, consumer, self), None)
            fusion = self._fuse(producer, consumer, tilings[consumer])
            if fusion is not consumer:
                self._drop(consumer)
                affected.pop(consumer, None)
            for o in fusion.operands:
                if o is producer or o.opcode in (O.CONSTANT, O.GET_TUPLE_ELEMENT) or not has_no_side_effect(o):
                    continue
                affected[o] = None
                new.setdefault(o, []).append(fusion)
            affected[fusion] = None
        updates = self._updates(producer, consumers, new)
        if not producer.users:
            self._invalidate(producer)
            self._drop(producer)
            affected.pop(producer, None)
            self.computation.remove(producer)
        for c in consumers:
            self._invalidate(c)
        for i in affected:
            self.model.costs.forget(i)
        for i in affected:
            if self._is_candidate(i):
                self._set_priority(i, updates)

    def _updates(
        self,
        producer: HloInstruction,
        consumers: list[HloInstruction],
        new: dict[HloInstruction, list[HloInstruction]],
    ) -> dict[HloInstruction, _PriorityUpdate]:
        """Return each operand's new consumers, and its times with those fused into them."""
        found = {}
        for o, fusions in new.items():
            known = self.model.known_consumers(o)
            if o not in self._queued or known is None:
                continue
            gone = [c for c in (*consumers, producer) if c in known]
            unfused = sum(self.model.instruction(c).exec_time for c in gone)
            unfused += self.model.instruction(o).exec_time + LAUNCH_OVERHEAD
            found[o] = _PriorityUpdate(fusions, Times(unfused, sum(known[c] for c in gone)))
        return found

    def _fuse(self, producer: HloInstruction, consumer: HloInstruction, tiling: Tiling | None = None) -> HloInstruction:
        """Fuse a producer into one consumer, with a tiling for Triton; return the fusion."""
        kind = _KINDS.get(self.model.analyses.of(producer, consumer).kind, "kInput")
        if tiling is not None:
            kind = "kCustom"
        parts = (("producer", producer.name), ("consumer", consumer.name))
        key = self.model.alike.pair(producer, consumer)
        with because(rule="fuse", where=f"{_FILE}:{_PriorityRun._fuse.__code__.co_firstlineno}", parts=parts):
            fusion = consumer
            if consumer.opcode is not O.FUSION:
                fusion = create_fusion(consumer, kind)
            elif consumer.get("kind") != kind:
                self.computation.update(fusion, attributes={"kind": kind})
            if producer.opcode is O.FUSION:
                merge_fusion(fusion, producer)
            else:
                fuse_into(fusion, producer)
            if tiling is not None:
                block = {"kind": TRITON_KIND, "block_level_fusion_config": tiling.config}
                self.computation.update(fusion, backend_config=changed(None, fusion_backend_config=block))
        self.model.alike.fused(fusion, key)
        if self._asked:
            of_producer = self._inside.get(producer, frozenset((producer.name,)))
            self._inside[fusion] = self._inside.get(consumer, frozenset((consumer.name,))) | of_producer
        return fusion

    def _tiling(self, producer: HloInstruction, consumer: HloInstruction) -> Tiling | None:
        """Return the tiling of a Triton fusion of both, or None."""
        if not is_triton_fusion(producer) and not is_triton_fusion(consumer):
            return None
        found = self.model.tiling(producer, consumer)
        return None if isinstance(found, str) else found

    def _fuse_constants(self) -> None:
        constants = [i for i in self.computation if _is_small_constant(i)]
        for c in constants:
            for user in c.users:
                takes = not triton_objection(c, self.device) if is_triton_fusion(user) else is_fusible(user)
                if takes and not scatter_objection(c, user):
                    self.model.analyses.invalidate(user)
                    self._fuse(c, user)

    def _drop(self, i: HloInstruction) -> None:
        self._queued.pop(i, None)

    def _invalidate(self, i: HloInstruction) -> None:
        """Forget cached facts of an instruction that changed or was removed."""
        self._fusible.pop(i, None)
        self._failing.pop(i, None)
        for o in i.operands:
            known = self._failing.get(o)
            if known is not None:
                known.pop(i, None)
        self.model.invalidate(i)

    # -- reporting decisions -----------------------------------------------------------------------

    def _tell_all(self, producer: HloInstruction) -> None:
        """Report that fusing a producer would cost time."""
        for u in producer.users:
            if not _is_fusible_bitcast(u):
                self._tell(PriorityFusionEdge(producer, u, self), None)

    def _tell(self, edge: PriorityFusionEdge, failed: int | None) -> None:
        """Report an edge's decision with the conditions checked; skip repeated answers."""
        conditions: list[Condition[Any]] = [*self._conditions(edge.producer, edge.consumer)]
        if failed is None:
            conditions.append(_SAVES)
            failed = None if self._priorities[edge.producer] >= 0 else len(conditions) - 1
        to_the_end = self._is_asked(edge)
        predicates = predicates_of(conditions, failed, edge, to_the_end=to_the_end)
        names = (edge.producer.name, edge.consumer.name)
        said = (failed is None, predicates)
        if self._said.get(names) == said:
            return
        self._said[names] = said
        emit(Decision(current_cause(), "fuse", names, failed is None, predicates))

    def _is_asked(self, edge: PriorityFusionEdge) -> bool:
        if not self._asked:
            return False
        inside = self._inside.get(edge.consumer, frozenset((edge.consumer.name,)))
        return edge.producer.name in self._asked and not inside.isdisjoint(self._asked)


@dataclass(frozen=True, slots=True)
class _PriorityUpdate:
    """An operand's new consumers, and its times with those that were fused into them."""

    new: list[HloInstruction]
    gone: Times


def _is_small_constant(i: HloInstruction) -> bool:
    return i.opcode is O.CONSTANT and isinstance(i.shape, ArrayShape) and i.shape.element_count <= 1
