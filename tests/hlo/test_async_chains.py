"""Chains of asynchronous instructions with late operands, or across tuples, barriers, loops."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloParseError, HloVerifierError
from xlanb.hlo import HloModule, parse
from xlanb.hlo.async_chain import async_start, producer, wrapped_computation

LATE = """HloModule m

ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  s = ((), (), s32[]) call-start(), to_apply={
    x = f32[2,3] parameter(0)
    y = f32[2,3] parameter(1)
    ROOT z = f32[2,3] subtract(x, y)
  }
  u = ((f32[2,3]), (), s32[]) call-update(s, a)
  v = ((f32[2,3], f32[2,3]), f32[2,3], s32[]) call-update(u, b)
  ROOT d = f32[2,3] call-done(v)
}
"""

LATE_RESULT = LATE.replace("(f32[2,3], f32[2,3]), f32[2,3], s32[])", "(f32[2,3], f32[2,3]), (), s32[])")

AROUND = """HloModule m

twice { p = f32[3] parameter(0)
  ROOT t = f32[3] add(p, p) }

ENTRY e {
  a = f32[3] parameter(0)
  s = ((f32[3]), f32[3], s32[]) async-start(a), calls=twice
  barrier = ((f32[3]), f32[3], s32[]) opt-barrier(s)
  t = (((f32[3]), f32[3], s32[]), f32[3]) tuple(barrier, a)
  g = ((f32[3]), f32[3], s32[]) get-tuple-element(t), index=0
  c = ((f32[3]), f32[3], s32[]) copy(g)
  ROOT d = f32[3] async-done(c)
}
"""

LOOP = """HloModule m

negated { p = f32[3] parameter(0)
  ROOT n = f32[3] negate(p) }

