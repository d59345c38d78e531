"""Reductions of (value, position) pairs: analysis of reducers; vectors against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from xlanb.cpu import Executable, compile_module
from xlanb.cpu.emitters.variadic import choice
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

# How JAX, TensorFlow and hand-written HLO keep the larger of two values: (value kept, position
# kept).
REDUCERS = {
    "jax": """
      gt = pred[] compare(v, w), direction=GT
      ne = pred[] compare(v, v), direction=NE
      left = pred[] or(gt, ne)
      mv = T[] select(left, v, w)
      eq = pred[] compare(v, w), direction=EQ
      lt = pred[] compare(i, j), direction=LT
      tie = pred[] and(eq, lt)
      first = pred[] or(left, tie)
      mi = P[] select(first, i, j)""",
    "tf": """
      ge = pred[] compare(v, w), direction=GE
      mv = T[] select(ge, v, w)
      eq = pred[] compare(v, w), direction=EQ
      least = P[] minimum(i, j)
      some = P[] select(ge, i, j)
      mi = P[] select(eq, least, some)""",
    "plain": """
      ge = pred[] compare(v, w), direction=GE
      mv = T[] select(ge, v, w)
      mi = P[] select(ge, i, j)""",
    "last": """
      gt = pred[] compare(v, w), direction=GT
      mv = T[] select(gt, v, w)
      mi = P[] select(gt, i, j)""",
    "least": """
      le = pred[] compare(v, w), direction=LE
      mv = T[] minimum(v, w)
      mi = P[] select(le, i, j)""",
    "sums": """
      mv = T[] add(v, w)
      mi = P[] maximum(i, j)""",
}


def module(
    reducer: str,
    dims: tuple[int, ...],
    axis: int,
    t: str = "f32",
    p: str = "s32",
    layout: str = "",
    fused: bool = False,
) -> str:
    """A reduction along `axis` of a parameter and its iota along that axis."""
    shape = ",".join(map(str, dims))
    kept = ",".join(str(n) for d, n in enumerate(dims) if d != axis)
    body = REDUCERS[reducer].replace("T[]", f"{t}[]").replace("P[]", f"{p}[]")
    made = f"y = {t}[{shape}]{layout} add(x, x)" if fused else f"y = {t}[{shape}]{layout} copy(x)"
    return f"""HloModule m
    keep {{
      v = {t}[] parameter(0)
      i = {p}[] parameter(1)
      w = {t}[] parameter(2)
      j = {p}[] parameter(3){body}
      ROOT t = ({t}[], {p}[]) tuple(mv, mi)
    }}
    inner {{
      x = {t}[{shape}]{layout} parameter(0)
      first = {t}[] parameter(1)
      {made}
      at = {p}[{shape}]{layout} iota(), iota_dimension={axis}
      zero = {p}[] constant(0)
      ROOT r = ({t}[{kept}], {p}[{kept}]) reduce(y, at, first, zero), dimensions={{{axis}}}, to_apply=keep
    }}
    ENTRY e {{
      x = {t}[{shape}]{layout} parameter(0)
      first = {t}[] parameter(1)
      ROOT r = ({t}[{kept}], {p}[{kept}]) fusion(x, first), kind=kLoop, calls=inner
    }}"""


def check(backend: Callable[[str], Executable], text: str, x: NDArray[np.generic], first: object) -> None:
    arrays = (x, np.array(first, x.dtype))
    for got, expected in zip(backend(text)(*arrays), evaluate(parse(text), *arrays), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", REDUCERS)
def test_what_a_reducer_does(name: str) -> None:
    found = choice(next(c for c in parse(module(name, (2, 3), 1)).computations if c.name == "keep"))
    if name == "sums":
        assert found is None
        return
    assert found is not None
    assert not found.free  # of two NaN, or of two equal values, the first is kept
    assert found.sortable == (name == "jax")
    assert found.sortable_numbers
    assert ("eq" in found.position["lt"]) == (name == "last")
    assert ("lt" in found.value["lt"]) == (name != "least")


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize(
    ("dims", "axis"), [((3, 200), 1), ((41, 37), 0), ((5, 9, 33), 1), ((2, 77, 3), 1), ((3, 1100), 1)]
)
def test_ties_and_nan(
    backend: Callable[[str], Executable], name: str, dims: tuple[int, ...], axis: int, fused: bool
) -> None:
    rng = np.random.default_rng(len(dims))
    x = rng.integers(-3, 4, dims).astype(np.float32)
    text = module(name, dims, axis, fused=fused)
    check(backend, text, x, -np.inf)
    with_nan = np.where(rng.random(dims) < 0.01, np.float32(np.nan), x)
    check(backend, text, with_nan, 1.0)


@pytest.mark.parametrize(
    ("t", "p"),
    [
        ("f64", "s64"),
        ("f32", "s64"),
        ("bf16", "s64"),
        ("s8", "u64"),
        ("f64", "s32"),
        ("s8", "s32"),
        ("u8", "u32"),
        ("s64", "s32"),
        ("u16", "s16"),
        ("bf16", "s32"),
    ],
)
def test_element_types(backend: Callable[[str], Executable], t: str, p: str) -> None:
    dtype = np.dtype(
        {"bf16": ml_dtypes.bfloat16, "s8": "i1", "u8": "u1", "s64": "i8", "u16": "u2", "f32": "f4", "f64": "f8"}[t]
    )
    x = np.random.default_rng(1).integers(0, 100, (3, 300)).astype(dtype)
    for name in ("jax", "tf", "plain", "least"):
        check(backend, module(name, (3, 300), 1, t, p), x, 0)
        check(backend, module(name, (300, 70), 0, t, p), np.resize(x, (300, 70)), 0)


def test_layouts(backend: Callable[[str], Executable]) -> None:
    x = np.random.default_rng(2).integers(0, 9, (40, 90)).astype(np.float32)
    for axis in (0, 1):
        for layout in ("{0,1}", "{1,0}"):
            check(backend, module("jax", (40, 90), axis, layout=layout), x, -1.0)


@pytest.mark.parametrize(("dims", "axis"), [((33, 64), 1), ((64, 33), 0), ((5, 16), 1)])
def test_values_that_are_counted_as_the_positions_are(dims: tuple[int, int], axis: int) -> None:
    text = f"""HloModule m
