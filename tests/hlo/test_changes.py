"""What a computation records of its changes, for passes that visit only those."""

from __future__ import annotations

from xlanb.hlo import parse
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.tracing import observing

_TEXT = """
HloModule m

ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] negate(a)
  c = f32[8] abs(b)
  d = f32[8] sqrt(c)
  ROOT r = f32[8] add(c, d)
}
"""


def _entry() -> HloComputation:
    return parse(_TEXT).entry_computation


def _names(found: object) -> set[str]:
    return {i.name for i in found}  # type: ignore[attr-defined]


def test_what_changed_is_told_to_its_reader_once() -> None:
    c = _entry()
    assert c.changes("mine") is None  # `reader` did not call before
    abs_ = c.find("c")
    assert abs_ is not None
    c.replace_with(abs_, O.EXPONENTIAL, (c.parameters[0],))
    found = c.changes("mine")
    assert found is not None
    assert {"d", "r", "c", "b"} <= _names(found.changed)  # its users, and the removed ones
    assert "a" in _names(found.recounted)
    again = c.changes("mine")
    assert again is not None
    assert not again.changed
    assert not again.recounted


def test_another_reader_and_another_audience_know_nothing() -> None:
    class Nobody:
        def on_event(self, event: object) -> None:
            del event

    c = _entry()
    c.changes("mine")
    assert c.changes("yours") is None
    assert c.changes("mine") is None
    with observing(Nobody()):
        assert c.changes("mine") is None


def test_most_of_a_computation_is_all_of_it() -> None:
    c = _entry()
    c.changes("mine")
    for _ in range(2 * len(c)):
        c.remove(c.constant(1.0))
    assert c.changes("mine") is None


def test_a_value_is_derived_again_after_a_change_only() -> None:
    c = _entry()
    calls = []

    def count(of: HloComputation) -> int:
        calls.append(of)
        return len(of)

    assert c.derived("count", count) == c.derived("count", count) == 5
    assert len(calls) == 1
    c.constant(1.0)
    assert c.derived("count", count) == 6
    assert len(calls) == 2


def test_a_computation_is_settled_until_it_changes() -> None:
    c = _entry()
    assert not c.is_settled("mine")
    c.settle("mine")
    assert c.is_settled("mine")
    assert not c.is_settled("yours")
    c.rename(c.root, "result")
    assert not c.is_settled("mine")
