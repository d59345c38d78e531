"""Scatter and dynamic-update-slice on a GPU: atomics, compare-and-swap, updates in place."""

import ml_dtypes
import numpy as np
import pytest

from xlanb.gpu.launches import CopyLaunch

NUMPY = {
    "f32": "f4",
    "f64": "f8",
    "s32": "i4",
    "s64": "i8",
    "u8": "u1",
    "s16": "i2",
    "bf16": ml_dtypes.bfloat16,
    "f16": "f2",
    "c64": "c8",
}


def scatter(kind, combine, unique="false"):
    return f"""HloModule m
combine {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  {combine} }}
ENTRY e {{
  x = {kind}[13,5] parameter(0)
  i = s32[40,1] parameter(1)
  u = {kind}[40,5] parameter(2)
  ROOT s = {kind}[13,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, unique_indices={unique}, to_apply=combine
}}"""


def values(kind, shape, seed):
    rng = np.random.default_rng(seed)
    made = rng.integers(-3, 4, shape)  # sums of few small whole numbers are exact in any order
    return np.abs(made).astype(NUMPY[kind]) if kind.startswith("u") else made.astype(NUMPY[kind])


@pytest.mark.parametrize("kind", NUMPY)
def test_sums_of_updates_that_meet(check, kind):
    index = np.random.default_rng(1).integers(-2, 15, (40, 1)).astype(np.int32)
    text = scatter(kind, f"ROOT r = {kind}[] add(a, b)")
    exe = check(text, values(kind, (13, 5), 2), index, values(kind, (40, 5), 3))
    assert [k.emitter for k in exe.kernels] == ["scatter"]
    assert ("atomicrmw" in exe.kernels[0].code.ir) == (kind in ("f32", "f64", "s32", "s64", "c64"))


@pytest.mark.parametrize("kind", ["f32", "s32", "u8", "bf16", "f64"])
@pytest.mark.parametrize("combine", ["maximum(a, b)", "minimum(a, b)", "multiply(a, b)", "subtract(a, b)"])
def test_other_computations_of_updates_that_meet(check, kind, combine):
    index = np.random.default_rng(1).permutation(13)[:, None].astype(np.int32)
    index = np.concatenate([index, np.full((27, 1), 99, np.int32)])
    check(scatter(kind, f"ROOT r = {kind}[] {combine}"), values(kind, (13, 5), 2), index, values(kind, (40, 5), 3))


def test_assignment(check):
    index = np.random.default_rng(1).permutation(40)[:, None].astype(np.int32)  # those beyond the operand are skipped
    text = scatter("f32", "ROOT r = f32[] copy(b)")
    check(text, values("f32", (13, 5), 2), index, values("f32", (40, 5), 3))
    plain = text.replace("b = f32[] parameter(1)  ROOT r = f32[] copy(b)", "ROOT b = f32[] parameter(1)")
    exe = check(plain, values("f32", (13, 5), 2), index, values("f32", (40, 5), 3))
    assert "cmpxchg" not in exe.kernels[0].code.ir


def test_several_operands_at_once(check):
    text = """HloModule m
combine {
  a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
  s = f32[] add(a, c)  t = s32[] subtract(b, d)  ROOT r = (f32[], s32[]) tuple(s, t)
}
ENTRY e {
  x = f32[9] parameter(0)  y = s32[9] parameter(1)  i = s32[20,1] parameter(2)  u = f32[20] parameter(3)  v = s32[20] parameter(4)
  ROOT s = (f32[9], s32[9]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
}"""
    rng = np.random.default_rng(0)
    index = rng.integers(-1, 11, (20, 1)).astype(np.int32)
    check(text, values("f32", 9, 1), values("s32", 9, 2), index, values("f32", 20, 3), values("s32", 20, 4))


def test_windows_that_do_not_fit_are_skipped(check):
    text = """HloModule m
combine { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[10,8]{0,1} parameter(0)  i = s64[6,2] parameter(1)  u = f32[6,3,4] parameter(2)
  n = f32[10,8]{0,1} negate(x)
  ROOT s = f32[10,8]{0,1} scatter(n, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=combine
}"""
    index = np.array([[0, 0], [7, 4], [8, 0], [-1, 2], [3, 3], [2, 5]], np.int64)
    exe = check(text, values("f32", (10, 8), 1), index, values("f32", (6, 3, 4), 2))
    assert not any(isinstance(launch, CopyLaunch) for launch in exe.launches)  # it lies where its operand dies


def test_slice_is_updated_in_place(check):
    text = """HloModule m
f {
  p = f32[100,7] parameter(0)  u = f32[3,7] parameter(1)  i = s32[] parameter(2)  z = s32[] constant(0)
  v = f32[3,7] multiply(u, u)
  ROOT d = f32[100,7] dynamic-update-slice(p, v, i, z)
}
ENTRY e {
  x = f32[100,7] parameter(0)  u = f32[3,7] parameter(1)  i = s32[] parameter(2)
  n = f32[100,7] negate(x)
  ROOT g = f32[100,7] fusion(n, u, i), kind=kLoop, calls=f
}"""
    x, u = values("f32", (100, 7), 1), values("f32", (3, 7), 2)
    for at in (-5, 40, 98):
        exe = check(text, x, u, np.int32(at))
    assert [(k.emitter, k.blocks) for k in exe.kernels] == [("loop", 6), ("update", 1)]
    check(text.replace("fusion(n, u, i)", "fusion(x, u, i)"), x, u, np.int32(4))  # an argument is not ours to write