best {{
  v = s32[] parameter(0)
  i = s32[] parameter(1)
  w = s32[] parameter(2)
  j = s32[] parameter(3){REDUCERS["tf"].replace("T[", "s32[").replace("P[", "s32[")}
  ROOT r = (s32[], s32[]) tuple(mv, mi)
}}
ENTRY e {{
  x = s32[{dims[0]},{dims[1]}] iota(), iota_dimension={axis}
  low = s32[] constant(-100)
  none = s32[] constant(1000000)
  ROOT r = (s32[{dims[1 - axis]}], s32[{dims[1 - axis]}]) reduce(x, x, low, none), dimensions={{{axis}}}, to_apply=best
}}"""
    parsed = parse(text)
    for got, wanted in zip(compile_module(parsed)(), evaluate(parsed), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("p", ["s32", "s64"])
@pytest.mark.parametrize(("t", "dims", "axis"), [("bf16", (8, 300), 1), ("bf16", (300, 70), 0), ("f32", (2, 77, 3), 1)])
def test_pairs_are_reduced_in_vectors(t: str, p: str, dims: tuple[int, ...], axis: int) -> None:
    exe = compile_module(parse(module("jax", dims, axis, t, p, fused=True)))
    plan = "\n".join(map(str, exe.plans.values()))
    assert "by vectors of" in plan


@pytest.mark.parametrize("which", [0, 1])
def test_values_may_be_one_for_all_lanes(which: int) -> None:
    # vectors of positions are wider than a register; values are scalars
    text = f"""HloModule m
best {{
  v = bf16[] parameter(0)
  i = s32[] parameter(1)
  w = bf16[] parameter(2)
  j = s32[] parameter(3){REDUCERS["plain"].replace("T[", "bf16[").replace("P[", "s32[")}
  ROOT r = (bf16[], s32[]) tuple(mv, mi)
}}
ENTRY e {{
  low = bf16[] constant(0)
  x = bf16[1,5,11,11] broadcast(low), dimensions={{}}
  p = s32[1,5,11,11]{{3,2,0,1}} parameter(0)
  none = s32[] parameter(1)
  r = (bf16[5,11,11], s32[5,11,11]) reduce(x, p, low, none), dimensions={{0}}, to_apply=best
  ROOT g = {("bf16", "s32")[which]}[5,11,11] get-tuple-element(r), index={which}
}}"""
    arrays = (np.arange(605, dtype=np.int32).reshape(1, 5, 11, 11), np.int32(-1))
    np.testing.assert_array_equal(compile_module(parse(text))(*arrays), evaluate(parse(text), *arrays))


@pytest.mark.parametrize("axis", [0, 1], ids=["columns", "rows"])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("p", ["s64", "s32"])
@pytest.mark.parametrize("kept", ["select(c, i, j)", "select(c, j, j)", "select(c, i, i)"])
def test_positions_that_differ_along_no_or_another_axis(axis: int, counted: int, p: str, kept: str) -> None:
    """Positions along another dimension, or a position kept whatever the values are.

    They are the same in all lanes or count from lane to lane.
    """
    text = f"""HloModule m
    first {{
      a = s64[] parameter(0)
      i = {p}[] parameter(1)
      b = s64[] parameter(2)
      j = {p}[] parameter(3)
      c = pred[] compare(a, b), direction=GT
      d = pred[] multiply(c, c)
      v = s64[] select(d, a, b)
      k = {p}[] {kept}
      ROOT r = (s64[], {p}[]) tuple(v, k)
    }}
    ENTRY e {{
      x = s64[64,127]{{0,1}} parameter(0)
      q = {p}[64,127] iota(), iota_dimension={counted}
      s = s64[] parameter(1)
      t = {p}[] convert(s)
      ROOT r = (s64[{(127, 64)[axis]}], {p}[{(127, 64)[axis]}]) reduce(x, q, s, t), dimensions={{{axis}}}, to_apply=first
    }}"""
    x = np.random.default_rng(1).permutation(64 * 127).reshape(64, 127)
    seen, wanted = (run(x, np.int64(-1)) for run in (compile_module(parse(text)), lambda *a: evaluate(text, *a)))
    np.testing.assert_array_equal(seen[0], wanted[0])
    np.testing.assert_array_equal(seen[1], wanted[1])
