"""Columns of computed arrays, reduced a few rows at a time."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.cpu.emitters import column_reductions
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

ADD = "add {{ p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT s = {t}[] {op}(p, q) }}\n"
FORMS = [
    ("16,600", "0", "600"),
    ("37,1030", "0", "1030"),
    ("3,40,2050", "1", "3,2050"),
    ("5,9,700", "0,1", "700"),
    ("33,4,160", "0", "4,160"),
    ("2,3,17,5,128", "2", "2,3,5,128"),
    ("1,33,1,600", "1", "1,1,600"),
    ("3,1,33,600,1", "1,2", "3,600,1"),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Reduce small arrays like this too."""
    monkeypatch.setattr(column_reductions, "_LEAST_ELEMENTS", 0)


def _program(size, dims, result, t="f32", op="add", of="negate(a)", after=""):
    return f"""HloModule m
{ADD.format(t=t, op=op)}
f {{
  a = {t}[{size}] parameter(0)
  n = {t}[] parameter(1)
  b = {t}[{result}] parameter(2)
  x = {t}[{size}] {of}
  {"ROOT " if not after else ""}r = {t}[{result}] reduce(x, n), dimensions={{{dims}}}, to_apply=add
  {after}
}}
ENTRY e {{
  a = {t}[{size}] parameter(0)
  n = {t}[] parameter(1)
  b = {t}[{result}] parameter(2)
  ROOT z = {t}[{result}] fusion(a, n, b), kind=kLoop, calls=f
}}
"""


def _checked(backend, text, *, is_by_columns=True, tolerance=1e-5):
    module, rng = parse(text), np.random.default_rng(3)
    given = []
    for p in module.entry_computation.parameters:
        dtype, shape = p.array_shape.element_type.dtype, p.array_shape.dimensions
        values = rng.integers(1, 6, shape) if dtype.kind in "iu" else 1 + rng.standard_normal(shape) / 50
        given.append(np.asarray(values).astype(dtype))
    exe = backend(text)
    assert ("columns at a time" in "".join(map(str, exe.plans.values()))) == is_by_columns
    want = np.asarray(evaluate(parse(text), *given))
    np.testing.assert_allclose(np.asarray(exe(*given)).astype(float), want.astype(float), rtol=tolerance)
    return exe


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "x".join(f[0].split(",")))
@pytest.mark.parametrize("t", ["f32", "f64", "s32", "u8"])
def test_forms_and_types(backend, width, form, t):
    _checked(backend, _program(*form, t=t, of="add(a, a)"))


@pytest.mark.parametrize("op", ["multiply", "maximum", "minimum", "subtract", "and"])
def test_operations(backend, op):
    t = "s32" if op == "and" else "f32"
    _checked(backend, _program("19,777", "0", "777", t=t, op=op, of="add(a, a)"))


def test_sums_of_narrow_floats_are_rounded_once(backend):
    _checked(backend, _program("300,520", "0", "520", t="bf16"), tolerance=1e-2)
    exe = backend(_program("300,520", "0", "520", t="bf16"))
    kind = exe.hlo_module.entry_computation.parameters[0].array_shape.element_type.dtype
    made = exe(-np.ones((300, 520), kind), np.zeros((), kind), np.zeros(520, kind))
    np.testing.assert_array_equal(made.astype(float), 300.0)  # steps would stop at 256


def test_elementwise_functions_of_the_sums(backend):
    after = "t = f32[777] tanh(r)\n  ROOT u = f32[777] multiply(t, b)"
    _checked(backend, _program("40,777", "0", "777", after=after))
    twice = "t = f32[3,640] add(r, b)\n  ROOT u = f32[3,640] multiply(t, r)"
    _checked(backend, _program("3,40,640", "1", "3,640", after=twice))


def test_rows_from_elsewhere(backend):
    text = _program("40,777", "0", "777").replace(
        "x = f32[40,777] negate(a)",
        "i = f32[40] iota(), iota_dimension=0\n  w = f32[40,777] broadcast(i), dimensions={0}\n"
        "  x = f32[40,777] multiply(a, w)",
    )
    _checked(backend, text)
    sliced = (
        _program("40,777", "0", "777")
        .replace("a = f32[40,777]", "a = f32[50,800]")
        .replace("x = f32[40,777] negate(a)", "x = f32[40,777] slice(a), slice={[5:45], [3:780]}")
    )
    _checked(backend, sliced)


def test_columns_that_begin_between_two_arrays_are_one_by_one_or_split(backend):
    joined = (
        _program("40,777", "0", "777")
        .replace("a = f32[40,777]", "a = f32[40,400]")
        .replace(
            "x = f32[40,777] negate(a)",
            "c = f32[40,377] slice(a), slice={[0:40], [0:377]}\n  x = f32[40,777] concatenate(a, c), dimensions={1}",
        )
    )
    _checked(backend, joined, is_by_columns=False)


@pytest.mark.parametrize(
    ("size", "dims", "result"), [("15,600", "0", "600"), ("40,500", "0", "500"), ("40,600", "1", "40")]
)
def test_others_are_loops(backend, size, dims, result):
    _checked(backend, _program(size, dims, result), is_by_columns=False)


def test_few_elements_are_loops(backend, monkeypatch):
    monkeypatch.setattr(column_reductions, "_LEAST_ELEMENTS", 1 << 16)
    _checked(backend, _program("40,600", "0", "600"), is_by_columns=False)
