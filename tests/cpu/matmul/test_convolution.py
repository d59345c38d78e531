"""Convolutions of every shape and order, for all vector widths, against the interpreter."""

from __future__ import annotations

import pytest

from xlanb.codegen.convolution import Convolution
from xlanb.cpu.emitters.conv.lowering import part_of
from xlanb.cpu.emitters.conv.padded import padded
from xlanb.cpu.emitters.conv.phases import combinations
from xlanb.hlo import parse
from xlanb.hlo.shape_inference import infer

CASES = {
    "same": ("[2,9,11,5]", "[3,3,5,17]", "b01f_01io->b01f", "size=3x3 pad=1_1x1_1", ""),
    "strided": ("[2,9,11,5]", "[3,3,5,40]", "b01f_01io->b01f", "size=3x3 stride=2x2 pad=1_1x0_1", ""),
    "strided past the last": ("[2,5,6,2]", "[3,3,2,17]", "b01f_01io->b01f", "size=3x3 stride=2x2", ""),
    "padded in one, cut in another": ("[2,5,8,3]", "[3,3,3,17]", "b01f_01io->b01f", "size=3x3 stride=1x3 pad=1_1x0_0",
        ""),
    "window dilated": ("[2,9,11,5]", "[3,2,5,33]", "b01f_01io->b01f", "size=3x2 rhs_dilate=2x3", ""),
    "base dilated": ("[2,9,11,5]", "[3,2,5,33]", "b01f_01io->b01f", "size=3x2 pad=2_1x-1_2 lhs_dilate=2x3", ""),
    "transposed": ("[2,9,11,5]", "[4,4,5,33]", "b01f_01io->b01f", "size=4x4 pad=2_2x2_2 lhs_dilate=2x2", ""),
    "phases apart": ("[2,9,11,5]", "[3,3,5,33]", "b01f_01io->b01f",
        "size=3x3 pad=2_2x1_2 lhs_dilate=2x3 rhs_reversal=1x1", ""),
    "phases without taps": ("[2,9,11,5]", "[1,1,5,33]", "b01f_01io->b01f", "size=1x1 pad=0_1x0_1 lhs_dilate=2x2", ""),
    "phases cropped": ("[2,9,11,5]", "[3,3,5,33]", "b01f_01io->b01f", "size=3x3 pad=-2_2x-1_-2 lhs_dilate=4x4", ""),
    "gradient of a strided input": ("[2,9,11,5]", "[3,3,7,5]", "b01f_01oi->b01f",
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1", ""),
    "holes and strides": ("[2,9,11,5]", "[3,3,5,7]", "b01f_01io->b01f",
        "size=3x3 stride=2x1 pad=1_2x1_2 lhs_dilate=2x2 rhs_dilate=1x2", ""),
    "transposed, channels first": ("[2,5,9,11]", "[5,17,5,5]", "bf01_io01->bf01", "size=5x5 pad=2_2x2_2 lhs_dilate=2x2", ""),
    "transposed, one feature": ("[2,9,11,5]", "[3,3,5,1]", "b01f_01io->b01f", "size=3x3 pad=1_2x2_1 lhs_dilate=2x3", ""),
    "transposed, groups": ("[2,6,9,11]", "[3,8,3,3]", "bf01_io01->bf01", "size=3x3 pad=2_1x2_1 lhs_dilate=2x2",
        ", feature_group_count=2"),
    "transposed, one dimension": ("[2,5,30]", "[7,5,4]", "bf0_0io->bf0", "size=7 pad=3_5 lhs_dilate=3", ""),
    "cropped": ("[2,9,11,5]", "[3,2,5,33]", "b01f_01io->b01f", "size=3x2 pad=-3_1x4_-2 lhs_dilate=2x3", ""),
    "reversed": ("[2,9,11,5]", "[3,2,5,33]", "b01f_01io->b01f", "size=3x2 pad=1_1x1_1 rhs_reversal=1x1", ""),
    "groups": ("[2,9,11,6]", "[3,2,3,32]", "b01f_01io->b01f", "size=3x2 pad=1_1x1_1", ", feature_group_count=2"),
    "depthwise": ("[2,9,11,40]", "[3,2,1,40]", "b01f_01io->b01f", "size=3x2 pad=1_1x1_1", ", feature_group_count=40"),
    "depthwise, two each": ("[2,9,11,6]", "[3,2,1,12]", "b01f_01io->b01f", "size=3x2 pad=1_1x1_1",
        ", feature_group_count=6"),
    "depthwise, channels first": ("[2,6,9,40]", "[6,1,3,3]", "bf01_oi01->bf01", "size=3x3 pad=1_1x1_1",
        ", feature_group_count=6"),
    "batch groups": ("[4,9,11,6]", "[3,2,6,32]", "b01f_01io->b01f", "size=3x2 pad=1_1x1_1", ", batch_group_count=2"),
    "channels first": ("[2,5,9,11]", "[17,5,3,3]", "bf01_oi01->bf01", "size=3x3 pad=1_1x1_1", ""),
    "channels first, strided": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->bf01", "size=3x3 stride=1x2 pad=1_1x1_1", ""),
    "channels first, long lines": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->bf01", "size=3x3 pad=1_1x1_1", ""),
    "channels first, strided twice": ("[2,5,9,40]", "[17,5,3,5]", "bf01_oi01->bf01", "size=3x5 stride=2x2 pad=1_1x0_3", ""),
    "channels first, one pixel each": ("[2,5,9,40]", "[17,5,1,1]", "bf01_oi01->bf01", "size=1x1 stride=2x2", ""),
    "channels first, patches": ("[2,3,12,20]", "[20,3,4,4]", "bf01_oi01->bf01", "size=4x4 stride=4x4", ""),
    "channels first, short lines": ("[3,9,7,7]", "[40,9,3,3]", "bf01_oi01->bf01", "size=3x3 pad=1_1x1_1", ""),
    "channels first, strided groups": ("[2,8,9,40]", "[24,4,3,3]", "bf01_oi01->bf01", "size=3x3 stride=2x2 pad=1_1x1_1",
        ", feature_group_count=2"),
    "channels first, strided depthwise": ("[2,24,9,20]", "[24,1,3,3]", "bf01_oi01->bf01", "size=3x3 stride=2x2 pad=0_1x0_1",
        ", feature_group_count=24"),
    "channels first, strided batch groups": ("[4,6,9,20]", "[32,6,3,3]", "bf01_oi01->bf01", "size=3x3 stride=2x2",
        ", batch_group_count=2"),
    "channels first, three dimensions": ("[2,5,6,7,20]", "[18,5,3,3,3]", "bf012_oi012->bf012",
        "size=3x3x3 stride=2x2x2 pad=0_1x0_1x0_1", ""),
    "channels first, strided and dilated": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->bf01",
        "size=3x3 stride=1x2 pad=1_1x1_1 rhs_dilate=2x3", ""),
    "channels first, holes and strides": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->bf01",
        "size=3x3 stride=2x3 pad=1_1x1_1 lhs_dilate=1x2", ""),
    "channels first, cropped": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->bf01", "size=3x3 stride=2x2 pad=-1_1x2_-3", ""),
    "channels first to last": ("[2,5,9,40]", "[17,5,3,3]", "bf01_oi01->b01f", "size=3x3 stride=2x2 pad=1_1x1_1", ""),
    "gradient of the kernel, channels first": ("[4,10,12,12]", "[4,20,12,12]", "fb01_io01->fb01",
        "size=12x12 pad=1_1x1_1", ""),
    "gradient of the kernel": ("[2,10,12,4]", "[2,10,12,20]", "f01b_i01o->01bf", "size=10x12 pad=1_1x1_1", ""),
    "gradient of the input": ("[2,8,10,20]", "[3,3,4,20]", "b01f_01oi->b01f", "size=3x3 pad=2_2x2_2 rhs_reversal=1x1",
        ""),
    "one dimension": ("[2,30,5]", "[7,5,19]", "b0f_0io->b0f", "size=7 pad=3_3", ""),
    "three dimensions": ("[2,6,7,8,5]", "[3,2,3,5,19]", "b012f_012io->b012f", "size=3x2x3 pad=1_1x0_1x1_1", ""),
    "no window": ("[6,5]", "[5,19]", "bf_io->bf", "", ""),
    "small images": ("[1,7,7,32]", "[3,3,32,48]", "b01f_01io->b01f", "size=3x3 pad=1_1x1_1", ""),
    "mostly padding": ("[2,3,3,5]", "[3,3,5,17]", "b01f_01io->b01f", "size=3x3 pad=5_5x4_6", ""),
    "nothing but padding": ("[1,2,2,3]", "[2,2,3,9]", "b01f_01io->b01f", "size=2x2 stride=7x1 pad=7_0x3_0", ""),
    "layouts": ("[2,9,11,5]{0,2,1,3}", "[3,3,5,17]{3,1,0,2}", "b01f_01io->b01f", "size=3x3 pad=1_1x1_1", ""),
    "few features": ("[3,14,14,16]", "[5,5,16,6]", "b01f_01io->b01f", "size=5x5 pad=4_4x4_4", ""),
}  # fmt: skip


