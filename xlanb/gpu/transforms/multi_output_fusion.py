"""Merge fusions that read the same arrays into one multi-output kernel (multi_output_fusion.cc).

    a = f32[8] fusion(x), calls={exp}
    b = f32[8] fusion(x), calls={log}
    =>  f = (f32[8], f32[8]) fusion(x), calls={ROOT tuple(exp, log)}
        a = f#0, b = f#1

Siblings are two consumers of one array with no path between them. A producer is fused into one
consumer even if others use it: its result becomes one of the fusion's. SIBLING_CONDITIONS and
PRODUCER_CONDITIONS list what must hold, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from xlanb.conditions import Condition, asked_names, first_failing, objecting, predicates_of
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.model.fusible import (
    budget_objection,
    is_custom_fusion,
    is_input_fusible,
    is_loop_fusion,
    is_multi_output_root,
    loop_objection,
    producer_objection,
)
from xlanb.gpu.model.in_place import updated_operands
from xlanb.gpu.model.performance_model import PerformanceModel
from xlanb.gpu.model.run_time import microseconds
from xlanb.gpu.reductions import is_reduction_of_rows_or_columns
from xlanb.gpu.transforms.priority_fusion import fusible_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, TupleShape
from xlanb.tracing import Decision, because, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion.instruction_fusion import is_effective_scalar
from xlanb.transforms.fusion_editing import create_fusion, fuse_into_multi_output

_FILE = "xlanb/gpu/transforms/multi_output_fusion.py"
_SMALL_BYTES: Final = 1024
"""Smaller arrays are shared even by consumers of different slices."""


@dataclass(frozen=True)
class MultiOutputFusion(HloPass):
    """Fuses siblings, and producers into one of their consumers."""

    name = "multi_output_fusion"

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))
    """The GPU of the cost model."""

    def apply(self, module: HloModule) -> None:
        for c in fusible_computations(module):
            _MultiOutputRun(c, self.device).fuse_all()


# -- conditions ------------------------------------------------------------------------------------


@dataclass(slots=True)
class FusionPair:
    """Two siblings that read `shared`, or a producer (`first`) and its consumer (`second`)."""

    first: HloInstruction
    second: HloInstruction
    shared: HloInstruction
    run: _MultiOutputRun


def _path(p: FusionPair) -> str:
    for a, b in ((p.first, p.second), (p.second, p.first)):
        if p.run.is_reachable(a, b):
            return f"{b.name} depends on {a.name}"
    return ""


def _cycle(p: FusionPair) -> str:
    others = [o for o in p.second.operands if o is not p.first and p.run.is_reachable(p.first, o)]
    return f"{others[0].name} depends on {p.first.name}" if others else ""


def _slices(p: FusionPair) -> str:
    if not isinstance(p.shared.shape, ArrayShape) or p.shared.shape.byte_size < _SMALL_BYTES:
        return ""
    first, second = unique_slice(p.shared, p.first), unique_slice(p.shared, p.second)
    if first is None or second is None:
        return ""
    boxes = zip(first.attributes["slice"], second.attributes["slice"], strict=True)
    apart = any(a.start >= b.limit or b.start >= a.limit for a, b in boxes)
    return f"they read different slices of {p.shared.name}" if apart else ""


def unique_slice(shared: HloInstruction, i: HloInstruction) -> HloInstruction | None:
    """Return the only slice through which an instruction or fusion uses an array, or None."""
    if i.opcode is O.SLICE:
        return i
    if i.opcode is not O.FUSION:
        return None
    uses = [p for o, p in zip(i.operands, i.fused_computation.parameters, strict=True) if o is shared]
    if len(uses) != 1 or uses[0].user_count != 1:
        return None
    return unique_slice(uses[0], uses[0].users[0])


def _updates(p: FusionPair) -> str:
    for i in (p.first, p.second):
        if i.opcode is O.FUSION and i.fused_computation.root.opcode is O.DYNAMIC_UPDATE_SLICE:
            return f"{i.name} updates an array in place"
    return ""


def _saved(p: FusionPair) -> str:
    times = p.run.model.multi_output_times(p.first, p.second)
    return f"{microseconds(times.saved):g} us: {times}"


_ONE_LOOP: Condition[FusionPair] = objecting("both have the same loop", lambda p: loop_objection(p.first, p.second))
_BUDGET: Condition[FusionPair] = objecting(
    "kernel fits in shared memory, registers and parameters",
    lambda p: budget_objection(p.first, p.second, p.run.device),
)

SIBLING_CONDITIONS: tuple[Condition[FusionPair], ...] = (
    objecting("no path between them", _path),
    _ONE_LOOP,
    objecting("they read the same slice", _slices),
    objecting("neither updates in place", _updates),
    _BUDGET,
)
"""Conditions for fusing two siblings."""

PRODUCER_CONDITIONS: tuple[Condition[FusionPair], ...] = (
    objecting(
        "producer's elements can be computed in a loop",
        lambda p: producer_objection(p.first, is_in_place=bool(updated_operands(p.first))),
    ),
    Condition(
        "consumer can be one of several results",
        lambda p: is_multi_output_root(p.second),
        lambda p: str(p.second.opcode),
    ),
    _ONE_LOOP,
    objecting("fusing creates no cycle", _cycle),
    _BUDGET,
    Condition(
        "code is small enough",
        lambda p: not p.run.model.costs.merged_is_too_large(p.first, p.second),
        lambda p: f"{p.run.model.costs.merged_size(p.first, p.second)} instructions would be emitted",
    ),
    Condition(
        "fusing saves time",
        lambda p: p.run.model.multi_output_times(p.first, p.second).saved >= 0,
        _saved,
    ),
)
"""Conditions for fusing a producer and a consumer."""


def is_sibling_candidate(i: HloInstruction) -> bool:
    """Whether an instruction may join a fusion of siblings."""
    if not i.users or not is_multi_output_root(i) or _is_nestable_variadic_reduction(i):
        return False
    if not isinstance(i.shape, TupleShape):
        return True
    return all(u.opcode is O.GET_TUPLE_ELEMENT for u in i.users)


def _is_nestable_variadic_reduction(i: HloInstruction) -> bool:
    """Whether a variadic reduction is computed in a loop."""
    if not isinstance(i.shape, TupleShape):
        return False
    if i.opcode is O.REDUCE:
        return not is_reduction_of_rows_or_columns(i)
    return is_loop_fusion(i) and i.fused_computation.root.opcode is O.REDUCE


def _is_multi_output(i: HloInstruction) -> bool:
    return i.opcode is O.FUSION and isinstance(i.shape, TupleShape)


def _preference(i: HloInstruction) -> int:
    """Rank multi-output fusions first, then other fusions, then other instructions."""
    return 2 if _is_multi_output(i) else int(i.opcode is O.FUSION)


# -- one run ---------------------------------------------------------------------------------------


class _MultiOutputRun:
    """One run on one computation."""

    def __init__(self, computation: HloComputation, device: GpuDevice) -> None:
        self.computation = computation
        self.device: GpuDevice = device
        self.model: PerformanceModel = PerformanceModel(device)
        self._observed = is_observed()
        self._asked = asked_names()
        self._places: dict[HloInstruction, int] = {}

    def fuse_all(self) -> None:
        """Visit users before producers: fuse each one's sibling users, then it into a consumer."""
        order = self.computation.post_order()
        self._places = {i: n for n, i in enumerate(order)}
        for producer in reversed(order):
            if producer not in self.computation or producer.opcode is O.CONSTANT or is_custom_fusion(producer):
                continue
            if not is_effective_scalar(producer.shape):
                self._fuse_siblings(producer)
            consumer = self._consumer_for(producer)
            if consumer is not None:
                self._fuse_producer(producer, consumer)

    def is_reachable(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether `b` depends on `a`."""
        stack, seen = [b], {b}
        while stack:
            i = stack.pop()
            if i is a:
                return True
            for o in (*i.operands, *i.control_predecessors):
                if o not in seen:
                    seen.add(o)
                    stack.append(o)
        return False

    def _fuse_siblings(self, shared: HloInstruction) -> None:
        # XLA orders users by when fusions absorbed them. Of several fusions with the same producer,
        # the latest comes first.
        siblings = sorted(filter(is_sibling_candidate, shared.users[::-1]), key=_preference, reverse=True)
        n = 0
        while n < len(siblings):
            first = siblings[n]
            n += 1
            if first.opcode is not O.FUSION:
                continue
            for second in siblings[n:]:
                if self._holds("fuse siblings", SIBLING_CONDITIONS, FusionPair(first, second, shared, self)):
                    self._merge("fuse siblings", first, second)
                    siblings.remove(second)

    def _consumer_for(self, producer: HloInstruction) -> HloInstruction | None:
        """Return the consumer that a producer is fused into, or None."""
        users = producer.users
        if len(users) == 1 and not _is_multi_output(users[0]):
            return None  # priority-fusion has decided this
        found = [u for u in users if self._holds("fuse", PRODUCER_CONDITIONS, FusionPair(producer, u, producer, self))]
        return max(found, key=_preference, default=None)

    def _fuse_producer(self, producer: HloInstruction, consumer: HloInstruction) -> None:
        fusion = consumer
        if consumer.opcode is not O.FUSION:
            self._invalidate(consumer)
            kind = "kInput" if is_input_fusible(consumer) or is_input_fusible(producer) else "kLoop"
            with self._cause("fuse", producer, consumer):
                fusion = create_fusion(consumer, kind)
        self._merge("fuse", fusion, producer)

    def _merge(self, rule: str, fusion: HloInstruction, other: HloInstruction) -> None:
        """Fuse an instruction into a fusion, which then also returns its result."""
        self._invalidate(fusion)
        self._invalidate(other)
        kind = "kInput" if rule == "fuse siblings" and other.get("kind") == "kInput" else fusion.get("kind")
        with self._cause(rule, other, fusion):
            fuse_into_multi_output(fusion, other)
            if fusion.get("kind") != kind:
                self.computation.update(fusion, attributes={"kind": kind})

    def _invalidate(self, i: HloInstruction) -> None:
        self.model.invalidate(i)
        self.model.costs.forget(i)

    def _cause(self, rule: str, a: HloInstruction, b: HloInstruction) -> because:
        parts = (("producer" if rule == "fuse" else "sibling", a.name), ("fusion", b.name))
        return because(rule=rule, where=f"{_FILE}:{_MultiOutputRun._merge.__code__.co_firstlineno}", parts=parts)

    # -- reporting decisions -----------------------------------------------------------------------

    def _holds(self, action: str, conditions: Sequence[Condition[Any]], pair: FusionPair) -> bool:
        """Whether all conditions hold for a pair; reported to observers."""
        failed = first_failing(conditions, pair)
        if self._observed:
            names = (pair.first.name, pair.second.name)
            predicates = predicates_of(conditions, failed, pair, to_the_end=self._asked.issuperset(names))
            emit(Decision(current_cause(), action, names, failed is None, predicates))
        return failed is None
