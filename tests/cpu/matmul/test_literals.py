"""Constant weights go through the same kernels as weights that are arguments."""

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


PACKED = {
    "dot of many columns": (
        "ENTRY e {\n x = f32[40,24] parameter(0)\n w = f32[24,96] parameter(1)\n"
        " ROOT r = f32[40,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
        [(40, 24), (24, 96)],
    ),
    "dot, weights first": (
        "ENTRY e {\n x = f32[24,40] parameter(0)\n w = f32[24,96] parameter(1)\n"
        " ROOT r = f32[96,40]{0,1} dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n}\n",
        [(24, 40), (24, 96)],
    ),
    "dot with the weights transposed": (
        "ENTRY e {\n x = f32[40,24] parameter(0)\n w = f32[70,24] parameter(1)\n"
        " ROOT r = f32[40,70] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n",
        [(40, 24), (70, 24)],
    ),
    "dot of a batch": (
        "ENTRY e {\n x = f32[3,40,24] parameter(0)\n w = f32[3,24,64]{1,2,0} parameter(1)\n"
        " ROOT r = f32[3,40,64] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}\n",
        [(3, 40, 24), (3, 24, 64)],
    ),
    "convolution": (
        "ENTRY e {\n x = f32[1,9,11,5] parameter(0)\n w = f32[3,3,5,64] parameter(1)\n"
        " ROOT r = f32[1,9,11,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n",
        [(1, 9, 11, 5), (3, 3, 5, 64)],
    ),
    "convolution of groups, reversed": (
        "ENTRY e {\n x = f32[1,9,11,6] parameter(0)\n w = f32[3,2,3,128] parameter(1)\n"
        " ROOT r = f32[1,9,11,128] convolution(x, w), window={size=3x2 pad=1_1x0_1 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=2\n}\n",
        [(1, 9, 11, 6), (3, 2, 3, 128)],
    ),
    "transposed convolution": (
        "ENTRY e {\n x = f32[1,9,11,5] parameter(0)\n w = f32[4,4,5,64] parameter(1)\n"
        " ROOT r = f32[1,18,22,64] convolution(x, w), window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f\n}\n",
        [(1, 9, 11, 5), (4, 4, 5, 64)],
    ),
    "constant images, channels first": (
        "ENTRY e {\n x = f32[32,5,3,3] parameter(0)\n w = f32[1,5,9,32] parameter(1)\n"
        " ROOT r = f32[1,32,9,32] convolution(w, x), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n}\n",
        [(32, 5, 3, 3), (1, 5, 9, 32)],
    ),
}  # fmt: skip
"""Programs whose constants are packed at compile time, or must not be."""


@pytest.mark.parametrize("name", PACKED)
def test_constants_are_packed_once(build, name):
    text, shapes = PACKED[name]
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    exe = build(text.replace("parameter(1)", f"constant({_braces(w)})"))
    assert (".packed" in exe.llvm_ir) == (name != "constant images, channels first")
    assert "xlanb.panel" not in exe.llvm_ir
    want = np.asarray(xlanb.evaluate(parse(text), x, w))
    np.testing.assert_allclose(np.asarray(exe(x)), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_literal_weights_take_the_kernel_of_products(name):
    text, shapes = PROGRAMS[name]
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    exe = xlanb.compile(text.replace("parameter(1)", f"constant({_braces(w)})"))
    assert "xlanb.tile.f32" in exe.llvm_ir
    want = np.asarray(xlanb.evaluate(parse(text), x, w))
    np.testing.assert_allclose(np.asarray(exe(x)), want, rtol=2e-4, atol=2e-4)
