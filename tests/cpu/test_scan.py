"""Running folds: which reduce-windows are one; results against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from xlanb.analysis.cumulative import cumulative
from xlanb.cpu import Executable
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {
    "f32": "f4",
    "f64": "f8",
    "s32": "i4",
    "s8": "i1",
    "u16": "u2",
    "c64": "c8",
    "bf16": ml_dtypes.bfloat16,
    "pred": "?",
}
Dims = tuple[int, ...]


def module(
    op: str, dims: Dims, axis: int, size: int, pad: tuple[int, int], t: str = "f32", layout: str = "", body: str = ""
) -> str:
    """A reduce-window along one dimension."""
    out = [n + sum(pad) - size + 1 if d == axis else n for d, n in enumerate(dims)]
    shape, result = ",".join(map(str, dims)), ",".join(map(str, out))
    sizes = "x".join(str(size) if d == axis else "1" for d in range(len(dims)))
    pads = "x".join(f"{pad[0]}_{pad[1]}" if d == axis else "0_0" for d in range(len(dims)))
    return f"""HloModule m
    fold {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      ROOT r = {t}[] {op}(a, b)
    }}
    ENTRY e {{
      p = {t}[{shape}]{layout} parameter(0)
      first = {t}[] parameter(1)
      x = {t}[{shape}]{layout} {body or "copy(p)"}
      ROOT r = {t}[{result}]{layout} reduce-window(x, first), window={{size={sizes} pad={pads}}}, to_apply=fold
    }}"""


def check(backend: Callable[[str], Executable], text: str, dims: Dims, t: str = "f32", first: object = 0) -> None:
    x = np.random.default_rng(0).integers(0, 3, dims).astype(TYPES[t])
    arrays = (x, np.array(first, x.dtype))
    np.testing.assert_array_equal(backend(text)(*arrays), evaluate(parse(text), *arrays))


@pytest.mark.parametrize(
    ("size", "pad", "shift", "reverse"),
    [
        (9, (8, 0), 0, False),
        (9, (0, 8), 0, True),
        (9, (9, -1), -1, False),
        (9, (-1, 9), -1, True),
        (9, (12, 0), -4, False),
        (9, (6, 4), 2, False),
    ],
)
def test_which_windows_are_running(size: int, pad: tuple[int, int], shift: int, reverse: bool) -> None:
    m = 9 + sum(pad) - size + 1
    found = cumulative(parse(module("add", (4, 9), 1, size, pad)).entry_computation.root)
    if pad == (6, 4):
        assert found is None  # its last windows leave out the first elements
        return
    assert found is not None
    assert (found.axis, found.n, found.m, found.shift, found.reverse) == (1, 9, m, shift, reverse)


@pytest.mark.parametrize("pad", [(-1, 0), (0, -1), (1, 1), (0, 5), (3, 0)])
@pytest.mark.parametrize(("dims", "axis"), [((3, 100), 1), ((100, 50), 0)])
def test_forwards_backwards_and_beyond(
    backend: Callable[[str], Executable], dims: Dims, axis: int, pad: tuple[int, int]
) -> None:
    for size in (100, 120):
        for way in (0, 1):
            given = (pad[0] + size - 1, pad[1]) if way == 0 else (pad[0], pad[1] + size - 1)
            if 100 + sum(given) - size + 1 > 0:
                check(backend, module("add", dims, axis, size, given), dims, first=2)


@pytest.mark.parametrize(("dims", "axis"), [((5, 1, 9), 1), ((1, 7), 0), ((1,), 0)])
def test_an_axis_of_one_element(backend: Callable[[str], Executable], dims: Dims, axis: int) -> None:
    for pad in ((3, 3), (5, 0), (0, 5)):
        check(backend, module("maximum", dims, axis, 6, pad), dims)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("dims", [(45, 3), (40, 33), (1, 200)])
def test_types_and_operations(backend: Callable[[str], Executable], t: str, dims: Dims) -> None:
    axis = 1 if dims[0] == 1 else 0
    n = dims[axis]
    ops = ["and", "or"] if t == "pred" else ["add", "multiply"] + (["maximum", "minimum"] if t != "c64" else [])
    for op in [*ops, "xor"] if t.startswith(("s", "u")) else ops:
        check(backend, module(op, dims, axis, n, (n - 1, 0), t), dims, t, first=1)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("dims", [(3, 8, 9), (2, 8, 3), (8, 40)])
def test_windows_that_all_hold_the_whole_array(backend: Callable[[str], Executable], t: str, dims: Dims) -> None:
    """One step, and its fold repeated."""
    op = {"bf16": "add", "pred": "xor"}.get(t, "add")
    axis = dims.index(8)
    check(backend, module(op, dims, axis, 15, (7, 7), t), dims, t)


@pytest.mark.parametrize("layout", ["{0,1,2}", "{2,1,0}", "{1,2,0}"])
def test_layouts_and_computed_operands(backend: Callable[[str], Executable], layout: str) -> None:
    for axis, n in enumerate((5, 70, 33)):
        for body in ("", "negate(p)"):
            check(backend, module("add", (5, 70, 33), axis, n, (0, n - 1), layout=layout, body=body), (5, 70, 33))


def test_fused_operands_and_users(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    fold {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] add(a, b)
    }
    inner {
      x = f32[6,2000] parameter(0)
      zero = f32[] constant(0)
      y = f32[6,2000] add(x, x)
      ROOT r = f32[6,2000] reduce-window(y, zero), window={size=1x2000 pad=0_0x1999_0}, to_apply=fold
    }
    outer {
      x = f32[6,2000] parameter(0)
      zero = f32[] constant(0)
      r = f32[6,2000] reduce-window(x, zero), window={size=1x2000 pad=0_0x1999_0}, to_apply=fold
      ROOT n = f32[6,2000] negate(r)
    }
    ENTRY e {
      x = f32[6,2000] parameter(0)
      a = f32[6,2000] fusion(x), kind=kLoop, calls=inner
      ROOT b = f32[6,2000] fusion(a), kind=kLoop, calls=outer
    }"""
    x = np.random.default_rng(1).integers(0, 3, (6, 2000)).astype(np.float32)
    expected = -np.cumsum(np.cumsum(2 * x, 1), 1)
    np.testing.assert_array_equal(backend(text)(x), expected)


