"""Worklist: which instructions of a computation a set of rules has to look at.

A rule sees its root, what the root is computed from, a few steps deep, and who uses these. An instruction on which no rule fired stays as it is until
one of them changes, so that the second walk over a computation, and each later run of the pass, need only visit what lies near a change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from xlanb.hlo.computation import HloComputation, InstructionChanges
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O

_REACH = 5
"""The most steps from user to operand in patterns and guards."""
_DEEP_REACH = 12
"""The most steps through the opcodes of _TRANSPARENT (see facts.is_non_negative)."""
_TRANSPARENT = frozenset(
    (O.SELECT, O.MAXIMUM, O.MINIMUM, O.BROADCAST, O.RESHAPE, O.TRANSPOSE, O.SLICE, O.REVERSE, O.AND, O.REMAINDER, O.CONVERT)
)  # fmt: skip
_USERS_REACH = 2
"""The most steps from an instruction to an operand whose users its rules count."""
_MANY = 3
"""If more than one in this many changed, visiting all is no slower."""
_NOT_COUNTED = frozenset((O.CONSTANT, O.IOTA))
"""Opcodes of most operands: no rule counts their users."""


class Worklist:
    """The instructions of `computation` that `reader`, a set of rules with its options, has to visit.

    All of them where it did not look at the computation before, or where most of it changed since.
    """

    __slots__ = ("_computation", "_pending", "_reader", "_visited")

    def __init__(self, computation: HloComputation, reader: Hashable) -> None:
        self._computation, self._reader = computation, reader
        self._pending: set[HloInstruction] | None = None
        self._visited: list[HloInstruction] = []
        changes = computation.changes(reader)
        if changes is not None:
            for i in _over_other_computations(computation, changes.version):
                changes.changed[i] = None
            self._pending = set()
            self._spread(changes)

    def due(self, order: Sequence[HloInstruction]) -> Iterable[HloInstruction]:
        """The instructions of `order` still to be visited; each is removed when visited."""
        if self._pending is None or len(self._pending) * _MANY > len(order):
            self._pending = None
            yield from order
            self._pending = set(self._visited)
            self._visited.clear()
            self._take_changes()
            return
        pending = self._pending
        for i in order:
            if i in pending:
                pending.discard(i)
                yield i
                pending = self._pending

    def update(self, visited: HloInstruction) -> None:
        """Put what lies near the changes that a visit made on the list, and what was visited."""
        if self._pending is None:  # in a walk that visits everything
            self._visited.append(visited)
        else:
            self._pending.add(visited)
            self._take_changes()

    def _take_changes(self) -> None:
        changes = self._computation.changes(self._reader)
        if changes is None:
            self._pending = set(self._computation)
        else:
            self._spread(changes)

    def forget(self) -> None:
        """Let the next one visit everything: this one was not worked off."""
        self._computation.changes(None)

    def _spread(self, changes: InstructionChanges) -> None:
        pending = self._pending or set()
        self._pending = pending
        level = list(changes.changed)
        seen = set(level)
        for depth in range(_DEEP_REACH + 1):
            pending.update(level)
            above: list[HloInstruction] = []
            for i in level:
                if depth < _USERS_REACH:
                    _add_broadcasts(pending, i)
                if depth < _REACH or i.opcode in _TRANSPARENT:
                    above += [u for u in i.users if u not in seen]
                    seen.update(i.users)
            level = above
        level = list(changes.recounted)
        for depth in range(_USERS_REACH + 1):
            pending.update(level)
            above = []
            for i in level:
                if not depth:
                    _add_broadcasts(pending, i)
                if i.opcode not in _NOT_COUNTED:
                    above += i.users
            level = above


def _add_broadcasts(pending: set[HloInstruction], i: HloInstruction) -> None:
    """The rules of a broadcast look at its users, and at what else these read."""
    for o in i.operands:
        if o.opcode is O.BROADCAST:
            pending.add(o)


def _over_other_computations(computation: HloComputation, version: int) -> list[HloInstruction]:
    """The instructions that call a computation which changed after a version of the module; all conditionals, which are asked what their branches call."""
    if computation.module.version == version:
        return []
    return [
        i
        for i in computation
        if i.opcode.may_call and (i.opcode is O.CONDITIONAL or any(c.version > version for c in i.called_computations))
    ]
