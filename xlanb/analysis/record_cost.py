"""The cost of the instructions of a snapshot, by `xlanb.analysis.cost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, cast

from xlanb.analysis.cost import CostCounter, known_trip_count
from xlanb.analysis.while_loop import trip_count
from xlanb.hlo.attributes import Window
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationName, ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import Literal

Counts = tuple[float, float]

BALANCE: Final = 16.0
"""The number of floating-point operations that take about as long as moving one byte."""


class RecordCosts:
    """Floating-point operations and bytes of each instruction of a module's snapshot.

    Transcendental functions count as operations. Costs are computed on first use.
    """

    def __init__(self, module: ModuleRecord, known: dict[int, tuple[InstructionRecord, Counts]] | None = None) -> None:
        """`known` caches costs by record: the snapshots of a compilation share most records."""
        self._counted = {} if known is None else known
        self._counter = _LoopCosts()
        self._computations: dict[str, _Computation] = {}
        for c in module.computations:
            self._computations[c.name] = _Computation(c, self._computations)

    def of(self, computation: str) -> list[Counts]:
        """(operations, bytes) of each instruction of a computation, in order, per run.

        A loop counts as often as its body executes. An instruction without the data needed to count
        it (in a snapshot of a text that does not make a module) costs the bytes of its result.
        """
        found = []
        inside = self._computations[computation]
        for k, record in enumerate(inside.record.instructions):
            known = self._counted.get(id(record))
            if known is None:
                # keep the record too: an id is unique only while its object lives
                known = self._counted[id(record)] = record, self._count(inside.instructions[k])
            found.append(known[1])
        return found

    def trips(self, computation: str) -> dict[int, int]:
        """The known trip counts of a computation's loops, by their position."""
        inside = self._computations[computation]
        loops = [k for k, r in enumerate(inside.record.instructions) if r.opcode is HloOpcode.WHILE]
        counts = {k: self._counter.trips(cast("HloInstruction", inside.instructions[k])) for k in loops}
        return {k: n for k, n in counts.items() if n is not None}

    def _count(self, i: _Instruction) -> Counts:
        try:
            flops, size, transcendentals = self._counter.cost(cast("HloInstruction", i))
        except (AttributeError, IndexError, KeyError, StopIteration, ValueError):
            return 0, i.shape.byte_size
        return flops + transcendentals, size


class _LoopCosts(CostCounter):
    """Also counts loops whose trip count no pass has annotated yet."""

    def trips(self, loop: HloInstruction) -> int | None:
        known = known_trip_count(loop)
        if known is not None:
            return known
        try:
            return trip_count(loop)
        # a snapshot of a text that does not make a module
        except (AttributeError, IndexError, KeyError, ValueError):
            return None


class _Computation:
    """A computation's record with the interface that `_LoopCosts` needs."""

    def __init__(self, record: ComputationRecord, known: Mapping[str, _Computation]) -> None:
        self.record = record
        self._known = known

    @cached_property
    def instructions(self) -> list[_Instruction]:
        """Its instructions, with operands resolved by name."""
        by_name: dict[str, _Instruction] = {}
        made = []
        for r in self.record.instructions:
            by_name[r.name] = _Instruction(r, by_name, self._known)
            made.append(by_name[r.name])
        return made

    def __iter__(self) -> Iterator[_Instruction]:
        return iter(self.instructions)

    @property
    def root(self) -> _Instruction:
        return next(i for i in reversed(self.instructions) if i.is_root)


class _Instruction:
    """An instruction's record with the interface that `_LoopCosts` needs."""

    def __init__(
        self, record: InstructionRecord, by_name: Mapping[str, _Instruction], known: Mapping[str, _Computation]
    ) -> None:
        self.opcode = record.opcode
        self.shape = record.shape
        self.operands = [by_name[o] for o in record.operands if o in by_name]
        self.backend_config = record.backend_config
        self.is_root = record.is_root
        self._record = record
        self._known = known

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        called = self._record.called_computations if self.opcode.may_call else ()
        return tuple(cast("HloComputation", self._known[c]) for c in called if c in self._known)

    @property
    def attributes(self) -> dict[str, Any]:
        given = self._record.attributes
        return {k: self._known[v.name] if isinstance(v, ComputationName) else v for k, v in given.items()}

    def get(self, name: str) -> Any:
        """An attribute; None if absent."""
        return self._record.attributes.get(name)

    @property
    def literal(self) -> Literal:
        return cast("Literal", self._record.attributes["literal"])

    @property
    def tuple_index(self) -> int:
        return cast("int", self._record.attributes["index"])

    def ints(self, name: str) -> tuple[int, ...]:
        """A list-of-integers attribute; empty if absent."""
        value: tuple[int, ...] = self._record.attributes.get(name) or ()
        return value

    @property
    def dimensions(self) -> tuple[int, ...]:
        return self.ints("dimensions")

    @property
    def window(self) -> Window:
        return self._record.attributes.get("window") or Window()

    @property
    def to_apply(self) -> HloComputation:
        return cast("HloComputation", self.attributes["to_apply"])
