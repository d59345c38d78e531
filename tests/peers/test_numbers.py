"""The evaluator and compiled code match the real XLA:CPU on numbers open to interpretation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from tests.numeric_values import FLOATS, INTEGERS, assert_same, values_of
from xlanb.peers import xla
from xlanb.shape.primitive_type import BY_TEXT

pytest.importorskip("jax")
pytestmark = pytest.mark.peer

ONE_STEP = ("bf16", "f8e8m0fnu", "f8e5m2", "f8e4m3fn", "f4e2m1fn", "s4", "u8", "s32", "u64", "pred")


def _real(text: str, *arrays: Any) -> list[Any]:
    return xla.RealExecutable(text)(*arrays)


def _usual(x: Any) -> Any:
    """Return which numbers are not subnormal, as XLA treats those as zero.

    6 overflows f4e2m1fn's integers there.
    """
    size = np.abs(x.astype(np.float64))
    if x.dtype == BY_TEXT["f4e2m1fn"].dtype:
        return size != 6
    return (size == 0) | ~(size < np.finfo(np.float32).tiny) if "float" in x.dtype.name else np.ones(x.shape, np.bool_)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
def test_conversions(source: str) -> None:
    targets = [t for t in ONE_STEP if t != source]
    with np.errstate(all="ignore"):
        x = values_of(source, np.random.default_rng(0))
        x = x[_usual(x)]
    lines = "\n".join(f"  c{k} = {t}[{len(x)}] convert(a)" for k, t in enumerate(targets))
    shape, names = ", ".join(f"{t}[{len(x)}]" for t in targets), ", ".join(f"c{k}" for k in range(len(targets)))
    text = f"HloModule m\nENTRY e {{\n  a = {source}[{len(x)}] parameter(0)\n{lines}\n  ROOT r = ({shape}) tuple({names})\n}}\n"
    for got, want in zip(xlanb.evaluate(text, x), _real(text, x), strict=True):
        assert_same(np.asarray(got), np.asarray(want), x)


VECTORS = "a = {0}[2] parameter(0)\n b = {1}[2] parameter(1)\n ROOT r = {2}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
MIXED = [
    ("c64", "s16", "s32", [1.5 + 0.5j, 4.5], [1, 2]),
    ("u32", "c64", "c64", [1, 2], [0.5 + 0.5j, 2 + 0.5j]),
    ("f32", "f32", "s32", [1.5, 1.5], [1.5, 0.5]),
    ("f8e5m2", "f8e5m2", "s32", [1.5, 1.5], [1.5, 0.5]),
    ("f64", "f64", "f32", [1 + 2.0**-30, 1], [1, -1]),
    ("s16", "s16", "pred", [3, 1], [1, -3]),
    ("bf16", "bf16", "s16", [3.0, 0.0625], [5.0, 1.0]),
]


@pytest.mark.parametrize("case", MIXED, ids=lambda c: "-".join(c[:3]))
def test_a_dot_of_several_types(case: tuple[Any, ...]) -> None:
    text = "HloModule m\nENTRY e {\n " + VECTORS.format(*case[:3]) + "\n}\n"
    x, y = (np.array(v).astype(BY_TEXT[t].dtype) for t, v in zip(case[:2], case[3:], strict=True))
    np.testing.assert_array_equal(xlanb.evaluate(text, x, y), _real(text, x, y)[0])


@pytest.mark.parametrize("t", ["bf16", "f16", "f8e5m2", "f8e4m3fn"])
def test_a_dot_without_free_dimensions(t: str) -> None:
    text = "HloModule m\nENTRY e {\n " + VECTORS.format(t, t, t).replace("[2]", "[500]") + "\n}\n"
    rng = np.random.default_rng(0)
    x, y = ((0.4 * rng.standard_normal(500)).astype(np.float32).astype(BY_TEXT[t].dtype) for _ in range(2))
    (theirs,) = _real(text, x, y)
    np.testing.assert_array_equal(xlanb.compile(text)(x, y), theirs)


@pytest.mark.parametrize("body", ["add(x, y)", "add(x, b)", "multiply(y, x)"])
def test_arrays_of_different_dynamic_sizes(body: str) -> None:
    text = (
        "HloModule m\nENTRY e {\n a = f32[8] parameter(0)\n b = f32[8] parameter(1)\n n = s32[] parameter(2)\n k = s32[] parameter(3)\n"
        " x = f32[<=8] set-dimension-size(a, n), dimensions={0}\n y = f32[<=8] set-dimension-size(b, k), dimensions={0}\n"
        f" s = f32[<=8] {body}\n c = f32[] constant(0)\n t = f32[] reduce(s, c), dimensions={{0}}, to_apply=sum\n"
        " z = s32[] get-dimension-size(s), dimensions={0}\n ROOT r = (f32[], s32[]) tuple(t, z)\n}\n"
    ).replace("ENTRY", "sum {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT r = f32[] add(p, q)\n}\nENTRY")
    a, b = np.arange(1, 9, dtype=np.float32), np.arange(10, 90, 10, dtype=np.float32)
    real = xla.RealExecutable(text)
    for n, k in ((3, 3), (3, 5), (5, 3), (0, 4), (4, 0), (8, 1), (1, 8), (1, 0), (1, 3)):
        theirs = real(a, b, np.int32(n), np.int32(k))
        assert [float(v) for v in xlanb.evaluate(text, a, b, np.int32(n), np.int32(k))] == [float(v) for v in theirs]


COMPLEX = [0.0, -0.0, 1.0, -1.5, 0.3, np.inf, -np.inf, np.nan]
COMPLEX_OPS = [("multiply", 2), ("divide", 2), ("power", 2), ("tanh", 1), ("tan", 1), ("sign", 1)]


@pytest.mark.parametrize("t", ["c64", "c128"])
@pytest.mark.parametrize(("opcode", "count"), COMPLEX_OPS)
def test_complex_numbers_with_special_parts(opcode: str, count: int, t: str) -> None:
    """Except huge divisors, whose reciprocals are subnormal, which XLA treats as zero."""
    parts = np.array(COMPLEX, np.float32 if t == "c64" else np.float64)
    x = np.empty((len(parts), len(parts)), BY_TEXT[t].dtype)
    x.real, x.imag = parts[:, None], parts[None, :]
    given = [v.ravel() for v in np.meshgrid(*[x.ravel()] * count, indexing="ij")]
    n, names = given[0].size, ", ".join("ab"[:count])
    parameters = "".join(f"  {v} = {t}[{n}] parameter({k})\n" for k, v in enumerate("ab"[:count]))
    text = f"HloModule m\nENTRY e {{\n{parameters}  ROOT r = {t}[{n}] {opcode}({names})\n}}\n"
    (theirs,) = _real(text, *given)
    for ours in (xlanb.compile(text)(*given), xlanb.evaluate(text, *given)):
        for got, want in ((ours.real, theirs.real), (ours.imag, theirs.imag)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
