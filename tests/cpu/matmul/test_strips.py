"""Products of few rows and a large b, in strips of its columns."""

from __future__ import annotations

import re

import pytest

from tests.cpu.matmul.test_dot import assert_not_finite_where_expected, dot_text
from xlanb.codegen import costs
from xlanb.cpu.emitters.matmul import plan as plans
from xlanb.cpu.emitters.matmul import strips

SIZES = [
    (1, 9, 128),
    (1, 70, 301),
    (2, 33, 200),
    (5, 64, 131),
    (8, 40, 192),
    (9, 71, 100),
    (13, 32, 97),
    (57, 66, 300),
    (64, 20, 1100),
]


@pytest.fixture
def stripped(monkeypatch):
    """Multiply in strips whatever can be."""
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(strip_bytes=0, paged_strip_rows=64))
    monkeypatch.setattr(plans, "_LONG", 0)
    monkeypatch.setattr(plans, "_LONG_ENOUGH", 0)
    plans.plan.cache_clear()
    yield
    plans.plan.cache_clear()


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_lines_and_columns_that_do_not_divide(check, stripped, t, sizes):
    text, shapes = dot_text(*sizes, types=(t,) * 3)
    assert "xlanb.strip" in check(text, shapes, (t, t)).llvm_ir


@pytest.mark.parametrize("transposed", [True, False])
def test_a_in_either_order(check, stripped, transposed):
    text, shapes = dot_text(6, 50, 160, transposed=(transposed, False))
    assert "xlanb.strip" in check(text, shapes).llvm_ir


def test_batches(check, stripped):
    text = """ENTRY e {
 x = f32[3,5,40] parameter(0)
 y = f32[3,40,150] parameter(1)
 ROOT r = f32[3,5,150] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
   rhs_contracting_dims={1}
}
"""
    assert "xlanb.strip" in check(text, [(3, 5, 40), (3, 40, 150)]).llvm_ir


@pytest.mark.parametrize(
    ("a", "b", "result", "window", "is_stripped"),
    [
        ((1, 7, 7, 64), (3, 3, 64, 128), (1, 7, 7, 128), "size=3x3 pad=1_1x1_1", True),
        ((1, 5, 9, 37), (3, 3, 37, 150), (1, 3, 9, 150), "size=3x3 stride=2x1 pad=1_1x1_1", True),
        ((1, 6, 6, 40), (2, 2, 40, 128), (1, 4, 3, 128), "size=2x2 rhs_dilate=2x3", True),
        ((1, 4, 4, 33), (3, 3, 33, 128), (1, 6, 6, 128), "size=3x3 pad=2_2x2_2 rhs_reversal=1x1", False),
        ((1, 8, 8, 9), (3, 3, 9, 128), (1, 6, 6, 128), "size=3x3", False),
    ],
)
def test_pixels_and_windows(check, stripped, a, b, result, window, is_stripped):
    x, y, r = (f"f32{list(dimensions)}".replace(" ", "") for dimensions in (a, b, result))
    text = f"""ENTRY e {{
 x = {x} parameter(0)
 y = {y} parameter(1)
 ROOT r = {r} convolution(x, y), window={{{window}}}, dim_labels=b01f_01io->b01f
}}
"""
    assert ("xlanb.strip" in check(text, [a, b]).llvm_ir) == is_stripped


def test_depth_of_two_axes(check, stripped):
    text = """ENTRY e {
 x = f32[40,6,4] parameter(0)
 y = f32[4,40,150] parameter(1)
 ROOT r = f32[6,150] dot(x, y), lhs_contracting_dims={2,0}, rhs_contracting_dims={0,1}
}
"""
    assert "xlanb.strip" in check(text, [(40, 6, 4), (4, 40, 150)]).llvm_ir


def test_slices_whose_lines_share_sets_of_the_cache(check, stripped, monkeypatch):
    monkeypatch.setattr(strips, "_FAR", 1024)
    for m in (1, 28):
        text, shapes = dot_text(m, 70, 256)
        exe = check(text, shapes)
        assert f"{8 if m == 1 else 16} lines at a time" in "".join(map(str, exe.plans.values()))


@pytest.mark.parametrize(("rows", "columns"), [(1, 16384), (2, 4096), (6, 4096), (48, 768)])
def test_strips_are_long_where_lines_are_read_once(build, rows, columns):
    text, _ = dot_text(rows, 768, 50257)
    (found,) = re.findall(r"in strips of (\d+) columns", "".join(map(str, build(text).plans.values())))
    assert columns // 2 < int(found) <= columns


def test_not_a_number_and_infinity_stay_where_they_are(build, stripped):
    assert_not_finite_where_expected(build, 11, 30, 140)


@pytest.mark.parametrize(
    ("sizes", "types", "transposed", "is_stripped"),
    [
        ((1, 1024, 1024), ("f32",) * 3, False, True),
        ((32, 1024, 1024), ("f32",) * 3, False, True),
        ((48, 1024, 2048), ("f32",) * 3, False, True),
        ((49, 1024, 2048), ("f32",) * 3, False, False),
        ((49, 1024, 1024), ("f32",) * 3, False, True),
        ((4, 2048, 512), ("f32",) * 3, False, False),
        ((8, 2048, 512), ("f32",) * 3, False, True),
        ((8, 4096, 256), ("f32",) * 3, False, False),
        ((8, 256, 1024), ("f32",) * 3, False, False),
        ((96, 1024, 1024), ("f32",) * 3, False, False),
        ((8, 1024, 1024), ("f32",) * 3, True, False),
        ((8, 1024, 1024), ("bf16", "bf16", "f32"), False, False),
        ((8, 1024, 1024), ("s32",) * 3, False, False),
    ],
)
def test_which_products_are_in_strips(build, sizes, types, transposed, is_stripped):
    text, _ = dot_text(*sizes, types=types, transposed=(False, transposed))
    exe = build(text)
    assert ("xlanb.strip" in exe.llvm_ir) == is_stripped
    assert ("b is read once" in "".join(map(str, exe.plans.values()))) == is_stripped
