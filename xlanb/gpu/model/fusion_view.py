"""View one or two instructions as one fusion, without creating it.

Follows HloFusionAdaptor of xla/hlo/utils/hlo_traversal.h.

    view = FusionView(producer, consumer)
    view.roots        the fusion's results
    view.parameters   what it reads
    view.operands(i)  the operands of an instruction inside; fusion parameters are resolved

A single instruction is a fusion of itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O

_HIDDEN = frozenset((O.PARAMETER, O.TUPLE, O.GET_TUPLE_ELEMENT))


class FusionView:
    """A producer and its consumer, or one instruction, as one fusion; each may be a fusion itself.

    With `keeps_producer`, results of the producer that others use are results of the fusion too.
    """

    def __init__(self, *parts: HloInstruction, keeps_producer: bool = False) -> None:
        self.parts = parts
        self._fusions = {p.fused_computation: p for p in parts if p.opcode is O.FUSION}
        self._singles = frozenset(p for p in parts if p.opcode is not O.FUSION)
        self.roots = self._all_roots(keeps_producer)

    def contains(self, i: HloInstruction) -> bool:
        """Whether an instruction is one of the parts, or within one."""
        return i in self._singles or i.parent in self._fusions

    def operands(self, i: HloInstruction) -> tuple[HloInstruction, ...]:
        """Return the operands as the fusion has them: inside it, or outside and read by it."""
        if i.opcode is O.PARAMETER:
            found = self.resolve(i)
            return () if found is i else (found,)
        return tuple(self.resolve(o) for o in i.operands)

    def resolve(self, operand: HloInstruction) -> HloInstruction:
        """Return what an operand of an instruction inside refers to."""
        i = operand
        while True:
            if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0].opcode is O.FUSION:
                root = i.operands[0].fused_computation.root
                if root.opcode is O.TUPLE and self.contains(root):
                    return root.operands[i.tuple_index]
            if not self.contains(i):
                inside = i.opcode is O.FUSION and i.fused_computation in self._fusions
                return i.fused_computation.root if inside else i
            fusion = self._fusions.get(i.parent) if i.opcode is O.PARAMETER else None
            if fusion is None:
                return i
            i = fusion.operands[i.parameter_number]

    def users(self, i: HloInstruction) -> list[HloInstruction]:
        """Return the users inside of an instruction inside, or of one that the fusion reads."""
        found: list[HloInstruction] = []
        fusion = self._fusions.get(i.parent)
        if fusion is not None and i.is_root:
            for user in fusion.users:
                self._resolve_user(fusion, user, found)
        for user in i.users:
            self._resolve_user(i, user, found)
        return found

    def _resolve_user(self, used: HloInstruction, user: HloInstruction, found: list[HloInstruction]) -> None:
        if user.opcode is O.TUPLE and user.is_root and user.parent in self._fusions:
            for outer in self._fusions[user.parent].users:
                if outer.opcode is O.GET_TUPLE_ELEMENT:
                    for u in outer.users:
                        self._resolve_user(outer, u, found)
                elif self.contains(outer):
                    found.append(outer)
        elif self.contains(user):
            found.append(user)
        elif user.opcode is O.FUSION and user.fused_computation in self._fusions:
            parameter = user.fused_computation.parameters[user.operands.index(used)]
            found.extend(parameter.users)

    @property
    def parameters(self) -> list[HloInstruction]:
        """What the fusion reads, in the order of the created fusion's operands.

        Each is listed once if there are two parts.
        """
        if len(self.parts) == 1:
            return list(self.parts[0].operands)
        producer, consumer = self.parts
        found = [o for o in consumer.operands if _producer_of(o) is not producer]
        skipped = set()
        for root in _roots_of(producer):
            if root.opcode is O.PARAMETER and root.user_count <= 1 and root is not producer:
                skipped.add(producer.operands[root.parameter_number])
        seen = set(found)
        for o in producer.operands:
            if o not in skipped and o not in seen:
                seen.add(o)
                found.append(o)
        return found

    def nodes(self) -> Iterator[HloInstruction]:
        """Yield the instructions inside, without parameters and tuples."""
        for part in self.parts:
            if part.opcode is O.FUSION:
                yield from (i for i in part.fused_computation if i.opcode not in _HIDDEN)
            else:
                yield part

    @cached_property
    def opcodes(self) -> frozenset[O]:
        """The opcodes of the instructions inside."""
        return frozenset(i.opcode for i in self.nodes())

    def walk(
        self,
        start: Iterable[HloInstruction],
        step: Callable[[HloInstruction], Iterable[HloInstruction]],
        advances: Callable[[HloInstruction], bool] = lambda _: True,
    ) -> Iterator[HloInstruction]:
        """Walk instructions inside breadth-first; `advances` decides where to continue."""
        queue = deque(dict.fromkeys(start))
        seen = set(queue)
        while queue:
            i = queue.popleft()
            yield i
            if not advances(i):
                continue
            for n in step(i):
                if n not in seen and self.contains(n):
                    seen.add(n)
                    queue.append(n)

    def _all_roots(self, keeps_producer: bool) -> tuple[HloInstruction, ...]:
        roots = _roots_of(self.parts[-1])
        if len(self.parts) == 1:
            return tuple(roots)
        producer, consumer = self.parts
        given = _roots_of(producer)
        for n, root in enumerate(roots):
            if root.opcode is O.PARAMETER and consumer.opcode is O.FUSION:
                operand = consumer.operands[root.parameter_number]
                if _producer_of(operand) is producer:
                    index = operand.tuple_index if operand.opcode is O.GET_TUPLE_ELEMENT else 0
                    roots[n] = given[index]
        if not keeps_producer:
            return tuple(roots)
        used = {_index_outside(user, consumer) for user in producer.users}
        kept = (r for n, r in enumerate(given) if n in used and r.opcode is not O.PARAMETER)
        return (*roots, *kept)


def _index_outside(user: HloInstruction, consumer: HloInstruction) -> int | None:
    """Return which result of a producer a user other than the consumer takes."""
    if user.opcode is O.GET_TUPLE_ELEMENT:
        return user.tuple_index if any(u is not consumer for u in user.users) else None
    return None if user is consumer else 0


def _producer_of(operand: HloInstruction) -> HloInstruction:
    return operand.operands[0] if operand.opcode is O.GET_TUPLE_ELEMENT else operand


def _roots_of(i: HloInstruction) -> list[HloInstruction]:
    """Return an instruction's results, all leaves of nested tuples."""
    if i.opcode is not O.FUSION:
        return [i]
    roots, stack = [], [i.fused_computation.root]
    while stack:
        root = stack.pop()
        if root.opcode is O.TUPLE:
            stack.extend(reversed(root.operands))
        else:
            roots.append(root)
    return roots
