"""Row fusions keep costly values in the rows of their result.

No operand that is still to be read may be stored there.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.transforms.fusion import row_fusion

TEXT = """HloModule m
max {{ a = {t}[] parameter(0)
 b = {t}[] parameter(1)
 ROOT m = {t}[] maximum(a, b) }}
add {{ c = {t}[] parameter(0)
 d = {t}[] parameter(1)
 ROOT s = {t}[] add(c, d) }}
ENTRY e {{
  x = {t}[16,96] parameter(0)
  u = {t}[16,32] parameter(1)
  v = {t}[32,96] parameter(2)
  low = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  top = {t}[16] reduce(x, low), dimensions={{1}}, to_apply=max
  tops = {t}[16,96] broadcast(top), dimensions={{0}}
  less = {t}[16,96] subtract(x, tops)
  power = {t}[16,96] exponential(less)
  sum = {t}[16] reduce(power, zero), dimensions={{1}}, to_apply=add
  sums = {t}[16,96] broadcast(sum), dimensions={{0}}
  share = {t}[16,96] divide(power, sums)
  product = {t}[16,96] dot(u, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = {t}[16,96] add(share, product)
}}
"""


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Fuse short rows of small arrays too."""
    monkeypatch.setattr(row_fusion, "_SHORTEST", 8)
    monkeypatch.setattr(row_fusion, "_LEAST_BYTES", 0)


@pytest.mark.parametrize(("element", "dtype", "tolerance"), [("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12)])
def test_a_temporary_that_is_read_beside_a_softmax_is_not_written_over(
    element: str, dtype: type[np.floating], tolerance: float
) -> None:
    rng = np.random.default_rng(0)
    x, u, v = (rng.standard_normal(s).astype(dtype) for s in ((16, 96), (16, 32), (32, 96)))
    power = np.exp(x - x.max(1, keepdims=True))
    expected = power / power.sum(1, keepdims=True) + u @ v
    exe = xlanb.compile(xlanb.hlo.parse(TEXT.format(t=element)))
    np.testing.assert_allclose(exe(x, u, v), expected, rtol=tolerance, atol=tolerance)


SINES = """HloModule m
add {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT s = f32[] add(c, d)
}
f {
  x = f32[16,8] parameter(0)
  y = f32[16,8] parameter(1)
  first = f32[16,8] sine(x)
  second = f32[16,8] sine(y)
  power = f32[16,8] exponential(second)
  zero = f32[] constant(0)
  sum = f32[16] reduce(power, zero), dimensions={1}, to_apply=add
  sums = f32[16,8] broadcast(sum), dimensions={0}
  third = f32[16,8] sine(sums)
  part = f32[16,8] subtract(first, sums)
  ROOT t = (f32[16,8], f32[16,8]) tuple(part, third)
}
ENTRY e {
  x = f32[16,8] parameter(0)
  y = f32[16,8] parameter(1)
  ROOT r = (f32[16,8], f32[16,8]) fusion(x, y), kind=kLoop, calls=f
}
"""


def test_what_is_moved_out_of_a_row_may_branch() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 16, 8)).astype(np.float32)
    sums = np.exp(np.sin(y)).sum(1, keepdims=True) + 0 * x
    part, third = xlanb.compile(xlanb.hlo.parse(SINES))(x, y)
    np.testing.assert_allclose(part, np.sin(x) - sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(third, np.sin(sums), rtol=1e-5, atol=1e-5)
