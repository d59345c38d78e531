"""Observers see what happens in their own context, with the cause that is in force."""

from __future__ import annotations

import copy
import gc
import weakref
from threading import Thread
from typing import Any

import pytest

from xlanb.conditions import Condition
from xlanb.cpu import pipeline
from xlanb.explorer.recorder import Recorder
from xlanb.hlo import parse
from xlanb.tracing import (
    Cause,
    Decision,
    DeferredDecisions,
    DeferredEdits,
    Edit,
    Event,
    Executed,
    LazySequence,
    because,
    current_cause,
    emit,
    is_observed,
    observing,
    unobserved,
)
from xlanb.transforms import guard_predicates
from xlanb.transforms.guard_predicates import GuardPredicates


class Seen:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


def test_an_observer_sees_events_of_its_block_only() -> None:
    seen = Seen()
    emit(Executed(1, 0.0))
    with observing(seen):
        emit(Executed(2, 0.0))
    emit(Executed(3, 0.0))
    assert [e.compilation for e in seen.events if isinstance(e, Executed)] == [2]


def test_nested_observers_both_see() -> None:
    outer, inner = Seen(), Seen()
    with observing(outer):
        with observing(inner):
            emit(Executed(1, 0.0))
        emit(Executed(2, 0.0))
    assert (len(outer.events), len(inner.events)) == (2, 1)


def test_another_thread_is_not_observed() -> None:
    states: list[bool] = []
    with observing(Seen()):
        thread = Thread(target=lambda: states.append(is_observed()))
        thread.start()
        thread.join()
        states.append(is_observed())
    assert states == [False, True]


def test_causes_nest_and_end() -> None:
    with observing(Seen()), because(pass_name="algsimp"):
        with because(rule="A*1 => A", where="multiply.py:3"):
            assert current_cause() == Cause("algsimp", "A*1 => A", "multiply.py:3")
        assert current_cause() == Cause("algsimp")
    assert current_cause() == Cause()


def test_no_cause_is_kept_where_nobody_listens() -> None:
    with because(pass_name="algsimp"):
        assert current_cause() == Cause()


def test_unobserved_hides_a_block() -> None:
    seen = Seen()
    with observing(seen), unobserved():
        assert not is_observed()
        emit(Executed(1, 0.0))
    assert seen.events == []


class Counted(LazySequence[int]):
    """Counts how often its items are created."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def _create(self) -> tuple[int, ...]:
        self.count += 1
        return (3, 1, 2)


def test_a_lazy_sequence_creates_its_items_once_and_equals_their_tuple() -> None:
    items = Counted()
    assert items.count == 0
    assert [*items] == [items[0], *items[1:]] == [3, 1, 2]
    assert (len(items), hash(items), repr(items)) == (3, hash((3, 1, 2)), "(3, 1, 2)")
    assert items == (3, 1, 2)
    assert items == Counted()
    assert copy.copy(items) == (3, 1, 2)
    assert items.count == 1


def test_predicates_of_a_rule_are_formatted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    formatted: list[str] = []

    def words(name: str, *_: object) -> str:
        formatted.append(name)
        return name

    monkeypatch.setattr(guard_predicates, "_words", words)
    guard: Condition[Any] = Condition("holds", lambda _: True, wants=("a",))
    predicates = GuardPredicates([guard, guard], [True, True], ["a"], (None, None))
    assert [p.value for p in predicates] == ["a", "a"]
    assert predicates[1].holds
    assert hash(predicates) == hash(tuple(predicates))
    assert formatted == ["a"]


CHAIN = """HloModule chain

ENTRY main {
  x = f32[8,8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8,8] broadcast(zero), dimensions={}
  a = f32[8,8] add(x, zeros)
  b = f32[8,8] tanh(a)
  c = f32[8,8] multiply(b, a)
  ROOT d = f32[8,8] exponential(c)
}
"""


def test_a_program_does_not_keep_what_observed_it_alive() -> None:
    module, recorder = parse(CHAIN), Recorder()
    gone = weakref.ref(recorder)
    gc.disable()
    try:
        with observing(recorder):
            pipeline().run(module)
        del recorder
        assert gone() is None
    finally:
        gc.enable()
    assert module.instruction_count


class Took(Seen):
    def __init__(self) -> None:
        super().__init__()
        self.edits: list[Edit | DeferredEdits] = []
        self.decisions: list[Decision | DeferredDecisions] = []
        self.take_edit, self.take_decision = self.edits.append, self.decisions.append


def test_an_observer_that_takes_edits_gets_deferred_ones_as_they_are() -> None:
    seen, took = Seen(), Took()
    with observing(seen), observing(took):
        pipeline().run(parse(CHAIN))
    assert not took.events
    assert any(isinstance(e, DeferredEdits) for e in took.edits)
    assert any(isinstance(d, DeferredDecisions) for d in took.decisions)
    edits = [e for t in took.edits for e in (t.edits() if isinstance(t, DeferredEdits) else (t,))]
    decisions = [d for t in took.decisions for d in (t.decisions() if isinstance(t, DeferredDecisions) else (t,))]
    assert edits == [e for e in seen.events if isinstance(e, Edit)]
    assert decisions == [d for d in seen.events if isinstance(d, Decision)]
