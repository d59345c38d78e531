"""Results after every pass: ranges, non-finite elements, errors, and limits."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import xlanb
from tests.explorer.test_live import TEXT
from xlanb.explorer.check import check
from xlanb.explorer.trace import Trace

SPLIT = """
HloModule split
ENTRY e {
  x = f32[4] parameter(0)
  z = f32[4] parameter(1)
  q = f32[4] divide(x, z)
  ROOT t = (f32[4], f32[4]) tuple(q, x)
}
"""


def test_ranges_and_what_is_not_finite() -> None:
    x, z = np.array([1, -1, 0, 6], np.float32), np.array([0, 0, 0, 2], np.float32)
    (first, *rest) = xlanb.trace(SPLIT).numerics(x, z).stages
    q, y = first.results
    assert (q.name, q.min, q.max, q.nan, q.inf, q.err) == ("q", 3.0, 3.0, 1, 2, 0.0)
    assert (y.name, y.min, y.max, y.nan, y.inf) == ("x", -1.0, 6.0, 0, 0)
    assert all(s.err == 0.0 and not s.failure for s in rest)


def test_an_edit_that_moves_the_numbers_shows_as_an_error() -> None:
    compilation = xlanb.Compilation(TEXT)
    text = compilation.run_to("cse").after.text
    branch = compilation.fork(text=text.replace("tanh(", "negate("))
    branch.finish()
    found = branch.trace.numerics()
    errors = {s.stage.name: s.err for s in found.stages}
    assert errors["before_optimizations"] == 0.0
    assert errors["edit"] is not None
    assert errors["edit"] > 0.1
    assert json.loads(json.dumps(found.data, allow_nan=False))
    assert len(found.tables[0][1]) == len(found.stages)


def test_a_loop_without_end_does_not_hang() -> None:
    text = """
HloModule endless
c { p = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
b { p.1 = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT s = s32[] add(p.1, one) }
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=c, body=b
}
"""
    module = xlanb.hlo.parse(text).record()
    from xlanb.explorer.stage import Stage

    trace = Trace("endless", [Stage("hlo", "start", None, module)])
    begin = time.monotonic()
    with pytest.raises(xlanb.errors.EvaluationError, match="time limit was reached"):
        trace.numerics(np.int32(0), seconds=0.3)
    assert time.monotonic() - begin < 5


def test_what_is_too_large_is_said_and_not_evaluated() -> None:
    text = """
HloModule large
ENTRY e {
  x = f32[8192,8192] parameter(0)
  ROOT d = f32[8192,8192] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    from xlanb.explorer.stage import Stage

    trace = Trace("large", [Stage("hlo", "start", None, xlanb.hlo.parse(text).record())])
    with pytest.raises(xlanb.errors.XlanbError, match="too large"):
        trace.numerics(np.zeros((8192, 8192), np.float32))


def test_narrow_integers_are_compared_as_integers():
    text = "HloModule m\nENTRY e {\n  p = s4[5] parameter(0)\n  ROOT n = s4[5] negate(p)\n}\n"
    found = check(xlanb.trace(text))
    assert found.agrees
    assert found.tolerance == 0
