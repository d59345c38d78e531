"""Layouts of forwarded values: what the verifier rejects, a copy fixes and a bitcast shows."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import HloVerifierError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloOpcode, parse
from xlanb.hlo.verifier import verify_layouts
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.simplifiers.hlo_cse import HloCse

BRANCHES = """
yes {
  x = f32[2,3]{0,1} parameter(0)
  ROOT n = f32[2,3]{1,0} negate(x)
}
no {
  x = f32[2,3]{1,0} parameter(0)
  ROOT n = f32[2,3]{0,1} copy(x)
}
"""
LOOP = """
body {
  s = (s32[], f32[2,3]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  a = f32[2,3]{0,1} get-tuple-element(s), index=1
  c = f32[2,3]{1,0} negate(a)
  ROOT r = (s32[], f32[2,3]{1,0}) tuple(n, c)
}
test {
  s = (s32[], f32[2,3]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT
}
"""
WRONG = {
    "tuple": ("", "ROOT t = (f32[2,3]{0,1}) tuple(p)", "operand p"),
    "element": (
        "",
        "t = (f32[2,3]{1,0}) tuple(p)\n  ROOT g = f32[2,3]{0,1} get-tuple-element(t), index=0",
        "element of t",
    ),
    "barrier": ("", "ROOT o = f32[2,3]{0,1} opt-barrier(p)", "operand p"),
    "update": (
        "",
        "z = s32[] constant(0)\n  v = f32[1,1]{1,0} constant({{7}})\n  ROOT u = f32[2,3]{0,1} dynamic-update-slice(p, v, z, z)",
        "which is updated",
    ),
    "copy-start": (
        "",
        "s = (f32[2,3]{0,1}, f32[2,3]{1,0}, u32[]) copy-start(p)\n  ROOT d = f32[2,3]{0,1} copy-done(s)",
        "operand p",
    ),
    "copy-done": (
        "",
        "s = (f32[2,3]{1,0}, f32[2,3]{1,0}, u32[]) copy-start(p)\n  ROOT d = f32[2,3]{0,1} copy-done(s)",
        "copy of s",
    ),
    "call": (
        "f {\n  x = f32[2,3]{0,1} parameter(0)\n  ROOT n = f32[2,3]{1,0} copy(x)\n}",
        "ROOT c = f32[2,3]{1,0} call(p), to_apply=f",
        "parameter x of f",
    ),
    "fusion": (
        "f {\n  x = f32[2,3]{1,0} parameter(0)\n  ROOT n = f32[2,3]{0,1} negate(x)\n}",
        "ROOT c = f32[2,3]{1,0} fusion(p), kind=kLoop, calls=f",
        "root n of f",
    ),
    "conditional": (
        BRANCHES,
        "q = pred[] constant(true)\n"
        "  ROOT c = f32[2,3]{1,0} conditional(q, p, p), true_computation=yes, false_computation=no",
        "parameter of yes",
    ),
    "while": (
        LOOP,
        "z = s32[] constant(0)\n  t = (s32[], f32[2,3]{1,0}) tuple(z, p)\n"
        "  ROOT w = (s32[], f32[2,3]{1,0}) while(t), condition=test, body=body",
        "parameter of body",
    ),
}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def text(name: str) -> str:
    computations, body, _ = WRONG[name]
    return f"HloModule m\n{computations}\nENTRY e {{\n  p = f32[2,3]{{1,0}} parameter(0)\n  {body}\n}}"


def leaves(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("name", WRONG)
def test_the_verifier_says_what_is_taken_in_another_layout(name: str) -> None:
    module = parse(text(name))
    module.verify()
    with pytest.raises(HloVerifierError, match=f"{WRONG[name][2]}.*but is taken as"):
        verify_layouts(module)
    with pytest.raises(HloVerifierError):
        module.verify(layout_sensitive=True)


@pytest.mark.parametrize("name", WRONG)
def test_copies_make_layouts_agree_and_keep_every_value(name: str) -> None:
    module = parse(text(name))
    wanted = leaves(evaluate(module, X))
    agree(module)
    verify_layouts(module)
    module.verify()
    for got, value in zip(leaves(evaluate(module, X)), wanted, strict=True):
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("name", WRONG)
def test_bitcasts_show_the_elements_out_of_order(name: str) -> None:
    module = parse(text(name))
    wanted = leaves(evaluate(module, X))
    agree(module, HloOpcode.BITCAST)
    verify_layouts(module)
    got = leaves(evaluate(module, X))
    assert any(not np.array_equal(g, w) for g, w in zip(got, wanted, strict=True))
    for g, w in zip(got, wanted, strict=True):
        if "update" not in name:  # an update overwrites one element, wherever it is
            np.testing.assert_array_equal(np.sort(g, axis=None), np.sort(w, axis=None))


def test_the_entry_layout_is_part_of_it() -> None:
    module = parse(
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}\n"
        "ENTRY e {\n  p = f32[2,3]{1,0} parameter(0)\n  ROOT n = f32[2,3]{1,0} negate(p)\n}"
    )
    with pytest.raises(HloVerifierError, match="the parameter in entry_computation_layout"):
        verify_layouts(module)
    as_bytes = module.clone()
    agree(module)
    verify_layouts(module)
    np.testing.assert_array_equal(evaluate(module, X), -X)
    entry = as_bytes.entry_computation
    entry.update(entry.parameters[0], shape=as_bytes.entry_layout[0][0])
    agree(as_bytes, HloOpcode.BITCAST)
    np.testing.assert_array_equal(evaluate(as_bytes, X), -X.reshape(2, 3).ravel().reshape(3, 2).T)


def test_dimensions_of_size_one_lie_nowhere() -> None:
    module = parse("HloModule m\nENTRY e {\n  p = f32[1,3]{1,0} parameter(0)\n  ROOT t = (f32[1,3]{0,1}) tuple(p)\n}")
    verify_layouts(module)
    before = module.record()
    agree(module)
    assert module.record() is before


def test_a_bitcast_keeps_reading_the_bytes_that_it_read() -> None:
    module = parse(
        """HloModule m
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  a = f32[2,3]{1,0} negate(p)
  b = f32[2,3]{0,1} negate(p)
  x = f32[6]{0} bitcast(a)
  y = f32[6]{0} bitcast(b)
  ROOT t = (f32[6]{0}, f32[6]{0}) tuple(x, y)
}"""
    )
    wanted = evaluate(module, X)
    HloCse(is_layout_sensitive=False).run(module)
    assert sum(i.opcode is HloOpcode.NEGATE for i in module.instructions()) == 1
    for got, value in zip(evaluate(module, X), wanted, strict=True):
        np.testing.assert_array_equal(got, value)


COPIES = """HloModule m
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  a = f32[2,3]{1,0} copy(p)
  b = f32[2,3]{0,1} copy(p)
  c = f32[2,3]{0,1} copy(p)
  ROOT t = (f32[2,3]{1,0}, f32[2,3]{0,1}, f32[2,3]{0,1}) tuple(a, b, c)
}"""


@pytest.mark.parametrize(("is_layout_sensitive", "left"), [(False, 1), (None, 1), (True, 2)])
def test_cse_where_layouts_count_and_where_they_do_not(is_layout_sensitive: bool | None, left: int) -> None:
    module = parse(COPIES)
    HloCse(is_layout_sensitive=is_layout_sensitive).run(module)
    assert sum(i.opcode is HloOpcode.COPY for i in module.instructions()) == left


def test_cse_sees_itself_that_layouts_count_where_there_are_bitcasts() -> None:
    module = parse(
        COPIES.replace("ROOT t = (f32[2,3]{1,0}", "d = f32[6]{0} bitcast(a)\n  ROOT t = (f32[6]{0}").replace(
            "(a, b", "(d, b"
        )
    )
    HloCse().run(module)
    assert sum(i.opcode is HloOpcode.COPY for i in module.instructions()) == 2
