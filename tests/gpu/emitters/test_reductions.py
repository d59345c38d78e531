"""Reductions on a GPU: rows by warps and blocks, columns, several at once, any computation."""

import ml_dtypes
import numpy as np
import pytest

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
    "c128": "c16",
}


def numbers(kind, shape, seed=0):
    made = np.random.default_rng(seed).integers(-2, 3, shape)
    if kind == "pred":
        return made > 0
    return (np.abs(made) if kind.startswith("u") else made).astype(NUMPY[kind])


def program(kind, shape, dims, operation="add", layout="", initial="3"):
    kept = [n for d, n in enumerate(shape) if d not in dims]
    text = ",".join(map(str, shape))
    return f"""HloModule m
f {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT r = {kind}[] {operation}(a, b) }}
ENTRY e {{
  x = {kind}[{text}]{layout} parameter(0)
  i = {kind}[] constant({initial})
  ROOT r = {kind}[{",".join(map(str, kept))}] reduce(x, i), dimensions={{{",".join(map(str, dims))}}}, to_apply=f
}}"""


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((40,), (0,)), ((5, 32), (1,)), ((5, 33), (1,)), ((3, 1024), (1,)), ((3, 1025), (1,)), ((2, 9000), (1,)),
        ((100, 64), (1,)),
        ((32, 5), (0,)), ((100, 70), (0,)), ((33, 32), (0,)), ((4, 50, 6), (1,)), ((6, 7, 8), (0, 2)),
        ((6, 7, 8), (0, 1)), ((1, 64, 1), (1,)),
        ((3, 40, 5, 2), (1, 3)),
    ],
)  # fmt: skip
def test_any_dimensions(check, shape, dims):
    exe = check(program("f32", shape, dims), numbers("f32", shape))
    assert [k.emitter for k in exe.kernels] == ["reduction"]


@pytest.mark.parametrize("kind", NUMPY)
@pytest.mark.parametrize(("shape", "dims"), [((3, 70), (1,)), ((70, 3), (0,)), ((2, 1500), (1,))])
def test_every_type(check, kind, shape, dims):
    initial = "(1, 2)" if kind.startswith("c") else "1"
    check(
        program(kind, shape, dims, initial=initial),
        numbers(kind, shape) if kind not in ("bf16", "f16") else numbers(kind, shape) * 0,
    )
    if not kind.startswith("c"):
        check(program(kind, shape, dims, "maximum", initial=initial), numbers(kind, shape))


@pytest.mark.parametrize("operation", ["and", "or"])
@pytest.mark.parametrize(("shape", "dims"), [((3, 70), (1,)), ((70, 3), (0,)), ((2, 1500), (1,))])
def test_predicates(check, operation, shape, dims):
    check(
        program("pred", shape, dims, operation, initial="true" if operation == "and" else "false"),
        numbers("pred", shape),
    )


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0}"])
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_layouts(check, layout, dims):
    check(program("f32", (50, 60), dims, layout=layout), numbers("f32", (50, 60)))


@pytest.mark.parametrize(("shape", "dim", "other"), [("7,100", 1, "7"), ("100,7", 0, "7"), ("3,2000", 1, "3")])
def test_place_of_the_greatest(check, shape, dim, other):
    text = f"""HloModule m
f {{
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, first)
  left = pred[] or(more, tie)
  v = f32[] select(left, a, b)  k = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}}
ENTRY e {{
  x = f32[{shape}] parameter(0)
  n = s32[{shape}] iota(), iota_dimension={dim}
  lo = f32[] constant(-inf)  z = s32[] constant(0)
  ROOT r = (f32[{other}], s32[{other}]) reduce(x, n, lo, z), dimensions={{{dim}}}, to_apply=f
}}"""
    x = numbers("f32", tuple(map(int, shape.split(","))))
    exe = check(text, x)
    assert exe.kernels[-1].emitter == "reduction"


def test_fusion_of_several_reductions_and_what_is_computed_of_them(check):
    text = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
f {
  x = f32[30,100] parameter(0)  y = f32[30] parameter(1)
  n = f32[30,100] negate(x)
  zero = f32[] constant(0)  low = f32[] constant(-inf)
  s = f32[30] reduce(n, zero), dimensions={1}, to_apply=add
  m = f32[30] reduce(x, low), dimensions={1}, to_apply=max
  t = f32[30] multiply(s, y)
  b = f32[5,6] bitcast(m)
  ROOT r = (f32[30], f32[5,6], f32[30,100]) tuple(t, b, n)
}
ENTRY e {
  x = f32[30,100] parameter(0)  y = f32[30] parameter(1)
  ROOT r = (f32[30], f32[5,6], f32[30,100]) fusion(x, y), kind=kInput, calls=f
}"""
    exe = check(text, numbers("f32", (30, 100)), numbers("f32", 30, 1))
    assert [k.emitter for k in exe.kernels] == ["reduction"]


def test_short_reductions_are_loops(check):
    exe = check(program("f32", (50, 8), (1,)), numbers("f32", (50, 8)))
    assert [k.emitter for k in exe.kernels] == ["loop"]


def test_sums_of_many_floats_are_close(check):
    x = np.random.default_rng(0).standard_normal((4, 50000)).astype(np.float32)
    check(program("f32", (4, 50000), (1,), initial="0"), x, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 40), 1), ((3, 1000), 1), ((2, 1025), 1), ((2, 9001), 1), ((40, 5), 0), ((1001, 3), 0)]
)
def test_elements_are_met_in_order_where_it_matters(check, shape, dim):
    kept = shape[1 - dim]
    text = f"""HloModule m
f {{
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  more = pred[] compare(b, a), direction=GT
  v = f32[] select(more, b, a)  k = s32[] select(more, j, i)
  ROOT t = (f32[], s32[]) tuple(v, k)
}}
ENTRY e {{
  x = f32[{shape[0]},{shape[1]}] parameter(0)
  n = s32[{shape[0]},{shape[1]}] parameter(1)
  lo = f32[] constant(-inf)  z = s32[] constant(0)
  ROOT r = (f32[{kept}], s32[{kept}]) reduce(x, n, lo, z), dimensions={{{dim}}}, to_apply=f
}}"""
    index = np.broadcast_to(
        np.arange(shape[dim], dtype=np.int32)[(None, slice(None)) if dim else (slice(None), None)], shape
    )
    exe = check(text, numbers("f32", shape), np.ascontiguousarray(index))  # of equals the first one stays
    assert [k.emitter for k in exe.kernels] == ["reduction"]