def test_nan_goes_on(backend: Callable[[str], Executable]) -> None:
    x = np.ones((2, 64), np.float32)
    x[1, 20] = np.nan
    for op in ("maximum", "minimum"):
        text = module(op, (2, 64), 1, 64, (63, 0))
        got = backend(text)(x, np.float32(1.0))
        assert not np.isnan(got[0]).any()
        np.testing.assert_array_equal(np.isnan(got[1]), np.arange(64) >= 20)


def test_several_operands(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    fold {
      a = f32[] parameter(0)
      i = s32[] parameter(1)
      b = f32[] parameter(2)
      j = s32[] parameter(3)
      ge = pred[] compare(a, b), direction=GE
      v = f32[] select(ge, a, b)
      k = s32[] select(ge, i, j)
      ROOT r = (f32[], s32[]) tuple(v, k)
    }
    ENTRY e {
      x = f32[30,20] parameter(0)
      i = s32[30,20] iota(), iota_dimension=0
      lowest = f32[] constant(-inf)
      zero = s32[] constant(0)
      ROOT r = (f32[30,20], s32[30,20]) reduce-window(x, i, lowest, zero), window={size=30x1 pad=29_0x0_0}, to_apply=fold
    }"""
    x = np.random.default_rng(3).standard_normal((30, 20)).astype(np.float32)
    for got, expected in zip(backend(text)(x), evaluate(parse(text), x), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("dims", "axis", "t"), [((5, 90), 1, "c64"), ((90, 8), 0, "f32"), ((90, 70), 0, "bf16")])
def test_lines_are_folded_in_vectors(backend: Callable[[str], Executable], dims: Dims, axis: int, t: str) -> None:
    size = dims[axis]
    exe = backend(module("add", dims, axis, size, (size - 1, 0), t, body="add(p, p)"))
    plan = "\n".join(map(str, exe.plans.values()))
    assert "vectors" in plan
    assert "one by one" not in plan
