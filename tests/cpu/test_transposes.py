"""Elementwise loops that read operands transposed go by tiles, wherever the transpose is."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.cpu.conftest import NO_PASSES
from xlanb.cpu.compiler import compile_module
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

_FORMS = {
    "the operand": "t = f32[130,96] transpose(x), dimensions={1,0} m = f32[130,96] multiply(t, y) ROOT r = f32[130,96] tanh(m)",
    "the result": "m = f32[96,130] multiply(x, x) n = f32[96,130] sine(m) ROOT r = f32[130,96] transpose(n), dimensions={1,0}",
    "inside": "n = f32[96,130] negate(x) t = f32[130,96] transpose(n), dimensions={1,0} ROOT r = f32[130,96] add(t, y)",
    "two operands": "p = f32[96,130] exponential(x) t = f32[130,96] transpose(p), dimensions={1,0} "
    "u = f32[130,96] transpose(x), dimensions={1,0} a = f32[130,96] add(t, u) ROOT r = f32[130,96] multiply(a, y)",
    "twice": "t = f32[130,96] transpose(x), dimensions={1,0} a = f32[130,96] add(t, y) "
    "b = f32[96,130] transpose(a), dimensions={1,0} ROOT r = f32[96,130] negate(b)",
    "of a vector's rows": "s = f32[96,130] broadcast(v), dimensions={0} m = f32[96,130] multiply(x, s) "
    "ROOT r = f32[130,96] transpose(m), dimensions={1,0}",
}


def _text(body: str) -> str:
    given = "x = f32[96,130] parameter(0) y = f32[130,96] parameter(1) v = f32[96] parameter(2)"
    return f"HloModule m\nENTRY e {{ {given} {body} }}\n"


@pytest.mark.parametrize("form", _FORMS)
def test_a_transpose_in_a_loop_goes_by_tiles(form: str) -> None:
    rng = np.random.default_rng(0)
    x, y, v = (rng.standard_normal(s).astype(np.float32) for s in ((96, 130), (130, 96), (96,)))
    exe = xlanb.compile(_text(_FORMS[form]))
    assert "xlanb.squares" in exe.llvm_ir
    np.testing.assert_allclose(exe(x, y, v), evaluate(_text(_FORMS[form]), x, y, v), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "t = f32[100,100] transpose(x), dimensions={1,0} ROOT r = f32[100,100] add(x, t)",
        "d = f32[100,100] add(x, x) t = f32[100,100] transpose(d), dimensions={1,0} ROOT r = f32[100,100] multiply(x, t)",
    ],
)
def test_an_operand_may_be_read_both_ways(body: str) -> None:
    text = f"HloModule m\nENTRY e {{ x = f32[100,100] parameter(0) {body} }}\n"
    x = np.random.default_rng(1).standard_normal((100, 100)).astype(np.float32)
    np.testing.assert_allclose(xlanb.compile(text)(x), evaluate(text, x), rtol=1e-6)


def test_axes_of_three_dimensions_are_exchanged() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[40,30,70] parameter(0)
  m = f32[40,30,70] multiply(x, x)
  t = f32[70,40,30] transpose(m), dimensions={2,0,1}
  ROOT r = f32[70,40,30] negate(t)
}"""
    x = np.random.default_rng(2).standard_normal((40, 30, 70)).astype(np.float32)
    np.testing.assert_array_equal(xlanb.compile(text)(x), -(x * x).transpose(2, 0, 1))


@pytest.mark.parametrize(
    "body",
    [
        "t = f32[90,6,50] transpose(x), dimensions={2,0,1} ROOT r = f32[90,300] reshape(t)",
        "m = f32[6,50,90] tanh(x) t = f32[90,6,50] transpose(m), dimensions={2,0,1} ROOT r = f32[90,300] reshape(t)",
        "z = f32[6,50,90] reshape(y) m = f32[6,50,90] multiply(x, z) t = f32[90,6,50] transpose(m), dimensions={2,0,1} "
        "ROOT r = f32[90,300] reshape(t)",
        "z = f32[6,50,90] reshape(y) t = f32[90,6,50] transpose(z), dimensions={2,0,1} ROOT r = f32[90,6,50] exponential(t)",
        "m = f32[300,90] tanh(y) z = f32[6,50,90] reshape(m) t = f32[90,6,50] transpose(z), dimensions={2,0,1} "
        "w = f32[90,6,50] reshape(x) ROOT r = f32[90,6,50] add(t, w)",
        # the same array turned, and straight in another shape
        "z = f32[300,90] reshape(x) s = f32[90,300] transpose(z), dimensions={1,0} u = f32[90,300] reshape(x) "
        "ROOT r = f32[90,300] add(s, u)",
    ],
)
def test_reshapes_around_a_transpose_move_nothing(body: str) -> None:
    text = f"HloModule m\nENTRY e {{ x = f32[6,50,90] parameter(0) y = f32[300,90] parameter(1) {body} }}\n"
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((6, 50, 90), (300, 90)))
    exe = xlanb.compile(text)
    assert "xlanb.squares" in exe.llvm_ir
    np.testing.assert_allclose(exe(x, y), evaluate(text, x, y), rtol=1e-5, atol=1e-6)


def test_an_array_in_two_shapes_may_be_read_both_ways() -> None:
    text = """HloModule m
ENTRY e {
  y = f32[300,90] parameter(0)
  m = f32[300,90] tanh(y)
  z = f32[6,50,90] reshape(m)
  t = f32[90,6,50] transpose(z), dimensions={2,0,1}
  w = f32[90,6,50] reshape(y)
  ROOT r = f32[90,6,50] add(t, w)
}"""
    y = np.random.default_rng(4).standard_normal((300, 90)).astype(np.float32)
    np.testing.assert_allclose(xlanb.compile(text)(y), evaluate(text, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "t = f32[100,100] transpose(p), dimensions={1,0} n = f32[100,100] negate(t) "
        "u = f32[100,100] transpose(n), dimensions={1,0} ROOT r = f32[100,100] add(t, u)",
        "b = f32[100,100] bitcast(q) n = f32[100,100] negate(b) u = f32[100,100] transpose(n), dimensions={1,0} "
        "ROOT r = f32[100,100] add(b, u)",
        "b = f32[100,100] bitcast(q) n = f32[100,100] negate(b) u = f32[100,100] transpose(n), dimensions={1,0} "
        "c = f32[10000] bitcast(b) d = f32[100,100] bitcast(c) ROOT r = f32[100,100] add(d, u)",
        "b = f32[100,100] bitcast(q) n = f32[100,100] negate(b) u = f32[100,100] transpose(n), dimensions={1,0} "
        "c = f32[100,100] copy(b) ROOT r = f32[100,100] add(c, u)",
    ],
)
def test_what_is_in_a_tile_is_read_nowhere_else(body: str) -> None:
    text = f"""HloModule m
f {{ p = f32[100,100] parameter(0) q = f32[10000] parameter(1) {body} }}
ENTRY e {{ x = f32[100,100] parameter(0) y = f32[10000] parameter(1)
  ROOT r = f32[100,100] fusion(x, y), kind=kLoop, calls=f }}"""
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((100, 100), 10000))
    np.testing.assert_array_equal(compile_module(parse(text), NO_PASSES)(x, y), evaluate(text, x, y))
