"""Floats computed in f32 are rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.evaluator import evaluate


def _program(t: str, body: str) -> str:
    return f"HloModule m\nENTRY e {{ a = {t}[4096] parameter(0) b = {t}[4096] parameter(1) {body} }}"


def test_a_result_is_rounded_once() -> None:
    exe = xlanb.compile(_program("bf16", "ROOT c = bf16[4096] add(a, b)"))
    text = "".join(u.text for u in exe.program.units())
    assert text.count("i32 32767)") in (0, 1)
    assert text.count("fcmp uno") == 1


@pytest.mark.parametrize("t", ["bf16", "f8e5m2", "f8e4m3fn"])
def test_what_is_only_moved_keeps_its_bits(t: str) -> None:
    dtype = np.dtype(
        {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn}[t]
    )
    body = f"ROOT c = {t}[4096] reverse(a), dimensions={{0}}"
    exe = xlanb.compile(_program(t, body))
    bits = np.uint16 if dtype.itemsize == 2 else np.uint8
    a = np.arange(4096).astype(bits) * (16 if dtype.itemsize == 2 else 1)
    got = exe(a.astype(bits).view(dtype), np.ones(4096, dtype))
    np.testing.assert_array_equal(got.view(bits), a[::-1])


@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
def test_chains_are_rounded_after_each_step(op: str) -> None:
    exe = xlanb.compile(_program("bf16", f"c = bf16[4096] {op}(a, b) ROOT d = bf16[4096] {op}(c, a)"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    step = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[op]
    np.testing.assert_array_equal(exe(a, b), step(step(a, b), a))


def test_types_whose_names_begin_alike_have_tables_of_their_own() -> None:
    exe = xlanb.compile(
        "HloModule m\nENTRY e { a = f8e4m3fn[40] parameter(0) b = f8e4m3[40] parameter(1) "
        "c = f32[40] convert(a) d = f32[40] convert(b) ROOT r = f32[40] add(c, d) }"
    )
    a = np.arange(40).astype(ml_dtypes.float8_e4m3fn)
    b = np.arange(40).astype(ml_dtypes.float8_e4m3)
    np.testing.assert_array_equal(exe(a, b), a.astype(np.float32) + b.astype(np.float32))


@pytest.mark.parametrize(("t", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4000,), (0,)),
        ((3, 2000), (1,)),
        ((2000, 3), (0,)),
        ((900, 70), (0,)),
        ((7, 30, 20), (0, 2)),
        ((64, 32), (0, 1)),
    ],
)
def test_sums_of_narrow_floats_are_rounded_once(
    t: str, dtype: type, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    sizes = ",".join(map(str, shape))
    kept = ",".join(str(n) for d, n in enumerate(shape) if d not in axes)
    text = f"""HloModule m
add {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT s = {t}[] add(a, b)
}}
ENTRY e {{
  x = {t}[{sizes}] parameter(0)
  m = {t}[{sizes}] negate(x)
  zero = {t}[] constant(0)
  r = {t}[{kept}] reduce(m, zero), dimensions={{{",".join(map(str, axes))}}}, to_apply=add
  ROOT d = {t}[{kept}] add(r, r)
}}
"""
    x = np.random.default_rng(7).uniform(0, 1, shape).astype(dtype)
    want = (-2 * x.astype(np.float64).sum(axes)).astype(np.float32)
    got = np.asarray(xlanb.compile(text)(x)).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=float(ml_dtypes.finfo(dtype).eps))


def test_so_are_those_that_float_normalization_widened() -> None:
    text = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  c = bf16[] convert(s)
  ROOT w = f32[] convert(c)
}
ENTRY e {
  x = bf16[4,3000] parameter(0)
  y = f32[4,3000] convert(x)
  zero = f32[] constant(0)
  rows = f32[4] reduce(y, zero), dimensions={1}, to_apply=add
  all = f32[] reduce(y, zero), dimensions={0,1}, to_apply=add
  windows = f32[4,2998] reduce-window(y, zero), window={size=1x3}, to_apply=add
  ROOT t = (f32[4], f32[], f32[4,2998]) tuple(rows, all, windows)
}
"""
    x = np.full((4, 3000), 0.501, ml_dtypes.bfloat16)
    third = np.float32(ml_dtypes.bfloat16(3 * x[0, 0].astype(np.float32)))
    for rows, everything, windows in (xlanb.compile(text)(x), evaluate(text, x)):
        np.testing.assert_array_equal(rows, np.float32(ml_dtypes.bfloat16(3000 * x[0, 0].astype(np.float32))))
        assert everything == np.float32(ml_dtypes.bfloat16(12000 * x[0, 0].astype(np.float32)))
        np.testing.assert_array_equal(windows, third)


@pytest.mark.parametrize(
    ("body", "roundings"),
    [
        ("ROOT r = bf16[4096] maximum(a, b)", 0),
        ("n = bf16[4096] negate(a) m = bf16[4096] abs(b) ROOT r = bf16[4096] minimum(n, m)", 0),
        ("p = pred[4096] compare(a, b), direction=LT ROOT r = bf16[4096] select(p, a, b)", 0),
        ("c = bf16[] constant(0.5) ROOT r = bf16[4096] clamp(c, a, c)", 0),
        ("s = bf16[4096] add(a, b) ROOT r = bf16[4096] maximum(s, a)", 1),
        ("p = pred[4096] compare(a, b), direction=LT s = bf16[4096] add(a, b) ROOT r = bf16[4096] select(p, s, a)", 1),
    ],
)
def test_one_of_two_numbers_is_not_rounded_again(body: str, roundings: int) -> None:
    exe = xlanb.compile(_program("bf16", body))
    assert "".join(u.text for u in exe.program.units()).count("i32 32767") in (0, roundings)  # what a rounding adds
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    a[:4], b[2:6] = [np.nan, -0.0, np.nan, np.inf], [np.nan, 0.0, -np.inf, -np.nan]
    want = np.asarray(evaluate(exe.hlo_module, a, b)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(exe(a, b)).astype(np.float32), want)