def _text(name, t):
    a, b, labels, window, more = CASES[name]
    body = f"convolution(x, y), window={{{window}}}, dim_labels={labels}{more}"
    parameters = f"x = {t}{a} parameter(0)\n y = {t}{b} parameter(1)"
    i = parse(f"ENTRY e {{\n {parameters}\n ROOT r = {t}[] {body}\n}}\n").entry_computation.root
    shape = infer(i.opcode, [o.shape for o in i.operands], i.attributes)
    shapes = [tuple(int(n) for n in s.split("]")[0][1:].split(",")) for s in (a, b)]
    return f"ENTRY e {{\n {parameters}\n ROOT r = {shape} {body}\n}}\n", shapes


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_cases(check, name, t):
    text, shapes = _text(name, t)
    check(text, shapes, (t, t))


@pytest.mark.parametrize("t", ["f64", "s32", "f16"])
@pytest.mark.parametrize("name", ["same", "base dilated", "depthwise", "gradient of the kernel"])
def test_types(check, name, t):
    text, shapes = _text(name, t)
    check(text, shapes, (t, t))


def test_base_dilation_costs_no_products_with_its_holes():
    text, _ = _text("transposed", "f32")
    i = parse(text).entry_computation.root
    parts = [part_of(c, padded(c), found) for c in [Convolution.of(i)] for found in combinations(c)]
    assert len(parts) == 4
    outputs = i.shape.element_count
    assert sum(p.x.products for p in parts) == outputs * 2 * 2 * 5


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("transposed")])
@pytest.mark.parametrize("t", ["bf16", "f64", "s32"])
def test_phases_are_contractions_whatever_the_layout(check, name, t):
    text, shapes = _text(name, t)
    plans = check(text, shapes, (t, t)).plans.values()
    assert "one by one" not in "".join(map(str, plans))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("channels first, strided twice", "pixels that a vector would read are apart"),
        ("channels first, short lines", "lines of pixels are too short for a vector"),
        ("gradient of the kernel, channels first", "lines of pixels are too short for a vector"),
        ("channels first, long lines", ""),
        ("same", ""),
    ],
)
def test_vectors_run_along_features_where_pixels_are_apart(check, name, why):
    text, shapes = _text(name, "f64")
    plan = "".join(map(str, check(text, shapes, ("f64", "f64")).plans.values()))
    assert ("input: copied with features last" in plan) == bool(why)
    assert why in plan


def test_few_pixels_and_many_weights_go_by_panels(check):
    text = (
        "ENTRY e {\n x = f32[1,7,7,256] parameter(0)\n y = f32[3,3,256,192] parameter(1)\n"
        " ROOT r = f32[1,7,7,192] convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n"
    )
    assert "xlanb.panel" in check(text, [(1, 7, 7, 256), (3, 3, 256, 192)]).llvm_ir
