"""Numbers computed from sums over arrays that the same kernel computes: threads share the sums."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.conftest import NO_PASSES
from tests.cpu.guard_pages import run_guarded
from xlanb.codegen import jit
from xlanb.cpu import Executable, compile_module, compiler
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {"f32": (np.float32, 1e-5), "bf16": (ml_dtypes.bfloat16, 2e-2), "f64": (np.float64, 1e-12)}
BODIES = {
    "mean, negated": """s = T[] reduce(e, zero), dimensions={0,1}, to_apply=sum
  m = T[] multiply(s, part)
  ROOT r = T[] negate(m)""",
    "variance": """s = T[] reduce(x, zero), dimensions={0,1}, to_apply=sum
  m = T[] multiply(s, part)
  mb = T[SHAPE] broadcast(m), dimensions={}
  d = T[SHAPE] subtract(x, mb)
  dd = T[SHAPE] multiply(d, d)
  v = T[] reduce(dd, zero), dimensions={0,1}, to_apply=sum
  ROOT r = T[] multiply(v, part)""",
    "two sums": """s = T[] reduce(e, zero), dimensions={0,1}, to_apply=sum
  o = T[] reduce(x, low), dimensions={0,1}, to_apply=most
  ROOT r = (T[], T[]) tuple(s, o)""",
    "a ratio": """s = T[] reduce(e, zero), dimensions={0,1}, to_apply=sum
  n = T[SHAPE] abs(x)
  o = T[] reduce(n, zero), dimensions={0,1}, to_apply=sum
  ROOT r = T[] divide(s, o)""",
    "of rows": """rs = T[ROWS] reduce(e, zero), dimensions={1}, to_apply=sum
  l = T[ROWS] log(rs)
  s = T[] reduce(l, zero), dimensions={0}, to_apply=sum
  ROOT r = T[] negate(s)""",
    "the largest of rows": """rs = T[ROWS] reduce(e, low), dimensions={1}, to_apply=most
  s = T[] reduce(rs, low), dimensions={0}, to_apply=most
  ROOT r = T[] abs(s)""",
    "one of one": """s = T[1] reduce(row, zero), dimensions={1,2}, to_apply=sum
  l = T[1] log(s)
  ROOT r = T[1] negate(l)""",
}


def text(name: str, kind: str, rows: int, columns: int) -> str:
    """One fusion of a body; `e` is the exponential of `x`."""
    result = {"two sums": "(T[], T[])", "one of one": "T[1]"}.get(name, "T[]")
    body = f"""HloModule m

sum {{
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT s = T[] add(a, b)
}}

most {{
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT s = T[] maximum(a, b)
}}

f {{
  x = T[SHAPE] parameter(0)
  zero = T[] constant(0)
  low = T[] constant(-inf)
  part = T[] constant({1 / (rows * columns)})
  e = T[SHAPE] exponential(x)
  row = T[1,SHAPE] reshape(e)
  {BODIES[name]}
}}

ENTRY e {{
  x = T[SHAPE] parameter(0)
  ROOT r = {result} fusion(x), kind=kLoop, calls=f
}}
"""
    return body.replace("T[", f"{kind}[").replace("SHAPE", f"{rows},{columns}").replace("ROWS", str(rows))


def compiled(text_: str, monkeypatch: pytest.MonkeyPatch, threads: int) -> Executable:
    monkeypatch.setattr(compiler, "_target", lambda _: replace(jit.host(), threads=threads))
    return compile_module(parse(text_), NO_PASSES)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", BODIES)
def test_threads_share_the_sums(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, tolerance = TYPES[kind]
    x = np.random.default_rng(0).standard_normal((301, 700)).astype(dtype)
    source = text(name, kind, *x.shape)
    exes = [compiled(source, monkeypatch, threads) for threads in (2, 3)]
    assert exes[1].program.is_parallel
    two, several = (np.asarray(exe(x)) for exe in exes)
    np.testing.assert_array_equal(two, several)
    want = np.asarray(evaluate(parse(source), x)).astype(np.float64)
    np.testing.assert_allclose(several.astype(np.float64), want, rtol=tolerance)


def test_short_sums_stay_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compiled(text("mean, negated", "f32", 10, 20), monkeypatch, 3).program.is_parallel


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_spread(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((301, 700), np.float32)
    x[300, 699] = number
    for name in ("variance", "two sums", "of rows", "the largest of rows"):
        source = text(name, "f32", *x.shape)
        with np.errstate(all="ignore"):
            want = evaluate(parse(source), x)
        np.testing.assert_allclose(compiled(source, monkeypatch, 3)(x), want, rtol=1e-6)


def test_nothing_is_touched_that_is_not_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((301, 701)).astype(np.float32)
    for name in BODIES:
        exe = compiled(text(name, "f32", *x.shape), monkeypatch, 3)
        for at_end in (True, False):
            run_guarded(exe, [x], at_end=at_end)
