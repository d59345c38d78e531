"""Accuracy of inline f32 functions and of rounding to narrow floats: NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.shape.primitive_type import PrimitiveType

UNARY = """HloModule unary

ENTRY main {{
  x = {t}[{n}]{{0}} parameter(0)
  ROOT y = {t}[{n}]{{0}} {op}(x)
}}
"""


def every_kind_of_float(count: int = 40_000) -> np.ndarray:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    near = rng.standard_normal(count).astype(np.float32) * 3
    small = (rng.standard_normal(count) * 10.0 ** rng.uniform(-8, 2, count)).astype(np.float32)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 88.72284, 88.7229, -103.97, -104, 1e-45, -1e-45], np.float32
    )
    return np.concatenate([bits, near, small, special])


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error in units of the last place of f32; NaN and infinities must agree."""
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = got == rounded
    edge = ~finite & ~same & ~np.isnan(rounded)
    # one step past the largest number is infinity
    assert (np.minimum(np.abs(got[edge]), np.abs(rounded[edge])) >= np.finfo(np.float32).max * (1 - 1e-6)).all()
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(np.float32).tiny)).astype(np.float64)
    return float(np.max(np.abs(got[finite].astype(np.float64) - want[finite]) / unit))


@pytest.mark.parametrize(
    ("opcode", "reference", "bound"),
    [
        ("exponential", np.exp, 1.5),
        ("log", np.log, 1.5),
        ("exponential-minus-one", np.expm1, 3),
        ("log-plus-one", np.log1p, 3),
        ("tanh", np.tanh, 5),
        ("logistic", lambda v: 1 / (1 + np.exp(-v)), 3),
        ("sine", np.sin, 1),
        ("cosine", np.cos, 1),
        ("sqrt", np.sqrt, 0.51),
        ("rsqrt", lambda v: 1 / np.sqrt(v), 1.6),
        ("cbrt", np.cbrt, 0.6),
        ("tan", np.tan, 1),
    ],
)
def test_f32_functions_are_accurate(backend, opcode, reference, bound):
    x = every_kind_of_float()
    got = backend(UNARY.format(t="f32", n=x.size, op=opcode))(x)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    assert ulps(got, want) <= bound


@pytest.mark.parametrize(
    ("opcode", "reference", "bound"),
    [
        ("exponential", np.exp, 1.1),
        ("exponential-minus-one", np.expm1, 2),
        ("log", np.log, 1),
        ("log-plus-one", np.log1p, 2.5),
        ("tanh", np.tanh, 3),
        ("logistic", lambda v: np.where(v < 0, np.exp(v), 1) / (1 + np.exp(-np.abs(v))), 3),
    ],
)
def test_f64_functions_are_accurate(backend, opcode, reference, bound):
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [
            rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64),
            rng.standard_normal(20_000) * 3,
            rng.standard_normal(20_000) * 10.0 ** rng.uniform(-15, 3, 20_000),
            [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 709.78, 709.79, -745.1, -745.2, 5e-324, -5e-324, 2.0**-1022],
        ]
    )
    got = backend(UNARY.format(t="f64", n=x.size, op=opcode))(x)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.longdouble))
        rounded = want.astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(got)
    assert np.array_equal(got[~finite], rounded[~finite], equal_nan=True)
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(np.float64).tiny))
    assert np.max(np.abs(got[finite].astype(np.longdouble) - want[finite]) / unit) <= bound
    assert np.array_equal(np.signbit(got[finite & (rounded == 0)]), np.signbit(rounded[finite & (rounded == 0)]))


BINARY = """HloModule binary

ENTRY main {{
  x = f32[{n}]{{0}} parameter(0)
  y = f32[{n}]{{0}} parameter(1)
  ROOT z = f32[{n}]{{0}} {op}(x, y)
}}
"""


