"""The interpreter: arguments, errors, limits, deep graphs, the API for one instruction."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xlanb.errors import EvaluationError
from xlanb.evaluator import RULES, Evaluator, evaluate, evaluate_instruction
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array

WITHOUT_RULE = {HloOpcode.SHUFFLE}


def test_every_opcode_has_a_rule_but_those_without_a_meaning_here():
    assert {o for o in HloOpcode if o not in RULES} == WITHOUT_RULE


def test_text_module_and_computation_give_the_same():
    text = "HloModule m\nENTRY e { p = s32[3] parameter(0)\n ROOT r = s32[3] multiply(p, p) }"
    module = parse(text)
    x = np.arange(3, dtype=np.int32)
    for target in (text, module, module.entry_computation):
        np.testing.assert_array_equal(evaluate(target, x), [0, 1, 4])


def test_a_tuple_result_is_nested_and_fresh():
    text = """HloModule m
ENTRY e {
  p = (f32[2], (s32[])) parameter(0)
  t = token[] after-all()
  ROOT r = ((f32[2], (s32[])), token[]) tuple(p, t)
}"""
    x = np.array([1, 2], np.float32)
    (a, (b,)), token = evaluate(text, (x, (np.int32(7),)))
    assert token is None
    assert b == 7
    a[0] = 5
    assert x[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "takes 1 argument, not 0"),
        ((np.zeros(3, np.float32),), r"argument 0 \(p\): expected f32\[2\], not f32\[3\]"),
        ((np.zeros(2, np.int32),), r"expected f32\[2\], not s32\[2\]"),
        (((np.zeros(2, np.float32),),), r"expected f32\[2\], not \(f32\[2\]\)"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(EvaluationError, match=message):
        evaluate("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }", *arguments)


def test_python_numbers_take_the_parameters_type():
    result = evaluate("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }", [1, 2])
    assert result.dtype == np.float32


def test_an_error_names_and_shows_the_innermost_instruction():
    text = """HloModule m
inner { q = f32[2] parameter(0)
 ROOT bad = f32[2] custom-call(q), custom_call_target="nobody" }
ENTRY e { p = f32[2] parameter(0)
 ROOT outer = f32[2] call(p), to_apply=inner }"""
    with pytest.raises(EvaluationError, match=r'^bad: custom-call target "nobody"') as caught:
        evaluate(text, np.zeros(2, np.float32))
    assert 'custom_call_target="nobody"' in str(caught.value)
    assert "outer" not in str(caught.value)


def test_a_result_that_does_not_have_the_shape_is_an_error():
    module = HloModule("m")
    entry = module.add_computation("e", entry=True)
    two = entry.constant(np.zeros(2, np.float32))
    entry.set_root(entry.add(HloOpcode.NEGATE, (two,), array(PrimitiveType.F32, (3,))))
    with pytest.raises(EvaluationError, match=r"expected f32\[3\], not f32\[2\]"):
        evaluate(module)


def test_a_chain_of_thousands_needs_no_recursion():
    module = HloModule("m")
    entry = module.add_computation("e", entry=True)
    x = entry.constant(np.int32(0))
    one = entry.constant(np.int32(1))
    for _ in range(5000):
        x = entry.add(HloOpcode.ADD, (x, one), x.shape)
    entry.set_root(x)
    assert evaluate(module) == 5000


def test_dead_instructions_are_not_evaluated():
    text = 'HloModule m\nENTRY e { p = s32[] parameter(0)\n dead = s32[] custom-call(p), custom_call_target="nobody"\n ROOT r = s32[] negate(p) }'
    assert evaluate(text, np.int32(3)) == -3


def test_a_computation_that_calls_itself_is_stopped():
    module = HloModule("m")
    entry = module.add_computation("e", entry=True)
    p = entry.add(HloOpcode.PARAMETER, (), array(PrimitiveType.F32), parameter_number=0)
    entry.set_root(entry.add(HloOpcode.CALL, (p,), p.shape, to_apply=entry))
    with pytest.raises(EvaluationError, match="deep"):
        evaluate(module, np.float32(1))


def test_a_loop_without_end_meets_the_limit():
    text = """HloModule m
c { i = s32[] parameter(0)
 ROOT t = pred[] constant(true) }
b { i = s32[] parameter(0)
 o = s32[] constant(1)
 ROOT j = s32[] add(i, o) }
