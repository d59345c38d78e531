"""The fusion decisions of the real XLA:GPU, in the form of ours.

Shows what was fused into what, or why not, with the cost before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

from xlanb.dump.gpu.backend import emitter_of
from xlanb.dump.gpu.fusion_process import FusionStep
from xlanb.errors import XlanbError
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.tracing import Cause, Decision, Predicate
from xlanb.why import Why

if TYPE_CHECKING:
    import pandas as pd

PASS = "priority-fusion"

_ACCEPTED = "the cost model accepts it"
HEAVY_BYTES = 6 << 20
_NO_USERS = "No users to fuse"
_FEW = 3


class FusionDecisions(Sequence[Decision]):
    """The decisions of one run of priority fusion, read on first use.

    `load` returns the steps, `before` the module before the pass; `size` is the bytes of both. An
    unreadable dump has no decisions.
    """

    def __init__(self, load: Callable[[], Sequence[FusionStep]], before: Callable[[], object], size: int = 0) -> None:
        self._load = load
        self._before = before
        self._size = size

    @property
    def is_heavy(self) -> bool:
        """Whether reading takes seconds: there are many, and they have not been read yet."""
        return self._size > HEAVY_BYTES and "_story" not in vars(self)

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

    def frame(self) -> pd.DataFrame:
        """Return one row per decision.

        Columns: producer, what it was or was not fused into, whether it was, and the cost or the
        reason.
        """
        import pandas as pd

        rows = [
            (
                d.subject[0],
                ", ".join(d.subject[1:]),
                d.taken,
                *(": ".join(filter(None, (p.name, p.value))) for p in d.predicates[:1]),
            )
            for d in self
        ]
        return pd.DataFrame(rows, columns=["producer", "consumers", "fused", "why"])

    def why(self, *names: str) -> Why:
        """Return the pass's recorded decisions in which all of these instructions take part."""
        found = [d for d in self if set(names) <= set(d.subject)]
        return Why(names, found, question=f"What did {PASS} decide about {' and '.join(names)}?")

    def holders(self, names: Iterable[str]) -> set[str]:
        """Return the fusions that contained any of these instructions during the pass.

        Most of them were fused again, so no module shows them.
        """
        return _reachable(names, self._story.within)

    def companions(self, names: Iterable[str]) -> set[str]:
        """Return the fusions that contained any of these instructions, with all their contents."""
        holders = self.holders(names)
        return holders | _reachable(holders, self._story.parts)


class _Story:
    """The steps in order: members of each fusion, and the last decision about each producer."""

    def __init__(self, steps: Sequence[FusionStep], before: object) -> None:
        self.parts: dict[str, list[str]] = {}
        self.within: dict[str, list[str]] = {}
        self._before = before if isinstance(before, ModuleRecord) else None
        self._root: dict[str, str] = {}
        self._users = _users(self._before)
        self._costs: dict[str, FusionStep] = {}
        # A fused instruction continues under the fusion's name: no decision about the old name is
        # the last one.
        last = {name: k for k, s in enumerate(steps) for name in _named(s)}
        self.decisions = tuple(d for k, s in enumerate(steps) for d in self._step(s, is_last=last[s.producer] == k))

    def _step(self, s: FusionStep, *, is_last: bool) -> Iterator[Decision]:
        if s.kind == "fusion":
            yield self._fused(s)
        elif s.kind == "ineligible":
            if is_last and s.reason != _NO_USERS:  # the reason for producers fused into all of their users
                subject = self._subject(s)
                yield Decision(
                    Cause(PASS), "fuse", subject, False, (Predicate(s.reason, False, self._unfusible(s, subject)),)
                )
        else:
            self._costs[s.producer] = s
            if is_last:  # it was not fused
                yield Decision(Cause(PASS), "fuse", self._subject(s), False, (self._cost(s, accepted=False),))

    def _fused(self, s: FusionStep) -> Decision:
        consumer = s.consumers[0]
        for part in (s.producer, consumer):
            self.parts.setdefault(s.fusion, []).append(part)
            self.within.setdefault(part, []).append(s.fusion)
        self._root[s.fusion] = self._root.get(consumer, consumer)
        known = self._costs.get(s.producer)
        became = Predicate("they became", True, s.fusion)
        predicates = (became,) if known is None else (self._cost(known, accepted=True), became)
        return Decision(Cause(PASS), "fuse", (s.producer, consumer), True, predicates)

    @staticmethod
    def _cost(s: FusionStep, *, accepted: bool) -> Predicate:
        count = f" for all {len(s.consumers)} users" if len(s.consumers) > 1 else ""
        return Predicate(_ACCEPTED, accepted, f"{s.us_fused:g} us fused, {s.us_unfused:g} us unfused{count}")

    def _unfusible(self, s: FusionStep, subject: tuple[str, ...]) -> str:
        """Return what unfusible instructions are: library calls, Triton fusions."""
        about = subject[:1] if s.reason.startswith("the producer") else subject[1:]
        found = (self._instructions.get(name) for name in about if s.reason.endswith("is not fusible"))
        return ", ".join([f"{i.name} is {_words(i)}" for i in found if i is not None][:_FEW])

    @cached_property
    def _instructions(self) -> dict[str, InstructionRecord]:
        if self._before is None:
            return {}
        return {i.name: i for c in self._before.computations for i in c.instructions}

    def _subject(self, s: FusionStep) -> tuple[str, ...]:
        """Return the producer and its users, from the dump or from the module before the pass."""
        root = self._root.get(s.producer, s.producer)
        return tuple(dict.fromkeys((s.producer, *(s.consumers or self._users.get(root, ())))))


def _named(s: FusionStep) -> tuple[str, ...]:
    return (s.producer, *s.consumers) if s.kind == "fusion" else (s.producer,)


def _words(i: InstructionRecord) -> str:
    """Describe an instruction: its opcode, and its emitter if it is not XLA's own."""
    if i.opcode not in (HloOpcode.FUSION, HloOpcode.CUSTOM_CALL):
        return f"a {i.opcode.text}"
    kind = emitter_of(i).kind
    return f"a fusion by {kind}" if i.opcode is HloOpcode.FUSION else f"a call of {kind}"


def _reachable(names: Iterable[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    """Return what can be reached along edges, without the start unless an edge leads back."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        new = [n for n in edges.get(pending.pop(), ()) if n not in found]
        found.update(new)
        pending += new
    return found


def _users(before: ModuleRecord | None) -> Mapping[str, tuple[str, ...]]:
    """Return each instruction's users, looking through bitcasts and tuple elements."""
    if before is None:
        return {}
    users: dict[str, list[str]] = {}
    for c in before.computations:
        for i in reversed(c.instructions):
            seen_through = users.get(i.name, []) if i.opcode.text in ("bitcast", "get-tuple-element") else []
            for operand in dict.fromkeys(i.operands):
                users.setdefault(operand, []).extend((i.name, *seen_through))
    return {name: tuple(dict.fromkeys(found)) for name, found in users.items()}
