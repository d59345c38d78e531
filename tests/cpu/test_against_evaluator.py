"""Compiled programs against the reference interpreter, a module per family of opcodes."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import parse

SUM = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""
MAX = """
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
"""
ARGMAX = """
argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(v, w), direction=GE
  mv = f32[] select(gt, v, w)
  mi = s32[] select(gt, i, j)
  ROOT t = (f32[], s32[]) tuple(mv, mi)
}
"""

BODIES = {
    "elementwise": (
        "x = f32[5,7] parameter(0)\n y = f32[5,7] parameter(1)",
        "a = f32[5,7] divide(x, y)\n ROOT r = f32[5,7] maximum(a, y)",
        "",
    ),
    "broadcast": ("x = f32[7] parameter(0)", "ROOT r = f32[3,7,2] broadcast(x), dimensions={1}", ""),
    "transpose": ("x = f32[3,4,5] parameter(0)", "ROOT r = f32[5,3,4] transpose(x), dimensions={2,0,1}", ""),
    "layouts": ("x = f32[3,4,5]{0,2,1} parameter(0)", "ROOT r = f32[3,4,5]{1,0,2} negate(x)", ""),
    "reshape": (
        "x = f32[3,4,5]{2,1,0} parameter(0)",
        "n = f32[3,4,5]{0,1,2} copy(x)\n ROOT r = f32[6,10]{0,1} reshape(n)",
        "",
    ),
    "reverse": ("x = f32[3,4,5] parameter(0)", "ROOT r = f32[3,4,5] reverse(x), dimensions={0,2}", ""),
    "slice": ("x = f32[10,9] parameter(0)", "ROOT r = f32[3,4] slice(x), slice={[1:9:3],[2:9:2]}", ""),
    "pad": (
        "x = f32[3,4] parameter(0)\n v = f32[] parameter(1)",
        "ROOT r = f32[8,3] pad(x, v), padding=2_1_1x-1_0",
        "",
    ),
    "concatenate": (
        "x = f32[2,3] parameter(0)\n y = f32[2,1] parameter(1)\n z = f32[2,5] parameter(2)",
        "ROOT r = f32[2,9] concatenate(x, y, z), dimensions={1}",
        "",
    ),
    "iota": ("x = s32[4,3] parameter(0)", "i = s32[4,3] iota(), iota_dimension=0\n ROOT r = s32[4,3] add(x, i)", ""),
    "dynamic-slice": (
        "x = f32[6,7] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)",
        "ROOT r = f32[2,7] dynamic-slice(x, i, j), dynamic_slice_sizes={2,7}",
        "",
    ),
    "dynamic-update-slice": (
        "x = f32[6,7] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] parameter(2)\n j = s32[] parameter(3)",
        "ROOT r = f32[6,7] dynamic-update-slice(x, u, i, j)",
        "",
    ),
    "gather": (
        "x = f32[6,7] parameter(0)\n i = s32[4,1] parameter(1)",
        "ROOT r = f32[4,7] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,7}",
        "",
    ),
    "scatter": (
        "x = f32[6,7] parameter(0)\n i = s32[4,1] parameter(1)\n u = f32[4,7] parameter(2)",
        "ROOT r = f32[6,7] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
        SUM,
    ),
    "reduce rows": (
        "x = f32[5,40] parameter(0)",
        "z = f32[] constant(0)\n ROOT r = f32[5] reduce(x, z), dimensions={1}, to_apply=sum",
        SUM,
    ),
    "reduce columns": (
        "x = f32[5,40] parameter(0)",
        "z = f32[] constant(0)\n ROOT r = f32[40] reduce(x, z), dimensions={0}, to_apply=sum",
        SUM,
    ),
    "reduce middle": (
        "x = f32[3,5,40] parameter(0)",
        "z = f32[] constant(-inf)\n ROOT r = f32[3,40] reduce(x, z), dimensions={1}, to_apply=max",
        MAX,
    ),
    "reduce all": (
        "x = f32[3,5,40] parameter(0)",
        "z = f32[] constant(1)\n ROOT r = f32[] reduce(x, z), dimensions={0,1,2}, to_apply=sum",
        SUM,
    ),
    "argmax": (
        "x = f32[5,9] parameter(0)",
        "i = s32[5,9] iota(), iota_dimension=1\n v = f32[] constant(-inf)\n k = s32[] constant(0)\n"
        " ROOT r = (f32[5], s32[5]) reduce(x, i, v, k), dimensions={1}, to_apply=argmax",
        ARGMAX,
    ),
    "reduce-window": (
        "x = f32[9,10] parameter(0)",
        "z = f32[] constant(-inf)\n ROOT r = f32[5,4] reduce-window(x, z), window={size=3x2 stride=2x3 pad=1_1x0_1}, to_apply=max",
        MAX,
    ),
    "complex division at the edges": (
        "x = f32[4] parameter(0)",
        "a = c64[9] constant({(1, 1), (1, nan), (1, inf), (inf, inf), (inf, 1), (inf, nan), (nan, nan), (1, 2), (-inf, 0)})\n"
        " b = c64[9] constant({(0, 0), (0, 0), (0, 0), (1, -2), (0, 0), (inf, 1), (1, inf), (inf, -inf), (-0, 3)})\n ROOT r = c64[9] divide(a, b)",
        "",
    ),
    "select-and-scatter": (
        "x = f32[6,6] parameter(0)\n s = f32[3,3] parameter(1)",
        "z = f32[] constant(0)\n ROOT r = f32[6,6] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, scatter=sum",
        SUM
        + """
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=GE
}
""",
    ),
    "dot": (
        "x = f32[6,9] parameter(0)\n y = f32[9,20] parameter(1)",
        "ROOT r = f32[6,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "",
    ),
    "dot in panels": (
        "x = f32[5,700] parameter(0)\n y = f32[700,331] parameter(1)",
        "ROOT r = f32[5,331] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "",
    ),
    "dot transposed": (
        "x = f32[9,6] parameter(0)\n y = f32[20,9] parameter(1)",
        "ROOT r = f32[6,20] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        "",
    ),
    "dot batched": (
        "x = f32[3,5,6,4] parameter(0)\n y = f32[5,4,3,10] parameter(1)",
        "ROOT r = f32[3,5,6,10] dot(x, y), lhs_batch_dims={0,1}, rhs_batch_dims={2,0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}",
        "",
    ),
    "dot of integers": (
        "x = s8[6,9] parameter(0)\n y = s8[9,20] parameter(1)",
        "ROOT r = s32[6,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "",
    ),
    "convolution": (
        "x = f32[2,9,8,5] parameter(0)\n k = f32[3,2,5,16] parameter(1)",
        "ROOT r = f32[2,5,4,16] convolution(x, k), window={size=3x2 stride=2x2 pad=1_1x0_1}, dim_labels=b01f_01io->b01f",
        "",
    ),
    "convolution grouped": (
        "x = f32[2,4,8] parameter(0)\n k = f32[6,2,3] parameter(1)",
        "ROOT r = f32[2,6,8] convolution(x, k), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0, feature_group_count=2",
        "",
    ),
    "convolution dilated": (
        "x = f32[1,5,3] parameter(0)\n k = f32[3,3,9] parameter(1)",
        "ROOT r = f32[1,8,9] convolution(x, k), window={size=3 pad=2_1 lhs_dilate=2 rhs_dilate=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f",
        "",
    ),
    "sort": (
        "x = f32[5,33] parameter(0)\n y = s32[5,33] parameter(1)",
        "ROOT r = (f32[5,33], s32[5,33]) sort(x, y), dimensions={1}, is_stable=true, to_apply=less",
        """
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=LT
}
""",
    ),
    "complex": (
        "x = f32[20] parameter(0)\n y = f32[20] parameter(1)",
        "c = c64[20] complex(x, y)\n e = c64[20] exponential(c)\n d = c64[20] divide(e, c)\n s = c64[20] sqrt(d)\n t = c64[20] tanh(s)\n"
        " a = f32[20] abs(t)\n ROOT r = (c64[20], f32[20]) tuple(t, a)",
        "",
    ),
    "map": (
        "x = f32[4,4] parameter(0)\n y = f32[4,4] parameter(1)",
        "ROOT r = f32[4,4] map(x, y), dimensions={0,1}, to_apply=sum",
        SUM,
    ),
    "bitcast-convert": (
        "x = f32[4] parameter(0)",
        "b = u16[4,2] bitcast-convert(x)\n ROOT r = f32[4] bitcast-convert(b)",
        "",
    ),
    "reduce-precision": (
        "x = f32[40] parameter(0)",
        "ROOT r = f32[40] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
        "",
    ),
}


def arguments(module, rng):
    out = []
    for p in module.entry_computation.parameters:
        shape = p.shape.as_array()
        if shape.element_type.is_floating:
            out.append(rng.standard_normal(shape.dimensions).astype(shape.dtype))
        else:
            out.append(rng.integers(-9, 9, shape.dimensions).astype(shape.dtype))
    return out


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def agree(got, want, tolerance=2e-5):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind in "fcV":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        else:
            assert np.array_equal(a, b)


@pytest.mark.parametrize("name", BODIES)
def test_each_family_agrees_with_the_evaluator(backend, rng, name):
    parameters, body, called = BODIES[name]
    module = parse(f"HloModule m\n{called}\nENTRY main {{\n {parameters}\n {body}\n}}\n")
    exe = backend(module)
    for _ in range(3):
        args = arguments(module, rng)
        agree(exe(*args), evaluate(module, *args), 2e-4 if name == "dot in panels" else 2e-5)


@pytest.mark.parametrize("name", BODIES)
def test_runs_are_bit_identical(backend, rng, name):
    parameters, body, called = BODIES[name]
    module = parse(f"HloModule m\n{called}\nENTRY main {{\n {parameters}\n {body}\n}}\n")
    args = arguments(module, rng)
    one, two = backend(module), backend(module)
    first = [x.tobytes() for x in leaves(one(*args))]
    assert first == [x.tobytes() for x in leaves(one(*args))]
    assert first == [x.tobytes() for x in leaves(two(*args))]


EDGES = {
    "s8": [0, 1, -1, 2, 7, 8, 100, -100, 127, -128],
    "s32": [0, 1, -1, 2, 31, 32, 33, 2**31 - 1, -(2**31), -7],
    "s64": [0, 1, -1, 2, 63, 64, 65, 2**63 - 1, -(2**63), -7],
    "u8": [0, 1, 2, 7, 8, 9, 100, 127, 128, 255],
    "u32": [0, 1, 2, 31, 32, 33, 2**31, 2**32 - 1, 7, 3],
    "s4": [0, 1, -1, 2, 3, 4, 5, 7, -8, -7],
    "u4": [0, 1, 2, 3, 4, 5, 7, 8, 14, 15],
}
INTEGER_OPS = "add subtract multiply divide remainder maximum minimum and or xor shift-left shift-right-logical shift-right-arithmetic power".split()


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("op", INTEGER_OPS)
def test_integer_edges(backend, kind, op):
    text = f"HloModule m\nENTRY main {{\n x = {kind}[100] parameter(0)\n y = {kind}[100] parameter(1)\n ROOT r = {kind}[100] {op}(x, y)\n}}\n"
    module = parse(text)
    dtype = module.entry_computation.root.shape.as_array().dtype
    values = np.array(EDGES[kind]).astype(dtype)
    x, y = np.repeat(values, 10), np.tile(values, 10)
    got, want = backend(module)(x, y), evaluate(module, x, y)
    wrong = got != want
    assert not wrong.any(), list(zip(x[wrong], y[wrong], got[wrong], want[wrong], strict=True))[:5]


@pytest.mark.parametrize("op", ["maximum", "minimum", "add", "multiply", "divide", "remainder", "power", "atan2"])
def test_float_edges(backend, op):
    text = f"HloModule m\nENTRY main {{\n x = f32[100] parameter(0)\n y = f32[100] parameter(1)\n ROOT r = f32[100] {op}(x, y)\n}}\n"
    module = parse(text)
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 3.5, -2], np.float32)
    x, y = np.repeat(values, 10), np.tile(values, 10)
    np.testing.assert_allclose(backend(module)(x, y), evaluate(module, x, y), rtol=1e-6)


@pytest.mark.parametrize("to", ["s8", "u8", "s32", "u32", "s64", "u64", "pred", "f16", "bf16"])
def test_floats_convert_as_the_evaluator_has_it(backend, to):
    module = parse(f"HloModule m\nENTRY main {{\n x = f32[14] parameter(0)\n ROOT r = {to}[14] convert(x)\n}}\n")
    x = np.array([0, -0.0, 0.9, -0.9, 1.5, 255, 256, -129, 3e9, -3e9, 1e30, np.inf, -np.inf, np.nan], np.float32)
    got, want = backend(module)(x), evaluate(module, x)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64), equal_nan=True), (got, want)
