"""Elementwise operations on special values of each type: compiled code and evaluator.

They agree bitwise.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.numeric_values import FLOATS, INTEGERS, assert_same, some_of

BINARY = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum")
BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic", "power")
COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
PRECISIONS = ((8, 7), (5, 10), (5, 2), (4, 3), (3, 4), (2, 0), (11, 52))
COUNT = 900


def _lines(t: str) -> list[tuple[str, str]]:
    """(result type, right-hand side) for each operation on x, y and z."""
    lines = [(t, f"{op}(x, y)") for op in BINARY]
    lines += [("pred", f"compare(x, y), direction={d}") for d in COMPARISONS]
    lines += [(t, "clamp(x, y, z)"), (t, "real(x)") if t in FLOATS else (t, "not(x)")]
    if t in FLOATS:
        lines += [("pred", f"compare(x, y), direction={d}, type=TOTALORDER") for d in COMPARISONS]
        lines += [(t, f"reduce-precision(x), exponent_bits={e}, mantissa_bits={m}") for e, m in PRECISIONS]
        lines += [(t, f"{op}(x)") for op in ("floor", "ceil", "round-nearest-afz", "round-nearest-even", "imag")]
        return [*lines, ("pred", "is-finite(x)")]
    return [
        *lines,
        *((t, f"{op}(x, y)") for op in BITS),
        *((t, f"{op}(x)") for op in ("popcnt", "count-leading-zeros")),
    ]


@pytest.mark.parametrize("t", [*INTEGERS, *FLOATS])
def test_special_values(t):
    lines = _lines(t)
    parameters = "\n".join(f"  {name} = {t}[{COUNT}] parameter({k})" for k, name in enumerate("xyz"))
    body = "\n".join(f"  r{k} = {kind}[{COUNT}] {line}" for k, (kind, line) in enumerate(lines))
    shape, names = ", ".join(f"{kind}[{COUNT}]" for kind, _ in lines), ", ".join(f"r{k}" for k in range(len(lines)))
    text = f"HloModule m\nENTRY e {{\n{parameters}\n{body}\n  ROOT r = ({shape}) tuple({names})\n}}\n"
    rng = np.random.default_rng(1)
    x, y, z = (some_of(t, rng, COUNT) for _ in range(3))
    for (_, line), got, want in zip(lines, xlanb.compile(text)(x, y, z), xlanb.evaluate(text, x, y, z), strict=True):
        try:
            assert_same(np.asarray(got), np.asarray(want), x, y, z)
        except AssertionError as error:
            raise AssertionError(f"{line}: {error}") from None


def test_zeros_of_both_signs_have_an_order():
    text = (
        "HloModule m\nENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) a = f32[4] maximum(x, y) "
        "b = f32[4] minimum(x, y) ROOT r = (f32[4], f32[4]) tuple(a, b) }\n"
    )
    x, y = np.float32([0.0, -0.0, 0.0, -0.0]), np.float32([-0.0, 0.0, 0.0, -0.0])
    for run in (xlanb.compile(text), lambda *a: xlanb.evaluate(text, *a)):
        larger, smaller = run(x, y)
        assert np.signbit(larger).tolist() == [False, False, False, True]
        assert np.signbit(smaller).tolist() == [True, True, False, True]


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("total", [False, True])
def test_numbers_without_a_sign_sort_by_their_bits(down, total):
    how = f"direction={'GT' if down else 'LT'}" + (", type=TOTALORDER" if total else "")
    text = (
        f"HloModule m\nc {{ a = f8e8m0fnu[] parameter(0) b = f8e8m0fnu[] parameter(1) ROOT r = pred[] compare(a, b), {how} }}\n"
        "ENTRY e { x = f8e8m0fnu[255] parameter(0) ROOT s = f8e8m0fnu[255] sort(x), dimensions={0}, to_apply=c }\n"
    )
    codes = np.arange(255, dtype=np.uint8)
    x = np.random.default_rng(0).permutation(codes).view(xlanb.hlo.parse(text).entry_computation.root.array_shape.dtype)
    for run in (xlanb.compile(text), lambda a: xlanb.evaluate(text, a)):
        assert np.asarray(run(x)).view(np.uint8).tolist() == (codes[::-1] if down else codes).tolist()


@pytest.mark.parametrize("kind", ["f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b11fnuz"])
@pytest.mark.parametrize("down", [False, True])
def test_the_only_nan_of_a_type_comes_first(kind, down):
    order = f"direction={'GT' if down else 'LT'}, type=TOTALORDER"
    text = (
        f"HloModule m\nc {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT r = pred[] compare(a, b), {order} }}\n"
        f"ENTRY e {{ x = {kind}[256] parameter(0) s = {kind}[256] sort(x), dimensions={{0}}, to_apply=c\n"
        f"v = {kind}[256,256] broadcast(x), dimensions={{0}} w = {kind}[256,256] broadcast(x), dimensions={{1}}\n"
        f"o = pred[256,256] compare(v, w), {order} ROOT r = ({kind}[256], pred[256,256]) tuple(s, o) }}\n"
    )
    wanted = np.uint8([0x80, *range(0xFF, 0x80, -1), *range(0x80)])
    wanted = wanted[::-1] if down else wanted
    module = xlanb.hlo.parse(text)
    x = wanted.view(module.entry_computation.parameters[0].array_shape.dtype)
    for run in (xlanb.compile(text), lambda a: xlanb.evaluate(text, a)):
        in_order, compared = run(x)
        np.testing.assert_array_equal(compared, np.triu(np.ones((256, 256), bool), 1))
        mixed = np.random.default_rng(0).permutation(wanted).view(x.dtype)
        assert np.asarray(in_order).view(np.uint8).tolist() == wanted.tolist()
        assert np.asarray(run(mixed)[0]).view(np.uint8).tolist() == wanted.tolist()
