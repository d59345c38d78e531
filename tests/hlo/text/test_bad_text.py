"""Text that is not HLO raises HloParseError with a location, quickly, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.errors import HloParseError, HloVerifierError
from xlanb.hlo import parse

GOOD = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[2,3]{1,0})->f32[2]{0}}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y), metadata={op_type="Add" op_name="a/b" source_line=3}
}

ENTRY %e (p: f32[2,3]) -> f32[2] {
  %p = f32[2,3]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  %c = f32[] constant(-1.5e-3) // zero
  %k = f32[2,3]{1,0} constant({ { 1, 2, nan }, { inf, /*x*/ -4, 5 } })
  %n = f32[2,3]{1,0} add(%p, %k), frontend_attributes={a="b"}, backend_config={"x":[1]}
  ROOT %r = f32[2]{0} reduce(%n, %c), dimensions={1}, to_apply=%add
}
"""

BAD = [
    ("", "expects name"),
    ("HloModule m\nENTRY e {\n  c=f32[] constant(1)\n}", "expects name"),
    ("HloModule m\nENTRY e {\n  ROOT r = f32[] add(a, a)\n}", "does not exist|expects opcode"),
    ("HloModule m\nENTRY e {\n  ROOT r = f32[] nosuchop()\n}", "expects opcode but sees: nosuchop"),
    ("HloModule m\nENTRY e {\n  ROOT r = f32[] iotta()\n}", "expects opcode but sees: iotta; did you mean 'iota'"),
    (
        "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] negate(p, p)\n}",
        "expects 1 operands, but has 2",
    ),
    ("HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  p = f32[] parameter(1)\n}", "already exists"),
    ("HloModule m\nENTRY e {\n  p = f32[] parameter(1)\n}", "parameter numbers"),
    (
        "HloModule m\nf {\n  ROOT p = f32[] parameter(0)\n}\nENTRY e {\n  ROOT r = map(), dimensions={}, to_apply=f\n}",
        "map without operands needs a shape",
    ),
    (
        "HloModule m\nENTRY e {\n  %f32 = f32[] parameter(0)\n}",
        "illegal instruction name: f32; suggest renaming to: f32_",
    ),
    ("HloModule m\nENTRY e {\n  __p = f32[] parameter(0)\n}", "suggest renaming to: a_p"),
    ("HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n  ROOT q = f32[] negate(p)\n}", "only one ROOT"),
    ("HloModule m\nENTRY e {\n  p = f32[] parameter(0), nosuch=1\n}", "unexpected attribute"),
    (
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] reverse(p)\n}",
        "attribute dimensions is expected but not seen",
    ),
    (
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] reverse(p), dimensions={0}, dimensions={0}\n}",
        "already exists",
    ),
    ("HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(f32[3] p)\n}", "not compatible"),
    ("HloModule m\nENTRY e {\n  ROOT c = u4[] constant(-1)\n}", "out of range"),
    ("HloModule m\nENTRY e {\n  ROOT c = f16[] constant(65520)\n}", "out of range"),
    ("HloModule m\nENTRY e {\n  ROOT c = f32[2] constant({1})\n}", "expects 2 elements"),
    ("HloModule m\nENTRY e {\n  ROOT c = f32[2] constant({1, 2, 3})\n}", "sees more|expects 2"),
    ("HloModule m\nENTRY e {\n  ROOT c = s32[] constant(1.5)\n}", "expects integer"),
    ("HloModule m\nENTRY e {\n  ROOT c = f32[99999,99999] constant(1)\n}", "too large"),
    ("HloModule m\nENTRY e {\n  ROOT p = f32[4611686018427387904,4] parameter(0)\n}", "too large"),
    ("HloModule m\nENTRY e {\n  ROOT p = f32[2]{1} parameter(0)\n}", "permutation"),
    ("HloModule m\nENTRY e {\n  ROOT p = f32[2]{1,0} parameter(0)\n}", "dimensions"),
    ("HloModule m, nosuch=1\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}", "unexpected attribute"),
    (
        "HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\nENTRY f {\n  ROOT p = f32[] parameter(0)\n}",
        "only one ENTRY",
    ),
    (
        "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=later\n}\nlater {\n  ROOT q = f32[] parameter(0)\n}",
        "does not exist",
    ),
    ("HloModule m\nENTRY e {\n  ROOT d = f32[] async-done()\n}", "as their first operand"),
    (
        "HloModule m\nENTRY e {\n  s = ((f32[]), f32[]) async-start(), calls={\n ROOT p = f32[] parameter(0) }\n  d = f32[] async-done(s)\n  ROOT e = f32[] async-done(d)\n}",
        "cannot have AsyncDone",
    ),
    ("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[3] reshape(x)\n}", "same number of elements"),
    ("HloModule m\nENTRY e {\n  ROOT y = f32[3] dynamic-reshape()\n}", "at least one operand"),
    (
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[1,2] dynamic-reshape(x, x)\n}",
        "one dim size operand per result dimension; got 1 for 2",
    ),
    (
        "HloModule m\nENTRY e {\n  ROOT x = f32[4,4] parameter(0), sharding={devices=[2,2]<=[16]}\n}",
        "16 devices do not match the tiles",
    ),
    (
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] all-to-all(x), replica_groups=[2,2]<=[16], dimensions={0}\n}",
        "iota size 16 does not match the 4 devices",
    ),
    (
        "HloModule m\nENTRY e {\n  ROOT x = f32[4,4] parameter(0), sharding={mesh['a'=2], device_ids=([3]), [{}, {}]}\n}",
        "iota size 3 does not match the 2 devices",
    ),
    (
        "HloModule m\nENTRY e {\n  x = f32[1,4,4,1] parameter(0)\n  k = f32[1,1,1,1] parameter(1)\n"
        "  ROOT c = f32[1,4,4,1] convolution(x, k), window={size=1x1 rhs_reversal=1}, dim_labels=b01f_01io->b01f\n}",
        "'rhs_reversal=' has the same size",
    ),
    (
        "HloModule m, debug_attributes={{}:({log_mode=none})}\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}",
        "default, fusion_debugger",
    ),
    (
        "HloModule m, debug_attributes={{}:({level=1})}\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}",
        "unknown debug attribute",
    ),
    (
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] shuffle(x), dimensions={0}, mode=rotate\n}",
        "expects shifts",
    ),
    (
        "HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0), statistics={visualizing_index=0,a=1}, statistics={visualizing_index=0,a=2}\n}",
        "statistics already exists",
    ),
    (
        "HloModule m\nENTRY e {\n  s = f32[2] parameter(0)\n  ROOT u = ((f32[2]), f32[2], u32[]) all-reduce-update(s)\n}",
        "expects opcode",
    ),
    ("HloModule m /* open", "unterminated comment"),
    ('HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0), metadata={op_name="open}\n}', "expects string"),
    ('HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0), backend_config={"a": {\n}', "JSON"),
    (
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(p), sharding={devices=[2,2]0,1,2}\n}",
        "devices do not match the tiles",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_message_and_place(text: str, message: str) -> None:
    with pytest.raises(HloParseError, match=message) as caught:
        parse(text)
    assert caught.value.line >= 1
    assert caught.value.column >= 1
    assert str(caught.value).splitlines()[-1].strip() == "^"


