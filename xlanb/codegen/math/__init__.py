"""Transcendental functions of values.

Branch-free polynomials for vectors, and always for f32; the C library for the rest.

Largest errors in units of the last place against correctly rounded results, over numbers of every
magnitude:

    f32           exp 1.1   expm1 1.5   log 0.8   log1p 2.5   tanh 4.8   logistic 2.4   erf 5.5
    f32 vectors   sin, cos 0.6   tan 1.2   pow, cbrt, atan2 and others 0.51
    f64 vectors   exp 1.0   expm1 2.2   log 1.0   log1p 2.5   tanh 3.0; others see portable.py

Scalars of vector-only functions use libm (2 ulp), as does fmod of f64 for each element. Without
libm (on a GPU) scalars are computed like vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xlanb.codegen.lanes import varies
from xlanb.codegen.math import routines, single
from xlanb.codegen.math.common import INFINITY, NAN, PORTABLE, library, log1p
from xlanb.codegen.values import Value


def _logistic(x: Value) -> Value:
    """1 / (1 + e^-x); for negative x as e^x / (1 + e^x), which does not overflow."""
    e = call("exp", -abs(x))
    return (x < 0.0).select(e, 1.0) / (e + 1.0)


_SINGLE: dict[str, Callable[..., Value]] = {
    "exp": single.exp,
    "expm1": single.expm1,
    "log": single.log,
    "log1p": partial(log1p, log=single.log),
    "tanh": single.tanh,
    "logistic": _logistic,
    "erf": single.erf,
}


def _of_vectors(name: str, *, is_single: bool) -> Callable[..., Value] | None:
    """The function for vectors, which also serves where there is no C library."""
    if is_single:
        from xlanb.codegen.math.through_double import FUNCTIONS

        if name in FUNCTIONS:
            return FUNCTIONS[name]
    return PORTABLE.get(name) if name != "fmod" else None  # it loops as often as one of its lanes must


def call(name: str, *arguments: Value) -> Value:
    """A function of floats or doubles, by its C name (or `logistic`)."""
    is_single = arguments[0].type.scalar.bits == 32
    own = _SINGLE.get(name) if is_single else None
    f = arguments[0].function
    if own is None and (not f.target.has_c_library or any(varies(a) for a in arguments)):
        own = _of_vectors(name, is_single=is_single)
    if own is not None:
        if name in f.uses:
            given = f.alike(*arguments)
            if routines.is_called(name, given):
                return routines.call(name, own, given)
        return own(*arguments)
    if name == "logistic":
        return _logistic(*arguments)
    return library(name + ("f" if is_single else ""), *arguments)


__all__ = ["INFINITY", "NAN", "call"]
