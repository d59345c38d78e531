"""Worklist: which instructions of a computation a set of rules must visit.

A rule depends on its root, on a few levels of operands, and on their users. An instruction on which
no rule fired stays as it is until one of them changes. So the second walk over a computation, and
each later run of the pass, only visits instructions near a change.
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
    (O.SELECT, O.MAXIMUM, O.MINIMUM, O.BROADCAST, O.RESHAPE, O.TRANSPOSE, O.SLICE, O.REVERSE,
     O.AND, O.REMAINDER, O.CONVERT)
)  # fmt: skip
_USERS_REACH = 2
"""The most steps from an instruction to an operand whose users are counted."""
_MANY = 3
"""If more than one in this many changed, visiting all is no slower."""
_NOT_COUNTED = frozenset((O.CONSTANT, O.IOTA))
"""Opcodes of frequent operands whose users no rule counts."""


class Worklist:
    """The instructions of `computation` that `reader`, a set of rules with its options, must visit.

    All of them if it has not visited the computation before, or if most of it changed since.
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
            self._mark_neighbors(changes)

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
        """Add a visited instruction, and those near the changes that the visit made."""
        if self._pending is None:  # this walk visits everything
            self._visited.append(visited)
        else:
            self._pending.add(visited)
            self._take_changes()

    def _take_changes(self) -> None:
        changes = self._computation.changes(self._reader)
        if changes is None:
            self._pending = set(self._computation)
        else:
            self._mark_neighbors(changes)

    def forget(self) -> None:
        """Make the next worklist visit everything, since this one was not completed."""
        self._computation.changes(None)

    def _mark_neighbors(self, changes: InstructionChanges) -> None:
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
    """Add broadcasts near `i`: their rules check their users and those users' other operands."""
    for o in i.operands:
        if o.opcode is O.BROADCAST:
            pending.add(o)


def _over_other_computations(computation: HloComputation, version: int) -> list[HloInstruction]:
    """The callers of computations that changed after `version`, and all conditionals.

    The rules of a conditional also depend on what its branches call.
    """
    if computation.module.version == version:
        return []
    return [
        i
        for i in computation
        if i.opcode.may_call and (i.opcode is O.CONDITIONAL or any(c.version > version for c in i.called_computations))
    ]
