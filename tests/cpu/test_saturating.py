"""Floats to integers: truncation, saturation, zero for NaN; vectors and scalars."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
EDGES = [np.nan, np.inf, -np.inf, -0.0, 2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 2.0**32]
EDGES += [127.5, -128.9, 255.9, -0.5, 7.9, 15.9, 4294967040.0, 2147483647.0, 9223372036854774784.0]


@pytest.mark.parametrize("to", ["s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", FLOATS)
def test_conversion_saturates(source: str, to: str) -> None:
    random = np.random.default_rng(3)
    with np.errstate(over="ignore", invalid="ignore"):
        many = np.array([*EDGES, *random.standard_normal(80) * 10.0 ** random.integers(0, 20, 80)]).astype(
            FLOATS[source]
        )
    for x in (many, many[:3], many[4:5]):
        text = (
            f"HloModule m\nENTRY e {{\n  x = {source}[{x.size}] parameter(0)\n  ROOT r = {to}[{x.size}] convert(x)\n}}"
        )
        np.testing.assert_array_equal(
            np.asarray(xlanb.compile(text)(x)).astype(np.int64), np.asarray(evaluate(parse(text), x)).astype(np.int64)
        )
