from __future__ import annotations

import pytest

from xlanb.hlo import HloOpcode as O
from xlanb.hlo import parse
from xlanb.transforms import match as m

TEXT = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  mixed = f32[4] constant({1, 1, 1, 2})
  left = f32[4] multiply(ones, x)
  square = f32[4] multiply(x, x)
  difference = f32[4] subtract(x, y)
  product = f32[4] multiply(left, mixed)
  s = f32[4] add(square, product)
  ROOT r = f32[4] add(s, difference)
}
"""


@pytest.fixture
def find():
    return parse(TEXT).entry_computation.find


def matches(pattern, instruction):
    captures = {}
    return captures if pattern.match(instruction, captures) else None


def test_commutative_operands_match_in_either_order(find):
    got = matches(m.op(O.MULTIPLY, "a", m.all_equal(1, "c")), find("left"))
    assert got == {"a": find("x"), "c": find("ones")}


def test_others_match_in_order_only(find):
    pattern = m.op(
        O.SUBTRACT,
        m.op(O.PARAMETER, name="a", where=[m.InstructionPredicate("first", lambda i: i.parameter_number == 0)]),
        "b",
    )
    assert matches(pattern, find("difference")) == {"a": find("x"), "b": find("y")}
    turned = m.op(
        O.SUBTRACT,
        "b",
        m.op(O.PARAMETER, name="a", where=[m.InstructionPredicate("first", lambda i: i.parameter_number == 0)]),
    )
    assert matches(turned, find("difference")) is None


def test_a_name_that_comes_twice_is_one_instruction(find):
    pattern = m.op(O.MULTIPLY, "a", "a")
    assert matches(pattern, find("square")) == {"a": find("x")}
    assert matches(pattern, find("left")) is None


def test_a_failed_order_leaves_no_captures(find):
    pattern = m.op(O.ADD, m.op(O.MULTIPLY, "a", m.constant("c")), "b")
    got = matches(pattern, find("s"))
    assert got == {"a": find("left"), "c": find("mixed"), "b": find("square")}


def test_constants(find):
    assert matches(m.all_equal(1), find("ones")) == {}
    assert matches(m.all_equal(1), find("mixed")) is None
    assert matches(m.constant("c"), find("mixed")) == {"c": find("mixed")}
    assert matches(m.constant("c"), find("x")) is None
    assert m.scalar_value(find("ones")) == 1
    assert m.scalar_value(find("mixed")) is None


def test_one_user(find):
    assert matches(m.one_user(m.op(O.MULTIPLY)), find("left")) == {}
    assert matches(m.one_user(m.op(O.PARAMETER)), find("x")) is None


def test_patterns_print_and_know_their_opcodes():
    pattern = m.op((O.MINIMUM, O.MAXIMUM), m.op(O.REDUCE, name="r"), m.all_equal(0))
    assert str(pattern) == "minimum|maximum(r=reduce(...), 0)"
    assert pattern.opcodes == {O.MINIMUM, O.MAXIMUM}
    assert pattern.names == ("r",)
