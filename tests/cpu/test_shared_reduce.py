"""Reductions by routines that do not depend on shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xlanb

_OPS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
_TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "u64": np.uint64}
_FORMS = [
    ((100, 300), (1,), "rows"),
    ((7, 193), (1,), "rows"),
    ((3, 5, 100), (1, 2), "rows"),
    ((2, 3, 4, 200), (3,), "rows"),
    ((1, 4096), (0, 1), "rows"),
    ((70001,), (0,), "rows"),  # in parts, with a remainder
    ((300, 100), (0,), "columns"),
    ((1000, 17), (0,), "columns"),
    ((64, 1000), (0,), "columns"),
    ((3, 50, 100), (0, 1), "columns"),
    ((16, 65, 128), (1,), "columns"),
    ((33, 1, 70), (0,), "columns"),
    ((1003, 300), (0,), "columns"),  # in bands
    ((201, 2, 1, 1500), (0, 1, 2), "columns"),
    ((40, 5000), (0,), "columns"),  # in slices of columns
    ((5003, 16), (0,), "columns"),  # several rows as one
    ((70001, 3), (0,), "columns"),  # both
    ((12000, 33), (0,), "columns"),
    ((4, 9, 33), (1,), ""),
    ((100, 9), (1,), ""),
    ((8, 40, 8, 40), (1, 3), ""),
]


def _program(t: str, op: str, shape: tuple[int, ...], dims: tuple[int, ...], layout: str = "") -> str:
    kept = ",".join(str(n) for k, n in enumerate(shape) if k not in dims)
    return f"""HloModule m
r {{ x = {t}[] parameter(0) y = {t}[] parameter(1) ROOT z = {t}[] {op}(x, y) }}
ENTRY e {{
  a = {t}[{",".join(map(str, shape))}]{layout} parameter(0)
  n = {t}[] parameter(1)
  ROOT c = {t}[{kept}] reduce(a, n), dimensions={{{",".join(map(str, dims))}}}, to_apply=r
}}"""


def _routines(exe: xlanb.Executable) -> str:
    """The routines that reduce: not that of a program's steps, nor the one that transposes rows."""
    others = ("xlanb.steps", "xlanb.turned")
    return " ".join(u.shared for u in exe.program.units() if u.shared and not u.shared.startswith(others))


@pytest.mark.parametrize(("shape", "dims", "kind"), _FORMS)
@pytest.mark.parametrize("t", _TYPES)
@pytest.mark.parametrize("op", _OPS)
def test_reductions_agree_with_numpy(shape: tuple[int, ...], dims: tuple[int, ...], kind: str, t: str, op: str) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype(_TYPES[t])
    a = (1 + 0.01 * rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 5, shape)).astype(dtype)
    exe = xlanb.compile(_program(t, op, shape, dims))
    got = exe(a, np.array(3, dtype))
    wide = a.astype(np.float64) if dtype.kind == "f" else a
    with np.errstate(over="ignore"):
        want = _OPS[op](_OPS[op].reduce(wide, axis=dims, dtype=wide.dtype), wide.dtype.type(3))
    np.testing.assert_allclose(got, want, rtol=2e-3 if t == "f32" else 1e-9)
    if exe.target.vector_bits == 512 and t == "f32":
        assert bool(kind) is bool(_routines(exe))
        assert kind in _routines(exe)


@pytest.mark.parametrize(("shape", "dims", "kind"), [*_FORMS, ((1 << 16,), (0,), "rows"), ((2048, 1100), (1,), "rows")])
@pytest.mark.parametrize(("t", "initial"), [("f32", "-0"), ("f32", "0.1"), ("f64", "3"), ("s32", "-7"), ("u64", "9")])
def test_known_initial_values_stand_in_tables(
    shape: tuple[int, ...], dims: tuple[int, ...], kind: str, t: str, initial: str
) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype(_TYPES[t])
    a = (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 5, shape)).astype(dtype)
    exe = xlanb.compile(_program(t, "add", shape, dims).replace("parameter(1)\n", f"constant({initial})\n"))
    wide = a.astype(np.float64) if dtype.kind == "f" else a
    want = wide.sum(axis=dims, dtype=wide.dtype) + wide.dtype.type(float(initial))
    np.testing.assert_allclose(exe(a), want, rtol=1e-5 if t == "f32" else 1e-12, atol=2e-3)
    if kind == "rows" and exe.target.vector_bits == 512 and t == "f32":
        assert f"{kind}.part" in _routines(exe) or math.prod(shape) % 128  # there is a remainder


