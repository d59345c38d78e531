"""Where a function's instructions are emitted, and how operands are unified."""

from __future__ import annotations

from xlanb.codegen import jit, lanes
from xlanb.codegen.function import Function
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import FLOAT, I64
from xlanb.codegen.values import Value, Vector


def function() -> Function:
    """An empty function for the host."""
    return ModuleBuilder("m", jit.host()).function("f", [], "", "")


def test_operands_of_one_type_are_taken_as_they_are() -> None:
    f = function()
    a, b = Value(f, FLOAT, "%a"), Value(f, FLOAT, "%b")
    assert [v is w for v, w in zip(f.alike(a, b), (a, b), strict=True)] == [True, True]
    assert f.body == []


def test_a_number_and_a_scalar_beside_a_vector_have_its_type() -> None:
    f = function()
    vector = Vector(f, FLOAT.times(4), "%v")
    made = f.alike(Value(f, FLOAT, "%a"), 2.0, vector)
    assert [v.type for v in made] == [vector.type] * 3
    assert made[2] is vector


def test_a_lane_index_beside_an_index_is_a_vector() -> None:
    f = function()
    with f.vectorized(4):
        q = lanes.counter(f, 0, 0, 99, 4)
        for operands in ((q, Value(f, I64, "%i")), (Value(f, I64, "%i"), q), (q, q)):
            assert [v.type for v in f.alike(*operands)] == [I64.times(4)] * 2


def test_what_a_loop_does_not_change_is_written_once_before_it() -> None:
    f = function()
    a = Value(f, I64, "%a")
    with f.loop(10) as i:
        first, second = f.add(a, 7), f.add(a, 7)
        inside = f.add(i, a)
    assert first is second
    lines = f.body
    head = next(k for k, line in enumerate(lines) if line.startswith("loop"))
    written = [k for k, line in enumerate(lines) if "add nuw nsw i64 %a, 7" in line]
    assert len(written) == 1
    assert written[0] < head
    assert isinstance(inside, Value)
    assert next(k for k, line in enumerate(lines) if f"{inside.text} = " in line) > head


def test_nothing_is_moved_out_of_what_may_not_run() -> None:
    f = function()
    a = Value(f, I64, "%a")
    with f.when(a.differs(0)):
        quotient = f.div(a, 7)
    assert isinstance(quotient, Value)
    lines = f.body
    branch = next(k for k, line in enumerate(lines) if "br i1" in line)
    assert next(k for k, line in enumerate(lines) if "udiv" in line) > branch
    assert f.div(a, 7) is not quotient


class _Key:
    """A key that counts its look-ups."""

    def __init__(self) -> None:
        self.hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        return 1


def test_what_is_remembered_far_out_is_found_at_once() -> None:
    f, key = function(), _Key()
    f.remember(key, "far out")
    for _ in range(100):
        f.enter(barrier=True)
    key.hashed = 0
    assert f.recall(key) == "far out"
    assert f.recall(_Key()) is None
    assert key.hashed < 5


def test_what_ended_with_its_region_is_looked_for_further_out() -> None:
    f = function()
    f.remember("key", "far out")
    f.enter(barrier=True)
    f.remember("key", "within")
    assert f.recall("key") == "within"
    f.leave()
    assert f.recall("key") == "far out"
    f.enter(barrier=True)
    assert f.recall("key") == "far out"
    f.regions[0].memo.clear()
    assert f.recall("key") is None
