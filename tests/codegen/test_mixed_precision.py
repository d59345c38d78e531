"""Instructions with floats of several types are computed in the widest type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.codegen.mixed_precision import unmix
from xlanb.hlo.text.parser import parse

HEADER = """HloModule m

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ge {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = pred[] compare(p, q), direction=GE
}

ENTRY main {
"""

BODIES = {
    "running sum": "a = f32[8,128] parameter(0)\n c = bf16[] constant(0)\n ROOT r = bf16[8,128] reduce-window(a, c), window={size=1x128 pad=0_0x127_0}, to_apply=add",
    "running sum down": "a = f32[128,64] parameter(0)\n c = bf16[] constant(0)\n ROOT r = bf16[128,64] reduce-window(a, c), window={size=128x1 pad=127_0x0_0}, to_apply=add",
    "pool": "a = f32[4,32,32] parameter(0)\n c = bf16[] constant(0)\n ROOT r = bf16[4,16,16] reduce-window(a, c), window={size=1x2x2 stride=1x2x2}, to_apply=add",
    "transpose": "a = f32[64,32] parameter(0)\n ROOT r = bf16[32,64] transpose(a), dimensions={1,0}",
    "layout": "a = f32[64,32]{1,0} parameter(0)\n ROOT r = bf16[64,32]{0,1} copy(a)",
    "reduce": "a = f32[64,128] parameter(0)\n c = f32[] constant(0)\n ROOT r = bf16[64] reduce(a, c), dimensions={1}, to_apply=add",
    "columns": "a = bf16[64,128] parameter(0)\n c = f32[] constant(0)\n ROOT r = f32[128] reduce(a, c), dimensions={0}, to_apply=add",
    "add": "a = f32[64] parameter(0)\n b = bf16[64] parameter(1)\n ROOT r = bf16[64] add(a, b)",
    "pad": "a = bf16[64,64] parameter(0)\n c = f32[] parameter(1)\n ROOT r = f32[70,64] pad(a, c), padding=3_3x0_0",
    "slice": "a = f32[64,32] parameter(0)\n ROOT r = bf16[64,16] slice(a), slice={[0:64], [3:19]}",
    "reshape": "a = f32[64,32] parameter(0)\n ROOT r = bf16[32,64] reshape(a)",
    "sort": "a = f32[640] parameter(0)\n ROOT r = bf16[640] sort(a), dimensions={0}, to_apply=ge",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_result_is_the_evaluator_s(body):
    module = parse(HEADER + body + "\n}\n")
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(p.shape.as_array().dimensions).astype(p.shape.as_array().dtype)
        for p in module.entry_computation.parameters
    ]
    want = np.asarray(xlanb.evaluate(module, *arrays))
    got = xlanb.compile(module)(*arrays)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2e-2, atol=2e-2)


def test_two_types_of_one_width_meet_in_a_wider_one():
    text = "a = f16[64] parameter(0)\n b = bf16[64] parameter(1)\n ROOT r = f16[128] concatenate(a, b), dimensions={0}\n}\n"
    a, b = np.full(64, 1.25, np.float16), np.full(64, 1 / 256, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(xlanb.compile(HEADER + text)(a, b), np.repeat(np.float16([1.25, 1 / 256]), 64))


@pytest.mark.parametrize(
    "body",
    [
        "a = f32[8,16] parameter(0)\n b = f32[16,8] parameter(1)\n ROOT r = s32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = bf16[8,16] parameter(0)\n b = s8[16,8] parameter(1)\n ROOT r = s32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = f32[1,9,4] parameter(0)\n b = f32[3,4,5] parameter(1)\n ROOT r = s32[1,7,5] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
    ],
)
def test_sums_of_floats_become_integers_at_the_end(body):
    module = parse(HEADER + body + "\n}\n")
    rng = np.random.default_rng(0)
    shapes = [p.shape.as_array() for p in module.entry_computation.parameters]
    arrays = [(4 * rng.standard_normal(s.dimensions)).astype(s.dtype) for s in shapes]
    want = np.asarray(xlanb.evaluate(module, *arrays))
    np.testing.assert_allclose(xlanb.compile(module)(*arrays), want, atol=1)


def test_what_has_one_type_stays():
    text = (
        HEADER
        + "a = bf16[64] parameter(0)\n b = f32[64] parameter(1)\n ROOT t = (bf16[64], f32[64]) sort(a, b), dimensions={0}, to_apply=lt\n}\n"
    )
    text = text.replace(
        "ENTRY", "lt {\n p = bf16[] parameter(0)\n q = bf16[] parameter(1)\n x = f32[] parameter(2)\n y = f32[] parameter(3)\n"
        " ROOT s = pred[] compare(p, q), direction=LT\n}\n\nENTRY"
    )  # fmt: skip
    module = parse(text)
    before = str(module)
    assert not unmix(module)
    assert str(module) == before


@pytest.mark.parametrize("opcode", ["exponential", "tanh", "atan", "cbrt", "logistic", "negate"])
@pytest.mark.parametrize(
    ("narrow", "wide"), [("f8e5m2", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f8e4m3", "f16"), ("f32", "bf16")]
)
def test_functions_are_computed_in_the_wider_type(opcode, narrow, wide):
    module = parse(f"HloModule m\nENTRY e {{ x = {narrow}[4] parameter(0) ROOT r = {wide}[4] {opcode}(x) }}\n")
    given, got = (i.array_shape.dtype for i in (module.entry_computation.parameters[0], module.entry_computation.root))
    x = np.float32([1, -2, 3, 0.75]).astype(given)
    higher = max(given, got, key=lambda t: t.itemsize)
    apart = f"HloModule m\nENTRY e {{ x = {wide}[4] parameter(0) ROOT r = {wide}[4] {opcode}(x) }}\n"
    for run in (xlanb.compile(module), lambda a: xlanb.evaluate(module, a)):
        made = np.asarray(run(x))
        assert made.dtype == got
        if higher == got:
            expected = xlanb.evaluate(apart, x.astype(np.float32).astype(got))
            tolerance = 4 * float(ml_dtypes.finfo(got).eps)
            np.testing.assert_allclose(made.astype(np.float64), expected.astype(np.float64), rtol=tolerance)


def test_operands_of_several_types_are_not_rounded_to_the_result_first():
    text = "HloModule m\nENTRY e { x = bf16[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] multiply(x, y) }\n"
    x, y = np.float32([1.0078125, 3]).astype(ml_dtypes.bfloat16), np.float32([2.5, 1.0001])
    for run in (xlanb.compile(text), lambda *a: xlanb.evaluate(text, *a)):
        np.testing.assert_array_equal(run(x, y), x.astype(np.float32) * y)


@pytest.mark.parametrize("opcode", ["real", "imag", "abs"])
@pytest.mark.parametrize(("kind", "to"), [("c64", "f64"), ("c64", "bf16"), ("c128", "f32")])
def test_parts_of_complex_numbers_in_another_type(opcode, kind, to):
    text = f"HloModule m\nENTRY e {{ x = {kind}[3] parameter(0) ROOT r = {to}[3] {opcode}(x) }}\n"
    module = parse(text)
    module.verify()
    x = np.array([3 + 4j, -1.5 - 2j, 0.5], module.entry_computation.parameters[0].array_shape.dtype)
    exact = {"real": np.real, "imag": np.imag, "abs": np.abs}[opcode](x)
    for run in (xlanb.compile(text), lambda a: xlanb.evaluate(text, a)):
        made = np.asarray(run(x))
        assert made.dtype == module.entry_computation.root.array_shape.dtype
        np.testing.assert_allclose(made.astype(np.float64), exact, rtol=1e-7 if made.itemsize > 2 else 1e-2)


# A computation whose parameters and result (t0, t1, t2) are of other types than the arrays (f32)
# that it is applied to.
_SUM = "f {{\n  p = {0}[] parameter(0)\n  q = {1}[] parameter(1)\n  x = {2}[] convert(p)\n  y = {2}[] convert(q)\n  ROOT s = {2}[] add(x, y)\n}}\n"
_LESS = "f {{\n  p = {0}[] parameter(0)\n  q = {1}[] parameter(1)\n  x = f64[] convert(p)\n  y = f64[] convert(q)\n  ROOT s = pred[] compare(x, y), direction=LT\n}}\n"
_PAIR = (
    "f {{\n  p = {0}[] parameter(0)\n  i = s32[] parameter(1)\n  q = {1}[] parameter(2)\n  j = s32[] parameter(3)\n  x = {2}[] convert(p)\n"
    "  y = {2}[] convert(q)\n  s = {2}[] add(x, y)\n  k = s32[] add(i, j)\n  ROOT t = ({2}[], s32[]) tuple(s, k)\n}}\n"
)
APPLIED = {
    "reduce rows": (_SUM, "ROOT r = {2}[8] reduce(a, z), dimensions={{1}}, to_apply=f"),
    "reduce columns": (_SUM, "ROOT r = {2}[40] reduce(a, z), dimensions={{0}}, to_apply=f"),
    "reduce all": (_SUM, "ROOT r = {2}[] reduce(a, z), dimensions={{0,1}}, to_apply=f"),
    "reduce two": (
        _PAIR,
        "i = s32[8,40] iota(), iota_dimension=1\n w = s32[] constant(0)\n ROOT r = ({2}[8], s32[8]) reduce(a, i, z, w), dimensions={{1}}, to_apply=f",
    ),
    "pool": (_SUM, "ROOT r = f32[8,10] reduce-window(a, z), window={{size=1x4 stride=1x4}}, to_apply=f"),
    "running sum": (_SUM, "ROOT r = f32[8,40] reduce-window(a, z), window={{size=1x40 pad=0_0x39_0}}, to_apply=f"),
    "scatter": (
        _SUM,
        "i = s32[3] constant({{1,5,1}})\n u = f32[3,40] slice(a), slice={{[2:5], [0:40]}}\n ROOT r = f32[8,40] scatter(a, i, u), update_window_dims={{1}}, "
        "inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f",
    ),
    "select and scatter": (
        _SUM + _LESS.replace("f {{", "less {{"),
        "s = f32[8,20] slice(a), slice={{[0:8], [0:20]}}\n ROOT r = f32[8,40] select-and-scatter(a, s, z), window={{size=1x2 stride=1x2}}, "
        "select=less, scatter=f",
    ),
    "map": (_SUM, "b = f32[8,40] negate(a)\n ROOT r = f32[8,40] map(a, b), dimensions={{0,1}}, to_apply=f"),
    "map to the result's type": (_SUM, "ROOT r = {2}[8,40] map(a, a), dimensions={{0,1}}, to_apply=f"),
    "sort": (_LESS, "ROOT r = f32[8,40] sort(a), dimensions={{1}}, to_apply=f"),
}  # fmt: skip


@pytest.mark.parametrize("kinds", [("f32", "f64", "f32"), ("f64", "f64", "f64"), ("f64", "bf16", "f32"),
    ("bf16", "bf16", "bf16"), ("f16", "bf16", "f64")], ids="-".join)  # fmt: skip
@pytest.mark.parametrize("case", APPLIED.values(), ids=APPLIED)
def test_a_computation_of_other_types_than_the_arrays_it_is_applied_to(case, kinds):
    applied, body = (text.format(*kinds) for text in case)
    text = f"HloModule m\n{applied}ENTRY main {{\n a = f32[8,40] parameter(0)\n z = f32[] constant(0)\n {body}\n}}\n"
    one_type = text.replace("f64", "f32").replace("bf16", "f32").replace("f16", "f32")
    a = np.random.default_rng(0).integers(-3, 4, (8, 40)).astype(np.float32)  # sums of these are exact in all types
    module = parse(text)
    module.verify()
    for run in (xlanb.compile(module), lambda x: xlanb.evaluate(module, x)):
        for got, want in zip(_leaves(run(a)), _leaves(xlanb.evaluate(one_type, a)), strict=True):
            np.testing.assert_array_equal(got.astype(want.dtype), want)


def _leaves(value):
    return [np.asarray(v) for v in (value if isinstance(value, tuple) else (value,))]


def test_the_evaluator_rounds_to_what_a_reducer_takes():
    text = HEADER.replace("f32", "bf16") + "a = f32[3] parameter(0)\n c = f32[] constant(0)\n ROOT r = bf16[] reduce(a, c), dimensions={0}, to_apply=add\n}\n"  # fmt: skip
    small = np.float32([256, 1, 1])  # 257 is not a bf16: adding ones has no effect
    assert float(xlanb.evaluate(text, small)) == 256


def test_a_reducer_that_two_share_is_widened_for_both():
    text = """HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f64[] add(a, b)
}
ENTRY main {
  n = s32[1,1] parameter(0)
  u = f32[1,1,2] parameter(1)
  p = f32[] parameter(2)
  q = f32[1,2] parameter(3)
  g = f32[1,2] scatter(q, n, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  h = f32[1] reduce(q, p), dimensions={1}, to_apply=sum
  ROOT t = (f32[1,2], f32[1]) tuple(g, h)
}"""
    arrays = (
        np.zeros((1, 1), np.int32),
        np.full((1, 1, 2), 2, np.float32),
        np.float32(3),
        np.full((1, 2), 4, np.float32),
    )
    for got, expected in zip(xlanb.compile(text)(*arrays), xlanb.evaluate(text, *arrays), strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_lapack_computes_narrow_floats_in_f32(kind):
    text = (
        f"HloModule m\n\nENTRY e {{\n  a = {kind}[40,6,6] parameter(0)\n  b = {kind}[40,6,2] parameter(1)\n"
        f"  l = {kind}[40,6,6] cholesky(a), lower=true\n  ROOT x = {kind}[40,6,2] triangular-solve(l, b), "
        "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE\n}\n"
    )
    module, rng = parse(text), np.random.default_rng(0)
    half, dtype = rng.standard_normal((40, 6, 6)), module.entry_computation.root.shape.as_array().dtype
    a = (half @ half.transpose(0, 2, 1) + 6 * np.eye(6)).astype(dtype)
    b = rng.standard_normal((40, 6, 2)).astype(dtype)
    exe = xlanb.compile(module)
    assert not exe.program.host
    want = np.asarray(xlanb.evaluate(module, a, b)).astype(np.float32)
    np.testing.assert_allclose(exe(a, b).astype(np.float32), want, rtol=2e-2, atol=2e-2)


HYPOT = """HloModule m

hypot {{
  p = {t}[] parameter(0)
  q = {t}[] parameter(1)
  pp = {t}[] multiply(p, p)
  qq = {t}[] multiply(q, q)
  s = {t}[] add(pp, qq)
  two = {t}[] constant(2)
  half = {t}[] divide(s, two)
  whole = {t}[] multiply(half, two)
  ROOT r = {t}[] sqrt(whole)
}}

moments {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  x = {t}[] parameter(2)
  y = {t}[] parameter(3)
  ax = {t}[] add(a, x)
  by = {t}[] add(b, y)
  ROOT r = ({t}[], {t}[]) tuple(ax, by)
}}