@pytest.mark.parametrize(("opcode", "reference"), [("power", np.power), ("atan2", np.arctan2), ("remainder", np.fmod)])
@pytest.mark.parametrize("kind", ["any", "special", "integers"])
def test_f32_functions_of_two_are_accurate(backend, opcode, reference, kind):
    x = every_kind_of_float()
    y = np.random.default_rng(5).permutation(x)
    if kind == "special":
        edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -3, 0.5, -0.5, 1e30, -1e30], np.float32)
        x, y = (v.ravel().copy() for v in np.meshgrid(edges, edges))
    elif kind == "integers":
        with np.errstate(invalid="ignore"):
            x, y = np.nan_to_num(x % 64), np.round(np.nan_to_num(y % 9) - 4)
    got = backend(BINARY.format(n=x.size, op=opcode))(x, y)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64), y.astype(np.float64))
    assert ulps(got, want) <= 0.6
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(got)[known], np.signbit(want)[known])


def test_signed_zeros_survive(backend):
    zeros = np.array([0.0, -0.0], np.float32)
    for op in ("tanh", "exponential-minus-one", "log-plus-one", "sine", "sqrt", "sign"):
        got = backend(UNARY.format(t="f32", n=2, op=op))(zeros)
        assert np.array_equal(np.signbit(got), [False, True]), op


CONVERT = """HloModule convert

ENTRY main {{
  x = {source}[{n}]{{0}} parameter(0)
  ROOT y = {to}[{n}]{{0}} convert(x)
}}
"""
NARROW = "bf16 f16 f8e4m3fn f8e5m2 f8e4m3 f8e3m4 f8e4m3fnuz f8e5m2fnuz f8e4m3b11fnuz f4e2m1fn".split()
BY_TEXT = {t.text: t for t in PrimitiveType}


def same_bits_or_nan(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    nan = np.isnan(want.astype(np.float32)) & np.isnan(got.astype(np.float32))
    kind = f"u{got.dtype.itemsize}"
    return (got.view(kind) == want.view(kind)) | nan


@pytest.mark.parametrize("name", NARROW)
def test_rounding_to_narrow_floats_is_that_of_ml_dtypes(backend, name):
    dtype = BY_TEXT[name].dtype
    with np.errstate(all="ignore"):
        grid = np.arange(2 ** min(BY_TEXT[name].bits, 12), dtype=np.uint16)
        codes = (grid << 4).view(dtype) if dtype.itemsize == 2 else grid.astype(np.uint8).view(dtype)
        exact = codes.astype(np.float32)
        x = np.concatenate([exact, exact * 1.03, exact[:-1] / 2 + exact[1:] / 2, every_kind_of_float(2000)]).astype(
            np.float32
        )
        if name == "f4e2m1fn":
            x = x[~np.isnan(x)]  # the type has no NaN
        want = x.astype(dtype)
    got = backend(CONVERT.format(source="f32", to=name, n=x.size))(x)
    good = same_bits_or_nan(got, want)
    assert good.all(), (x[~good][:5], got[~good][:5], want[~good][:5])


@pytest.mark.parametrize("name", NARROW)
def test_nan_keeps_its_sign_in_a_type_that_has_one(backend, name):
    x = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    got = backend(CONVERT.format(source="f32", to=name, n=2))(x)
    want = evaluate(CONVERT.format(source="f32", to=name, n=2), x)
    assert got.tobytes() == want.tobytes()
    if name in ("bf16", "f16", "f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3fn"):
        assert np.signbit(got.astype(np.float32)).tolist() == [False, True]


@pytest.mark.parametrize("name", NARROW)
def test_narrow_floats_widen_exactly(backend, name):
    dtype = BY_TEXT[name].dtype
    count = 2 ** BY_TEXT[name].bits
    codes = np.arange(count, dtype=np.uint16 if dtype.itemsize == 2 else np.uint8).view(dtype)
    got = backend(CONVERT.format(source=name, to="f32", n=count))(codes)
    assert np.array_equal(got, codes.astype(np.float32), equal_nan=True)


def test_f64_rounds_once_to_f16(backend):
    x = np.array(
        [1 + 2**-11 + 2**-40, 1 + 2**-11, 65519.999999, 65520.0, 1e300, 2**-25 + 2**-60, -(2**-25)], np.float64
    )
    got = backend(CONVERT.format(source="f64", to="f16", n=x.size))(x)
    with np.errstate(over="ignore"):
        assert np.array_equal(got, x.astype(np.float16))


def test_bf16_of_f64_is_rounded_by_way_of_f32_as_xla_does(backend):
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, -1 - 2**-8 - 2**-50], np.float64)
    got = backend(CONVERT.format(source="f64", to="bf16", n=x.size))(x)
    assert np.array_equal(got.astype(np.float64), [1.0, 1.0, -1.0])
    assert got.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(("kind", "part"), [("c64", np.float32), ("c128", np.float64)])
