"""Weights that are literals of the program go through the same kernels as weights that are arguments."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo import parse

PROGRAMS = {
    "dot": (
        "ENTRY e {\n x = f32[17,40] parameter(0)\n w = f32[40,33] parameter(1)\n"
        " ROOT r = f32[17,33] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        [(17, 40), (40, 33)],
    ),
    "dot, weights first": (
        "ENTRY e {\n x = f32[17,40] parameter(0)\n w = f32[33,40] parameter(1)\n"
        " ROOT r = f32[33,17] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n",
        [(17, 40), (33, 40)],
    ),
    "convolution": (
        "ENTRY e {\n x = f32[1,9,11,5] parameter(0)\n w = f32[3,3,5,17] parameter(1)\n"
        " ROOT r = f32[1,9,11,17] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n",
        [(1, 9, 11, 5), (3, 3, 5, 17)],
    ),
    "convolution of stride 2": (
        "ENTRY e {\n x = f32[1,9,11,16] parameter(0)\n w = f32[1,1,16,32] parameter(1)\n"
        " ROOT r = f32[1,5,6,32] convolution(x, w), window={size=1x1 stride=2x2}, dim_labels=b01f_01io->b01f\n}\n",
        [(1, 9, 11, 16), (1, 1, 16, 32)],
    ),
}


def _braces(values):
    if values.ndim == 0:
        return repr(float(values))
    return "{" + ", ".join(map(_braces, values)) + "}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_literal_weights_take_the_kernel_of_products(name):
    text, shapes = PROGRAMS[name]
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    exe = xlanb.compile(text.replace("parameter(1)", f"constant({_braces(w)})"))
    assert "xlanb.tile.f32" in exe.llvm_ir
    want = np.asarray(xlanb.evaluate(parse(text), x, w))
    np.testing.assert_allclose(np.asarray(exe(x)), want, rtol=2e-4, atol=2e-4)
