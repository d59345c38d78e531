"""What the expanders don't change, their options, and what they reject."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloOpcode, parse
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.transforms import PASSES

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"


def codes(module) -> list[str]:
    return [str(i.opcode) for i in module.entry_computation]


def run(name: str, text: str, **options):
    module = parse(text)
    PASSES[name](**options).run(module)
    module.verify()
    return module


@pytest.mark.parametrize(("base", "count"), [(1, 1), (4, 2), (40, 1)])
def test_scans_are_cut_at_the_base_length(base, count):
    text = f"HloModule m\n{ADD}ENTRY main {{\n  x = f32[20] parameter(0)\n  z = f32[] constant(0)\n  ROOT w = f32[20] reduce-window(x, z), window={{size=20 pad=19_0}}, to_apply=add\n}}"
    module = run("reduce-window-rewriter", text, base_length=base)
    assert codes(module).count("reduce-window") == count
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(module, x), np.cumsum(x))


def test_an_update_out_of_bounds_is_left_out_whole():
    text = f"HloModule m\n{ADD}ENTRY main {{\n  x = f32[4] parameter(0)\n  i = s32[1] parameter(1)\n  u = f32[2] parameter(2)\n  ROOT s = f32[4] scatter(x, i, u), update_window_dims={{0}}, inserted_window_dims={{}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=add\n}}"
    module = run("scatter_expander", text)
    assert "scatter" not in codes(module)
    x, u = np.zeros(4, np.float32), np.ones(2, np.float32)
    for start, sums in ((-1, [0, 0, 0, 0]), (0, [1, 1, 0, 0]), (2, [0, 0, 1, 1]), (3, [0, 0, 0, 0])):
        np.testing.assert_array_equal(evaluate(module, x, np.array([start], np.int32), u), sums)


def test_random_numbers_stay_in_their_loop():
    text = """HloModule m