def test_caret_stands_under_the_fault() -> None:
    with pytest.raises(HloParseError) as caught:
        parse("HloModule m\nENTRY e {\n  ROOT r = f32[] nosuchop()\n}")
    first, line, caret = str(caught.value).splitlines()
    assert first.startswith("3:18: ")
    assert line[caret.index("^") :].startswith("nosuchop")


HOSTILE = {
    "nested shapes": "HloModule m\nENTRY e { p = " + "(" * 50_000,
    "nested operands": "HloModule m\nENTRY e { p = f32[] " + "add(" * 50_000,
    "nested computations": "HloModule m\nENTRY e { q = f32[] call(), to_apply="
    + "{ROOT a = f32[] call(), to_apply=" * 50_000,
    "nested origin": "HloModule m\nENTRY e { q = f32[] parameter(0), origin={" + "(" * 50_000,
    "digits": "HloModule m\nENTRY e { q = f32[" + "1" * 50_000,
    "quotes": "HloModule m // x\n" + '"' + '\\"' * 50_000,
    "comments": "/*" * 50_000,
    "blanks": "HloModule m\nENTRY e { p = f32[2] parameter(0)\n r = f32[2] reverse(p), dimensions={1"
    + " " * 50_000
    + "x",
    "zeros": "HloModule m\nENTRY e {" + "".join(f" c{i} = f32[4096,4095] constant(0)\n" for i in range(40)) + "}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_soon(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(HloParseError):
        parse(HOSTILE[name])
    assert time.perf_counter() - start < 30  # checks only that it ends: a hang would take minutes


def test_allowed_depth_does_not_exhaust_the_stack() -> None:
    text = (
        "HloModule m\nENTRY e { q = f32[] parameter(0)\n ROOT p = f32[] " + "negate(f32[] " * 90 + "q" + ")" * 90 + "}"
    )
    assert parse(text).instruction_count == 91


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 12),
    st.text(max_size=6)
    | st.sampled_from([*'{}()[]",=%:', "ROOT", "f32[]", "-1", "99999999999999999999", "nan(0x", "..."]),
)
def test_mutations(at: int, cut: int, new: str) -> None:
    text = GOOD[:at] + new + GOOD[at + cut :]
    try:
        module = parse(text)
    except HloParseError:
        return
    assert str(parse(str(module))) == str(module)


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    with pytest.raises(HloParseError):
        parse(text)


