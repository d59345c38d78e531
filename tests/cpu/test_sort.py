"""Sort and topk: by digits, counting, merging, selection; against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import xlanb
from tests.cpu.guard_pages import run_guarded
from xlanb.cpu import Executable
from xlanb.cpu.emitters.sorting.keys import sort_keys
from xlanb.errors import HloVerifierError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {
    "f32": "f4", "f64": "f8", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "s8": "i1",
    "u8": "u1",
    "s16": "i2", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8", "pred": "?",
}  # fmt: skip

# Comparisons with one operand of type T.
ONE = {
    "lt": "ROOT r = pred[] compare(a, b), direction=LT",
    "gt": "ROOT r = pred[] compare(a, b), direction=GT",
    "swapped": "ROOT r = pred[] compare(b, a), direction=LT",
    "total": "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER",
    "computed": "x = T[] multiply(a, a)\n y = T[] multiply(b, b)\n ROOT r = pred[] compare(x, y), direction=LT",
    "bits": "x = s32[] bitcast-convert(a)\n y = s32[] bitcast-convert(b)\n ROOT r = pred[] compare(x, y), direction=LT",
    "cast": "x = s32[] bitcast(a)\n y = s32[] bitcast(b)\n ROOT r = pred[] compare(x, y), direction=LT",
    "crossed": "x = T[] subtract(a, b)\n y = T[] subtract(b, a)\n ROOT r = pred[] compare(x, y), direction=LT",
    "never": "ROOT r = pred[] constant(false)",
    "always": "ROOT r = pred[] constant(true)",
    "unequal": "ROOT r = pred[] compare(a, b), direction=NE",
}
Dims = tuple[int, ...]


def module(how: str, dims: Dims, axis: int, t: str, layout: str = "", payload: bool = True) -> str:
    """A sort of a parameter, with positions as payload."""
    shape = f"[{','.join(map(str, dims))}]{layout}"
    more = "i = s32[] parameter(2)\n j = s32[] parameter(3)" if payload else ""
    types = f"({t}{shape}, s32{shape})" if payload else f"{t}{shape}"
    return f"""HloModule m
    less {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      {more}
      {ONE[how].replace("T[]", f"{t}[]")}
    }}
    ENTRY e {{
      x = {t}{shape} parameter(0)
      i = s32{shape} iota(), iota_dimension={axis}
      ROOT r = {types} sort({"x, i" if payload else "x"}), dimensions={{{axis}}}, is_stable=true, to_apply=less
    }}"""


def numbers(dims: Dims, t: str, *, nan: bool = False) -> np.ndarray:
    rng = np.random.default_rng(sum(dims))
    if t.startswith(("f", "bf")):
        x = np.round(rng.standard_normal(dims) * 8, 1)
        x[rng.random(dims) < 0.2] = -0.0
        x[rng.random(dims) < 0.1] = 0.0
        if nan:
            x[rng.random(dims) < 0.1] = np.nan
        return x.astype(np.float32).astype(TYPES[t])
    info = None if t == "pred" else np.iinfo(np.dtype(TYPES[t]))
    few = rng.integers(0, 2 if t == "pred" else 50, dims)
    x = few.astype(TYPES[t])
    if info is not None:
        x[rng.random(dims) < 0.1] = info.min
        x[rng.random(dims) < 0.1] = info.max
    return x


def check(backend: Callable[[str], Executable], text: str, *arrays: np.ndarray) -> None:
    got, expected = backend(text)(*arrays), evaluate(parse(text), *arrays)
    for a, b in zip(
        got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        # Bitwise: a stable sort keeps the order of zeros of either sign, and of NaN.
        np.testing.assert_array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize(
    ("n", "how", "payload"), [(1, "lt", True), (5, "gt", True), (64, "gt", False), (65, "lt", True), (700, "gt", False)]
)
def test_types_and_lengths(backend: Callable[[str], Executable], t: str, n: int, how: str, payload: bool) -> None:
    check(backend, module(how, (3, n), 1, t, payload=payload), numbers((3, n), t))


@pytest.mark.parametrize("t", ["f32", "f64", "s16", "u8"])
def test_long_lines(backend: Callable[[str], Executable], t: str) -> None:
    x = numbers((5000,), t)
    check(backend, module("lt", (5000,), 0, t), x)
    check(backend, module("swapped", (5000,), 0, t, payload=False), x)


@pytest.mark.parametrize("how", ["total", "computed", "crossed", "bits"])
def test_other_comparisons(backend: Callable[[str], Executable], how: str) -> None:
    for n in (30, 200):
        check(backend, module(how, (4, n), 1, "f32"), numbers((4, n), "f32", nan=how == "total"))


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}"])
def test_dimensions_and_layouts(backend: Callable[[str], Executable], layout: str) -> None:
    x = numbers((6, 70, 9), "f32")
    for axis in range(3):
        check(backend, module("gt", (6, 70, 9), axis, "f32", layout), x)


@pytest.mark.parametrize("how", ["never", "always", "unequal"])
@pytest.mark.parametrize("n", [2, 64, 333])
def test_a_comparison_that_contradicts_itself(backend: Callable[[str], Executable], how: str, n: int) -> None:
    x = numbers((2, n), "s32")
    values, places = backend(module(how, (2, n), 1, "s32"))(x)
    np.testing.assert_array_equal(np.sort(places, 1), np.tile(np.arange(n), (2, 1)))
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))


def test_nan_without_an_order_goes_nowhere_else(backend: Callable[[str], Executable]) -> None:
    for n in (40, 400):
        x = numbers((2, n), "f32", nan=True)
        values, places = backend(module("lt", (2, n), 1, "f32"))(x)
        np.testing.assert_array_equal(np.sort(places, 1), np.tile(np.arange(n), (2, 1)))
        np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))


LEXICOGRAPHIC = """HloModule m
    less {
      a = s16[] parameter(0)
      b = s16[] parameter(1)
      c = f32[] parameter(2)
      d = f32[] parameter(3)
      v = s64[] parameter(4)
      w = s64[] parameter(5)
      first = pred[] compare(a, b), direction=LT
      same = pred[] compare(a, b), direction=EQ
      second = pred[] compare(c, d), direction=GT
      tie = pred[] and(same, second)
      ROOT r = pred[] or(first, tie)
    }
    ENTRY e {
      x = s16[N] parameter(0)
      y = f32[N] parameter(1)
      z = s64[N] parameter(2)
      ROOT r = (s16[N], f32[N], s64[N]) sort(x, y, z), dimensions={0}, is_stable=true, to_apply=less
    }"""


@pytest.mark.parametrize("n", [20, 300])
def test_several_keys(backend: Callable[[str], Executable], n: int) -> None:
    text = LEXICOGRAPHIC.replace("[N]", f"[{n}]")
    keys = sort_keys(next(c for c in parse(text).computations if c.name == "less"))
    assert keys is not None
    assert [(key.bits, key.down) for key in keys] == [(16, False), (32, True)]
    rng = np.random.default_rng(0)
    arrays = (
        rng.integers(-3, 3, n).astype(np.int16),
        np.round(rng.standard_normal(n), 1).astype(np.float32),
        np.arange(n),
    )
    check(backend, text, *arrays)


def test_what_is_an_order_of_keys() -> None:
    def keys_of(how: str) -> object:
        return sort_keys(next(c for c in parse(module(how, (4,), 0, "f32")).computations if c.name == "less"))

    for how in ("lt", "gt", "swapped", "total", "computed", "bits", "cast"):
        assert keys_of(how) is not None
    for how in ("crossed", "never", "always", "unequal"):
        assert keys_of(how) is None


@pytest.mark.parametrize("t", ["f32", "bf16", "f8e4m3fn", "f64", "s8", "s64", "s32", "u32"])
@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 1), (40, 7), (64, 64), (500, 3), (1000, 32), (1000, 33), (3000, 700), (129, 2), (8193, 1), (4000, 17)],
)
def test_topk(backend: Callable[[str], Executable], t: str, n: int, k: int) -> None:
    x = numbers((3, n), t, nan=True)
    ordered = np.sort(x, 1) if t not in ("bf16", "f8e4m3fn") else x
    for largest in ("true", "false") if t == "f32" else ("true",):
        text = f"""HloModule m
        ENTRY e {{
          x = {t}[3,{n}] parameter(0)
          ROOT r = ({t}[3,{k}], s32[3,{k}]) topk(x), k={k}, largest={largest}
        }}"""
        for given in (x, ordered, np.ascontiguousarray(ordered[:, ::-1])):
            check(backend, text, given)


@pytest.mark.parametrize("t", ["s2", "s4", "u2", "u4", "f4e2m1fn"])
@pytest.mark.parametrize(
    ("n", "k", "layout"), [(17, 3, "{1,0}"), (17, 3, "{0,1}"), (300, 200, "{1,0}"), (5000, 10, "{1,0}")]
)
def test_topk_of_elements_narrower_than_a_byte(
    backend: Callable[[str], Executable], t: str, n: int, k: int, layout: str
) -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = s32[3,{n}]{layout} parameter(0)
      c = {t}[3,{n}]{layout} convert(x)
      t = ({t}[3,{k}]{layout}, s32[3,{k}]{layout}) topk(c), k={k}, largest=true
      v = {t}[3,{k}]{layout} get-tuple-element(t), index=0
      w = s32[3,{k}]{layout} convert(v)
      i = s32[3,{k}]{layout} get-tuple-element(t), index=1
      ROOT r = (s32[3,{k}]{layout}, s32[3,{k}]{layout}) tuple(w, i)
    }}"""
    check(backend, text, np.random.default_rng(n).integers(0, 2, (3, n)).astype(np.int32))


