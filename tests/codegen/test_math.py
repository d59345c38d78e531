"""Error bounds of transcendental functions in units of the last place.

Over f32 of all magnitudes, and every f16 and bf16.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

import xlanb
from xlanb.codegen import jit, math
from xlanb.codegen.function import Ix, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.nest import Nest, Vectors
from xlanb.codegen.types import PTR, floating
from xlanb.cpu import objects
from xlanb.cpu.codegen.units import Unit

_STRIDE = 4093
"""A prime: f32 at this stride are a million numbers, with all exponents and both signs."""
_BLOCK = 1024
Reference = Callable[..., NDArray[np.floating]]


def _logistic(x: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))


SINGLE: dict[str, tuple[Reference, float]] = {
    "exp": (np.exp, 1.1),
    "expm1": (np.expm1, 1.5),
    "log": (np.log, 0.8),
    "log1p": (np.log1p, 2.5),
    "tanh": (np.tanh, 4.8),
    "logistic": (_logistic, 2.4),
    "erf": (scipy.special.erf, 5.5),
    "sin": (np.sin, 0.6),
    "cos": (np.cos, 0.6),
    "tan": (np.tan, 1.2),
    "cbrt": (np.cbrt, 0.51),
}
INLINE = ("exp", "expm1", "log", "log1p", "tanh", "logistic", "erf")
"""Functions that do not use the C library for scalars."""
LIBM = 2.0
"""The largest error that glibc documents for its functions of one or two f32."""
PAIRS: dict[str, tuple[Reference, float]] = {
    "pow": (np.power, 0.51),
    "atan2": (np.arctan2, 0.51),
    "fmod": (np.fmod, 0.5),
}
DOUBLE: dict[str, tuple[Reference, float]] = {
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 2.5),
    "tanh": (np.tanh, 3.0),
    "logistic": (_logistic, 3.0),
    "sin": (np.sin, 0.9),
    "cos": (np.cos, 0.9),
    "tan": (np.tan, 2.1),
    "cbrt": (np.cbrt, 0.8),
    "asin": (np.arcsin, 1.1),
    "acos": (np.arccos, 1.1),
    "atan": (np.arctan, 1.0),
    "asinh": (np.arcsinh, 3.5),
    "acosh": (np.arccosh, 3.5),
    "atanh": (np.arctanh, 3.5),
    "sinh": (np.sinh, 2.8),
    "cosh": (np.cosh, 2.8),
}
DOUBLE_PAIRS: dict[str, tuple[Reference, float]] = {"pow": (np.power, 1.7), "atan2": (np.arctan2, 1.5)}


@cache
def compiled(name: str, bits: int, arguments: int, lanes: int) -> tuple[jit.LoadedCode, Callable[..., None]]:
    """A loop that applies a function to `_BLOCK` elements: in vectors, or scalar for 0 lanes."""
    module = ModuleBuilder("m", jit.host())
    parameters = [Parameter(PTR, f"p{k}", "noalias") for k in range(arguments + 1)]
    f = module.function("apply", parameters, "nounwind", "", linkage="")
    *given, out = (Pointer(f.argument(p), floating(bits)) for p in parameters)

    def body(index: list[Ix]) -> None:
        out[index[0]] = math.call(name, *(p[index[0]] for p in given))

    assert Nest((_BLOCK,), 1, Vectors(lanes) if lanes else None).each(f, body)
    assert (f"<{lanes} x " in module.text()) == bool(lanes)
    code = jit.LoadedCode(objects.compile_units([Unit(module.text(), ready=False, weight=0)], jit.host()), ["apply"])
    return code, ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arguments + 1))(code.address("apply"))


def apply(name: str, lanes: int, *arguments: NDArray[np.floating]) -> NDArray[np.floating]:
    """Apply a function to all elements."""
    count, dtype = arguments[0].size, arguments[0].dtype
    _, run = compiled(name, 8 * dtype.itemsize, len(arguments), lanes)
    padded = [np.resize(a, -(-count // _BLOCK) * _BLOCK) for a in arguments]
    out = np.empty_like(padded[0])
    for at in range(0, out.size, _BLOCK):
        run(*(a[at:].ctypes.data for a in (*padded, out)))
    return out[:count]


def largest_error(got: NDArray[np.floating], want: NDArray[np.floating]) -> float:
    """The largest error in units of the last place of the result's type.

    Units are at least those of the smallest normal number; NaN and infinities must agree.
    """
    kind = got.dtype.type
    info = ml_dtypes.finfo(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(kind)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    beyond = np.isinf(got) != np.isinf(rounded)  # the largest finite number
    assert (
        np.minimum(np.abs(got[beyond]), np.abs(rounded[beyond]))
        >= np.float64(info.max) * (1 - 4 * np.float64(info.eps))
    ).all()
    finite = np.isfinite(got) & np.isfinite(rounded)
    exact, made = want[finite], got[finite].astype(want.dtype)
    magnitude = np.maximum(np.abs(exact), want.dtype.type(info.tiny))
    unit = np.exp2(np.floor(np.log2(magnitude))) * want.dtype.type(info.eps)
    return float(np.max(np.abs(made - exact) / unit, initial=0))


def every_f32() -> NDArray[np.float32]:
    return np.arange(0, 1 << 32, _STRIDE, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("name", SINGLE)
def test_vectors_of_f32_are_within_the_stated_bounds(name: str) -> None:
    reference, bound = SINGLE[name]
    x = every_f32()
    with np.errstate(all="ignore"):
        assert largest_error(apply(name, 16, x), reference(x.astype(np.float64))) <= bound


@pytest.mark.parametrize("name", SINGLE)
def test_single_f32_are_within_the_stated_bounds(name: str) -> None:
    reference, bound = SINGLE[name]
    x = every_f32()[::16]
    with np.errstate(all="ignore"):
        assert largest_error(apply(name, 0, x), reference(x.astype(np.float64))) <= (bound if name in INLINE else LIBM)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("lanes", [0, 16])
def test_functions_of_two_f32_are_within_the_stated_bounds(name: str, lanes: int) -> None:
    reference, bound = PAIRS[name]
    x = every_f32()
    y = np.random.default_rng(5).permutation(x)
    near = np.random.default_rng(6).uniform(0.01, 30, x.size).astype(np.float32)
    x, y = np.concatenate([x, near]), np.concatenate([y, near[::-1]])
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64), y.astype(np.float64))
        assert largest_error(apply(name, lanes, x, y), want) <= (bound if lanes else LIBM)


def every_f64() -> NDArray[np.float64]:
    return np.arange(0, (1 << 64) - 1, (1 << 64) // 60_013, dtype=np.uint64).view(np.float64)


_has_wider = pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no type wider than f64 to compare with")


@_has_wider
@pytest.mark.parametrize("name", DOUBLE)
def test_vectors_of_f64_are_within_the_stated_bounds(name: str) -> None:
    reference, bound = DOUBLE[name]
    rng = np.random.default_rng(2)
    x = np.concatenate([every_f64(), rng.standard_normal(60_000) * 10.0 ** rng.uniform(-15, 3, 60_000)])
    with np.errstate(all="ignore"):
        assert largest_error(apply(name, 8, x), reference(x.astype(np.longdouble))) <= bound


@_has_wider
@pytest.mark.parametrize("name", DOUBLE_PAIRS)
def test_vectors_of_pairs_of_f64_are_within_the_stated_bounds(name: str) -> None:
    reference, bound = DOUBLE_PAIRS[name]
    rng = np.random.default_rng(3)
    x = np.concatenate([every_f64(), rng.uniform(0.01, 30, 60_000)])
    y = np.concatenate([rng.permutation(every_f64()), rng.uniform(-30, 30, 60_000)])
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.longdouble), y.astype(np.longdouble))
        assert largest_error(apply(name, 8, x, y), want) <= bound


def test_erf_of_vectors_of_f64_is_near_scipys() -> None:
    x = np.concatenate([np.linspace(-7, 7, 4_001), [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e300]])
    assert largest_error(apply("erf", 8, x), scipy.special.erf(x).astype(np.longdouble)) <= 4


OPCODES = {
    "exp": "exponential",
    "expm1": "exponential-minus-one",
    "log": "log",
    "log1p": "log-plus-one",
    "tanh": "tanh",
    "logistic": "logistic",
    "erf": "erf",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "cbrt": "cbrt",
}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(("narrow", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_narrow_float_is_rounded_as_well_as_from_f32(narrow: str, dtype: type, name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    shape = f"{narrow}[{x.size}]"
    exe = xlanb.compile(
        f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT y = {shape} {OPCODES[name]}(x)\n}}\n"
    )
    with np.errstate(all="ignore"):
        want = SINGLE[name][0](x.astype(np.float64))
        assert largest_error(np.asarray(exe(x)), want) <= 0.5 + SINGLE[name][1] * 2.0**-13 + 1e-6
