"""Updates of arrays: scatters with vector windows, updates that do not fit, dynamic updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.cpu import Executable, compile_module, compiler
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

Shape = tuple[int, ...]
TYPES = {"f32": "f4", "f64": "f8", "s8": "i1", "bf16": ml_dtypes.bfloat16, "c64": "c8", "pred": "?"}


def rows(t: str, op: str, count: int, width: int, layout: str = "") -> str:
    """Combine `count` rows of `width` elements into an array of 20 rows."""
    return f"""HloModule m
    fold {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      ROOT r = {t}[] {op}(a, b)
    }}
    ENTRY e {{
      x = {t}[20,{width}]{layout} parameter(0)
      i = s32[{count},1] parameter(1)
      u = {t}[{count},{width}]{layout} parameter(2)
      ROOT r = {t}[20,{width}]{layout} scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=fold
    }}"""


def check(backend: Callable[[str], Executable], text: str, *arrays: np.ndarray) -> None:
    np.testing.assert_array_equal(backend(text)(*arrays), evaluate(parse(text), *arrays))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("width", [1, 7, 64, 200])
def test_rows(backend: Callable[[str], Executable], t: str, width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.integers(0, 2, (20, width)).astype(TYPES[t])
    u = rng.integers(0, 2, (50, width)).astype(TYPES[t])
    places = rng.integers(-2, 22, (50, 1)).astype(np.int32)  # some of them out of bounds: those are skipped
    check(backend, rows(t, "or" if t == "pred" else "add", 50, width), x, places, u)
    check(backend, rows(t, "or" if t == "pred" else "add", 50, width, "{0,1}"), x, places, u)


def test_shared_by_threads(backend: Callable[[str], Executable]) -> None:
    rng = np.random.default_rng(0)
    x, u = rng.integers(0, 9, (20, 256)).astype(np.float32), rng.integers(0, 9, (5000, 256)).astype(np.float32)
    check(backend, rows("f32", "add", 5000, 256), x, rng.integers(0, 20, (5000, 1)).astype(np.int32), u)


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_windows_of_two_dimensions(backend: Callable[[str], Executable], layout: str) -> None:
    text = f"""HloModule m
    fold {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] maximum(a, b)
    }}
    ENTRY e {{
      x = f32[30,40]{layout} parameter(0)
      i = s32[6,2] parameter(1)
      u = f32[6,3,33] parameter(2)
      ROOT r = f32[30,40]{layout} scatter(x, i, u), update_window_dims={{1,2}}, inserted_window_dims={{}},
        scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=fold
    }}"""
    rng = np.random.default_rng(1)
    places = np.stack([rng.integers(-1, 29, 6), rng.integers(-1, 9, 6)], 1).astype(np.int32)
    check(
        backend, text, rng.standard_normal((30, 40)).astype("f4"), places, rng.standard_normal((6, 3, 33)).astype("f4")
    )


@pytest.mark.parametrize(
    ("piece", "begin"), [((4, 33), (2, 90)), ((1, 1), (-5, 3)), ((9, 100), (1, 1)), ((3, 50), (7, -7))]
)
def test_dynamic_updates(backend: Callable[[str], Executable], piece: tuple[int, int], begin: tuple[int, int]) -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = f32[9,100] parameter(0)
      u = f32[{piece[0]},{piece[1]}] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      ROOT r = f32[9,100] dynamic-update-slice(x, u, i, j)
    }}"""
    rng = np.random.default_rng(2)
    arrays = (rng.standard_normal((9, 100)).astype("f4"), rng.standard_normal(piece).astype("f4"))
    check(backend, text, *arrays, *(np.array(b, np.int32) for b in begin))