@pytest.mark.parametrize(("n", "k"), [(37, 3), (1000, 100)])
def test_topk_of_columns_and_within_its_arrays(backend: Callable[[str], Executable], n: int, k: int) -> None:
    text = "HloModule m\nENTRY e {{\n  x = f32[5,{0}]{{{2}}} parameter(0)\n  ROOT r = (f32[5,{1}]{{{2}}}, s32[5,{1}]{{{2}}}) topk(x), k={1}, largest=true\n}}\n"
    x = numbers((5, n), "f32", nan=True)
    check(backend, text.format(n, k, "0,1"), x)
    exe = backend(text.format(n, k, "1,0"))
    assert any(u.shared.startswith("xlanb.topk.") for u in exe.program.units())
    for at_end in (True, False):
        run_guarded(exe, [x], at_end=at_end)


@pytest.mark.parametrize("n", [2, 3, 40])
def test_topk_of_a_constant_has_scratch_enough(backend: Callable[[str], Executable], n: int) -> None:
    rows = ", ".join("{" + ", ".join(str((r * n + 7 * k) % 11) for k in range(n)) + "}" for r in range(4))
    text = f"""HloModule m
    ENTRY e {{
      c = f32[4,{n}] constant({{{rows}}})
      ROOT r = (f32[4,2], s32[4,2]) topk(c), k=2, largest=true
    }}"""
    check(backend, text)