def test_an_element_that_the_tuple_has_not_is_refused_by_the_verifier():
    text = "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  t = (f32[2]) tuple(a)\n  ROOT g = f32[2] get-tuple-element(t), index=1\n}\n"
    with pytest.raises(HloVerifierError, match="%g"):
        parse(text).verify()


@pytest.mark.parametrize("place", ['p = f32[] parameter(0), metadata={op_name="%s"}', "p = f32[] parameter(0) // %s"])
def test_half_of_a_surrogate_pair_is_no_text(place):
    with pytest.raises(HloParseError, match=r"2:\d+: '\\ud800' is half of a surrogate pair"):
        parse("HloModule m ENTRY e {\n ROOT " + place % "\ud800" + "\n}")
    parse("HloModule m ENTRY e {\n ROOT " + place % "\udcff" + "\n}")  # a byte that is not UTF-8


@pytest.mark.parametrize("value", ["{...}", "({...}, {...})"])
def test_a_constant_that_no_machine_holds_is_refused(value: str) -> None:
    shape = "f32[9223372036854775807]" if value == "{...}" else "(f32[9223372036854775807], f32[2])"
    with pytest.raises(HloParseError, match="is too large"):
        parse(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({value})\n}}\n")


def test_a_scalar_has_no_dimension_to_sort_along() -> None:
    text = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[] parameter(0)
  ROOT s = f32[] sort(x), dimensions={0}, to_apply=less }
"""
    with pytest.raises(HloVerifierError, match="expected dimensions in"):
        parse(text).verify()


@pytest.mark.parametrize("flags", ["{}", "{true,false}"])
def test_a_parameter_is_replicated_by_leaf(flags: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  ROOT p = f32[2] parameter(0), parameter_replication={flags}\n}}\n"
    with pytest.raises(HloVerifierError, match="1 leaf buffers"):
        parse(text).verify()
    empty = parse("HloModule m\nENTRY e {\n  ROOT p = () parameter(0), parameter_replication={}\n}\n")
    empty.verify()
    assert type(empty).from_proto(empty.to_proto()).to_proto() == empty.to_proto()


def test_a_constant_of_unknown_size_is_refused() -> None:
    with pytest.raises(HloParseError, match=r"f32\[4,\?\]\{1,0\} has a dimension of unknown size"):
        parse("HloModule m\n\nENTRY e {\n  ROOT c = f32[4,?]{1,0} constant({...})\n}\n")