def test_negative_zero_stays() -> None:
    exe = xlanb.compile(_program("f32", "add", (64, 400), (1,)).replace("parameter(1)\n", "constant(-0)\n"))
    assert np.signbit(exe(np.full((64, 400), -0.0, np.float32))).all()


@pytest.mark.parametrize("shape", [(3000, 130), (1 << 16, 5)])
def test_bands_take_in_what_is_no_number_and_no_zero(shape: tuple[int, int]) -> None:
    a = np.full(shape, -0.0, np.float32)
    a[shape[0] // 4 - 1, 1] = a[-1, 2] = np.nan
    a[shape[0] // 2, 3] = 0.0
    exe = xlanb.compile(_program("f32", "maximum", shape, (0,)))
    got = exe(a, np.float32(-np.inf))
    np.testing.assert_array_equal(np.isnan(got), np.isin(np.arange(shape[1]), (1, 2)))
    np.testing.assert_array_equal(np.signbit(got[3:]), np.arange(3, shape[1]) != 3)
    again = exe(a, np.float32(-np.inf))
    assert got.tobytes() == again.tobytes()


def test_the_order_of_memory_decides() -> None:
    exe = xlanb.compile(_program("f32", "add", (200, 64), (0,), "{0,1}"))
    a = np.random.default_rng(0).standard_normal((200, 64)).astype(np.float32)
    np.testing.assert_allclose(exe(a, np.float32(0)), a.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape", "dims"), [((5, 133), (1,)), ((21, 133), (0,))])
def test_what_is_no_number_spreads_and_what_is_missing_does_not(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    a = np.full(shape, -np.inf, np.float32)
    a[2, 131] = np.nan
    exe = xlanb.compile(_program("f32", "maximum", shape, dims))
    got = exe(a, np.float32(-np.inf))
    np.testing.assert_array_equal(got, np.maximum.reduce(a, axis=dims))
    empty = xlanb.compile(_program("f32", "add", shape, dims))
    zero = empty(np.full(shape, -0.0, np.float32), np.float32(-0.0))
    assert np.signbit(zero).all()


def test_two_programs_share_a_routine() -> None:
    one = xlanb.compile(_program("f32", "add", (10, 1000), (1,)))
    two = xlanb.compile(_program("f32", "add", (77, 333), (1,)))
    texts = [{u.text for u in exe.program.units() if u.shared} for exe in (one, two)]
    assert texts[0] == texts[1]


_OF = {"exponential": np.exp, "abs": np.abs, "negate": np.negative}
_OF_TWO = {"multiply": np.multiply, "subtract": np.subtract, "add": np.add}


def _of(
    t: str, op: str, of: str, shape: tuple[int, ...], dims: tuple[int, ...], given: str = "a", layout: str = ""
) -> str:
    sizes = ",".join(map(str, shape))
    kept = ",".join(str(n) for k, n in enumerate(shape) if k not in dims)
    return f"""HloModule m
r {{ x = {t}[] parameter(0) y = {t}[] parameter(1) ROOT z = {t}[] {op}(x, y) }}
ENTRY e {{
  a = {t}[{sizes}] parameter(0)
  b = {t}[{sizes}]{layout} parameter(1)
  n = {t}[] parameter(2)
  v = {t}[{sizes}] {of}({given})
  ROOT c = {t}[{kept}] reduce(v, n), dimensions={{{",".join(map(str, dims))}}}, to_apply=r
}}"""


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize(
    ("of", "given"), [*((o, "a") for o in _OF), *((o, g) for o in _OF_TWO for g in ("a, b", "a, a"))]
)
@pytest.mark.parametrize("t", ["f32", "f64", "s32"])
def test_reductions_of_one_operation_agree_with_numpy(t: str, of: str, given: str, op: str) -> None:
    if t == "s32" and (of == "exponential" or (of, given) == ("subtract", "a, a")):
        return  # there is none, or it was removed
    rng, dtype = np.random.default_rng(1), np.dtype(_TYPES[t])
    for shape, dims in (((9, 301), (1,)), ((70001,), (0,)), ((3, 4, 5, 97), (2, 3))):
        a, b = ((4 * rng.standard_normal(shape) - 9).astype(dtype) for _ in range(2))
        exe = xlanb.compile(_of(t, op, of, shape, dims, given))
        got = exe(a, b, np.array(3, dtype))
        wide = np.float64 if dtype.kind == "f" else dtype
        value = (
            _OF[of](a.astype(wide))
            if of in _OF
            else _OF_TWO[of](a.astype(wide), (b if "b" in given else a).astype(wide))
        )
        want = _OPS[op](_OPS[op].reduce(value, axis=dims), np.array(3, wide))
        np.testing.assert_allclose(got, want, rtol=2e-4 if t == "f32" else 1e-9, atol=2e-2 if t == "f32" else 0)
        if exe.target.vector_bits == 512:
            assert (f".{op}.{of}." in _routines(exe)) is not (of == "exponential" and t == "f64")


def test_of_arrays_in_two_layouts_there_is_no_routine() -> None:
    shape = (128, 256)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    exe = xlanb.compile(_of("f32", "add", "multiply", shape, (1,), "a, b", "{0,1}"))
    assert ".add.multiply." not in _routines(exe)
    np.testing.assert_allclose(exe(a, b, np.float32(1)), (a * b).sum(1) + 1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 7, 200), (64, 128, 64), (3, 1, 2, 70), (1000, 2, 65)])
@pytest.mark.parametrize("op", _OPS)
def test_what_is_kept_lies_between(shape: tuple[int, ...], op: str) -> None:
    rng = np.random.default_rng(3)
    a = (1 + 0.001 * rng.standard_normal(shape)).astype(np.float32)
    dims = (0, len(shape) - 1)
    exe = xlanb.compile(_program("f32", op, shape, dims))
    want = _OPS[op](_OPS[op].reduce(a.astype(np.float64), axis=dims), 3)
    np.testing.assert_allclose(exe(a, np.float32(3)), want, rtol=1e-3)
    if exe.target.vector_bits == 512:
        assert "by vectors of" in "".join(map(str, exe.plans.values()))


@pytest.mark.parametrize(
    ("shape", "dims"), [((16, 14, 14, 250), (1, 2)), ((37, 400), (1,)), ((50, 40, 37), (0, 1)), ((300,), (0,))]
)
@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("swapped", [False, True])
def test_means(shape: tuple[int, ...], dims: tuple[int, ...], t: str, *, swapped: bool) -> None:
    kept = ",".join(str(n) for k, n in enumerate(shape) if k not in dims)
    factors = "k, c" if swapped else "c, k"
    text = _program(t, "add", shape, dims).replace("ROOT c", "c").replace("\n}", "")
    text += f"""
  f = {t}[] constant(0.25)
  k = {t}[{kept}] broadcast(f), dimensions={{}}
  ROOT p = {t}[{kept}] multiply({factors})
}}"""
    a = np.random.default_rng(4).standard_normal(shape).astype(_TYPES[t])
    exe = xlanb.compile(text)
    want = (a.astype(np.float64).sum(dims) + 3) / 4
    np.testing.assert_allclose(exe(a, np.array(3, a.dtype)), want, rtol=1e-3, atol=1e-3)
    if exe.target.vector_bits == 512:
        assert "xlanb.scaled" in _routines(exe)
