"""Loop kernels: consecutive elements per thread, in-place results, several results."""

import numpy as np
import pytest

import xlanb

ROWS = """HloModule m
f {{
  p = {t}[{rows},{n}] parameter(0)
  q = {t}[{n}] parameter(1)
  b = {t}[{rows},{n}] broadcast(q), dimensions={{1}}
  a = {t}[{rows},{n}] add(p, b)
  m = {t}[{rows},{n}] multiply(a, p)
  ROOT r = ({t}[{rows},{n}], {t}[{rows},{n}]) tuple(a, m)
}}
ENTRY e {{
  x = {t}[{rows},{n}] parameter(0)
  y = {t}[{n}] parameter(1)
  ROOT r = ({t}[{rows},{n}], {t}[{rows},{n}]) fusion(x, y), kind=kLoop, calls=f
}}"""


@pytest.mark.parametrize(("t", "dtype"), [("f32", "f4"), ("s16", "i2"), ("c64", "c8")])
@pytest.mark.parametrize("n", [512, 514])
def test_four_elements_to_a_thread_of_large_arrays(check, t, dtype, n):
    rows = 2048
    rng = np.random.default_rng(0)
    arrays = (rng.integers(-9, 9, (rows, n)).astype(dtype), rng.integers(-9, 9, n).astype(dtype))
    exe = check(ROWS.format(t=t, rows=rows, n=n), *arrays)
    (kernel,) = exe.kernels
    assert kernel.blocks * kernel.threads == rows * n // 4
    if t == "f32" and n == 512:
        text = exe.ptx[kernel.name]
        assert text.count("ld.global.nc.v4.b32") == 2
        assert text.count("st.global.v4.b32") == 2


def test_one_element_to_a_thread_of_small_arrays(check):
    x, y = np.ones((40, 50), np.float32), np.ones(50, np.float32)
    (kernel,) = check(ROWS.format(t="f32", rows=40, n=50), x, y).kernels
    assert kernel.blocks * kernel.threads >= 2000 > (kernel.blocks - 1) * kernel.threads


def test_results_of_several_shapes(check):
    text = """HloModule m
f {
  x = f32[30,7] parameter(0)
  n = f32[30,7] negate(x)
  s = f32[5,7] slice(x), slice={[0:30:6], [0:7]}
  e = f32[0,7] slice(x), slice={[3:3], [0:7]}
  ROOT r = (f32[30,7], f32[5,7], f32[0,7]) tuple(n, s, e)
}
ENTRY e { x = f32[30,7] parameter(0)  ROOT r = (f32[30,7], f32[5,7], f32[0,7]) fusion(x), kind=kLoop, calls=f }"""
    assert len(check(text, np.arange(210, dtype=np.float32).reshape(30, 7)).kernels) == 1


@pytest.mark.parametrize(("kept", "shares"), [("negate(p)", True), ("reverse(p), dimensions={0}", False)])
def test_result_lies_over_an_operand_that_is_read_at_its_own_index_alone(check, kept, shares):
    text = f"""HloModule m
f {{ p = f32[100] parameter(0)  ROOT r = f32[100] {kept} }}
ENTRY e {{
  x = f32[100] parameter(0)
  a = f32[100] add(x, x)
  g = f32[100] fusion(a), kind=kLoop, calls=f
  ROOT s = f32[100] reverse(g), dimensions={{0}}
}}"""
    exe = check(text, np.arange(100, dtype=np.float32))
    fused = exe.kernels[1]
    assert (len(fused.arguments) == 1) == shares


def test_instructions_that_know_no_vectors():
    text = "HloModule m\nENTRY e { x = f32[1048576] parameter(0)\n  ROOT s = f32[1048576] sine(x) }"
    (kernel,) = xlanb.compile(text, target="a100").kernels
    assert kernel.blocks * kernel.threads == 1 << 20