PLACES = """HloModule m
    less {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      i = T[] parameter(2)
      j = T[] parameter(3)
      ROOT r = pred[] compare(a, b), direction=LT
    }
    ENTRY e {
      x = f32[DIMS] parameter(0)
      i = T[DIMS] iota(), iota_dimension=AXIS
      both = (f32[DIMS], T[DIMS]) sort(x, i), dimensions={AXIS}, is_stable=true, to_apply=less
      ROOT r = T[DIMS] get-tuple-element(both), index=1
    }"""


@pytest.mark.parametrize("t", ["s8", "u8", "s16", "s32", "u32", "s64"])
@pytest.mark.parametrize(("dims", "axis"), [((40, 50), 1), ((50, 30), 0), ((20, 127), 1), ((120, 9), 0)])
def test_where_sorted_elements_come_from_is_known_without_a_place_for_them(
    backend: Callable[[str], Executable], t: str, dims: Dims, axis: int
) -> None:
    text = PLACES.replace("T[", f"{t}[").replace("DIMS", f"{dims[0]},{dims[1]}").replace("AXIS", str(axis))
    check(backend, text, numbers(dims, "f32"))
    exe = backend(text)
    find = {str(i.opcode): i for i in exe.hlo_module.entry_computation}
    assignment = exe.buffer_assignment
    assert not assignment.has_place(find["sort"], (0,))
    assert assignment.slice_of(find["iota"]) == assignment.slice_of(find["sort"], (1,))
    scratch = assignment.scratch_of(find["sort"])
    assert assignment.temp_size <= (scratch.size if scratch is not None else 0)


@pytest.mark.parametrize("t", ["c64", "c128"])
def test_topk_of_complex_numbers_is_refused(t: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  x = {t}[5] parameter(0)\n  ROOT t = ({t}[2], s32[2]) topk(x), k=2, largest=true\n}}"
    with pytest.raises(HloVerifierError, match=r"%t: cannot be compiled: expected real numbers, not unordered " + t):
        xlanb.compile(text)
