"""Convolutions on a GPU as matrix products: any window, groups, layouts, tensor cores."""

import ml_dtypes
import numpy as np
import pytest

NUMPY = {"f32": "f4", "f64": "f8", "bf16": ml_dtypes.bfloat16, "f16": "f2", "s32": "i4"}


def numbers(kind, shape, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(NUMPY[kind])


def program(x, w, out, attributes, kind="f32"):
    return f"""HloModule m
ENTRY e {{
  x = {kind}[{x}] parameter(0)
  w = {kind}[{w}] parameter(1)
  ROOT c = {kind}[{out}] convolution(x, w), {attributes}
}}"""


def shape(text):
    return tuple(int(n) for n in text.split("]")[0].split("{")[0].split(","))


def check_one(check, x, w, out, attributes, kind="f32", emitter="convolution"):
    exe = check(program(x, w, out, attributes, kind), numbers(kind, shape(x), 1), numbers(kind, shape(w), 2))
    assert [k.emitter for k in exe.kernels] == [emitter]
    return exe


@pytest.mark.parametrize(
    ("x", "w", "out", "attributes"),
    [
        ("2,9,8,3", "3,3,3,20", "2,7,6,20", "window={size=3x3}, dim_labels=b01f_01io->b01f"),
        ("2,3,9,8", "20,3,3,2", "2,20,10,7", "window={size=3x2 pad=2_1x0_0}, dim_labels=bf01_oi01->bf01"),
        ("2,3,9,8", "20,3,3,2", "2,20,4,3", "window={size=3x2 stride=2x3 pad=0_1x0_1}, dim_labels=bf01_oi01->bf01"),
        ("2,3,9,8", "20,3,3,2", "2,20,5,5", "window={size=3x2 rhs_dilate=2x3}, dim_labels=bf01_oi01->bf01"),
        (
            "2,3,5,6",
            "20,3,3,2",
            "2,20,9,13",
            "window={size=3x2 pad=1_1x2_1 lhs_dilate=2x2}, dim_labels=bf01_oi01->bf01",
        ),
        ("2,9,8,3", "3,3,3,20", "2,7,6,20", "window={size=3x3 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"),
        ("2,9,8,6", "3,3,3,20", "2,7,6,20", "window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2"),
        ("4,50,6", "5,6,8", "4,46,8", "window={size=5}, dim_labels=b0f_0io->b0f"),
        ("2,5,6,7,3", "2,2,2,3,9", "2,4,5,6,9", "window={size=2x2x2}, dim_labels=b012f_012io->b012f"),
        ("8,9,3,2", "3,20,3,3", "6,20,7,2", "window={size=3x3}, dim_labels=10fb_io01->1f0b"),
    ],
)
def test_any_window(check, x, w, out, attributes):
    check_one(check, x, w, out, attributes)


@pytest.mark.parametrize("kind", ["f64", "s32", "bf16", "f16"])
def test_every_type(check, kind):
    exe = check_one(check, "2,9,8,16", "3,3,16,20", "2,7,6,20", "window={size=3x3}, dim_labels=b01f_01io->b01f", kind)
    assert ("mma.sync" in exe.ptx[exe.kernels[0].name]) == (kind in ("bf16", "f16"))


def test_few_features_of_a_group_are_a_loop(check):
    attributes = "window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=16"
    check_one(check, "2,9,8,16", "3,3,1,16", "2,7,6,16", attributes, emitter="loop")


def test_what_is_fused_behind(check):
    text = """HloModule m
f {
  x = f32[2,9,8,3] parameter(0)  w = f32[3,3,3,20] parameter(1)  b = f32[20] parameter(2)
  c = f32[2,7,6,20] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
  wide = f32[2,7,6,20] broadcast(b), dimensions={3}
  ROOT r = f32[2,7,6,20] add(c, wide)
}
ENTRY e {
  x = f32[2,9,8,3] parameter(0)  w = f32[3,3,3,20] parameter(1)  b = f32[20] parameter(2)
  ROOT r = f32[2,7,6,20] fusion(x, w, b), kind=kCustom, calls=f
}"""
    arrays = numbers("f32", (2, 9, 8, 3), 1), numbers("f32", (3, 3, 3, 20), 2), numbers("f32", 20, 3)
    assert [k.emitter for k in check(text, *arrays).kernels] == ["convolution"]