ENTRY e { z = s32[] constant(0)
 ROOT w = s32[] while(z), condition=c, body=b }"""
    with pytest.raises(EvaluationError, match="too many instructions"):
        Evaluator(max_steps=10_000).run(parse(text).entry_computation, ())


def test_a_giant_value_is_refused_before_it_is_made():
    with pytest.raises(EvaluationError, match="GiB, more than the limit"):
        evaluate("HloModule m\nENTRY e { ROOT i = s32[100000,100000] iota(), iota_dimension=0 }")
    with pytest.raises(EvaluationError, match="GiB, more than the limit"):
        evaluate(
            "HloModule m\nENTRY e { z = f32[] constant(1)\n b = f32[100000,100000] broadcast(z), dimensions={}\n ROOT n = f32[100000,100000] negate(b) }"
        )


def test_one_instruction_from_operand_values():
    module = parse("HloModule m\nENTRY e { p = s32[2] parameter(0)\n ROOT r = s32[2] add(p, p) }")
    root = module.entry_computation.root
    np.testing.assert_array_equal(
        evaluate_instruction(root, [np.array([1, 2], np.int32), np.array([5, 5], np.int32)]), [6, 7]
    )
    with pytest.raises(EvaluationError, match="a value that does not depend on its operands alone"):
        evaluate_instruction(module.entry_computation.parameters[0], [])


def test_one_instruction_does_not_read_hidden_state():
    module = parse(
        "HloModule m\nENTRY e { a = f32[] constant(0)\n b = f32[] constant(1)\n ROOT r = f32[4] rng(a, b), distribution=rng_uniform }"
    )
    values = evaluate(module)
    assert ((values >= 0) & (values < 1)).all()
    with pytest.raises(EvaluationError, match="hidden state"):
        evaluate_instruction(module.entry_computation.root, [np.float32(0), np.float32(1)])


@pytest.mark.parametrize(("bounds", "result"), [("f8e4m3fn", "bf16"), ("bf16", "f8e4m3fn"), ("f32", "f16")])
def test_random_numbers_may_have_another_float_type_than_their_bounds(bounds, result):
    values = evaluate(f"""HloModule m
ENTRY e {{
  a = {bounds}[] constant(1)
  b = {bounds}[] constant(2)
  ROOT r = {result}[1000] rng(a, b), distribution=rng_uniform
}}""")
    assert str(values.dtype) in {"bfloat16", "float8_e4m3fn", "float16"}
    wide = values.astype(np.float32)
    assert ((wide >= 1) & (wide < 2)).all()


def test_numpys_warnings_do_not_leak():
    text = "HloModule m\nENTRY e { p = f32[3] parameter(0)\n l = f32[3] log(p)\n ROOT c = s8[3] convert(l) }"
    np.testing.assert_array_equal(evaluate(text, np.array([-1, 0, np.inf], np.float32)), [0, -128, 127])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("p = c64[3] parameter(0)\n  ROOT r = c64[3] shift-left(p, p)", "expected integers, not c64"),
        ("p = f32[3] parameter(0)\n  ROOT r = f32[3] shift-right-logical(p, p)", "expected integers, not f32"),
        (
            "p = f32[<=8] parameter(0)\n  n = s32[] constant(7)\n  ROOT r = f32[<=8] dynamic-reshape(p, n)",
            r"f32\[8\] has 8 elements, which does not match the sizes \[7\]",
        ),
        ("p = f32[<=3,2] parameter(0)\n  ROOT r = f32[<=6] bitcast(p)", "padding of a dynamic array is not kept"),
        (
            'p = f16[3,3] parameter(0)\n  ROOT r = (f16[3,3], f16[3]) custom-call(p), custom_call_target="lapack_cgeqrf_ffi"',
            r"not in f16\[3,3\]",
        ),
    ],
)
def test_what_hlo_allows_and_has_no_value_is_refused(body, message):
    module = parse(f"HloModule m\nENTRY e {{\n  {body}\n}}\n")
    module.verify()
    shape = module.entry_computation.parameters[0].array_shape
    with pytest.raises(EvaluationError, match=message):
        evaluate(module, np.zeros(shape.dimensions, shape.dtype))


def test_bitcasts_between_bytes_and_less():
    module = parse("HloModule m\nENTRY e {\n  p = s4[2,2] parameter(0)\n  ROOT r = u8[2] bitcast(p)\n}\n")
    value = evaluate(module, np.array([[1, 2], [-1, 0]], np.int8).astype(ml_dtypes.int4))
    np.testing.assert_array_equal(value, np.array([0x21, 0x0F], np.uint8))
