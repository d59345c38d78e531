"""Row fusions on a GPU: softmax and normalization in one kernel."""

import ml_dtypes
import numpy as np
import pytest

REGIONS = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
"""


def softmax(rows, n, layout="{1,0}"):
    return f"""HloModule m
{REGIONS}
f {{
  x = f32[{rows},{n}]{layout} parameter(0)
  low = f32[] constant(-inf)  zero = f32[] constant(0)
  m = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=max
  bm = f32[{rows},{n}]{layout} broadcast(m), dimensions={{0}}
  d = f32[{rows},{n}]{layout} subtract(x, bm)
  e = f32[{rows},{n}]{layout} exponential(d)
  s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add
  bs = f32[{rows},{n}]{layout} broadcast(s), dimensions={{0}}
  ROOT r = f32[{rows},{n}]{layout} divide(e, bs)
}}
ENTRY e {{ x = f32[{rows},{n}]{layout} parameter(0)  ROOT r = f32[{rows},{n}]{layout} fusion(x), kind=kCustom, calls=f }}"""


@pytest.mark.parametrize(("rows", "n"), [(1, 16), (5, 33), (9, 100), (3, 1024), (17, 1025), (2, 9000)])
def test_softmax_is_one_kernel(check, rows, n):
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32)
    exe = check(softmax(rows, n), x, rtol=1e-5)
    assert [k.emitter for k in exe.kernels] == ["rows"]
    assert ("bar.sync" in exe.ptx[exe.kernels[0].name]) == (n > 1024)


def test_columns_of_memory(check):
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    assert [k.emitter for k in check(softmax(40, 50, "{0,1}"), x, rtol=1e-5).kernels] == ["rows"]


@pytest.mark.parametrize("n", [50, 2000])
def test_normalisation_gives_rows_and_numbers_of_rows(check, n):
    text = f"""HloModule m
{REGIONS}
f {{
  x = f32[3,4,{n}] parameter(0)  g = f32[{n}] parameter(1)
  zero = f32[] constant(0)  count = f32[] constant({n})
  s = f32[3,4] reduce(x, zero), dimensions={{2}}, to_apply=add
  c = f32[3,4] broadcast(count), dimensions={{}}
  mean = f32[3,4] divide(s, c)
  square = f32[3,4,{n}] multiply(x, x)
  q = f32[3,4] reduce(square, zero), dimensions={{2}}, to_apply=add
  scale = f32[3,4] rsqrt(q)
  bm = f32[3,4,{n}] broadcast(mean), dimensions={{0,1}}
  bs = f32[3,4,{n}] broadcast(scale), dimensions={{0,1}}
  bg = f32[3,4,{n}] broadcast(g), dimensions={{2}}
  d = f32[3,4,{n}] subtract(x, bm)
  e = f32[3,4,{n}] multiply(d, bs)
  h = f32[3,4,{n}] multiply(e, bg)
  ROOT t = (f32[3,4,{n}], f32[3,4]) tuple(h, mean)
}}
ENTRY e {{
  x = f32[3,4,{n}] parameter(0)  g = f32[{n}] parameter(1)
  ROOT r = (f32[3,4,{n}], f32[3,4]) fusion(x, g), kind=kCustom, calls=f
}}"""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((3, 4, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    exe = check(text, *arrays, rtol=2e-5, atol=2e-6)
    (kernel,) = exe.kernels
    assert kernel.emitter == "rows"
    assert kernel.code.ir.count("call float @llvm.nvvm.shfl.sync.idx.f32") == 2
    assert kernel.code.ir.count("barrier.cta") == (n > 1024) * 2  # both sums in one pass: a call and its declaration


def test_rows_that_need_other_rows_are_a_loop(check):
    text = f"""HloModule m
{REGIONS}
f {{
  x = f32[20,20] parameter(0)
  zero = f32[] constant(0)
  s = f32[20] reduce(x, zero), dimensions={{1}}, to_apply=add
  b = f32[20,20] broadcast(s), dimensions={{1}}
  ROOT r = f32[20,20] add(x, b)
}}
ENTRY e {{ x = f32[20,20] parameter(0)  ROOT r = f32[20,20] fusion(x), kind=kLoop, calls=f }}"""
    exe = check(text, np.random.default_rng(0).integers(-5, 5, (20, 20)).astype(np.float32))
    (kernel,) = exe.kernels
    assert kernel.emitter == "loop"
    assert not kernel.code.waits


def test_reductions_of_several_types_are_of_the_same_rows(check):
    text = f"""HloModule m
{REGIONS}
low {{ a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT r = bf16[] maximum(a, b) }}
f {{
  x = bf16[6,50] parameter(0)
  least = bf16[] constant(-inf)  zero = f32[] constant(0)
  m = bf16[6] reduce(x, least), dimensions={{1}}, to_apply=low
  w = f32[6,50] convert(x)
  s = f32[6] reduce(w, zero), dimensions={{1}}, to_apply=add
  n = f32[6] convert(m)
  t = f32[6] add(s, n)
  b = f32[6,50] broadcast(t), dimensions={{0}}
  ROOT r = f32[6,50] subtract(w, b)
}}
ENTRY e {{ x = bf16[6,50] parameter(0)  ROOT r = f32[6,50] fusion(x), kind=kCustom, calls=f }}"""
    x = np.random.default_rng(0).integers(-5, 5, (6, 50)).astype(ml_dtypes.bfloat16)
    assert [k.emitter for k in check(text, x).kernels] == ["rows"]