def test_the_size_of_a_complex_number_neither_overflows_nor_vanishes(backend, kind, part):
    limits = np.finfo(part)
    edges = [0, -0.0, 1, -3, 4, np.inf, -np.inf, np.nan, limits.max, limits.max / 2, limits.tiny, 3 * limits.tiny]
    edges = [*edges, limits.smallest_subnormal, float(limits.max) ** 0.5, float(limits.tiny) ** 0.5]
    rng = np.random.default_rng(2)
    re, im = (a.ravel() for a in np.meshgrid(np.array(edges, part), np.array(edges, part)))
    re, im = (np.concatenate([a, (rng.standard_normal(1000) * 2.0 ** rng.integers(-90, 90, 1000))]) for a in (re, im))
    x = np.empty(re.size, np.result_type(part, np.complex64))
    x.real, x.imag = re, im
    with np.errstate(all="ignore"):
        want = np.hypot(x.real.astype(np.longdouble), x.imag.astype(np.longdouble)).astype(part)
    name = "f32" if part is np.float32 else "f64"
    for n in (x.size, 1):  # vectors and a scalar
        text = (
            f"HloModule m\n\nENTRY e {{\n  x = {kind}[{n}]{{0}} parameter(0)\n  ROOT y = {name}[{n}]{{0}} abs(x)\n}}\n"
        )
        run = backend(text)
        got = run(x) if n > 1 else np.concatenate([run(x[k : k + 1]) for k in range(0, x.size, 9)])
        np.testing.assert_array_max_ulp(got, want if n > 1 else want[::9], 2)


@pytest.mark.parametrize("op", ["exponential", "exponential-minus-one", "log", "sine", "cosine", "tanh", "sqrt"])
@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_vectors_of_complex_numbers_are_as_single_ones(backend, op, kind):
    dtype = np.complex64 if kind == "c64" else np.complex128
    eps = np.finfo(dtype).eps
    rng = np.random.default_rng(3)
    parts = rng.standard_normal((2, 333)) * 2.0 ** rng.integers(-12, 4, (2, 333))
    x = (parts[0] + 1j * parts[1]).astype(dtype)
    x[:4] = [88.9 + 1j, -89.2 - 2j, 3e-5j, 300 + 0j] if kind == "c64" else [710 + 1j, -750 - 2j, 3e-9j, 800 + 0j]
    text = "HloModule m\n\nENTRY e {{\n  x = {0}[{1}]{{0}} parameter(0)\n  ROOT y = {0}[{1}]{{0}} {2}(x)\n}}\n"
    with np.errstate(all="ignore"):
        many, one = backend(text.format(kind, x.size, op))(x), backend(text.format(kind, 1, op))
        single = np.concatenate([one(x[k : k + 1]) for k in range(x.size)])
    finite = np.isfinite(single)
    np.testing.assert_array_equal(np.isfinite(many), finite)
    many, single = many[finite], single[finite]
    assert (np.abs(many - single) <= (400 if op == "tanh" else 4) * eps * np.abs(single)).all()
