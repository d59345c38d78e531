"""The guards of a rule as predicates with values.

Values are captured when a rule is tried, and formatted only when read: an observed compilation
tries guards a hundred thousand times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

from xlanb.conditions import Condition
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.records import ComputationName, InstructionRecord
from xlanb.shape import Literal
from xlanb.tracing import Predicate

_LONGEST = 40
"""The longest attribute text, in characters, that is shown in a line."""
_MANY = 8
"""The most elements of a list that are shown in a line."""


def captured(names: Iterable[str], scope: Mapping[str, Any]) -> tuple[Any, ...]:
    """Capture the values of some names.

    For an instruction: name, snapshot and number of users. For options: name and whether the pass
    is layout-sensitive.
    """
    found: list[Any] = []
    for name in names:
        value = scope[name]
        if value.__class__ is HloInstruction:
            found += (name, value.record(), value.user_count)
        else:
            found += (name, None, getattr(value, "is_layout_sensitive", None))
    return tuple(found)


class GuardPredicates(Sequence[Predicate]):
    """The guards of a rule as conditions with values; equal to a tuple of the same.

    `outcomes` says whether each checked guard held; None if it could not be evaluated.
    """

    __slots__ = ("_guards", "_outcomes", "_seen", "_words")

    def __init__(self, guards: Sequence[Condition[Any]], outcomes: Sequence[bool | None], saw: tuple[Any, ...]) -> None:
        self._guards, self._outcomes, self._seen = guards, outcomes, saw
        self._words: tuple[Predicate, ...] | None = None

    def _predicates(self) -> tuple[Predicate, ...]:
        if self._words is None:
            values = {self._seen[n]: _words(*self._seen[n : n + 3]) for n in range(0, len(self._seen), 3)}
            self._words = tuple(
                Predicate(g.name, holds, "; ".join(filter(None, (values.get(w) for w in g.wants or ()))))
                for g, holds in zip(self._guards, self._outcomes, strict=False)
                if holds is not None
            )
        return self._words

    @overload
    def __getitem__(self, index: int) -> Predicate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Predicate, ...]: ...

    def __getitem__(self, index: int | slice) -> Predicate | tuple[Predicate, ...]:
        return self._predicates()[index]

    def __len__(self) -> int:
        return sum(holds is not None for holds in self._outcomes)

    def __eq__(self, other: object) -> bool:
        return self._predicates() == (other._predicates() if isinstance(other, GuardPredicates) else other)

    def __hash__(self) -> int:
        return hash(self._predicates())

    def __repr__(self) -> str:
        return repr(self._predicates())

    def __reduce__(self) -> tuple[type, tuple[tuple[Predicate, ...]]]:
        return tuple, (self._predicates(),)


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
