"""The fusion decisions of the real XLA:GPU, in the form of our own: what was fused into what, or why not, with the cost before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from xlanb.dump.gpu.fusion_process import FusionStep
from xlanb.errors import XlanbError
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import Cause, Decision, Predicate

PASS = "priority-fusion"

_SAVES = "the users take less time with it than beside it"


class FusionDecisions(Sequence[Decision]):
    """The decisions of one run of priority fusion, read when they are first asked for.

    `load` gives the steps, `before` the module that the pass began with. A dump that cannot be read holds none.
    """

    def __init__(self, load: Callable[[], Sequence[FusionStep]], before: Callable[[], object]) -> None:
        self._load = load
        self._before = before

    @cached_property
    def _story(self) -> _Story:
        try:
            steps = self._load()
        except XlanbError:
            steps = ()
        return _Story(steps, self._before())

    @overload
    def __getitem__(self, index: int) -> Decision: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...

    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        return self._story.decisions[index]

    def __len__(self) -> int:
        return len(self._story.decisions)

    def holders(self, names: Iterable[str]) -> set[str]:
        """The fusions that held any of these instructions while the pass ran: most of them were fused again, and no module shows them."""
        wanted = set(names)
        return {fusion for fusion, members in self._story.members.items() if not wanted.isdisjoint(members)}


class _Story:
    """The steps in order: who was in which fusion, and what was decided last about each producer."""

    def __init__(self, steps: Sequence[FusionStep], before: object) -> None:
        self.members: dict[str, frozenset[str]] = {}
        self._root: dict[str, str] = {}
        self._users = _users(before)
        self._costs: dict[str, FusionStep] = {}
        # What something was fused into goes on under the fusion's name: nothing was decided last about the old one.
        last = {name: k for k, s in enumerate(steps) for name in _named(s)}
        self.decisions = tuple(d for k, s in enumerate(steps) for d in self._step(s, is_last=last[s.producer] == k))

    def _step(self, s: FusionStep, *, is_last: bool) -> Iterator[Decision]:
        if s.kind == "fusion":
            yield self._fused(s)
        elif s.kind == "ineligible":
            if is_last:
                yield Decision(Cause(PASS), "fuse", self._subject(s), False, (Predicate(s.reason, False),))
        else:
            self._costs[s.producer] = s
            if is_last:  # it stayed where it was
                yield Decision(Cause(PASS), "fuse", self._subject(s), False, (self._cost(s),))

    def _fused(self, s: FusionStep) -> Decision:
        consumer = s.consumers[0]
        inside = self.members.get(s.producer, frozenset((s.producer,)))
        self.members[s.fusion] = self.members.get(consumer, frozenset((consumer,))) | inside | {s.producer, consumer}
        self._root[s.fusion] = self._root.get(consumer, consumer)
        known = self._costs.get(s.producer)
        became = Predicate("they became", True, s.fusion)
        predicates = (became,) if known is None else (self._cost(known), became)
        return Decision(Cause(PASS), "fuse", (s.producer, consumer), True, predicates)

    @staticmethod
    def _cost(s: FusionStep) -> Predicate:
        count = f" for all {len(s.consumers)} users" if len(s.consumers) > 1 else ""
        return Predicate(
            _SAVES, s.us_fused < s.us_unfused, f"{s.us_fused:g} us fused, {s.us_unfused:g} us apart{count}"
        )

    def _subject(self, s: FusionStep) -> tuple[str, ...]:
        """The producer, and those that read it: in the dump, else in the module before the pass."""
        root = self._root.get(s.producer, s.producer)
        return tuple(dict.fromkeys((s.producer, *(s.consumers or self._users.get(root, ())))))


def _named(s: FusionStep) -> tuple[str, ...]:
    return (s.producer, *s.consumers) if s.kind == "fusion" else (s.producer,)


def _users(before: object) -> Mapping[str, tuple[str, ...]]:
    """The users of each instruction; those of a bitcast or an element of a tuple count as its operand's."""
    if not isinstance(before, ModuleRecord):
        return {}
    users: dict[str, list[str]] = {}
    for c in before.computations:
        for i in reversed(c.instructions):
            seen_through = users.get(i.name, []) if i.opcode.text in ("bitcast", "get-tuple-element") else []
            for operand in dict.fromkeys(i.operands):
                users.setdefault(operand, []).extend((i.name, *seen_through))
    return {name: tuple(dict.fromkeys(found)) for name, found in users.items()}
