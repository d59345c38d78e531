"""Conditions that decide whether a rewrite, a fusion or a cluster is made, and explain it.

A decision is a list of conditions on one subject: the captures of a rule, an edge between a
producer and a consumer, two instructions, a node of a graph. A pass stops at the first that fails;
`why` evaluates the same list to the end.

    wide = Condition(
        "the array is wide",
        lambda i: i.shape.byte_size > 64,
        value=lambda i: f"{i.shape.byte_size} bytes",
        remedy=lambda i: f"give `{i.name}` more than 64 bytes",
    )
    first_failing([wide], i)             # None if all hold, else the index of the first that fails
    asked([wide], i, to_the_end=True)    # (Predicate("the array is wide", True, "256 bytes"),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from xlanb.contexts import bound
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed

T = TypeVar("T")


def _nothing(_: Any) -> str:
    return ""


def _never(_: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


@dataclass(frozen=True)
class Condition(Generic[T]):
    """A named condition on a subject.

    `holds` decides. `value` describes the value that it checked; `remedy` says what would have to
    change for it to hold, with names of instructions and nodes in backquotes. Both are called only
    if there is an observer. If `wants` is given, the subject is a mapping (the captures of a rule),
    and `holds` takes the entries that `wants` names.

    For fusion: an edge that fails an `is_required` condition cannot be fused; one that fails
    another condition may be fused on request. A `lasting` condition depends on the producer only:
    its first result is valid for every consumer. `final`: whether a failure for a fusion stays a
    failure however that fusion grows. `final_while_shared`: the same, as long as the producer has
    several users. `may_fail`: whether the condition can fail for these opcodes of producer and
    consumer; if not, only its value is computed. `value_if_holds`: the value of a condition that
    holds, if it is always the same, or a function of the opcodes of producer and consumer that
    returns it, or None if it depends on more.
    """

    name: str
    holds: Callable[..., object]
    value: Callable[[T], str] = _nothing
    remedy: Callable[[T], str] = _nothing
    wants: tuple[str, ...] | None = None
    is_required: bool = False
    lasting: bool = False
    final: Callable[[T], bool] = _never
    final_while_shared: Callable[[T], bool] = _never
    may_fail: Callable[..., bool] = _always
    value_if_holds: str | Callable[..., str | None] | None = None

    def predicate(self, subject: T, *, holds: bool) -> Predicate:
        """Return the condition with its value and, if it fails, its remedy."""
        return Predicate(self.name, holds, self.value(subject), "" if holds else self.remedy(subject))


def objecting(
    name: str,
    objection: Callable[[T], str],
    value: Callable[[T], str] = _nothing,
    remedy: Callable[[T], str] = _nothing,
) -> Condition[T]:
    """Make a condition that fails with a reason: `objection` returns it, or "" if the condition
    holds.

    `value` describes the value that it checked, if it holds.
    """
    return Condition(name, lambda s: not objection(s), lambda s: objection(s) or value(s), remedy)


def first_failing(conditions: Sequence[Condition[Any]], subject: Any) -> int | None:
    """Return the index of the first condition that fails for a subject; None if all hold.

    Later ones are not evaluated: they may rely on those before.
    """
    for n, c in enumerate(conditions):
        wants = c.wants
        if wants is None:
            if not c.holds(subject):
                return n
        elif not (c.holds(subject[wants[0]]) if len(wants) == 1 else c.holds(*[subject[w] for w in wants])):
            return n
    return None


def decide(action: str, names: tuple[str, ...], conditions: Sequence[Condition[Any]], subject: Any) -> bool:
    """Whether all conditions hold of a subject; observers get a decision about the named
    instructions.

    Conditions after the first that fails are reported too if one of these instructions is asked for
    (see `asking`).
    """
    failed = first_failing(conditions, subject)
    if is_observed():
        to_the_end = not asked_names().isdisjoint(names)
        found = predicates_of(conditions, failed, subject, to_the_end=to_the_end)
        emit(Decision(current_cause(), action, names, failed is None, found))
    return failed is None


def asked(conditions: Sequence[Condition[Any]], subject: Any, *, to_the_end: bool = False) -> tuple[Predicate, ...]:
    """Return the conditions with their values, up to the first that fails, or `to_the_end`.

    After a failure, a condition that cannot be evaluated because it relies on a failed one is left
    out.
    """
    failed = first_failing(conditions, subject)
    return predicates_of(conditions, failed, subject, to_the_end=to_the_end)


def predicates_of(
    conditions: Sequence[Condition[Any]], failed: int | None, subject: Any, *, to_the_end: bool = False
) -> tuple[Predicate, ...]:
    """Return the result of `asked`, given the index of the first failing condition."""
    last = len(conditions) if failed is None else failed + 1
    found = tuple([c.predicate(subject, holds=n != failed) for n, c in enumerate(conditions[:last])])
    if not to_the_end:
        return found
    beyond = conditions[last:]
    outcomes = zip(beyond, holding_beyond(beyond, subject), strict=True)
    return (*found, *(c.predicate(subject, holds=holds) for c, holds in outcomes if holds is not None))


def holding_beyond(conditions: Sequence[Condition[Any]], subject: Any) -> list[bool | None]:
    """Whether each condition holds, evaluated independently; None if it relies on a failed one."""
    return [_holds(c, subject) for c in conditions]


def _holds(condition: Condition[Any], subject: Any) -> bool | None:
    if condition.wants is not None and "b" in condition.wants:  # a builder: it would add instructions
        return None
    try:
        return first_failing((condition,), subject) is None
    except Exception:  # noqa: BLE001 - it was written for subjects that meet those before it
        return None


_NAMES: ContextVar[frozenset[str]] = ContextVar("xlanb_asked_names", default=frozenset())


def asking(names: frozenset[str]) -> AbstractContextManager[frozenset[str]]:
    """Make passes in this block report all conditions of decisions about these instructions.

    Otherwise they stop at the first condition that fails.
    """
    return bound(_NAMES, names)


def asked_names() -> frozenset[str]:
    """Return the instructions of the current `asking` blocks."""
    return _NAMES.get()
