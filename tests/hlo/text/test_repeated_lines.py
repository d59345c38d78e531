"""A line with text that was read before has its own meaning, and its own errors."""

from __future__ import annotations

import pytest

from xlanb.errors import HloParseError
from xlanb.hlo import parse
from xlanb.hlo.instruction import HloInstruction

_HEAD = """HloModule m
plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  c = f32[] constant(2)
  t = (f32[4,4], f32[4,4]) tuple(x, y), origin={({"o" {0}}, {"o" {1}})}
"""
_LINES = """f32[4,4] add(x, y)
f32[4,4] add(%x, %y), metadata={op_name="a/b" op_type="Add"}
f32[4,4] add(x, y), metadata={op_name="it's" source_file="f.py" source_line=3}, backend_config={"a": {}}
f32[4,4] add(x, y), sharding={replicated}, metadata={op_name="s"}
f32[4,4] add(x, y), control-predecessors={x}
f32[4,4] add(x, y), frontend_attributes={k="v"}
f32[4,4]{0,1} transpose(x), dimensions={1,0}, metadata={op_name="t"}
f32[2,4] slice(x), slice={[0:2], [0:4]}
f32[4] reduce(x, c), dimensions={1}, to_apply=plus
f32[4] reduce(x, c), dimensions={1}, to_apply={ p = f32[] parameter(0) ROOT q = f32[] add(p, f32[] parameter(1)) }
f32[4,4] reduce-window(x, c), window={size=2x2 pad=0_1x0_1}, to_apply=plus
f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
f32[4,4] broadcast(c), dimensions={}
f32[] constant(0.5)
f32[] constant(nan)
f32[2] constant({1, 2})
f32[8,8] constant({...})
f32[4,4] get-tuple-element(t), index=1
f32[4,4] custom-call(x), custom_call_target="there"
f32[4,4] add(f32[4,4] x, f32[4,4] y)
f32[4,4] /* said */ add(x, /* twice */ y) // here
pred[4,4] compare(x, y), direction=LT
(f32[4,4], f32[]) tuple(x, c)""".splitlines()


def facts(i: HloInstruction) -> tuple[object, ...]:
    """Everything in an instruction's text but its name; for computations in braces their bodies."""
    called = {k: str(v) if hasattr(v, "root") else v for k, v in i.attributes.items()}
    attributes = {k: v for k, v in called.items() if k not in ("literal", "to_apply")}
    literal = repr(i.attributes.get("literal"))
    rest = (i.metadata, i.sharding, i.frontend_attributes, i.backend_config, i.statistics, i.origin)
    return (i.opcode, i.shape, [o.name for o in i.operands], attributes, literal, *rest, len(i.control_predecessors))


@pytest.mark.parametrize("line", _LINES)
def test_the_third_reads_as_the_first(line: str) -> None:
    module = parse(_HEAD + "".join(f"  r{k} = {line}\n" for k in range(3)) + "  ROOT z = f32[4,4] negate(x)\n}")
    first, *others = [i for i in module.entry_computation if i.name.startswith("r")]
    alone = parse(f"{_HEAD}  r0 = {line}\n  ROOT z = f32[4,4] negate(x)\n}}").entry_computation.find("r0")
    assert alone is not None
    assert all(facts(i) == facts(alone) for i in (first, *others))
    assert not any(i.attributes is first.attributes for i in others)


def test_elided_constants_stay_two() -> None:
    module = parse(
        _HEAD + "  q = f32[8,8] constant({...})\n  r = f32[8,8] constant({...})\n  ROOT z = f32[4,4] negate(x)\n}"
    )
    a, b = (module.entry_computation.find(n) for n in "qr")
    assert a is not None
    assert b is not None
    assert a.literal != b.literal


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("f32[4,4] add(x, y)", "f32[4,4] add(x, nothing)"),
        ("f32[4,4] add(x, y)", "f32[4,4] add(x)"),
        ("f32[4,4] add(x, y)", "f32[4,4] add(x, y), nothing=1"),
        ("f32[4,4] add(x, y)", 'f32[4,4] add(x, y), metadata={nothing="a"}'),
        ("f32[4,4] add(x, y)", "f32[4,4] addd(x, y)"),  # codespell:ignore
        ("f32[4,4] add(x, y)", "f32[4,4]{0} add(x, y)"),
        ('f32[4,4] custom-call(x), custom_call_target="there"', "f32[4,4] custom-call(x)"),
        ("f32[4,4] get-tuple-element(t), index=1", "f32[4,4] get-tuple-element(t)"),
        ("f32[] constant(0.5)", "f32[] constant(0.5.5)"),
    ],
)
def test_a_bad_line_is_refused_at_its_place_whatever_was_read_before(line: str, bad: str) -> None:
    told = []
    for before in ("", f"  r = {line}\n"):
        text = f"{_HEAD}{before}  bad = {bad}\n  ROOT z = f32[4,4] negate(x)\n}}"
        with pytest.raises(HloParseError) as caught:
            parse(text)
        number = text[: text.index("  bad")].count("\n") + 1
        told.append((caught.value.line - number, str(caught.value).split(":", 1)[1]))
    assert told[0] == told[1]


@pytest.mark.parametrize("bad", ["r = f32[4,4] add(x, y)", "ROOT s = f32[4,4] add(x, y)", "__s = f32[4,4] add(x, y)"])
def test_names_and_roots_are_checked_in_lines_read_before(bad: str) -> None:
    with pytest.raises(HloParseError):
        parse(f"{_HEAD}  r = f32[4,4] add(x, y)\n  ROOT z = f32[4,4] add(x, y)\n  {bad}\n}}")
