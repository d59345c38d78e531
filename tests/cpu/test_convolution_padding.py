"""Weights of NaN and infinity in a convolution's padding: multiplied where XLA:CPU does."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.shape.primitive_type import BY_TEXT

WINDOWS = {
    "none": ("size=3x3", (5, 4), 40, 40),
    "padded": ("size=3x3 pad=1_1x1_1", (7, 6), 84, 60),
    "negative": ("size=3x3 pad=-1_1x1_-1", (5, 4), 40, 30),
    "strided": ("size=3x3 stride=2x2 pad=1_1x1_1", (4, 3), 24, 12),
    "window dilated": ("size=3x3 pad=2_2x2_2 rhs_dilate=2x2", (7, 6), 84, 40),
    "base dilated": ("size=3x3 lhs_dilate=2x2", (11, 9), 60, 60),
    "base dilated and padded": ("size=3x3 pad=2_2x2_2 lhs_dilate=2x2", (15, 13), 84, 84),
    "base dilated along one": ("size=3x3 pad=1_1x1_1 lhs_dilate=1x2", (7, 11), 60, 60),
    "reversed": ("size=3x3 pad=1_1x1_1 rhs_reversal=1x1", (7, 6), 60, 60),
}
"""Windows over 2 images of 7 by 6, results, and the number of NaNs in XLA:CPU's result.

The first number is for f32 and narrower floats, the second for f64 and complex numbers.
"""


@pytest.mark.parametrize("weight", [np.nan, np.inf])
@pytest.mark.parametrize("t", ["f32", "f64", "f16", "bf16", "f8e5m2", "c64"])
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("features", [1, 4])
def test_padding_beside_a_weight_that_is_no_number(name, t, weight, features):
    window, (height, width), narrow, wide = WINDOWS[name]
    text = (
        f"HloModule m\nENTRY e {{\n a = {t}[2,7,6,4] parameter(0)\n b = {t}[3,3,4,{features}] parameter(1)\n"
        f" ROOT r = {t}[2,{height},{width},{features}] convolution(a, b), window={{{window}}}, dim_labels=b01f_01io->b01f\n}}\n"
    )
    dtype, rng = BY_TEXT[t].dtype, np.random.default_rng(0)
    x, k = (rng.uniform(0.5, 1, s).astype(np.float32).astype(dtype) for s in ((2, 7, 6, 4), (3, 3, 4, features)))
    k[0, 0, 0, 0] = np.array(weight, np.float32).astype(dtype)
    got, want = np.asarray(xlanb.compile(text)(x, k)), np.asarray(xlanb.evaluate(text, x, k))
    with np.errstate(all="ignore"):
        got, want = (v.astype(np.complex128) for v in (got, want))
    expected = wide if t in ("f64", "c64") else narrow
    assert np.array_equal(np.isnan(got), np.isnan(want))
    if np.isnan(weight):
        assert np.isnan(want).sum() == expected
    finite = np.isfinite(want)
    assert np.array_equal(np.isfinite(got), finite)
    np.testing.assert_allclose(got[finite], want[finite], rtol=2 * float(2.0**-2 if t == "f8e5m2" else 2.0**-7))
