"""Where values and scratch are stored: in results not yet written, or in place.

Results must not change.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.evaluator import evaluate
from xlanb.hlo.opcode import HloOpcode

CHAIN = """HloModule chain
ENTRY main {
  a = f32[96,96] parameter(0)
  b = f32[96,96] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[96,96] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[96,96] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT e = f32[96,96] dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

SORTED = """HloModule sorted

less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT lt = pred[] compare(p, q), direction=LT
}

ENTRY main {
  a = f32[4096] parameter(0)
  s = f32[4096] sort(a), dimensions={0}, to_apply=less
  w = f32[64,4096] broadcast(s), dimensions={1}
  ROOT t = (f32[4096], f32[64,4096]) tuple(s, w)
}
"""


def test_values_lie_in_a_result_that_is_not_there_yet(backend):
    exe = backend(CHAIN)
    bytes_of_one = 96 * 96 * 4
    values = sum(
        size for size in (exe.buffer_assignment.slice_of(i).size for i in exe.hlo_module.entry_computation) if size
    )
    assert values > 3 * bytes_of_one
    arena = next(a for a in exe.buffer_assignment.record().allocations if a.kind == "temp")
    assert sum(v.size for v in arena.values) <= 2 * bytes_of_one
    a = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32) / 10
    want = a @ a @ a @ (a @ a) @ a
    np.testing.assert_allclose(exe(a), want, rtol=1e-4, atol=1e-4)


def test_scratch_lies_in_a_result_that_is_not_there_yet(backend):
    exe = backend(SORTED)
    sort = next(i for i in exe.hlo_module.entry_computation if i.opcode is HloOpcode.SORT)
    place = exe.buffer_assignment.scratch_of(sort)
    assert exe.buffer_assignment.allocations[place.allocation].kind == "output"
    assert exe.buffer_assignment.temp_size == 0
    a = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    for _ in range(3):
        s, w = exe(a)
        np.testing.assert_array_equal(s, np.sort(a))
        np.testing.assert_array_equal(w, np.broadcast_to(s, w.shape))


def test_it_may_be_saved(backend, tmp_path):
    exe = backend(SORTED)
    exe.save(tmp_path / "sorted")
    a = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    np.testing.assert_array_equal(xlanb.load(tmp_path / "sorted")(a)[0], np.sort(a))


UPDATED = """HloModule updated

fused {
  t = f32[1000,64] parameter(0)
  u = f32[1,64] parameter(1)
  n = s32[] parameter(2)
  z = s32[] constant(0)
  w = f32[1,64] negate(u)
  ROOT d = f32[1000,64] dynamic-update-slice(t, w, n, z)
}

taken {
  t = f32[1000,64] parameter(0)
  n = s32[] parameter(1)
  z = s32[] constant(0)
  r = f32[1,64] dynamic-slice(t, n, z), dynamic_slice_sizes={1,64}
  ROOT e = f32[1,64] negate(r)
}

ENTRY main {
  x = f32[1000,64] parameter(0)
  n = s32[] parameter(1)
  b = f32[1000,64] negate(x)
  row = f32[1,64] fusion(x, n), kind=kLoop, calls=taken
  ROOT y = f32[1000,64] fusion(b, row, n), kind=kLoop, calls=fused
}
"""


def test_a_profile_counts_what_is_read_and_written(backend):
    exe = backend(UPDATED)
    table = exe.profile(np.zeros((1000, 64), np.float32), np.array(3, np.int32), runs=1).set_index("instruction")
    assert table.loc["b", "bytes"] == 2 * 256_000
    assert table.loc["row", "bytes"] == 2 * 256 + 4
    assert table.loc["y", "bytes"] == 2 * 256 + 4


MANY_LINES = """HloModule lines

less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT lt = pred[] compare(p, q), direction=LT
}

odd {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = s32[] parameter(2)
  s = s32[] parameter(3)
  d = f32[] subtract(p, q)
  zero = f32[] constant(0)
  ROOT lt = pred[] compare(d, zero), direction=LT
}

ENTRY main {
  a = f32[DIMS] parameter(0)
  negative = f32[DIMS] negate(a)
  sorted = f32[DIMS] sort(negative), dimensions={AXIS}, to_apply=less
  places = s32[DIMS] iota(), iota_dimension=AXIS
  m = f32[DIMS] negate(a)
  ROOT both = (f32[DIMS], s32[DIMS]) sort(m, places), dimensions={AXIS}, to_apply=odd
}
"""


@pytest.mark.parametrize(("dims", "axis"), [((4, 100), 1), ((100, 4), 0), ((3, 5000), 1), ((2, 40), 1)])
def test_sorts_in_place(backend, dims, axis):
    text = MANY_LINES.replace("DIMS", f"{dims[0]},{dims[1]}").replace("AXIS", str(axis))
    single = text.replace("ROOT both = ", "both = ").replace("  sorted = f32[", "  ROOT sorted = f32[")
    a = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    exe = backend(single)
    np.testing.assert_array_equal(exe(a), np.sort(-a, axis))
    find = {i.name: i for i in exe.hlo_module.entry_computation}
    assert exe.buffer_assignment.slice_of(find["sorted"]) == exe.buffer_assignment.slice_of(find["negative"])
    exe = backend(text)
    for got, want in zip(exe(a), evaluate(exe.hlo_module, a), strict=True):
        np.testing.assert_array_equal(got, want)
    find = {i.name: i for i in exe.hlo_module.entry_computation}
    assert exe.buffer_assignment.slice_of(find["both"], (1,)) == exe.buffer_assignment.slice_of(find["places"])


PAYLOAD = """HloModule m
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = T[] parameter(2)
  s = T[] parameter(3)
  ROOT lt = pred[] compare(p, q), direction=LT
}
ENTRY main {
  a = f32[DIMS] parameter(0)
  b = T[DIMS] parameter(1)
  key = f32[DIMS] negate(a)
  load = T[DIMS] add(b, b)
  ROOT both = (f32[DIMS], T[DIMS]) sort(key, load), dimensions={AXIS}, is_stable=true, to_apply=less
}
"""


@pytest.mark.parametrize(
    ("t", "dtype"), [("f32", np.float32), ("f64", np.float64), ("s8", np.int8), ("c64", np.complex64)]
)
@pytest.mark.parametrize(("dims", "axis"), [((2, 40), 1), ((64, 5), 0), ((3, 1), 1), ((7, 2), 1)])
def test_short_lines_are_sorted_in_place_with_what_goes_along(backend, t, dtype, dims, axis):
    text = PAYLOAD.replace("T[", f"{t}[").replace("DIMS", f"{dims[0]},{dims[1]}").replace("AXIS", str(axis))
    rng = np.random.default_rng(0)
    a = np.round(rng.standard_normal(dims), 1).astype(np.float32)
    b = np.arange(a.size).reshape(dims).astype(dtype)
    exe = backend(text)
    for got, want in zip(exe(a, b), evaluate(exe.hlo_module, a, b), strict=True):
        np.testing.assert_array_equal(got, want)
    find = {i.name: i for i in exe.hlo_module.entry_computation}
    for leaf, name in enumerate(("key", "load")):
        if name in find:
            assert exe.buffer_assignment.slice_of(find["both"], (leaf,)) == exe.buffer_assignment.slice_of(find[name])
    assert exe.buffer_assignment.temp_size == 0