body {
  t = (s32[], f32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[] get-tuple-element(t), index=1
  r = f32[4] rng(a, a), distribution=rng_uniform
  ROOT u = (s32[], f32[], f32[4]) tuple(j, a, r)
}

cond {
  t = (s32[], f32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[] parameter(0)
  y = f32[4] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[], f32[4]) tuple(z, x, y)
  ROOT w = (s32[], f32[], f32[4]) while(t), condition=cond, body=body
}"""
    assert "rng" not in codes(run("while-loop-invariant-code-motion", text))


@pytest.mark.parametrize(("groups", "left"), [("{{0}}", 0), ("{{0},{1}}", 0), ("{{0,1}}", 1)])
def test_all_reduces_go_where_nobody_else_takes_part(groups, left):
    text = f"HloModule m\n{ADD}ENTRY main {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), replica_groups={groups}, to_apply=add\n}}"
    assert codes(run("all-reduce-simp", text)).count("all-reduce") == left


@pytest.mark.parametrize(
    ("pairs", "head", "left"), [("{{0,0}}", "", 0), ("", "", 1), ("{{0,0}}", ", num_partitions=2", 1)]
)
def test_permutes_go_where_one_device_sends_to_itself(pairs, head, left):
    text = f"HloModule m{head}\nENTRY main {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] collective-permute(x), source_target_pairs={pairs or '{}'}\n}}"
    assert codes(run("all-reduce-simp", text)).count("collective-permute") == left


def test_dots_that_need_each_other_are_not_merged():
    text = "HloModule m\nENTRY main {\n  x = f32[4,4] parameter(0)\n  y = f32[4,4] parameter(1)\n  a = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT b = f32[4,4] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    assert codes(run("dot-merger", text)).count("dot") == 2


def test_stochastic_conversion_has_as_many_bits_of_the_fraction_as_there_are_random_ones():
    text = "HloModule m\nENTRY main {\n  x = f32[2] parameter(0)\n  r = u32[2] parameter(1)\n  ROOT s = s8[2] stochastic-convert(x, r)\n}"
    x, r = np.array([2.0**-40, 2.0**-31], np.float32), np.zeros(2, np.uint32)
    assert evaluate(parse(text), x, r).tolist() == [0, 1]
    assert evaluate(run("stochastic_convert_decomposer", text), x, r).tolist() == [0, 1]


def test_stochastic_conversion_is_to_signed_integers():
    text = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  r = u32[4] parameter(1)\n  ROOT s = u8[4] stochastic-convert(x, r)\n}"
    with pytest.raises(PassError, match="expected a signed integer type"):
        run("stochastic_convert_decomposer", text)


@pytest.mark.parametrize("t", ["f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2", "f4e2m1fn", "bf16", "f16"])
def test_stochastic_conversion_of_narrow_floats(t):
    x = np.array([0.5, 0.5, 1.5, -2.5, -0.5, 1.0], np.float32).astype(BY_TEXT[t].dtype)
    bits, random = {"bf16": "u16", "f16": "u16"}.get(t, "u8"), [243, 8, 5, 244, 105, 0]
    r = (np.array(random) << (8 if bits == "u16" else 0)).astype(BY_TEXT[bits].dtype)
    text = f"HloModule m\nENTRY main {{\n  x = {t}[6] parameter(0)\n  r = {bits}[6] parameter(1)\n  ROOT s = s8[6] stochastic-convert(x, r)\n}}"
    assert evaluate(text, x, r).tolist() == [0, 1, 2, -2, -1, 1]
    assert evaluate(run("stochastic_convert_decomposer", text), x, r).tolist() == [0, 1, 2, -2, -1, 1]


@pytest.mark.parametrize(("location", "inserted"), [("OP_OUTPUTS", 1), ("OP_INPUTS", 2)])
def test_reduce_precision_before_or_after(location, inserted):
    text = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  n = f32[4] negate(x)\n  ROOT a = f32[4] add(n, y)\n}"
    module = run(
        "reduce-precision-insertion",
        text,
        location=location,
        exponent_bits=8,
        mantissa_bits=2,
        opcodes=frozenset({HloOpcode.ADD}),
    )
    assert codes(module).count("reduce-precision") == inserted
    with pytest.raises(PassError, match="unknown location 'EVERYWHERE'"):
        run("reduce-precision-insertion", text, location="EVERYWHERE")


def test_a_small_loop_is_hoisted_once():
    text = "HloModule m\nbody {\n  p = s32[] parameter(0)\n  one = s32[] constant(1)\n  ROOT a = s32[] add(p, one)\n}\ncond {\n  p = s32[] parameter(0)\n  n = s32[] constant(3)\n  ROOT c = pred[] compare(p, n), direction=LT\n}\nENTRY main {\n  x = s32[] parameter(0)\n  ROOT w = s32[] while(x), condition=cond, body=body\n}"
    module = parse(text)
    hlo_pass = PASSES["small-while-loop-hoisting"]()
    assert hlo_pass.run(module).changed
    assert not hlo_pass.run(module).changed
    assert not PASSES["small-while-loop-hoisting"](small_buffer_access_size=8).run(parse(text)).changed


def test_a_whole_loop_that_never_changes_is_hoisted_out_of_another(keeps_meaning):
    text = """HloModule m

inner_body {
  t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4] get-tuple-element(t), index=1
  y = f32[4] get-tuple-element(t), index=2
  e = f32[4] sine(y)
  s = f32[4] add(x, e)
  ROOT u = (s32[], f32[4], f32[4]) tuple(j, s, y)
}

inner_cond {
  t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4] get-tuple-element(t), index=1
  y = f32[4] get-tuple-element(t), index=2
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[4]) tuple(zero, y, y)
  w = (s32[], f32[4], f32[4]) while(start), condition=inner_cond, body=inner_body
  v = f32[4] get-tuple-element(w), index=1
  s = f32[4] subtract(v, x)
  ROOT u = (s32[], f32[4], f32[4]) tuple(j, s, y)
}

cond {
  t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[4], f32[4]) tuple(z, x, y)
  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body
}"""
    module = keeps_meaning(text, PASSES["while-loop-invariant-code-motion"]().run)
    assert codes(module).count("while") == 2
    assert "sine" in codes(module)
