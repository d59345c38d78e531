"""Find the producers that can be fused into all of their users.

p = f32[8] add(x, y)          p can be fused into c, and c and p into u, but not into d. Since p is
c = f32[8] tanh(p)            stored for d in any case, fusing it into c and u would only make them
u = f32[8] multiply(c, p)     read x and y instead of p.
d = f32[8] sort(p)

Source: xla/service/instruction_fusion.h: ComputeGloballyUnfusible, CanFuseOnAllPaths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction


class AllPaths:
    """Decides for the producers of a computation without fusions so far, last one first.

    Paths are walked only if an edge between a producer and its last user is refused. Walks would be
    quadratic in a chain whose values are used again much later.
    """

    def __init__(
        self,
        computation: HloComputation,
        is_fusible: Callable[[HloInstruction], bool],
        should_fuse: Callable[[HloInstruction, int], bool],
    ) -> None:
        self._computation, self._order = computation, computation.post_order()
        self._place = {i: n for n, i in enumerate(self._order)}
        self._is_fusible, self._should_fuse = is_fusible, should_fuse
        self._forbidden: set[HloInstruction] = set()
        self._refused: dict[HloInstruction, set[HloInstruction]] = {}
        self._walked: dict[tuple[HloInstruction, HloInstruction], bool] = {}
        self._reach: HloReachabilityMap | None = None
        self._lowest = len(self._order)
        self._unasked: list[int] = []
        """Positions of instructions whose users have not been checked, in descending order."""
        self._first_refusal = len(self._order)
        """The lowest position of a user that rejects a checked instruction."""

    def forbidden(self, producers: Sequence[HloInstruction]) -> set[HloInstruction]:
        """Those of `producers`, in post order, that cannot be fused into all their users."""
        for p in reversed(producers):
            if not (self._is_fusible(p) and self._vanishes(p)):
                self._forbidden.add(p)
                self._first_refusal = min([self._first_refusal, *(self._place[u] for u in p.users)])
        return self._forbidden

    def _vanishes(self, producer: HloInstruction) -> bool:
        at, last = self._place[producer], max((self._place[u] for u in producer.users), default=0)
        self._unasked += range(self._lowest - 1, at - 1, -1)
        self._lowest = at
        while self._unasked and self._unasked[-1] < last:
            self._ask_users(self._order[self._unasked.pop()])
        return self._first_refusal > last or all(self._is_fused_on_all_paths(producer, u) for u in producer.users)

    def _ask_users(self, i: HloInstruction) -> None:
        """Note the first user that refuses an instruction.

        Instructions without operands and control predecessors are on no path.
        """
        if i.operands or i.control_predecessors:
            refusing = (self._place[u] for u in i.users if i in self._refused_by(u))
            self._first_refusal = min(self._first_refusal, min(refusing, default=self._first_refusal))

    def _refused_by(self, consumer: HloInstruction) -> set[HloInstruction]:
        """The operands that must not be fused into a consumer."""
        found = self._refused.get(consumer)
        if found is None:
            accepts = self._is_fusible(consumer)
            found = self._refused[consumer] = {
                o
                for n, o in enumerate(consumer.operands)
                if not (accepts and self._is_fusible(o) and self._should_fuse(consumer, n))
            }
        return found

    def _is_fused_on_all_paths(self, producer: HloInstruction, consumer: HloInstruction) -> bool:
        """Whether `producer` can be fused into `consumer` along every path between them."""
        todo = [consumer]
        while todo:
            c = todo.pop()
            if c is producer or (known := self._walked.get((producer, c))) is True:
                continue
            on_path = None if known is False else self._on_path(producer, c)
            if on_path is None:
                self._walked[producer, c] = self._walked[producer, consumer] = False
                return False
            todo += on_path
            # Instructions in `todo` may still fail, so only a failure is final. True marks this
            # path as walked.
            self._walked[producer, c] = True
        return True

    def _on_path(self, producer: HloInstruction, consumer: HloInstruction) -> list[HloInstruction] | None:
        """The operands that depend on `producer`; None if one of them cannot be fused."""
        refused, found = self._refused_by(consumer), []
        if producer in refused:  # a tuple of all results refuses hundreds
            return None
        for o in dict.fromkeys(consumer.operands):
            if self._leads(producer, o):
                if o in self._forbidden or o in refused:
                    return None
                found.append(o)
        return found

    def _leads(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether `b` depends on `a`.

        The reachability map, quadratic in bits, is built only if the post order does not answer.
        """
        if a is b:
            return True
        if self._place[a] > self._place[b] or not (b.operands or b.control_predecessors):
            return False
        if self._reach is None:
            self._reach = HloReachabilityMap(self._computation)
        return self._reach.is_reachable(a, b)
