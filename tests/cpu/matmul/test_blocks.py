"""Products packed in blocks.

All orders of the operands, all types with a tile, several slices of depth, several vector widths.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.matmul.conftest import DTYPES
from tests.cpu.matmul.test_dot import assert_not_finite_where_expected, dot_text
from xlanb.codegen import costs, jit
from xlanb.codegen.groups import group_of
from xlanb.cpu.emitters.matmul import plan as plans
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.shape import PrimitiveType

SIZES = [(37, 71, 53), (14, 130, 32), (100, 64, 45), (9, 40, 3), (29, 3, 97), (130, 33, 16)]
TYPES = [
    ("f32",) * 3,
    ("f64",) * 3,
    ("bf16",) * 3,
    ("bf16", "bf16", "f32"),
    ("f16",) * 3,
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s8", "u8", "s32"),
]


@pytest.fixture
def blocked(monkeypatch):
    """Pack every possible product in blocks, in slices of a few lanes."""
    monkeypatch.setattr(plans, "_wants_blocks", lambda _: True)
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(stretch_lanes=16, rowdot_rows=8))
    plans.plan.cache_clear()
    yield
    plans.plan.cache_clear()


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_types_and_orders(check, blocked, width, types, transposed):
    is_bytes = types[2] == "s32"
    for m, k, n in SIZES:
        text, shapes = dot_text(m, k, n, transposed=transposed, types=types)
        exe = check(text, shapes, types[:2])
        has_tile = not is_bytes or (width == 512 and group_of(jit.host(), PrimitiveType.S8) is not None)
        assert ("xlanb.blocks" in exe.llvm_ir) == has_tile


@pytest.mark.parametrize(("row_cycles", "rows", "tile"), [(0.0, 65, "13x2"), (0.45, 64, "8x3"), (0.8, 60, "6x4")])
@pytest.mark.parametrize("types", [("f32",) * 3, ("f64",) * 3, ("bf16", "bf16", "f32")])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_tiles_of_fewer_rows(check, set_costs, blocked, width, row_cycles, rows, tile, types, transposed):
    set_costs(row_cycles=row_cycles)
    for m, k, n in [*SIZES, (rows, 70, 129)]:
        text, shapes = dot_text(m, k, n, transposed=transposed, types=types)
        exe = check(text, shapes, types[:2])
    has_groups = types[0] == "bf16" and group_of(jit.host(), PrimitiveType.BF16) is not None
    assert (f".{tile}x" in exe.llvm_ir) == (width == 512 and (tile == "13x2" or not has_groups))


@pytest.mark.parametrize(
    ("kind", "sizes", "transposed", "is_packed"),
    [
        ("f32", (128, 128, 1024), (False, False), True),  # lines of the rhs are 4096 bytes apart
        ("f32", (256, 130, 512), (True, False), False),  # and here 2048, those of the lhs 1024
        ("f32", (512, 70, 512), (True, False), True),  # both are 2048 bytes apart
        ("f32", (512, 70, 512), (False, False), False),
        ("f64", (128, 256, 512), (False, False), True),
        ("f32", (128, 300, 1024), (False, False), False),  # too deep for a tile of one vector
        ("f32", (128, 128, 1024), (False, True), False),
        ("f32", (96, 200, 1024), (False, False), False),
    ],
)
def test_lines_that_lie_pages_apart_are_packed(check, kind, sizes, transposed, is_packed):
    text, shapes = dot_text(*sizes, transposed=transposed, types=(kind,) * 3)
    exe = check(text, shapes, (kind, kind))
    assert ("xlanb.blocks" in exe.llvm_ir) == is_packed


@pytest.mark.parametrize(
    ("kind", "sizes", "is_packed"),
    [
        ("f32", (130, 6001, 70), True),
        ("f64", (130, 6001, 70), True),
        ("f32", (300, 4097, 70), False),  # few columns for the rows: a is read twice or thrice
        ("f32", (300, 4097, 50), False),
        ("f32", (70, 1000, 300), False),
    ],
)
def test_gradients_of_weights_are_packed_if_large(check, kind, sizes, is_packed):
    text, shapes = dot_text(*sizes, transposed=(True, False), types=(kind,) * 3)
    exe = check(text, shapes, (kind, kind))
    assert ("xlanb.blocks" in exe.llvm_ir) == is_packed


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("transposed", [(False, False), (False, True)])
def test_constants_are_read_in_their_own_order(build, blocked, types, transposed):
    text, shapes = dot_text(40, 64, 96, transposed=transposed, types=types)
    rng = np.random.default_rng(3)
    low = 0 if "u8" in types else -9
    x, y = (rng.integers(low, 9, s).astype(DTYPES[t]) for s, t in zip(shapes, types, strict=False))
    values = "{" + ", ".join("{" + ", ".join(str(int(n)) for n in row) + "}" for row in y) + "}"
    exe = build(text.replace("parameter(1)", f"constant({values})"))
    want = np.asarray(build(text)(x, y))
    np.testing.assert_array_equal(np.asarray(exe(x)), want)
    np.testing.assert_array_equal(want, np.asarray(evaluate(parse(text), x, y)))


def test_bytes_at_the_ends_of_their_range(build, blocked):
    text, (a, b) = dot_text(20, 65, 40, types=("s8", "s8", "s32"))
    for x in (-128, 127):
        for y in (-128, 127):
            got = build(text)(np.full(a, x, np.int8), np.full(b, y, np.int8))
            np.testing.assert_array_equal(got, 65 * x * y)


def test_sums_over_stretches_are_rounded_once(build, blocked):
    text, (a, b) = dot_text(9, 257, 33, types=("bf16",) * 3)
    ones = [np.ones(s, ml_dtypes.bfloat16) for s in (a, b)]
    ones[0][:, 0] = 3  # 259 has no bf16; rounding at each slice would change the sum
    want = np.float32(259).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(build(text)(*ones), want)


def test_not_a_number_and_infinity_stay_where_they_are(build, blocked):
    assert_not_finite_where_expected(build, 20, 30, 40)


@pytest.mark.parametrize(
    ("sizes", "types", "is_blocked"),
    [
        ((256, 6000, 256), ("f32",) * 3, True),
        ((256, 1024, 256), ("f32",) * 3, False),
        ((128, 2048, 2048), ("f32",) * 3, True),
        ((128, 1024, 1024), ("f32",) * 3, False),
        ((32, 2048, 2048), ("f32",) * 3, False),
        ((128, 255, 768), ("bf16", "bf16", "f32"), True),
        ((128, 128, 128), ("s8", "s8", "s32"), True),
    ],
)
def test_which_products_are_blocked(build, width, sizes, types, is_blocked):
    if types[0] == "s8" and (width < 512 or group_of(jit.host(), PrimitiveType.S8) is None):
        pytest.skip("no groups of bytes")
    text, _ = dot_text(*sizes, types=types)
    exe = build(text)
    assert ("xlanb.blocks" in exe.llvm_ir) == is_blocked
    if is_blocked:
        assert "a and b packed" in "".join(map(str, exe.plans.values()))
