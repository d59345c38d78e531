"""Parsing: names, operands, attributes, literals, schedules, headers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.names import NameUniquer
from xlanb.shape import PrimitiveType


def entry(body: str, header: str = "HloModule m") -> str:
    return f"{header}\n\nENTRY e {{\n{body}\n}}\n"


def constant(shape: str, text: str) -> np.ndarray:
    return parse(entry(f"ROOT c = {shape} constant({text})")).entry_computation.root.literal.array


def test_long_and_short_forms_agree() -> None:
    long = entry(
        "%a = f32[2,3]{1,0} parameter(0)\n%b = (f32[2,3]{1,0}, s32[]) parameter(1)\n%g = f32[2,3]{1,0} get-tuple-element((f32[2,3]{1,0}, s32[]) %b), index=0\n"
        "ROOT %r = f32[2,3]{1,0} add(f32[2,3]{1,0} %a, f32[2,3]{1,0} %g)"
    )
    short = entry(
        "a = f32[2, 3] parameter(0) // one\nb = (f32[2,3], /*index=1*/s32[]) parameter(1)\ng = get-tuple-element(b), index=0\nROOT r = add(a, g)"
    )
    assert str(parse(long)) == str(parse(short))


def test_text_without_header_takes_its_name_from_the_entry() -> None:
    module = parse("helper {\n  ROOT p = f32[] parameter(0)\n}\n\nmain {\n  ROOT q = f32[2] parameter(0)\n}\n")
    assert module.name == "module_main"
    assert module.entry_computation.name == "main"


def test_single_instruction_gets_its_operands_as_parameters() -> None:
    module = parse("%r = f32[2] add(f32[2] %x, f32[2])")
    assert [i.name for i in module.entry_computation] == ["x", "_1", "r"]
    assert module.entry_computation.root.name == "r"
    assert [p.parameter_number for p in module.entry_computation.parameters] == [0, 1]


def test_nested_instructions_get_anonymous_names() -> None:
    module = parse(entry("p = f32[] parameter(0)\nROOT r = f32[] add(f32[] negate(p), f32[] negate(p))"))
    assert [i.name for i in module.entry_computation] == ["p", "negate.anon", "negate.anon.1", "r"]


def test_computations_named_like_element_types_are_renamed() -> None:
    body = " {\n  ROOT p = f32[] parameter(0)\n}\n"
    calls = "  %b = f32[] call(p), to_apply=%pred_\n  ROOT a = f32[] call(b), to_apply=%pred\n}\n"
    module = parse(f"HloModule m\n%pred{body}%pred_{body}ENTRY %__e {{\n  p = f32[] parameter(0)\n{calls}")
    assert sorted(c.name for c in module.computations) == ["a_e", "pred_", "pred_.1"]
    assert str(parse(str(module))) == str(module)


def test_names_are_made_unique_over_the_module() -> None:
    module = parse(
        "HloModule m\nf {\n  ROOT p = f32[] parameter(0)\n}\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT c = f32[] call(p), to_apply=f\n}\n"
    )
    assert [i.name for i in module.instructions()] == ["p", "p.1", "c"]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (["a", "a", "a.1", "a"], ["a", "a.1", "a.2", "a.3"]),
        (["a.1", "a.1", "a.1"], ["a.1", "a.0", "a.2"]),
        (["a.1", "a.1.0", "a.00"], ["a.1", "a.1.0", "a.0"]),
        ([".1", "a.", "a.x", "a.x"], [".1", "a.", "a.x", "a.x.1"]),
    ],
)
def test_name_uniquer(wanted: list[str], given: list[str]) -> None:
    uniquer = NameUniquer()
    assert [uniquer.unique(w) for w in wanted] == given


def test_nested_computation_and_async_sugar_are_computations_of_the_module() -> None:
    module = parse(
        entry(
            "p = f32[4] parameter(0)\nz = f32[] constant(0)\n"
            's = ((f32[4]), f32[4], u32[]) negate-start(p), async_execution_thread="t"\nd = f32[4] negate-done(s)\n'
            "ROOT r = f32[] reduce(d, z), dimensions={0}, to_apply={ x = f32[] parameter(0) y = f32[] parameter(1) ROOT a = f32[] add(x, y) }"
        )
    )
    assert [c.name for c in module.computations] == ["async_wrapped", "_", "e"]
    assert module.computations[0].execution_thread == "t"
    assert module.computations[0].root.opcode is HloOpcode.NEGATE


def test_attributes_come_in_any_order_and_defaults_are_left_out() -> None:
    module = parse(entry('p = f32[8] parameter(0)\nROOT r = f32[3] slice(p), metadata={op_name="n"}, slice={[1:7:2]}'))
    root = module.entry_computation.root
    assert root.attributes == {"slice": (SliceDimension(1, 7, 2),)}
    assert root.metadata.op_name == "n"
    text = "a = f32[4,2] parameter(0)\nROOT d = f32[4,4] dot(a, a), rhs_contracting_dims={1}, lhs_contracting_dims={1}, operand_precision={default,default}"
    assert set(parse(entry(text)).entry_computation.root.attributes) == {"lhs_contracting_dims", "rhs_contracting_dims"}


def test_schedule_is_the_order_of_the_text() -> None:
    body = "c = f32[] constant(1)\np = f32[] parameter(0)\nROOT r = f32[] add(p, c)"
    scheduled = parse(entry(body, "HloModule m, is_scheduled=true"))
    assert [i.name for i in scheduled.schedule[scheduled.entry_computation]] == ["c", "p", "r"]
    assert not parse(entry(body)).schedule


def test_control_predecessors() -> None:
    root = parse(
        entry("a = f32[] parameter(0)\nb = f32[] negate(a)\nROOT r = f32[] negate(a), control-predecessors={b}")
    ).entry_computation.root
    assert [p.name for p in root.control_predecessors] == ["b"]
    assert root.control_predecessors[0].control_successors == (root,)


def test_element_types_and_layouts() -> None:
    text = "p = bf16[8,<=128]{0,1:T(8,128)(2,1)L(4)S(5)} parameter(0)\nq = b(f32[2]) parameter(1)\nt = token[] parameter(2)\nROOT r = s4[4]{0:E(4)} parameter(3)"
    p, q, t, r = parse(entry(text)).entry_computation.parameters
    assert str(p.shape) == "bf16[8,<=128]{0,1:T(8,128)(2,1)L(4)S(5)}"
    assert (str(q.shape), str(t.shape), str(r.shape)) == ("b(f32[2]{0})", "token[]", "s4[4]{0:E(4)}")


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        ("f32[]", "-1.5e-3", -1.5e-3),
        ("f32[2,2]", "{ {1, 2}, {3, .5} }", [[1, 2], [3, 0.5]]),
        ("f32[2]", "{inf, -inf}", [math.inf, -math.inf]),
        ("pred[3]", "{1, false, true}", [True, False, True]),
        ("u64[]", "18446744073709551615", 2**64 - 1),
        ("s4[2]", "{-8, 7}", [-8, 7]),
        ("c64[2]", "{(1, -2), (0, inf)}", [1 - 2j, complex(0, math.inf)]),
        ("f32[0,3]", "{}", np.zeros((0, 3))),
        ("f32[2]", "3", [3, 0]),
        ("f16[]", "65519", 65504),
    ],
)
def test_literals(shape: str, text: str, value: object) -> None:
    array = constant(shape, text)
    np.testing.assert_array_equal(array, np.asarray(value).astype(array.dtype))


@pytest.mark.parametrize(
    ("shape", "text", "bits"),
    [
        ("f32[1]", "{nan}", 0x7FC00000),
        ("f32[1]", "{-nan}", 0xFFC00000),
        ("f32[1]", "{nan(0x7f)}", 0x7F80007F),
        ("bf16[1]", "{-nan(0x1)}", 0xFF81),
        ("f8e4m3fn[1]", "{-nan}", 0xFF),
    ],
)
def test_nan_bits(shape: str, text: str, bits: int) -> None:
    array = constant(shape, text)
    assert int(array.view(f"u{array.itemsize}")[0]) == bits


def test_elided_constants_take_no_memory() -> None:
    literal = parse(entry("ROOT c = f32[100000,100000] constant({...})")).entry_computation.root.literal
    assert literal.is_elided
    assert literal.array.strides == (0, 0)
    assert parse(entry("ROOT c = (f32[2], s32[]) constant({...})")).entry_computation.root.literal.is_elided


@pytest.mark.parametrize("value", ["{...}", "({{1},{2}}, {3,4})"])
def test_constants_have_no_dynamic_dimensions_also_in_tuples(value: str) -> None:
    module = parse(entry(f"ROOT c = (u16[2,<=1], s4[2]{{0:E(4)}}) constant({value})"))
    root = module.entry_computation.root
    assert str(root.shape) == str(root.literal.shape) == "(u16[2,1]{1,0}, s4[2]{0})"
    assert HloModule.from_proto(module.to_proto()).to_proto() == module.to_proto()


def test_values_of_its_own_where_xla_ignores_the_text() -> None:
    send = parse(
        entry(
            "p = f32[2] parameter(0)\nt = token[] after-all()\nROOT s = (f32[2], u32[], token[]) send(p, t), channel_id=1"
        )
    ).entry_computation.root
    assert str(send.shape) == "(f32[2]{0}, u32[], token[])"
    default = parse(
        entry("p = s32[] parameter(0)\nROOT r = pred[] compare(p, p), direction=LT, type=SIGNED")
    ).entry_computation.root
    assert "type" not in default.attributes


def test_inferred_shapes_keep_the_first_operands_layout() -> None:
    root = parse(
        entry("p = f32[5,4]{0,1} parameter(0)\nt = transpose(p), dimensions={1,0}\nROOT r = add(t, t)")
    ).entry_computation.root
    assert str(root.shape) == "f32[4,5]{1,0}"
    assert root.shape.element_type is PrimitiveType.F32


def test_threads_follow_an_async_start() -> None:
    module = parse(
        "HloModule m\ng {\n  ROOT p = f32[] parameter(0)\n}\nf {\n  q = f32[] parameter(0)\n  ROOT c = f32[] call(q), to_apply=g\n}\n"
        'ENTRY e {\n  x = f32[] parameter(0)\n  s = ((f32[]), f32[], u32[]) async-start(x), calls=f, async_execution_thread="host"\n  ROOT d = f32[] async-done(s), calls=f\n}\n'
    )
    assert [(c.name, c.execution_thread) for c in module.computations] == [("g", "host"), ("f", "host"), ("e", "")]