condition { p = (s32[], ((f32[3]), f32[3], s32[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT }

body { p = (s32[], ((f32[3]), f32[3], s32[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = ((f32[3]), f32[3], s32[]) get-tuple-element(p), index=1
  d = f32[3] async-done(s), calls=negated
  e = f32[3] add(d, d)
  n = ((f32[3]), f32[3], s32[]) async-start(e), calls=negated
  ROOT r = (s32[], ((f32[3]), f32[3], s32[])) tuple(j, n) }

ENTRY main {
  a = f32[3] parameter(0)
  s = ((f32[3]), f32[3], s32[]) async-start(a), calls=negated
  zero = s32[] constant(0)
  t = (s32[], ((f32[3]), f32[3], s32[])) tuple(zero, s)
  w = (s32[], ((f32[3]), f32[3], s32[])) while(t), condition=condition, body=body
  g = ((f32[3]), f32[3], s32[]) get-tuple-element(w), index=1
  ROOT d = f32[3] async-done(g), calls=negated
}
"""

DOT = """HloModule m

ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[3,2] parameter(1)
  s = ((f32[2,3]), (), u32[]) dot-start(a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = ((f32[2,3], f32[3,2]), (), u32[]) dot-update(s, b)
  ROOT d = f32[2,2] dot-done(u)
}
"""

A, B = (
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.full((2, 3), 2, np.float32),
)
CASES = {
    "late operands": (LATE, (A, B), A - B),
    "late result": (LATE_RESULT, (A, B), A - B),
    "across tuples": (AROUND, (A[0],), 2 * A[0]),
    "across a loop": (LOOP, (A[1],), 8 * A[1]),
    "a dot completed": (DOT, (A, B.T.copy()), A @ B.T),
}


@pytest.mark.parametrize("name", CASES)
def test_chains_are_valid_and_run(name: str) -> None:
    text, arguments, expected = CASES[name]
    module = parse(text)
    module.verify()
    np.testing.assert_array_equal(xlanb.evaluate(module, *arguments), expected)
    np.testing.assert_array_equal(xlanb.compile(text)(*arguments), expected)


@pytest.mark.parametrize("name", CASES)
def test_text_and_proto_give_the_chain_back(name: str) -> None:
    module = parse(CASES[name][0])
    assert str(parse(str(module))) == str(module)
    again = HloModule.from_proto(module.to_proto())
    again.verify()
    assert str(again) == str(module)


def test_what_a_chain_wraps_is_found_through_what_hands_it_on() -> None:
    module = parse(AROUND)
    done, start = module.find("d"), module.find("s")
    assert done is not None
    assert producer(done.operands[0]) is start
    assert async_start(done) is start
    assert wrapped_computation(done) is next(c for c in module.computations if c.name == "twice")
    alone = parse("HloModule m\nENTRY e {\n p = ((f32[]), f32[], s32[]) parameter(0)\n ROOT d = f32[] async-done(p)\n}")
    assert wrapped_computation(alone.entry_computation.root) is None


def test_links_are_printed_as_what_they_wrap() -> None:
    assert "%d = f32[3]{0} negate-done(%s.1)" in str(parse(LOOP)).replace("%s)", "%s.1)")
    assert "custom-call" not in str(parse(LOOP))


def test_an_update_keeps_its_aliases() -> None:
    text = LATE.replace("call-update(u, b)", "call-update(u, b), output_to_operand_aliasing={{2}: (0, {2})}")
    assert "call-update(%u, %b), output_to_operand_aliasing={{2}: (0, {2})}" in str(parse(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LATE.replace("call-update(u, b)", "call-update(u)"), "end in the shapes of the operands behind the first"),
        (LATE.replace("call-done(v)", "call-done(u)"), "expected all operands of async_wrapped"),
        (LATE.replace("((f32[2,3]), (), s32[])", "((f32[9,3]), (), s32[])"), "expected"),
        (AROUND.replace("copy(g)", "negate(g)"), "expected"),
        (AROUND.replace("async-done(c)", "async-done(p)").replace("a = f32[3] parameter(0)", "a = f32[3] parameter(0)\n  p = ((f32[3]), f32[3], s32[]) parameter(1)"), "expected async-start or async-update as operand, not parameter"),
        (AROUND.replace("ROOT d = f32[3] async-done(c)", "x = f32[3] async-done(c)\n  ROOT d = f32[3] async-done(g)"), "expected one user: both"),
        (LOOP.replace("ROOT d = f32[3] async-done(g), calls=negated", "z = ((f32[3]), f32[3], s32[]) async-start(a), calls=negated\n  ROOT d = f32[3] async-done(g)"), "expected an async-done at the end"),
    ],
)  # fmt: skip
def test_broken_chains_are_refused(text: str, message: str) -> None:
    with pytest.raises(HloVerifierError, match=message):
        parse(text).verify()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LATE.replace("call-done(v)", "negate-done(v)"), "Expect async wrapped opcode to be call, but got negate"),
        (AROUND.replace("async-done(c)", 'async-done(c), async_execution_thread="x"'), "Expect async_execution_thread"),
        (AROUND.replace("async-done(c)", "async-done(c, a)"), "expects 1 operands, but has 2"),
        (LATE.replace("((f32[2,3]), (), s32[]) call-update", "f32[2,3] call-update"), "expect the shape to be in the form"),
    ],
)  # fmt: skip
def test_chains_that_disagree_are_no_text(text: str, message: str) -> None:
    with pytest.raises(HloParseError, match=message):
        parse(text)


def test_elements_of_a_wrapped_tuple_come_late() -> None:
    text = """HloModule m

pair { x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  ROOT t = (f32[3], f32[3]) tuple(x, y) }

ENTRY e {
  a = f32[3] parameter(0)
  s = ((f32[3]), (), s32[]) async-start(a), calls=pair
  u = ((f32[3], f32[3]), (f32[3], f32[3]), s32[]) async-update(s, a)
  ROOT d = (f32[3], f32[3]) async-done(u)
}
"""
    module = parse(text)
    module.verify()
    assert "tuple-start(%a)" in str(module)
    again = parse(str(module))
    again.verify()
    assert str(again) == str(module)
    for part in xlanb.evaluate(again, A[0]):
        np.testing.assert_array_equal(part, A[0])


def test_a_computation_that_others_call_too_is_printed() -> None:
    text = """HloModule m

double {
  p = f32[4] parameter(0)
  ROOT d = f32[4] negate(p)
}

ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4]) async-start(x), calls=double
  u = f32[4] async-done(s)
  ROOT f = f32[4] fusion(u), kind=kLoop, calls=double
}
"""
    printed = str(parse(text))
    assert "%double " in printed
    assert "negate-start" in printed
    assert parse(printed).entry_computation.root.opcode.text == "fusion"