ENTRY main {{
  a = {t}[37,300] parameter(0)
  c = {t}[] constant(0)
"""
FOLDS = {
    "rows": "ROOT r = {t}[37] reduce(a, c), dimensions={{1}}, to_apply=hypot",
    "columns": "ROOT r = {t}[300] reduce(a, c), dimensions={{0}}, to_apply=hypot",
    "all": "ROOT r = {t}[] reduce(a, c), dimensions={{0,1}}, to_apply=hypot",
    "running": "ROOT r = {t}[37,300] reduce-window(a, c), window={{size=1x300 pad=0_0x299_0}}, to_apply=hypot",
    "windows": "ROOT r = {t}[37,300] reduce-window(a, c), window={{size=1x9 pad=0_0x4_4}}, to_apply=hypot",
    "pairs": "ROOT r = ({t}[37], {t}[37]) reduce(a, a, c, c), dimensions={{1}}, to_apply=moments",
}


@pytest.mark.parametrize("t", ["bf16", "f16", "f8e5m2"])
@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_folds_of_narrow_floats_are_rounded_once(fold, t):
    wide = xlanb.compile((HYPOT + fold).format(t="f32") + "\n}\n")
    module = parse((HYPOT + fold).format(t=t) + "\n}\n")
    given = module.entry_computation.parameters[0].array_shape.dtype
    a = np.random.default_rng(0).random((37, 300), np.float32).astype(given)
    got, want = xlanb.compile(module)(a), wide(a.astype(np.float32))
    for x, y in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        unit = float(ml_dtypes.finfo(given).eps)
        np.testing.assert_allclose(x.astype(np.float32), y, rtol=0.51 * unit)
