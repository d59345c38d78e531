"""Inline tuple elements, `p#0`: read as get-tuple-elements, printed in the compact form."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloParseError
from xlanb.hlo import parse


def module(body: str, shape: str = "(f32[2], f32[2])") -> str:
    return f"HloModule m\nENTRY e {{\n  p = {shape} parameter(0)\n  {body}\n}}"


def lines(text: str) -> list[str]:
    return [line.strip() for line in str(parse(text)).split("{\n", 1)[1].splitlines()[1:-2] if line.strip() != "}"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "a = f32[2] add(p#0, p#1)\n  ROOT r = f32[2] multiply(a, %p#0)",
            [
                "%p_0 = f32[2]{0} get-tuple-element(%p), index=0",
                "%p_1 = f32[2]{0} get-tuple-element(%p), index=1",
                "%a = f32[2]{0} add(%p_0, %p_1)",
                "ROOT %r = f32[2]{0} multiply(%a, %p_0)",
            ],
        ),
        (
            "ROOT r = f32[2] add(f32[2] p # 0, p_0)\n  p_0 = f32[2] constant({1, 2})",
            None,
        ),
        (
            "p_0 = f32[2] constant({1, 2})\n  ROOT r = f32[2] add(f32[2] p # 0, p_0)",
            [
                "%p_0.1 = f32[2]{0} get-tuple-element(%p), index=0",
                "ROOT %r = f32[2]{0} add(%p_0.1, %p_0)",
            ],
        ),
    ],
)
def test_an_element_is_a_get_tuple_element(body, wanted):
    if wanted is None:
        with pytest.raises(HloParseError, match="instruction does not exist: p_0"):
            parse(module(body))
        return
    found = [line for line in lines(module(body)) if "parameter" not in line and "constant" not in line]
    assert found == wanted


def test_elements_of_elements():
    text = module("ROOT r = f32[2] negate(p#0#1)", "((f32[3], f32[2]), f32[4])")
    assert lines(text)[-2:] == [
        "%p_0_1 = f32[2]{0} get-tuple-element(%p_0), index=1",
        "ROOT %r = f32[2]{0} negate(%p_0_1)",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ROOT r = f32[2] negate(p#2)", r"4:28: element 2 does not exist in \(f32"),
        ("ROOT r = f32[2] negate(p#-1)", "element -1 does not exist"),
        ("ROOT r = f32[2] negate(p#0#0)", "element 0 does not exist in f32"),
        ("ROOT r = f32[2] negate(q#0)", "instruction does not exist: q"),
        ("ROOT r = f32[2] negate(p#x)", "expects integer"),
        ("ROOT r = f32[2] negate(f32[3] p#0)", "not compatible with that of the element"),
    ],
)
def test_what_is_no_element_is_refused_where_it_stands(body, message):
    with pytest.raises(HloParseError, match=message):
        parse(module(body))


LOOP = """HloModule m

body {
  s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4]{0} add(x, x), control-predecessors={i}
  ROOT t = (s32[], f32[4]{0}) tuple(j, y)
}

cond {
  s = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  x = f32[4]{0} parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]{0}) tuple(zero, x)
  w = (s32[], f32[4]{0}) while(t), condition=cond, body=body
  ROOT r = f32[4]{0} get-tuple-element(w), index=1
}
"""


def test_the_compact_form_parses_to_the_same_program():
    original = parse(LOOP)
    text = original.to_string("compact")
    assert text.count("get-tuple-element") == 2  # control predecessors, and the root
    assert "#1" in text
    again = parse(text)
    again.verify()
    assert again.instruction_count == original.instruction_count
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(xlanb.evaluate(again, x), 8 * x)
    np.testing.assert_array_equal(xlanb.compile(text)(x), 8 * x)
