"""Programs over arrays of dynamic size give the same results with separate sizes."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.shape import ArrayShape
from xlanb.transforms import PASSES

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
LESS = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n"
ONE = """next {
  p = (s32[], f32[<=8]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  v = f32[<=8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(k, one)
  w = f32[<=8] add(v, v)
  ROOT t = (s32[], f32[<=8]) tuple(j, w)
}
goes_on {
  p = (s32[], f32[<=8]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(k, three), direction=LT
}
"""
ROW = "d = f32[<=8] set-dimension-size(x, n), dimensions={0}\n"

# The program after `d`, the first n elements of x = f32[8]; m = f32[8,3], and s = f32[8,3] cut to n
# rows, may be used.
PROGRAMS = {
    "elementwise": "ROOT r = f32[<=8] multiply(d, d)",
    "sum": "z = f32[] constant(0)\n  ROOT r = f32[] reduce(d, z), dimensions={0}, to_apply=add",
    "sum of rows": "z = f32[] constant(0)\n  ROOT r = f32[<=8] reduce(s, z), dimensions={1}, to_apply=add",
    "broadcast": "ROOT r = f32[3,<=8] broadcast(d), dimensions={1}",
    "transpose": "ROOT r = f32[3,<=8] transpose(s), dimensions={1,0}",
    "dot": "ROOT r = f32[3,3] dot(s, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot over rows": "ROOT r = f32[<=8,8] dot(s, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "dot by batches": "ROOT r = f32[<=8] dot(s, s), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    "concatenate": "ROOT r = f32[<=24] concatenate(d, x, d), dimensions={0}",
    "concatenate beside": "ROOT r = f32[<=8,6] concatenate(s, s), dimensions={1}",
    "pad": "z = f32[] constant(7)\n  ROOT r = f32[<=18] pad(d, z), padding=2_1_1",
    "cut by pad": "z = f32[] constant(7)\n  ROOT r = f32[<=7] pad(d, z), padding=0_-1",
    "slice beside": "ROOT r = f32[<=8,2] slice(s), slice={[0:8], [1:3]}",
    "flatten": "ROOT r = f32[<=24] reshape(s)",
    "split": "f = f32[<=24] reshape(s)\n  ROOT r = f32[<=8,3] reshape(f)",
    "ones": "ROOT r = f32[1,<=8,1] reshape(d)",
    "size": "ROOT r = s32[] get-dimension-size(d), dimensions={0}",
    "static size": "ROOT r = s32[] get-dimension-size(s), dimensions={1}",
    "sort": "ROOT r = f32[<=8] sort(d), dimensions={0}, to_apply=less",
    "sort beside": "ROOT r = f32[<=8,3] sort(s), dimensions={1}, to_apply=less",
    "reverse": "ROOT r = f32[<=8] reverse(d), dimensions={0}",
    "reverse beside": "ROOT r = f32[<=8,3] reverse(s), dimensions={1}",
    "window beside": "z = f32[] constant(0)\n  ROOT r = f32[<=8,2] reduce-window(s, z), window={size=1x2}, to_apply=add",
    "tuple": "t = (f32[<=8], f32[<=8,3]) tuple(d, s)\n  g = f32[<=8,3] get-tuple-element(t), index=1\n  ROOT r = (f32[<=8,3], (f32[<=8], f32[<=8,3])) tuple(g, t)",
    "loop": "k = s32[] constant(0)\n  t = (s32[], f32[<=8]) tuple(k, d)\n  w = (s32[], f32[<=8]) while(t), condition=goes_on, body=next\n  ROOT r = f32[<=8] get-tuple-element(w), index=1",
}


def text_of(program: str) -> str:
    return (
        f"HloModule m\n{ADD}{LESS}{ONE}ENTRY main {{\n  x = f32[8] parameter(0)\n  m = f32[8,3] parameter(1)\n  n = s32[] parameter(2)\n"
        f"  {ROW}  s = f32[<=8,3] set-dimension-size(m, n), dimensions={{0}}\n  {PROGRAMS[program]}\n}}"
    )


def leaves(value):
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_sizes_beside_arrays_give_the_same(program, rng):
    before, after = parse(text_of(program)), parse(text_of(program))
    PASSES["dynamic_padder"]().run(after)
    after.verify()
    for n in (0, 1, 5, 8):
        if n == 0 and program == "cut by pad":
            continue
        arguments = (
            rng.standard_normal(8).astype(np.float32),
            rng.standard_normal((8, 3)).astype(np.float32),
            np.int32(n),
        )
        for a, b in zip(leaves(evaluate(before, *arguments)), leaves(evaluate(after, *arguments)), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program", ["elementwise", "sum", "dot", "concatenate", "flatten", "split", "pad"])
def test_nothing_dynamic_is_left_but_the_result(program):
    module = parse(text_of(program))
    PASSES["dynamic_padder"]().run(module)
    left = [i for i in module.entry_computation if isinstance(i.shape, ArrayShape) and i.shape.is_dynamic]
    assert all(i.is_root and i.attributes.get("custom_call_target") == "SliceToDynamic" for i in left)


@pytest.mark.parametrize(("source", "target"), [("<=0,10,20", "<=0,10,20"), ("<=0,4", "<=0,2,2"), ("3,<=0", "3,1,<=0")])
def test_arrays_of_bound_0_are_reshaped(source, target):
    text = f"HloModule m\nENTRY main {{\n  x = f32[{source}] parameter(0)\n  ROOT r = f32[{target}] reshape(x)\n}}"
    module = parse(text)
    PASSES["dynamic_padder"]().run(module)
    module.verify()
    x = np.zeros(parse(text).entry_computation.parameters[0].array_shape.dimensions, np.float32)
    assert evaluate(module, x).shape == evaluate(parse(text), x).shape


def test_unbounded_dimensions_and_static_modules_stay():
    for shape in ("f32[?]", "f32[4]"):
        text = f"HloModule m\nENTRY main {{\n  x = {shape} parameter(0)\n  ROOT n = {shape} negate(x)\n}}"
        assert not PASSES["dynamic_padder"]().run(parse(text)).changed


@pytest.mark.parametrize(
    "instruction", ["gather(x, j), offset_dims={0,2}", "scatter(x, j, u), update_window_dims={0,2}, to_apply=add"]
)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_index_vectors_may_have_a_dynamic_size(instruction, count):
    scattered = instruction.startswith("scatter")
    attributes = (
        "inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}"
        if scattered
        else "collapsed_slice_dims={}, start_index_map={1,0}, slice_sizes={2,3}"
    )
    text = f"""HloModule m
{ADD}ENTRY e {{
  x = f32[10,4] parameter(0)
  j = s32[1,<=2] parameter(1)
  u = f32[2,1,3] parameter(2)
  ROOT r = {"f32[10,4]" if scattered else "f32[2,1,3]"} {instruction}, {attributes}, index_vector_dim=1
}}"""
    module = parse(text)
    PASSES["dynamic_padder"]().run(module)
    module.verify()
    x, updates = np.arange(40, dtype=np.float32).reshape(10, 4), np.ones((2, 1, 3), np.float32)
    arguments = x, np.ones((1, count), np.int32), updates
    for program in (parse(text), module):
        if count < 2:
            with pytest.raises(EvaluationError, match=f"index vectors have {count} elements instead of 2"):
                evaluate(program, *arguments)
            continue
        result = evaluate(program, *arguments)
        expected = x.copy()
        expected[1:3, 1:4] += 1
        np.testing.assert_array_equal(result, expected if scattered else x[1:3, 1:4][:, None])
