"""Order of two values implied by dependencies (DependencyHloOrdering).

Source: xla/hlo/analysis/hlo_ordering.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.dataflow import HloUse, HloValue, can_share
from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O

_LOOPS = frozenset((O.WHILE, O.CALL, O.CONDITIONAL))


class DependencyHloOrdering:
    """Orders the instructions of a module by data and control dependencies.

    Each computation must be called once.
    """

    def __init__(self, module: HloModule) -> None:
        graph = CallGraph(module)
        self._caller = {c: sites[0].instruction for c, sites in graph.callers.items() if sites}
        self._reachability: dict[HloComputation, HloReachabilityMap] = {}

    def is_defined_before(self, a: HloValue, b: HloValue) -> bool:
        """Whether `a` is defined before `b`.

        A phi of a body is defined first in the body, that of a loop after the whole body.
        """
        if b.is_entry_parameter:
            return False
        if a.is_entry_parameter:
            return True
        x, y = a.instruction, b.instruction
        starts_a, starts_b = (v.is_phi and v.instruction.opcode is O.PARAMETER for v in (a, b))
        if starts_a and not starts_b and self.is_nested(y, x.parent):
            return True
        if starts_b and not starts_a and self.is_nested(x, y.parent):
            return False
        if b.is_phi and y.opcode in _LOOPS and self._is_within(x, y):
            return True
        return self.executes_before(x, y)

    def use_is_before(self, use: HloUse, value: HloValue) -> bool:
        """Whether a use ends before `value` is written."""
        user, writer = use.instruction, value.instruction
        if user is writer:
            return user.opcode is O.WHILE or can_share(use, value)
        if user.opcode in _LOOPS and self._is_within(writer, user):
            return True  # operands of a loop or call are read at its start
        if value.is_phi and writer.opcode in _LOOPS and self._is_within(user, writer):
            return True
        if self._is_exclusive(user, writer):
            return True
        return self.executes_before(user, writer)

    def executes_before(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether `a` ends before `b` begins, wherever in the program they are."""
        x, y, through = self._in_common_computation(a, b)
        if x is None or y is None:
            return False
        if x is y:
            if through is None:
                return False
            first, second = through
            if x.opcode is O.WHILE:
                return first is x.attributes["condition"] and second is x.attributes["body"]
            called = x.called_computations
            return x.opcode is O.CONDITIONAL and called.index(first) < called.index(second)
        return self._map(x.parent).is_reachable(x, y)

    def is_nested(self, i: HloInstruction, computation: HloComputation) -> bool:
        """Whether an instruction is in a computation or in one that it calls, directly or not."""
        return any(c is computation for c, _ in self._climb(i))

    def _is_within(self, i: HloInstruction, caller: HloInstruction) -> bool:
        return any(self.is_nested(i, c) for c in caller.called_computations)

    def _is_exclusive(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether they are in different branches of a conditional, so that only one can run."""
        x, y, through = self._in_common_computation(a, b)
        return x is y and x is not None and x.opcode is O.CONDITIONAL and through is not None

    def _climb(self, i: HloInstruction) -> Iterator[tuple[HloComputation, HloInstruction]]:
        at: HloInstruction | None = i
        while at is not None:
            yield at.parent, at
            at = self._caller.get(at.parent)

    def _in_common_computation(
        self, a: HloInstruction, b: HloInstruction
    ) -> tuple[HloInstruction | None, HloInstruction | None, tuple[HloComputation, HloComputation] | None]:
        """The instructions of the nearest common computation that contain `a` and `b`.

        If they are the same instruction, also its two called computations that contain `a` and `b`.
        """
        above = dict(self._climb(a))
        below: HloComputation | None = None
        for c, y in self._climb(b):
            x = above.get(c)
            if x is None:
                below = c
                continue
            if x is not y or below is None:
                return x, y, None
            holds_a = next((d for d, _ in self._climb(a) if self._caller.get(d) is x), None)
            return x, y, None if holds_a is None else (holds_a, below)
        return None, None, None

    def _map(self, c: HloComputation) -> HloReachabilityMap:
        found = self._reachability.get(c)
        if found is None:
            found = self._reachability[c] = HloReachabilityMap(c)
        return found
