"""Sorts on a GPU: bitonic networks in shared and global memory, stable or not, any comparator."""

import numpy as np
import pytest

from xlanb.gpu.emitters.sorts import steps

LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }"


def one(shape, dimension, layout=""):
    return f"""HloModule m
{LESS}
ENTRY e {{
  x = f32[{shape}]{layout} parameter(0)
  ROOT s = f32[{shape}]{layout} sort(x), dimensions={{{dimension}}}, to_apply=less
}}"""


def pairs(n, stable):
    return f"""HloModule m
less {{
  a = s32[] parameter(0)  b = s32[] parameter(1)  c = f64[] parameter(2)  d = f64[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}}
ENTRY e {{
  k = s32[{n}] parameter(0)
  v = f64[{n}] parameter(1)
  ROOT s = (s32[{n}], f64[{n}]) sort(k, v), dimensions={{0}}, is_stable={stable}, to_apply=less
}}"""


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 64, 100, 1000, 2048, 2049, 5000])
def test_lines_of_any_length(check, length):
    x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    x[:: max(1, length // 7)] = np.nan
    exe = check(one(length, 0), x)
    assert len(exe.kernels) == 0 if length < 2 else len(exe.kernels) >= 1


@pytest.mark.parametrize(("dimension", "layout"), [(0, "{2,1,0}"), (1, "{2,1,0}"), (2, "{2,1,0}"), (1, "{0,2,1}")])
def test_any_dimension_and_layout(check, dimension, layout):
    x = np.random.default_rng(0).standard_normal((5, 40, 3)).astype(np.float32)
    check(one("5,40,3", dimension, layout), x)


@pytest.mark.parametrize("length", [40, 700, 3000, 5000])
def test_stable_sorts_keep_the_order_of_equals(check, length):
    rng = np.random.default_rng(length)
    check(pairs(length, "true"), rng.integers(0, 9, length).astype(np.int32), rng.standard_normal(length))


def test_sorts_that_are_not_stable_move_what_belongs_together(check):
    rng = np.random.default_rng(0)
    check(pairs(3000, "false"), rng.permutation(3000).astype(np.int32), rng.standard_normal(3000))


def test_kernels_do_as_many_steps_as_fit_a_tile(check):
    x = np.random.default_rng(0).standard_normal(1 << 14).astype(np.float32)
    exe = check(one(1 << 14, 0), x)
    assert len(exe.kernels) == 1 + 2 + 3 + 4  # tiles of 2^11; stages 12, 13 and 14 begin with 1, 2 and 3 steps beyond


@pytest.mark.parametrize("length", [2, 5, 16, 100])
def test_network_sorts(length):
    x = list(np.random.default_rng(length).integers(0, 50, length))
    want = sorted(x)
    for step in steps(length):
        for low in range(length):
            high = low ^ step.mask
            if low < high < length and x[high] < x[low]:
                x[low], x[high] = x[high], x[low]
    assert x == want
