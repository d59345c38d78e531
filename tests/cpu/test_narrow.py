"""Floats computed in f32 are rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb


def _program(t: str, body: str) -> str:
    return f"HloModule m\nENTRY e {{ a = {t}[4096] parameter(0) b = {t}[4096] parameter(1) {body} }}"


def test_a_result_is_rounded_once() -> None:
    exe = xlanb.compile(_program("bf16", "ROOT c = bf16[4096] add(a, b)"))
    text = "".join(u.text for u in exe.program.units())
    assert text.count("i32 32767)") in (0, 1)
    assert text.count("fcmp uno") == 1


@pytest.mark.parametrize("t", ["bf16", "f8e5m2", "f8e4m3fn"])
def test_what_is_only_moved_keeps_its_bits(t: str) -> None:
    dtype = np.dtype(
        {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn}[t]
    )
    body = f"ROOT c = {t}[4096] reverse(a), dimensions={{0}}"
    exe = xlanb.compile(_program(t, body))
    bits = np.uint16 if dtype.itemsize == 2 else np.uint8
    a = np.arange(4096).astype(bits) * (16 if dtype.itemsize == 2 else 1)
    got = exe(a.astype(bits).view(dtype), np.ones(4096, dtype))
    np.testing.assert_array_equal(got.view(bits), a[::-1])


@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
def test_chains_are_rounded_after_each_step(op: str) -> None:
    exe = xlanb.compile(_program("bf16", f"c = bf16[4096] {op}(a, b) ROOT d = bf16[4096] {op}(c, a)"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    step = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[op]
    np.testing.assert_array_equal(exe(a, b), step(step(a, b), a))


def test_types_whose_names_begin_alike_have_tables_of_their_own() -> None:
    exe = xlanb.compile(
        "HloModule m\nENTRY e { a = f8e4m3fn[40] parameter(0) b = f8e4m3[40] parameter(1) "
        "c = f32[40] convert(a) d = f32[40] convert(b) ROOT r = f32[40] add(c, d) }"
    )
    a = np.arange(40).astype(ml_dtypes.float8_e4m3fn)
    b = np.arange(40).astype(ml_dtypes.float8_e4m3)
    np.testing.assert_array_equal(exe(a, b), a.astype(np.float32) + b.astype(np.float32))
