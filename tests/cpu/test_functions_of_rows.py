"""Functions of reduced rows, as exp of sums: rows first, in the result's memory, then vectors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.conftest import NO_PASSES
from tests.cpu.guard_pages import run_guarded
from xlanb.cpu import Executable, compile_module
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {
    "f32": (np.float32, 2e-6),
    "bf16": (ml_dtypes.bfloat16, 2e-2),
    "f16": (np.float16, 2e-3),
    "f64": (np.float64, 1e-13),
}
BODIES = {
    "of sums in f32": (
        "w = f32[33,70,WIDTH] convert(q)\n  wide_zero = f32[] constant(0)\n"
        "  ws = f32[33,70] reduce(w, wide_zero), dimensions={2}, to_apply=wide_sum\n  m = T[33,70] convert(ws)\n"
        "  d = T[33,70] negate(m)\n  ROOT r = T[33,70] exponential(d)"
    ),
    "exp": "ROOT r = T[33,70] exponential(n)",
    "of a sum": "t = T[33,70] add(n, y)\n  e = T[33,70] tanh(t)\n  ROOT r = T[33,70] multiply(e, y)",
    "twice": "e = T[33,70] exponential(n)\n  ROOT r = T[33,70] multiply(e, n)",
    "of what is reduced again": (
        "e = T[33,70] exponential(n)\n  z = T[33] reduce(e, zero), dimensions={1}, to_apply=sum\n"
        "  b = T[33,70] broadcast(z), dimensions={0}\n  ROOT r = T[33,70] divide(e, b)"
    ),
    "of another type": ("c = s32[33,70] convert(n)\n  d = T[33,70] convert(c)\n  ROOT r = T[33,70] exponential(d)"),
}


def text(name: str, kind: str, width: int = 16, *, reused: bool = False) -> str:
    """A fusion of a body, where `n` are negated sums of rows; `reused`: `y` is not needed later."""
    y = "y0 = T[33,70] parameter(1)\n  y = T[33,70] multiply(y0, y0)" if reused else "y = T[33,70] parameter(1)"
    made = f"""HloModule m

sum {{
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT s = T[] add(a, b)
}}

wide_sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

f {{
  x = T[33,70,{width}] parameter(0)
  y = T[33,70] parameter(1)
  zero = T[] constant(0)
  q = T[33,70,{width}] abs(x)
  s = T[33,70] reduce(q, zero), dimensions={{2}}, to_apply=sum
  n = T[33,70] negate(s)
  {BODIES[name]}
}}

ENTRY e {{
  x = T[33,70,{width}] parameter(0)
  {y}
  ROOT r = T[33,70] fusion(x, y), kind=kLoop, calls=f
}}
"""
    return made.replace("T[", f"{kind}[").replace("WIDTH", str(width))


def compiled(source: str) -> Executable:
    return compile_module(parse(source), NO_PASSES)


def arrays(kind: str, width: int = 16) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(s) / 8).astype(TYPES[kind][0]) for s in ((33, 70, width), (33, 70))]


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", BODIES)
def test_functions(name: str, kind: str, *, reused: bool) -> None:
    for width in (16, 37):
        given, source = arrays(kind, width), text(name, kind, width, reused=reused)
        got, want = (
            np.asarray(made, np.float64) for made in (compiled(source)(*given), evaluate(parse(source), *given))
        )
        tolerance = max(TYPES[kind][1], 2e-6 if "f32" in name else 0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_rows_and_functions_are_two_loops() -> None:
    for name, loops in (("exp", True), ("of what is reduced again", False)):
        (plan,) = compiled(text(name, "f32")).plans.values()
        assert ("for 2310 elements by vectors" in str(plan)) is loops, plan


@pytest.mark.parametrize("name", BODIES)
def test_nothing_is_touched_that_is_not_an_array(name: str) -> None:
    exe = compiled(text(name, "f32"))
    for at_end in (True, False):
        run_guarded(exe, arrays("f32"), at_end=at_end)