def test_a_large_dynamic_update_is_shared_by_threads(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[1000,700] parameter(0)
      u = f32[600,301] parameter(1)
      i = s32[] parameter(2)
      j = s32[] constant(9)
      ROOT r = f32[1000,700] dynamic-update-slice(x, u, i, j)
    }"""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in ((1000, 700), (600, 301))]
    for begin in (-3, 17, 900):
        check(backend, text, *arrays, np.array(begin, np.int32))


@pytest.mark.parametrize("t", ["f32", "bf16", "u8", "c64", "pred"])
@pytest.mark.parametrize("padding", ["0_0_1x0_0_1", "2_1_0x0_3_2", "0_0_3x5_0_1", "0_0_2x0_0_0", "1_-1_0x-1_2_1"])
def test_padding_between_elements(backend: Callable[[str], Executable], padding: str, t: str) -> None:
    sizes = [
        low + high + n + interior * (n - 1)
        for n, (low, high, interior) in zip((9, 37), (map(int, p.split("_")) for p in padding.split("x")), strict=True)
    ]
    text = f"""HloModule m
    ENTRY e {{
      x = {t}[9,37] parameter(0)
      v = {t}[] parameter(1)
      ROOT r = {t}[{sizes[0]},{sizes[1]}] pad(x, v), padding={padding}
    }}"""
    types = {**TYPES, "u8": "u1"}
    x = np.random.default_rng(4).integers(0, 2 if t == "pred" else 9, (9, 37)).astype(types[t])
    check(backend, text, x, np.array(1, types[t]))


def test_padding_between_elements_of_a_large_array_and_of_what_is_computed(
    backend: Callable[[str], Executable],
) -> None:
    text = """HloModule m
    inner {
      x = f32[301,400] parameter(0)
      v = f32[] parameter(1)
      s = f32[301,400] multiply(x, x)
      w = f32[] add(v, v)
      ROOT r = f32[601,801] pad(s, w), padding=0_0_1x1_1_1
    }
    ENTRY e {
      x = f32[301,400] parameter(0)
      v = f32[] parameter(1)
      ROOT r = f32[601,801] fusion(x, v), kind=kLoop, calls=inner
    }"""
    x = np.random.default_rng(5).standard_normal((301, 400)).astype("f4")
    check(backend, text, x, np.array(0.5, "f4"))


WINDOWS = """HloModule m
add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }}
ENTRY e {{
  x = s32[{0}] parameter(0)
  i = s32[64,1] parameter(1)
  u = s32[64,32768] parameter(2)
  ROOT s = s32[{0}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{{1}}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}"""


def test_threads_share_only_windows_that_begin_at_one_place(
    monkeypatch: pytest.MonkeyPatch, set_costs: Callable[..., None]
) -> None:
    """Windows that begin anywhere along the shared dimension overlap: updates would be lost."""
    target = replace(jit.host(), threads=2)
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    set_costs(wake_ns=25_000.0)
    exe = compile_module(parse(WINDOWS.format("40000", "")))
    assert not exe.program.is_parallel
    assert compile_module(parse(WINDOWS.format("50,32768", "0"))).program.is_parallel
    starts = np.random.default_rng(0).integers(0, 7000, (64, 1)).astype(np.int32)
    expected = np.zeros(40000, np.int32)
    for (start,) in starts:
        expected[start : start + 32768] += 1
    made = exe(np.zeros(40000, np.int32), starts, np.ones((64, 32768), np.int32))
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(("updates", "width", "shared"), [(8192, 256, True), (1024, 256, False), (65536, 64, False)])
def test_threads_share_updates_beyond_their_caches_in_long_pieces(
    monkeypatch: pytest.MonkeyPatch, updates: int, width: int, shared: bool
) -> None:
    target = replace(jit.host(), threads=2)
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    exe = compile_module(parse(rows("f32", "add", updates, width)))
    assert exe.program.is_parallel is shared


@pytest.mark.parametrize(
    ("sizes", "window", "places", "layout"),
    [
        ((9, 40, 7), (1, 40, 7), "0", ""),
        ((9, 5, 40, 3), (1, 5, 40, 3), "0", ""),
        ((9, 40, 7), (2, 40, 7), "0", ""),  # windows overlap
        ((9, 40, 7), (1, 20, 7), "0,1", ""),  # part of the middle dimension
        ((9, 40, 7), (9, 3, 7), "1", ""),
        ((9, 40, 7), (1, 40, 5), "0,2", ""),  # part of the fastest dimension
        ((9, 40, 7), (1, 40, 1), "0,2", ""),
        ((9, 40, 7), (1, 40, 7), "0", "{1,2,0}"),
        ((9, 1, 40, 1, 3), (1, 1, 40, 1, 3), "0", ""),
    ],
)
@pytest.mark.parametrize("t", ["f32", "s8"])
def test_windows_that_are_one_run_of_elements(
    backend: Callable[[str], Executable], width: int, sizes: Shape, window: Shape, places: str, layout: str, t: str
) -> None:
    dims, size = ",".join(map(str, sizes)), ",".join(map(str, window))
    count, into = 12, places.count(",") + 1
    text = f"""HloModule m
    fold {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      ROOT r = {t}[] add(a, b)
    }}
    ENTRY e {{
      x = {t}[{dims}]{layout} parameter(0)
      i = s32[{count},{into}] parameter(1)
      u = {t}[{count},{size}] parameter(2)
      ROOT r = {t}[{dims}]{layout} scatter(x, i, u), update_window_dims={{{",".join(map(str, range(1, len(sizes) + 1)))}}},
        inserted_window_dims={{}}, scatter_dims_to_operand_dims={{{places}}}, index_vector_dim=1, to_apply=fold
    }}"""
    rng = np.random.default_rng(4)
    x, u = (rng.integers(0, 9, s).astype(TYPES[t]) for s in (sizes, (count, *window)))
    check(backend, text, x, rng.integers(-1, 9, (count, into)).astype(np.int32), u)
