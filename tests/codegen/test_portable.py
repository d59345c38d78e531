"""Scalar functions without a C library, as in GPU kernels: error bounds.

They are in units of the last place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.special

from xlanb.codegen import jit, math
from xlanb.codegen.function import Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import I64, PTR, floating
from xlanb.cpu import objects
from xlanb.cpu.codegen.units import Unit

BARE = replace(jit.host(), has_c_library=False, explicit_vectors=False)
BOUNDS = {
    "sin": 0.9, "cos": 0.9, "tan": 2.1, "cbrt": 0.8, "atan": 1.0, "asin": 1.1, "acos": 1.1, "asinh": 3.5, "acosh": 3.5,
    "atanh": 3.5,
    "sinh": 2.8, "cosh": 2.8, "exp": 1.1, "expm1": 2.2, "log": 1.0, "log1p": 2.5, "tanh": 3.0,
}  # fmt: skip
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
SINGLE = {
    "sin": 0.6,
    "cos": 0.6,
    "tan": 1.2,
    "cbrt": 0.51,
    **dict.fromkeys(("asin", "acos", "atan", "asinh", "acosh", "atanh", "sinh", "cosh"), 0.51),
}


@cache
def compiled(name: str, bits: int, arguments: int) -> tuple[jit.LoadedCode, Callable[..., None]]:
    """A scalar loop that applies a function to elements."""
    module = ModuleBuilder("m", BARE)
    parameters = [*(Parameter(PTR, f"p{k}") for k in range(arguments + 1)), Parameter(I64, "count")]
    f = module.function("apply", parameters, "nounwind", "", linkage="")
    *given, out = (Pointer(f.argument(p), floating(bits)) for p in parameters[:-1])
    with f.loop(f.argument(parameters[-1])) as k:
        out[k] = math.call(name, *(p[k] for p in given))
    external = [d for d in module.declarations.values() if "@llvm." not in d]
    assert not external
    code = jit.LoadedCode(objects.compile_units([Unit(module.text(), ready=False, weight=0)], BARE), ["apply"])
    return code, ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arguments + 1), ctypes.c_int64)(code.address("apply"))


def apply(name, *arguments):
    given = [np.ascontiguousarray(a) for a in arguments]
    out = np.empty_like(given[0])
    compiled(name, 8 * out.itemsize, len(given))[1](*(a.ctypes.data for a in (*given, out)), out.size)
    return out


def error(got, want):
    """The largest error in units of the last place; NaN and infinities must agree."""
    kind = got.dtype.type
    with np.errstate(all="ignore"):
        rounded = want.astype(kind)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    limit = np.finfo(kind).max
    beyond = np.isinf(rounded) | np.isinf(got)
    np.testing.assert_array_less(limit * 0.999999, np.minimum(np.abs(got[beyond]), np.abs(rounded[beyond])))
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(rounded[~np.isnan(got)]))
    fine = np.isfinite(got) & ~beyond
    exact, made = want[fine], got[fine].astype(want.dtype)
    magnitude = np.maximum(np.abs(exact), want.dtype.type(np.finfo(kind).tiny))
    unit = np.exp2(np.floor(np.log2(magnitude))) * want.dtype.type(np.finfo(kind).eps)
    return float(np.max(np.abs(made - exact) / unit, initial=0))


def numbers(kind, seed=0, count=200_000):
    """Numbers of every magnitude and both signs, near one, and special ones."""
    rng = np.random.default_rng(seed)
    width = np.dtype(kind).itemsize
    bits = rng.integers(0, 1 << (8 * width - 1), count, dtype=np.uint64) | (
        rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(8 * width - 1)
    )
    every = bits.astype(f"u{width}").view(kind)
    near = rng.uniform(-2, 2, count // 2).astype(kind)
    some = rng.uniform(-50, 50, count // 2).astype(kind)
    angles = (np.arange(1, 4000) * (np.pi / 2)).astype(kind)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, np.finfo(kind).max, np.finfo(kind).tiny, 5e-324], kind
    )
    return np.concatenate([every, near, some, angles, special])


@pytest.mark.parametrize("name", BOUNDS)
def test_doubles_are_within_the_stated_bounds(name):
    x = numbers(np.float64)
    reference = getattr(np, NUMPY.get(name, name))
    with np.errstate(all="ignore"):
        assert error(apply(name, x), reference(x.astype(np.longdouble))) <= BOUNDS[name]


@pytest.mark.parametrize("name", SINGLE)
def test_floats_are_within_the_stated_bounds(name):
    x = numbers(np.float32)
    reference = getattr(np, NUMPY.get(name, name))
    with np.errstate(all="ignore"):
        assert error(apply(name, x), reference(x.astype(np.float64))) <= SINGLE[name]


def test_erf_of_doubles():
    mpmath = pytest.importorskip("mpmath")
    x = np.concatenate([numbers(np.float64, count=300), np.linspace(-6.5, 6.5, 700)])
    with mpmath.workprec(100):
        want = np.copysign(np.array([np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 30)) for v in x]), x)
    assert error(apply("erf", x), want) <= 1.1


def test_powers_of_doubles():
    rng = np.random.default_rng(1)
    x, y = numbers(np.float64), rng.permutation(numbers(np.float64, 2))
    near = np.exp(rng.uniform(-50, 50, x.size)), rng.uniform(-12, 12, x.size)
    whole = rng.uniform(-9, 9, x.size), rng.integers(-20, 20, x.size).astype(np.float64)
    with np.errstate(all="ignore"):
        for a, b in ((x, y), near, whole):
            assert error(apply("pow", a, b), np.power(a.astype(np.longdouble), b.astype(np.longdouble))) <= 1.7


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_angles_of_points(kind):
    rng = np.random.default_rng(1)
    x, y = numbers(kind), rng.permutation(numbers(kind, 2))
    with np.errstate(all="ignore"):
        want = np.arctan2(x.astype(np.longdouble), y.astype(np.longdouble))
        assert error(apply("atan2", x, y), want) <= 1.6


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_remainders_are_exact(kind):
    rng = np.random.default_rng(1)
    x, y = numbers(kind), rng.permutation(numbers(kind, 2))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply("fmod", x, y), np.fmod(x, y))
        np.testing.assert_array_equal(apply("fmod", x, x[::-1]), np.fmod(x, x[::-1]))


def test_powers_of_floats():
    x, y = numbers(np.float32), np.random.default_rng(1).permutation(numbers(np.float32, 2))
    with np.errstate(all="ignore"):
        assert error(apply("pow", x, y), np.power(x.astype(np.float64), y.astype(np.float64))) <= 0.51


def test_reference_of_erf_agrees_with_scipy():
    x = np.linspace(-6, 6, 1001)
    np.testing.assert_allclose(apply("erf", x), scipy.special.erf(x), rtol=1e-15)
