"""Estimate what a way to partition costs (EvaluatePartitionCost).

Tries it in a separate module and counts bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.replica_groups import replica_groups
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.partitioner.builder import SpmdBuilder
from xlanb.spmd.partitioner.causes import Causes
from xlanb.spmd.partitioner.collectives import Channels
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.state import PartitioningState, ReshardCache
from xlanb.spmd.partitioner.utilities import set_sharding, shape_size_in_bytes

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

_O = HloOpcode
_COLLECTIVES = frozenset(
    (_O.ALL_REDUCE, _O.ALL_GATHER, _O.ALL_TO_ALL, _O.COLLECTIVE_PERMUTE, _O.COLLECTIVE_BROADCAST, _O.REDUCE_SCATTER)
)
_IN_PLACE = frozenset((_O.ALL_REDUCE, _O.DYNAMIC_UPDATE_SLICE, _O.SCATTER, _O.WHILE, _O.TUPLE))
"""Opcodes whose result reuses an operand's buffer."""

Cost = tuple[int, int]
"""Bytes of the largest gather, scatter or collective, and bytes that all collectives send."""

IMPOSSIBLE: Cost = (2**63 - 1, 2**63 - 1)


class PartitionCase(Protocol):
    """Something to partition in one of several ways."""

    @property
    def state(self) -> PartitioningState:
        """The partitioner's state for it."""

    @property
    def source(self) -> HloInstruction:
        """The instruction of the source program."""

    def dry(self, run: DryRun) -> Any:
        """Return a copy whose operands are parameters of another module, not to be split again."""


C = TypeVar("C", bound=PartitionCase)
Way = Callable[[C], "HloInstruction | None"]


class DryRun:
    """A module for trying a way to partition.

    Channel ids continue to count, as in XLA, but record no causes.
    """

    def __init__(self, state: PartitioningState) -> None:
        self._channels = state.collectives.channels
        module = HloModule("dry_run")
        self._b = SpmdBuilder(module.add_computation("entry", entry=True))
        fake_channels = Channels(Causes(is_trial=True), self._channels.next)
        collectives = replace(state.collectives, b=self._b, channels=fake_channels)
        self._state = replace(
            state,
            b=self._b,
            collectives=collectives,
            partition_id=collectives.partition_id(),
            causes=fake_channels.causes,
            reshard_cache=ReshardCache(),
        )

    def parameter(self, phlo: PartitionedHlo) -> PartitionedHlo:
        """Add a parameter in place of an operand."""
        number = len(self._b.computation.parameters)
        parameter = self._b.add(_O.PARAMETER, (), phlo.hlo.shape, parameter_number=number)
        set_sharding(parameter, phlo.sharding)
        return PartitionedHlo(parameter, phlo.base_shape, self._state)

    def cost(self, way: Way[C], case: C, opcode: HloOpcode) -> Cost:
        """Return what `way` costs, or IMPOSSIBLE if it cannot partition the case."""
        root = way(case)
        self._channels.next = self._state.collectives.channels.next
        if root is None:
            return IMPOSSIBLE
        memory = sent = 0
        for hlo in _live(root):
            if hlo.opcode is opcode or hlo.opcode in _COLLECTIVES:
                memory = max(memory, memory_cost_in_bytes(hlo))
            if hlo.opcode in _COLLECTIVES:
                sent += communication_cost_in_bytes(hlo, self._state.num_partitions)
        return (memory, sent) if memory else IMPOSSIBLE


@dataclass(frozen=True)
class PartitionEstimate(Generic[C]):
    """A way to partition, its cost, and the costs of all ways, by name."""

    name: str
    way: Way[C]
    cost: Cost
    all_costs: tuple[tuple[str, int], ...] = ()

    def as_cause(self, case: C) -> AbstractContextManager[None]:
        """Let collectives made in this block have these estimates as their cause."""
        hlo = case.source
        reason = f"{hlo.opcode} is partitioned by {self.name}"
        return case.state.because(hlo, None, None, None, reason, estimates=self.all_costs)


def cheapest_first(
    ways: Sequence[tuple[str, Way[C]]], case: C, opcode: HloOpcode, preferred: Sequence[str]
) -> list[PartitionEstimate[C]]:
    """Return the ways, by name and function, cheapest first; preferred ways cost nothing."""
    found = []
    for name, way in ways:
        cost: Cost = (0, 0)
        if name not in preferred:
            run = DryRun(case.state)
            cost = run.cost(way, case.dry(run), opcode)
        found.append(PartitionEstimate(name, way, cost))
    known = [e for e in found if e.name not in preferred and e.cost != IMPOSSIBLE]
    memory = [(f"memory of {e.name}", e.cost[0]) for e in known]
    sent = [(f"sent by {e.name}", e.cost[1]) for e in known]
    return [replace(e, all_costs=(*memory, *sent)) for e in sorted(found, key=lambda e: e.cost)]


def _live(root: HloInstruction) -> Iterator[HloInstruction]:
    """Return every instruction that a result depends on."""
    seen, stack = {root}, [root]
    while stack:
        hlo = stack.pop()
        yield hlo
        for operand in hlo.operands:
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)


def memory_cost_in_bytes(hlo: HloInstruction) -> int:
    """Return bytes of operands and result, or of the operands only if the result reuses one."""
    operands = sum(shape_size_in_bytes(o.shape) for o in hlo.operands)
    return operands if hlo.opcode in _IN_PLACE else operands + shape_size_in_bytes(hlo.shape)


def communication_cost_in_bytes(hlo: HloInstruction, num_partitions: int) -> int:
    """Return the bytes that a device sends and receives for a collective."""
    size = shape_size_in_bytes(hlo.shape)
    if hlo.opcode is _O.ALL_REDUCE:
        return 2 * size
    if hlo.opcode is _O.COLLECTIVE_PERMUTE:
        return size
    if hlo.opcode is _O.ALL_GATHER:
        dim = hlo.dimensions[0]
        count = hlo.array_shape.dimensions[dim] // hlo.operands[0].array_shape.dimensions[dim]
        return size * (count - 1) // count
    if hlo.opcode is _O.ALL_TO_ALL:
        groups = replica_groups(hlo.attributes.get("replica_groups") or "{}")
        count = len(groups[0]) if groups else num_partitions
        return size * (count - 1) // count
    return 0
