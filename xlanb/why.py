"""Why: a question about one or two instructions or nodes, its answer, and the decisions behind it.

A compilation, a clustering and a dump of the real XLA return the same class: as text, as HTML in a
notebook, as JSON, as a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from xlanb.display import Displayable
from xlanb.frames import framed
from xlanb.tracing import Decision, Predicate

if TYPE_CHECKING:
    import pandas as pd

DECIDED, FACT, REPLAY = "decided", "fact", "replay"
"""The evidence for a decision: recorded by the compiler; seen in a dump; or derived from xlanb's
own conditions evaluated on the module of a dump."""

BASES: Mapping[str, str] = {
    DECIDED: "",
    FACT: "fact: in the dump",
    REPLAY: "replay: xlanb's conditions on the dump's module",
}
"""The words for each."""

_NAME = re.compile(r"`([^`]+)`")


class Why(Sequence[Any], Displayable):
    """Decisions in order, with the value of every condition that was evaluated.

    It is the sequence of its decisions or, with `by_condition`, of the conditions of its one
    decision, as for a clustering.

    The text merges equal decisions of several stages. `subject` are the names in question, `about`
    is their heading; `question` and `answer` are texts, `answer` is "" if the decisions are the
    answer. `stages` are the indices of the deciding stages, -1 for facts about the final module.
    `bases` gives the basis of each decision: DECIDED, FACT or REPLAY. `recorded` is whether the
    source reports decisions at all.
    """

    def __init__(
        self,
        subject: tuple[str, ...],
        decisions: Iterable[Decision],
        stages: Iterable[int] = (),
        *,
        recorded: bool = True,
        question: str = "",
        answer: str = "",
        about: str = "",
        bases: Iterable[str] = (),
        note: str = "",
        by_condition: bool = False,
    ) -> None:
        self.subject = subject
        self.recorded = recorded
        self.answer = answer
        self.about = about or " and ".join(subject)
        self.question = question or f"What was decided about {self.about}?"
        self.decisions = tuple(decisions)
        given, found = tuple(stages), tuple(bases)
        self.stages = given + (-1,) * (len(self.decisions) - len(given))
        self.bases = found + (DECIDED,) * (len(self.decisions) - len(found))
        self._note = note
        self._items: tuple[Any, ...] = self.conditions if by_condition else self.decisions

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    # -- content -----------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """Return the heading and the answer."""
        return f"{self.about}: {self.answer}" if self.answer else self.about

    @property
    def outcome(self) -> str:
        """The answer, as a clustering calls it."""
        return self.answer

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        """Return every condition that was evaluated, with its value; those shared by decisions
        once.
        """
        return tuple(dict.fromkeys(p for d in self.decisions for p in d.predicates))

    @property
    def failing(self) -> tuple[Predicate, ...]:
        """The conditions that failed."""
        return tuple(p for p in self.conditions if not p.holds)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return what would have to change for failed conditions to hold, names in backquotes."""
        return tuple(dict.fromkeys(p.remedy for p in self.failing if p.remedy))

    @property
    def links(self) -> dict[str, int]:
        """Return the instructions and nodes that it mentions, each with its stage's index, -1 for
        the end.
        """
        found: dict[str, int] = {}
        for d, stage in zip(self.decisions, self.stages, strict=True):
            remedies = (n for p in d.predicates for n in _NAME.findall(p.remedy))
            for name in (*d.subject, *remedies):
                found.setdefault(name, stage)
        return found

    @property
    def distinct(self) -> list[tuple[Decision, tuple[int, ...]]]:
        """The decisions, those that several stages took alike once, with the stages."""
        return [(d, stages) for d, _, stages in self.grouped]

    @property
    def grouped(self) -> list[tuple[Decision, str, tuple[int, ...]]]:
        """Return the distinct decisions, each with its basis and its stages."""
        alike: dict[tuple[Decision, str], list[int]] = {}
        for d, basis, stage in zip(self.decisions, self.bases, self.stages, strict=True):
            alike.setdefault((d, basis), []).append(stage)
        return [(d, basis, tuple(dict.fromkeys(stages))) for (d, basis), stages in alike.items()]

    @property
    def note(self) -> str:
        """Say why there are no (more) decisions, and what to call instead; "" if they are the
        answer.
        """
        if self._note:
            return self._note
        if self.recorded:
            nothing = f"no pass made a decision about {'it' if len(self.subject) == 1 else 'them'}"
            return "" if self.decisions else nothing
        calls = " or ".join(f".lineage({name!r})" for name in self.subject)
        return (
            f"a dump shows what the passes did but not why: {calls} follows it through the passes, .diff(a, b) "
            "compares two stages; use xlanb.trace on the first module to run xlanb's own passes"
        )

    # -- as text, table, JSON ----------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per condition of each decision.

        Columns: stage (-1: the end), pass, action, subject, whether it was taken, condition,
        whether it holds, its value, what would have to change, and the basis of the decision.
        """
        rows = [
            (stage, d.cause.pass_name, d.action, " -> ".join(d.subject), d.taken, *p, basis)
            for d, stage, basis in zip(self.decisions, self.stages, self.bases, strict=True)
            for p in (tuple(q) for q in d.predicates)
        ]
        columns = ["stage", "pass", "action", "subject", "taken", "condition", "holds", "value", "remedy", "basis"]
        return framed(rows, columns)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The conditions as a table, a row each."""
        rows = [(p.name, "holds" if p.holds else "FAILS", p.value, p.remedy) for p in self.conditions]
        return (("Conditions", framed(rows, ["condition", "outcome", "value", "remedy"])),)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `json.dumps`.

        Question, answer, subject, decisions with their conditions, remedies, links, a note.
        """
        decisions = [
            {
                "stage": stage,
                "pass": d.cause.pass_name,
                "rule": d.cause.rule,
                "where": d.cause.where,
                "keeps": d.cause.keeps,
                "action": d.action,
                "subject": list(d.subject),
                "taken": bool(d.taken),
                "basis": basis,
                "conditions": [
                    {"name": p.name, "holds": bool(p.holds), "value": str(p.value), "remedy": p.remedy}
                    for p in d.predicates
                ],
            }
            for d, stage, basis in zip(self.decisions, self.stages, self.bases, strict=True)
        ]
        return {
            "question": self.question,
            "answer": self.answer,
            "subject": list(self.subject),
            "decisions": decisions,
            "remedies": list(self.remedies),
            "links": self.links,
            "note": self.note,
        }

    def __repr__(self) -> str:
        said = f": {self.answer}" if self.answer else ""
        hold = f"{sum(p.holds for p in self.conditions)} of {len(self.conditions)} conditions hold"
        count = f"{len(self.decisions)} decision{'s' * (len(self.decisions) != 1)}"
        return f"<Why {self.about}{said}; {hold if self.is_one else count}>"

    @property
    def is_one(self) -> bool:
        """Whether it is a single decision that the headline states."""
        return len(self.decisions) == 1 and bool(self.answer)

    def __str__(self) -> str:
        if self.is_one:
            return "\n".join([self.headline, *_conditions(self.decisions[0].predicates, "  ")])
        if self.recorded and not self.decisions and not self.answer:
            return f"{self.about}: {self.note}"
        lines = [line for d, basis, stages in self.grouped for line in _lines(d, basis, stages)]
        return "\n".join([self.headline, *lines, *([f"  {self.note}"] if self.note else [])])


def _lines(d: Decision, basis: str, stages: Sequence[int]) -> Iterable[str]:
    where = f" ({d.cause.where})" if d.cause.where else ""
    when = [str(s) for s in stages if s >= 0]
    at = f", stage{'s' * (len(when) > 1)} {', '.join(when)}" if when else ""
    rests = f" [{BASES[basis]}]" if BASES.get(basis) else ""
    taken = "yes" if d.taken else "no "
    yield f"  {d.cause.pass_name or 'xlanb'}: {taken} {d.action} {' -> '.join(d.subject)}{where}{at}{rests}"
    yield from _conditions(d.predicates, "      ")
    if d.taken and d.cause.keeps:
        yield f"      keeps  {d.cause.keeps}"


def _conditions(predicates: Iterable[Predicate], indent: str) -> Iterable[str]:
    for p in predicates:
        yield f"{indent}{'holds' if p.holds else 'FAILS'}  {p.name}{f': {p.value}' if p.value else ''}"
        if p.remedy:
            yield f"{indent}       to change: {p.remedy}"
