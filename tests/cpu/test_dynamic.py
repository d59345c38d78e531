"""Arrays of dynamic size go in and come out in their own size; random numbers go on from call to call; asynchronous pairs run."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.buffers.memory_scheduler import schedule_computation
from xlanb.errors import ArgumentError, CompilationError, XlanbError
from xlanb.hlo import parse

SLICED = """HloModule sliced
ENTRY main {
  p = f32[8] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=8] set-dimension-size(p, n), dimensions={0}
  a = f32[<=8] add(d, d)
  g = s32[] get-dimension-size(a), dimensions={0}
  ROOT t = (f32[<=8], s32[]) tuple(a, g)
}
"""

GIVEN = """HloModule given

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  p = f32[2,<=4] parameter(0)
  z = f32[] constant(0)
  r = f32[] reduce(p, z), dimensions={0,1}, to_apply=sum
  m = f32[2,<=4] negate(p)
  ROOT t = (f32[], f32[2,<=4]) tuple(r, m)
}
"""


@pytest.mark.parametrize("size", [0, 3, 8])
def test_a_result_comes_out_in_its_own_size(size):
    x = np.arange(8, dtype=np.float32)
    array, count = xlanb.compile(SLICED)(x, np.int32(size))
    np.testing.assert_array_equal(array, 2 * x[:size])
    assert count == size


def test_a_size_beyond_the_bound_is_an_error():
    with pytest.raises(XlanbError, match="99"):
        xlanb.compile(SLICED)(np.zeros(8, np.float32), np.int32(99))


@pytest.mark.parametrize("size", [0, 1, 4])
def test_an_argument_of_any_size_within_the_bound_is_taken(size):
    x = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
    total, negated = xlanb.compile(GIVEN)(x)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(negated, -x)


@pytest.mark.parametrize("shape", [(2, 5), (1, 4), (8,), (3, 1)])
def test_one_beyond_the_bound_is_refused(shape):
    with pytest.raises(ArgumentError, match="expected f32"):
        xlanb.compile(GIVEN)(np.zeros(shape, np.float32))


RANDOM = """HloModule random
ENTRY main {
  a = f32[] constant(2)
  b = f32[] constant(5)
  ROOT r = f32[1000] rng(a, b), distribution=rng_uniform
}
"""


def test_random_numbers_go_on_from_call_to_call():
    exe = xlanb.compile(RANDOM)
    first, second = exe(), exe()
    assert ((first >= 2) & (first < 5)).all()
    assert (first != second).any()
    np.testing.assert_array_equal(xlanb.compile(RANDOM)(), first)


ASYNC = """HloModule async

wrapped {
  p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p)
}

ENTRY main {
  x = f32[8] parameter(0)
  start = ((f32[8]), f32[8], s32[]) async-start(x), calls=wrapped
  update = ((f32[8]), f32[8], s32[]) async-update(start)
  done = f32[8] async-done(update)
  ROOT y = f32[8] add(done, x)
}
"""


def test_asynchronous_pairs(backend):
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(backend(ASYNC)(x), x - x)


WAITING = """HloModule waiting
ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] negate(x)
  b = f32[8] abs(x)
  ROOT y = f32[8] add(a, b)
}
"""


def test_control_dependencies_that_wait_for_one_another_are_named():
    module = parse(WAITING)
    find = {i.name: i for i in module.entry_computation}
    module.entry_computation.add_control_dependency(find["a"], find["b"])
    module.entry_computation.add_control_dependency(find["b"], find["a"])
    with pytest.raises(CompilationError, match="wait for one another"):
        schedule_computation(module.entry_computation)
