"""Edits that expand a parameter of a fusion, created when they are read.

A compilation has thousands of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, final

from xlanb.hlo.attributes import NO_METADATA
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord
from xlanb.shape import Shape
from xlanb.tracing import Cause, DeferredEdits, Edit, make_tuple

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


class ParameterState(NamedTuple):
    """A parameter's fields. `snapshot` is set if it has more than a name, a shape and a number."""

    name: str
    shape: Shape
    number: int
    uid: int
    snapshot: InstructionRecord | None = None

    @staticmethod
    def of(parameter: HloInstruction) -> ParameterState:
        """Return the current fields of a parameter."""
        p = parameter
        is_plain = len(p.attributes) == 1 and p.metadata is NO_METADATA and not (p.sharding or p.frontend_attributes)
        snapshot = p._record if is_plain else p.record()
        return make_tuple(ParameterState, (p.name, p.shape, p.attributes["parameter_number"], p.uid, snapshot))

    def record(self) -> InstructionRecord:
        """Return the snapshot."""
        if self.snapshot is not None:
            return self.snapshot
        number = {"parameter_number": self.number}
        return InstructionRecord(self.name, HloOpcode.PARAMETER, self.shape, attributes=number, uid=self.uid)


class CopyState(NamedTuple):
    """How a copy of an instruction differs from it."""

    name: str
    operands: tuple[str, ...]
    uid: int

    @staticmethod
    def of(copy: HloInstruction) -> CopyState:
        """Return the current fields of a copy."""
        return make_tuple(CopyState, (copy.name, tuple([o.name for o in copy.operands]), copy.uid))

    def record(self, source: InstructionRecord) -> InstructionRecord:
        """Return the snapshot, given that of the original."""
        return replace(
            source,
            name=self.name,
            operands=self.operands,
            uid=self.uid,
            control_predecessors=(),
            is_root=False,
        )


@final
class ParameterExpansion(DeferredEdits):
    """Added parameters and a copy of `source` that replaced the parameter `replaced`."""

    __slots__ = ("_added", "_computation", "_copy", "_replaced", "_source", "cause")

    def __init__(
        self,
        cause: Cause,
        computation: str,
        added: Sequence[ParameterState],
        source: InstructionRecord,
        copy: CopyState,
        replaced: ParameterState,
    ) -> None:
        self.cause = cause
        self._computation = computation
        self._added, self._source, self._copy, self._replaced = added, source, copy, replaced

    def edits(self) -> tuple[Edit, ...]:
        cause, where = self.cause, self._computation
        gone, copy = self._replaced.record(), self._copy.record(self._source)
        return (
            *[Edit(cause, "add", where, None, p.record()) for p in self._added],
            Edit(cause, "add", where, self._source, copy),
            Edit(cause, "replace", where, gone, copy),
            Edit(cause, "remove", where, gone, None),
        )
