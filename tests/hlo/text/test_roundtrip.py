"""Printed text parses to a module that prints the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.errors import HloParseError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.hlo.names import escape
from xlanb.hlo.text.lexer import Cursor, unescape
from xlanb.hlo.text.literal_text import float_text, parse_literal
from xlanb.hlo.text.parse_shape import parse_shape
from xlanb.hlo.text.printer import PrintOptions, module_text
from xlanb.shape import ArrayShape, Layout, PrimitiveType, Shape, TupleShape

ARRAYS = [t for t in PrimitiveType if t.is_array and t.scalar is not None]


@st.composite
def shapes(draw: st.DrawFn, depth: int = 2) -> Shape:
    """Nested shapes with any element type, dynamic dimensions, tiled layouts and memory spaces."""
    if depth and draw(st.booleans()):
        return TupleShape(tuple(draw(st.lists(shapes(depth - 1), max_size=7))))
    dims = draw(st.lists(st.integers(0, 9), max_size=4))
    order = draw(st.permutations(range(len(dims))))
    tiles = draw(
        st.lists(st.lists(st.one_of(st.none(), st.integers(1, 8)), min_size=1, max_size=2).map(tuple), max_size=2)
    )
    layout = Layout(tuple(order), tuple(tiles), draw(st.integers(0, 3)), 0, draw(st.sampled_from([1, 4])))
    dynamic = tuple(draw(st.booleans()) for _ in dims)
    return ArrayShape(draw(st.sampled_from(ARRAYS)), tuple(dims), layout, dynamic)


@given(shapes())
def test_shapes(shape: Shape) -> None:
    assert parse_shape(Cursor(str(shape)), {}) == shape


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_strings(text: str) -> None:
    assert unescape(escape(text), Cursor("")) == text
    module = parse(
        f'HloModule m\nENTRY e {{\n  ROOT p = f32[] parameter(0), metadata={{op_name="{escape(text)}"}}\n}}\n'
    )
    assert module.entry_computation.root.metadata.op_name == text
    assert str(parse(str(module))) == str(module)


@st.composite
def modules(draw: st.DrawFn) -> HloModule:
    """Chains of elementwise instructions, constants and tuples."""
    module = HloModule("m")
    entry = module.add_computation("e", entry=True)
    shape = ArrayShape(PrimitiveType.F32, (2, 3), Layout.default(2))
    values = [
        entry.add(HloOpcode.PARAMETER, (), shape, name=draw(st.sampled_from(["p", "x.1", "a-b"])), parameter_number=0)
    ]
    for _ in range(draw(st.integers(1, 12))):
        opcode = draw(
            st.sampled_from([HloOpcode.ADD, HloOpcode.NEGATE, HloOpcode.MULTIPLY, HloOpcode.REVERSE, HloOpcode.SELECT])
        )
        operands = [draw(st.sampled_from(values)) for _ in range(opcode.arity or 0)]
        if opcode is HloOpcode.SELECT:
            operands[0] = entry.add(
                HloOpcode.COMPARE,
                operands[1:],
                ArrayShape(PrimitiveType.PRED, (2, 3), Layout.default(2)),
                direction="LT",
            )
        more = {"dimensions": (0,)} if opcode is HloOpcode.REVERSE else {}
        values.append(entry.add(opcode, operands, shape, **more))
    entry.set_root(values[-1])
    return module


@settings(max_examples=60)
@given(modules(), st.booleans())
def test_modules(module: HloModule, short: bool) -> None:
    canonical = str(module)
    text = module_text(module.record(), PrintOptions.short_parsable()) if short else canonical
    assert str(parse(text)) == canonical


@settings(max_examples=60)
@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_float_literals(values: list[float]) -> None:
    text = ", ".join("nan" if v != v else repr(v) for v in values)  # noqa: PLR0124 - NaN
    module = parse(f"HloModule m\nENTRY e {{\n  ROOT c = f32[{len(values)}] constant({{{text}}})\n}}\n")
    again = parse(str(module))
    assert again.entry_computation.root.literal == module.entry_computation.root.literal


@pytest.mark.parametrize(
    "kind", ["bf16", "f16", "f8e4m3fn", "f8e5m2", "f8e5m2fnuz", "f8e4m3b11fnuz", "f4e2m1fn", "f8e3m4"]
)
def test_every_value_of_a_small_type(kind: str) -> None:
    dtype = PrimitiveType[kind.upper()].dtype
    raw = (
        np.arange(2 ** min(8 * dtype.itemsize, 16), dtype=f"u{dtype.itemsize}")
        if kind != "f4e2m1fn"
        else np.arange(16, dtype="u1")
    )
    values = raw.view(dtype)
    finite = values[np.isfinite(values.astype(np.float32))][:: 17 if dtype.itemsize == 2 else 1]
    for value in finite:
        from xlanb.hlo.text.literal_text import float_text

        text = float_text(value, PrimitiveType[kind.upper()])
        module = parse(f"HloModule m\nENTRY e {{\n  ROOT c = {kind}[] constant({text})\n}}\n")
        assert module.entry_computation.root.literal.array[()] == value


SHARED = """HloModule shared

