"""Arrays of dynamic size keep their size; random state continues; asynchronous pairs run."""

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
    with pytest.raises(CompilationError, match="form a cycle"):
        schedule_computation(module.entry_computation)


MEETINGS = {
    "add": " s = f32[<=8] add(x, y)",
    "chain": " t = f32[<=8] multiply(x, y)\n s = f32[<=8] add(t, x)",
    "static": " s = f32[<=8] subtract(b, x)",
    "clamp": " s = f32[<=8] clamp(x, y, x)",
    "select": " g = pred[<=8] compare(x, y), direction=LT\n s = f32[<=8] select(g, y, x)",
    "rows": " v = f32[<=8,3] broadcast(x), dimensions={0}\n w = f32[<=8,3] broadcast(y), dimensions={0}\n"
    " t = f32[<=8,3] add(v, w)\n c = f32[] constant(0)\n s = f32[<=8] reduce(t, c), dimensions={1}, to_apply=sum",
    "batch": " v = f32[<=8,3] broadcast(x), dimensions={0}\n w = f32[<=8,3] broadcast(y), dimensions={0}\n"
    " s = f32[<=8] dot(v, w), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    "beside": " v = f32[<=8,1] reshape(x)\n w = f32[<=8,1] reshape(y)\n t = f32[<=8,2] concatenate(v, w), dimensions={1}\n"
    " c = f32[] constant(0)\n s = f32[<=8] reduce(t, c), dimensions={1}, to_apply=sum",
    "scattered": " i = s32[<=8] convert(x)\n z = f32[8] scatter(b, i, y), update_window_dims={}, inserted_window_dims={0},\n"
    " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
    " s = f32[<=8] set-dimension-size(z, n), dimensions={0}",
    "contracted": " d = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n s = f32[1] broadcast(d), dimensions={}",
}


def _meeting(body: str) -> str:
    result = "f32[1]" if "f32[1] broadcast(d)" in body else "f32[<=8]"
    return (
        "HloModule m\nsum {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT r = f32[] add(p, q)\n}\n"
        "ENTRY e {\n a = f32[8] parameter(0)\n b = f32[8] parameter(1)\n n = s32[] parameter(2)\n k = s32[] parameter(3)\n"
        " x = f32[<=8] set-dimension-size(a, n), dimensions={0}\n y = f32[<=8] set-dimension-size(b, k), dimensions={0}\n"
        f"{body}\n ROOT r = {result} copy(s)\n}}\n"
    )


@pytest.mark.parametrize("body", MEETINGS.values(), ids=MEETINGS)
def test_arrays_of_different_sizes_meet_in_the_smaller(body):
    text = _meeting(body)
    executable = xlanb.compile(text)
    a, b = np.arange(1, 9, dtype=np.float32), np.arange(10, 90, 10, dtype=np.float32)
    for n, k in ((3, 3), (3, 5), (5, 3), (0, 4), (4, 0), (8, 1), (1, 8), (1, 0), (0, 1), (1, 1)):
        got, want = executable(a, b, np.int32(n), np.int32(k)), xlanb.evaluate(text, a, b, np.int32(n), np.int32(k))
        assert np.array_equal(got, want), (n, k, got, want)


def test_one_element_is_repeated_where_the_other_array_has_more():
    text = _meeting(MEETINGS["add"])
    a, b = np.arange(1, 9, dtype=np.float32), np.arange(10, 90, 10, dtype=np.float32)
    assert xlanb.compile(text)(a, b, np.int32(1), np.int32(3)).tolist() == [11, 21, 31]
    assert xlanb.compile(text)(a, b, np.int32(5), np.int32(3)).tolist() == [11, 22, 33]


ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
GE = "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}\n"
BEFORE = (
    "before {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n"
    "  ROOT r = pred[] compare(a, b), direction=LT\n}\n"
)
LEFT_ALONE = {
    "sort with a result that nothing reads": """  x = f32[<=5] parameter(0)
  y = s32[<=5] parameter(1)
  s = (f32[<=5], s32[<=5]) sort(x, y), dimensions={0}, is_stable=true, to_apply=before
  ROOT r = s32[<=5] get-tuple-element(s), index=1""",
    "scatter with dynamic updates": """  x = f32[5,2] parameter(0)
  i = s32[3,1,1] parameter(1)
  u = f32[3,1,<=2] parameter(2)
  ROOT r = f32[5,2] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "scatter of one dynamic update": """  x = f32[5] parameter(0)
  i = s32[1] parameter(1)
  u = f32[<=2] parameter(2)
  ROOT r = f32[5] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add""",
    "scatter at dynamic indices": """  x = f32[5] parameter(0)
  i = s32[<=3] parameter(1)
  u = f32[3] parameter(2)
  ROOT r = f32[5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "gather at dynamic indices": """  x = f32[5,2] parameter(0)
  i = s32[<=3] parameter(1)
  ROOT r = f32[<=3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,2}""",
    "one slice gathered from a dynamic array": """  x = f32[<=3,2] parameter(0)
  i = s32[1] parameter(1)
  ROOT r = f32[2] gather(x, i), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=0, slice_sizes={1,2}""",
    "select-and-scatter of a dynamic source": """  x = f32[7,2] parameter(0)
  s = f32[6,<=2] parameter(1)
  z = f32[] parameter(2)
  ROOT r = f32[7,2] select-and-scatter(x, s, z), window={size=2x1}, select=ge, scatter=add""",
    "pad that cuts": """  x = f32[<=9] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[<=6] pad(x, z), padding=-2_-1""",
    "reshape to a static shape": """  x = f32[3,<=4] parameter(0)
  ROOT r = f32[2,6] reshape(x)""",
    "reshape of columns to a static shape": """  x = f32[3,<=4]{0,1} parameter(0)
  ROOT r = f32[12] reshape(x)""",
}


def _argument(shape, whole, rng):
    sizes = [n if whole or not shape.is_dynamic_dimension(d) else n - 1 for d, n in enumerate(shape.dimensions)]
    if shape.element_type.is_integral:
        return rng.integers(0, 2, sizes).astype(shape.dtype)
    return rng.integers(-3, 4, sizes).astype(shape.dtype)


def _outcome(run):
    try:
        return run()
    except XlanbError:
        return None


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("body", LEFT_ALONE)
def test_passes_leave_alone_what_needs_the_elements_of_dynamic_arrays(body, whole):
    module = parse(f"HloModule m\n{ADD}{GE}{BEFORE}ENTRY e {{\n{LEFT_ALONE[body]}\n}}\n")
    module.verify()
    rng = np.random.default_rng(1)
    arguments = [_argument(p.shape, whole, rng) for p in module.entry_computation.parameters]
    expected = _outcome(lambda: xlanb.evaluate(module, *arguments))
    got = _outcome(lambda: xlanb.compile(module)(*arguments))
    assert expected is not None or not whole
    assert (got is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(got, expected)
