"""Predicates of decisions, formatted when they are read.

An observed compilation evaluates guards a hundred thousand times. Their values are captured when
the decision is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from xlanb.conditions import Condition
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.records import ComputationName, InstructionRecord
from xlanb.shape import Literal
from xlanb.tracing import LazySequence, Predicate

_LONGEST = 40
"""The longest attribute text, in characters, that is shown in a line."""
_MANY = 8
"""The most elements of a list that are shown in a line."""


def captured(values: Iterable[Any]) -> tuple[Any, ...]:
    """Capture values as two entries each.

    For an instruction: its snapshot and number of users. For options: None and whether the pass is
    layout-sensitive.
    """
    found: list[Any] = []
    for value in values:
        if value.__class__ is HloInstruction:
            # private: ten thousand times in a compilation, and a property is a call
            record = value._record  # noqa: SLF001
            found += value.record() if record is None else record, len(value._users)  # noqa: SLF001
        else:
            found += (None, getattr(value, "is_layout_sensitive", None))
    return tuple(found)


@final
class GuardPredicates(LazySequence[Predicate]):
    """The guards of a rule as conditions with values.

    `outcomes` says whether each checked guard held; None if it could not be evaluated. `names` are
    the names that the checked guards use, and `saw` their values (see `captured`).
    """

    __slots__ = ("_guards", "_names", "_outcomes", "_seen")

    def __init__(
        self,
        guards: Sequence[Condition[Any]],
        outcomes: Sequence[bool | None],
        names: Sequence[str],
        saw: tuple[Any, ...],
    ) -> None:
        self._items = None
        self._guards, self._outcomes, self._names, self._seen = guards, outcomes, names, saw

    def _create(self) -> tuple[Predicate, ...]:
        seen = iter(self._seen)
        values = {name: _words(name, next(seen), next(seen)) for name in self._names}
        return tuple(
            Predicate(g.name, holds, "; ".join(filter(None, (values.get(w) for w in g.wants or ()))))
            for g, holds in zip(self._guards, self._outcomes, strict=False)
            if holds is not None
        )

    def __len__(self) -> int:
        return sum(holds is not None for holds in self._outcomes)


@final
class EdgePredicates(LazySequence[Predicate]):
    """The conditions that held, with their values, then the one that failed, if any, with its
    remedy.
    """

    __slots__ = ("_conditions", "_failed", "_values")

    def __init__(
        self, conditions: Sequence[Condition[Any]], values: Sequence[str], failed: tuple[str, str] | None
    ) -> None:
        self._items = None
        self._conditions, self._values, self._failed = conditions, values, failed

    def _create(self) -> tuple[Predicate, ...]:
        held = [Predicate(c.name, True, v) for c, v in zip(self._conditions, self._values, strict=False)]
        if self._failed is None:
            return tuple(held)
        return (*held, Predicate(self._conditions[len(held)].name, False, *self._failed))

    def __len__(self) -> int:
        return len(self._values) + (self._failed is not None)


def _words(name: str, record: InstructionRecord | None, value: int | None) -> str:
    if record is None:
        return "" if value is None else "layouts count" if value else "layout-insensitive"
    users = "" if value == 1 else f" with {value or 'no'} users"
    return f"{name} is {outline(record)}{users}"


def outline(i: InstructionRecord) -> str:
    """An instruction in short: name, shape, opcode, and the attributes that conditions check."""
    words = [i.name, str(i.shape), i.opcode.text]
    for name, value in i.attributes.items():
        if name == "parameter_number":
            continue
        if name == "literal":
            words.append(_value(value))
        elif (text := _TEXT.get(type(value), _no_text)(value)) and len(text) <= _LONGEST:
            words.append(f"{name}={text}")
    return " ".join(words) + (" (the root)" if i.is_root else "")


def _value(literal: Literal) -> str:
    """A literal of one element, or the first of several."""
    if literal.is_elided:
        return "with elided values"
    if not literal.shape.is_array or literal.array.size == 0:
        return "without elements"
    return str(literal.array.flat[0]) + (", ..." if literal.array.size > 1 else "")


def _no_text(_: object) -> str:
    return ""


def _list(values: tuple[object, ...]) -> str:
    return f"{{{','.join(map(str, values))}}}" if len(values) <= _MANY else ""


_TEXT: dict[type, Callable[[Any], str]] = {
    bool: str,
    int: str,
    float: str,
    str: str,
    tuple: _list,
    ComputationName: lambda c: c.name,
}