leaf {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p)
}

twice {
  p = f32[] parameter(0)
  a = f32[] call(p), to_apply=leaf
  ROOT r = f32[] call(a), to_apply=leaf
}

ENTRY main {
  x = f32[] parameter(0)
  p = pred[] parameter(1)
  ROOT c = f32[] conditional(p, x, x), true_computation=twice, false_computation=leaf
}
"""
ASYNC = """HloModule m

aside {
  p0 = f32[2,3]{1,0} parameter(0)
  p1 = f32[2,3]{1,0} parameter(1)
  ROOT r = %s
}

ENTRY e {
  a = f32[2,3]{1,0} parameter(0)
  b = f32[2,3]{1,0} parameter(1)
  s = ((f32[2,3]{1,0}, f32[2,3]{1,0}), f32[2,3]{1,0}, u32[]) async-start(a, b), calls=aside
  ROOT d = f32[2,3]{1,0} async-done(s)
}
"""


@pytest.mark.parametrize(
    "text",
    [
        SHARED,  # XLA prints twice before leaf, and cannot read that
        ASYNC.replace("ROOT r = %s", "").replace("  p1 =", "  ROOT p1 ="),  # XLA prints parameter-start(a, b)
        ASYNC % "f32[2,3]{1,0} subtract(p1, p0)",  # and this so that it reads subtract(p0, p1)
        ASYNC % "f32[2,3]{1,0} negate(p1)",
        ASYNC % "f32[2,3]{1,0} subtract(p0, p1)",
    ],
)
def test_what_is_printed_is_read_as_the_same_program(text: str) -> None:
    module = parse(text)
    module.verify()
    again = parse(str(module))
    assert str(again) == str(module)
    again.verify()
    assert str(HloModule.from_record(module.record())) == str(module)
    inputs = (
        [np.float32(3), np.True_] if text is SHARED else [np.ones((2, 3), np.float32), np.full((2, 3), 5, np.float32)]
    )
    np.testing.assert_array_equal(evaluate(again, *inputs), evaluate(module, *inputs))


@pytest.mark.parametrize("code", range(256))
def test_every_power_of_two_of_f8e8m0fnu_reads_back(code):
    value = np.array(code, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    text = float_text(value, PrimitiveType.F8E8M0FNU)
    literal = parse_literal(Cursor(text), ArrayShape(PrimitiveType.F8E8M0FNU, ()))
    assert literal.array.view(np.uint8) == code


@pytest.mark.parametrize(
    ("text", "code"), [("1e-50", 0), ("5.9e-39", 0), ("8.8e-39", 0), ("8.9e-39", 1), ("1.2e-38", 1)]
)
def test_the_smallest_values_of_f8e8m0fnu_are_read_as_the_nearest(text, code):
    literal = parse_literal(Cursor(text), ArrayShape(PrimitiveType.F8E8M0FNU, ()))
    assert literal.array.view(np.uint8) == code
    assert float_text(literal.array, PrimitiveType.F8E8M0FNU) == ("1.2e-38" if code else "5.9e-39")


def test_a_parameter_does_not_run_aside() -> None:
    text = (ASYNC % "f32[2,3]{1,0} add(p0, p1)").replace("async-start(a, b), calls=aside", "parameter-start(a, b)")
    with pytest.raises(HloParseError, match="expects opcode but sees: parameter-start"):
        parse(text)


def test_an_async_done_whose_short_form_is_an_opcode_of_its_own():
    text = (
        "HloModule m\n\nwrapped {\n  a = f32[] parameter(0)\n  t = token[] parameter(1)\n"
        "  ROOT s = (f32[], u32[], token[]) send(a, t), channel_id=1\n}\n\nENTRY e {\n"
        "  a = f32[] parameter(0)\n  t = token[] after-all()\n"
        "  s = ((f32[], token[]), (f32[], u32[], token[]), s32[]) async-start(a, t), calls=wrapped\n"
        "  ROOT d = (f32[], u32[], token[]) async-done(s)\n}\n"
    )
    module = parse(text)
    assert "send-done(" in str(module)
    again = parse(str(module))
    assert again.entry_computation.root.opcode is HloOpcode.ASYNC_DONE
    assert str(again) == str(module)


@pytest.mark.parametrize("opcode", ["copy", "negate"])
def test_an_async_start_of_what_has_a_start_of_its_own(opcode):
    text = (
        f"HloModule m\n\nwrapped {{\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] {opcode}(p)\n}}\n\nENTRY e {{\n"
        "  a = f32[4] parameter(0)\n  s = ((f32[4]), f32[4], u32[]) async-start(a), calls=wrapped\n"
        "  u = ((f32[4]), f32[4], u32[]) async-update(s)\n  ROOT d = f32[4] async-done(u)\n}\n"
    )
    module = parse(text)
    module.verify()
    assert str(parse(str(module))) == str(module)
    assert ("calls=%wrapped" in str(module)) == (opcode == "copy")
