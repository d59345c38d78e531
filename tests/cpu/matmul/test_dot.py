"""Dots in every dimension order, of all types and vector widths, against the interpreter."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from xlanb.codegen import costs
from xlanb.codegen.target import Target
from xlanb.cpu.emitters.kernel import SCRATCH
from xlanb.cpu.emitters.matmul import gemm
from xlanb.cpu.emitters.matmul.blocking import blocking
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.cpu.emitters.matmul.plan import most_columns
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

SIZES = [
    (1, 1, 1),
    (5, 3, 7),
    (37, 53, 71),
    (1, 128, 300),
    (300, 128, 1),
    (2, 17, 33),
    (3, 200, 3),
    (65, 64, 16),
    (1, 100, 1),
    (30, 1, 20),
    (130, 9, 10),
]


def dot_text(m, k, n, *, transposed=(False, False), types=("f32", "f32", "f32"), layout=""):
    a = (k, m) if transposed[0] else (m, k)
    b = (n, k) if transposed[1] else (k, n)
    return (
        f"ENTRY e {{\n x = {types[0]}[{a[0]},{a[1]}] parameter(0)\n y = {types[1]}[{b[0]},{b[1]}] parameter(1)\n"
        f" ROOT r = {types[2]}[{m},{n}]{layout} dot(x, y), lhs_contracting_dims={{{0 if transposed[0] else 1}}}, "
        f"rhs_contracting_dims={{{1 if transposed[1] else 0}}}\n}}\n"
    ), (a, b)


def assert_not_finite_where_expected(build, m, k, n):
    """A product has NaN and infinity where NumPy's has them; m and k are at least 4 and 12."""
    text, (a, b) = dot_text(m, k, n)
    x, y = np.ones(a, np.float32), np.ones(b, np.float32)
    x[3, 5], x[-1, -1], y[11, -1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(build(text)(x, y), x @ y)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("layout", ["", "{0,1}"])
def test_orders(check, transposed, layout):
    for m, k, n in SIZES:
        text, shapes = dot_text(m, k, n, transposed=transposed, layout=layout)
        check(text, shapes)


@pytest.mark.parametrize(
    "types",
    [("f64",) * 3, ("bf16",) * 3, ("bf16", "bf16", "f32"), ("f16",) * 3, ("s8", "s8", "s32"), ("u8", "s8", "s32"),
        ("s8",) * 3, ("s16", "s16", "s32"), ("s32",) * 3, ("c64",) * 3, ("c128",) * 3],
)  # fmt: skip
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_types(check, types, transposed):
    for m, k, n in [(5, 40, 33), (37, 53, 71), (1, 64, 17), (70, 20, 1), (3, 5, 80)]:
        text, shapes = dot_text(m, k, n, transposed=transposed, types=types)
        check(text, shapes, types[:2])


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("depth", [1, 2, 7, 64])
def test_pairs_of_narrow_integers_wrap_as_32_bits_do(build, transposed, depth):
    text, (a, b) = dot_text(9, depth, 70, transposed=transposed, types=("s16", "s16", "s32"))
    lowest = [np.full(s, -32768, np.int16) for s in (a, b)]
    with np.errstate(over="ignore"):
        want = (np.int64(depth) << 30).astype(np.int32)
    np.testing.assert_array_equal(build(text)(*lowest), want)


DIMENSIONS = {
    "batches": ("[3,2,19,9]", "[3,2,9,21]", "[3,2,19,21]",
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}"),
    "attention": ("[4,20,16]", "[4,24,16]", "[4,20,24]",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}"),
    "scattered": ("[20,8,7]", "[7,24,8]", "[8,20,24]",
        "lhs_batch_dims={1}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
    "two contracted": ("[6,5,7,8]", "[8,5,9,3]", "[6,7,9,3]", "lhs_contracting_dims={1,3}, rhs_contracting_dims={1,0}"),
    "outer product": ("[6,5]", "[9]", "[6,5,9]", "lhs_contracting_dims={}, rhs_contracting_dims={}"),
    "batch fastest": ("[5,6,4]", "[6,7,4]", "[4,5,7]{0,2,1}",
        "lhs_batch_dims={2}, rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "elements": ("[40,6]", "[40,6]", "[40]",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    "layouts": ("[6,5,7,8]{0,1,2,3}", "[8,5,9,3]{1,3,0,2}", "[6,7,9,3]{2,1,0,3}",
        "lhs_contracting_dims={1,3}, rhs_contracting_dims={1,0}"),
    "empty depth": ("[3,0]", "[0,5]", "[3,5]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions(check, name):
    a, b, c, numbers = DIMENSIONS[name]
    text = (
        f"ENTRY e {{\n x = f32{a} parameter(0)\n y = f32{b} parameter(1)\n ROOT r = f32{c} dot(x, y), {numbers}\n}}\n"
    )
    shapes = [tuple(int(n) for n in s.split("]")[0][1:].split(",")) for s in (a, b)]
    check(text, shapes)


@pytest.mark.parametrize(
    ("rows", "transposed", "routine", "scratch"),
    [(449, (False, False), "xlanb.panel", 0), (449, (False, True), "xlanb.panel", 0),
        (17, (False, True), "xlanb.panel", 0), (16, (True, True), "xlanb.squares", 700 * 600 * 4),
        (16, (False, True), "fold", 0)],
)  # fmt: skip
def test_b_goes_by_panels_that_take_no_scratch_where_there_are_rows_enough(check, rows, transposed, routine, scratch):
    text, shapes = dot_text(rows, 700, 600, transposed=transposed)
    exe = check(text, shapes)
    root = next(i for i in exe.hlo_module.instructions() if i.opcode is Op.DOT)
    assert scratch <= SCRATCH[Op.DOT](root) <= 1.2 * scratch
    assert scratch <= exe.buffer_assignment.temp_size <= 1.2 * scratch
    assert routine in exe.llvm_ir


@pytest.mark.parametrize(
    "types", [("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("s8", "s8", "s32")]
)
@pytest.mark.parametrize("sizes", [(70, 65, 97), (64, 64, 64), (129, 33, 40)])
def test_narrow_operands_go_by_panels(check, monkeypatch, types, sizes):
    monkeypatch.setattr(costs, "COMMON", costs.COMMON.replace(blocked_byte_products=1 << 30))
    text, shapes = dot_text(*sizes, types=types)
    assert ".panel" in check(text, shapes, types[:2]).llvm_ir


@pytest.mark.parametrize("types", [("f32",) * 3, ("f64",) * 3, ("bf16",) * 3, ("c64",) * 3, ("s8", "s8", "s32")])
@pytest.mark.parametrize(
    ("sizes", "is_copied"),
    [
        ((1, 3, 3), False),
        ((3, 2, 3), False),
        ((3, 3, 1), False),
        ((6, 5, 4), False),
        ((8, 5, 3), False),
        ((8, 3, 8), True),
    ],
)
def test_a_few_results_are_sums_along_the_contraction(check, types, sizes, is_copied):
    m, k, n = sizes
    text = (
        f"ENTRY e {{\n x = {types[0]}[50,{m},{k}] parameter(0)\n y = {types[1]}[50,{n},{k}] parameter(1)\n"
        f" ROOT r = {types[2]}[50,{m},{n}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n}\n"
    )
    exe = check(text, ((50, m, k), (50, n, k)), types[:2])
    if types[0] == "f32":
        assert (exe.buffer_assignment.temp_size > 0) is is_copied


@pytest.mark.parametrize("n", [672, 600, 1024])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_copies_in_panels_and_lines(build, n, transposed):
    text, (a, b) = dot_text(457, 1024, n, transposed=transposed)
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal(a).astype(np.float32), rng.standard_normal(b).astype(np.float32)
    want = (x.T if transposed[0] else x) @ (y.T if transposed[1] else y)
    np.testing.assert_allclose(build(text)(x, y), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("transposed", [(False, False), (False, True)])
@pytest.mark.parametrize("sizes", [(70, 500, 430), (2, 300, 200), (1, 1000, 1)])
def test_complex_numbers_are_kernels(check, sizes, transposed):
    text, shapes = dot_text(*sizes, types=("c64",) * 3, transposed=transposed)
    assert ".complex" in check(text, shapes, ("c64", "c64")).llvm_ir


def test_not_a_number_and_infinity_stay_where_they_are(build):
    text, (a, b) = dot_text(20, 30, 40)
    x, y = np.ones(a, np.float32), np.ones(b, np.float32)
    x[3, 5], x[7, 29], y[11, 39] = np.nan, np.inf, -np.inf
    got = build(text)(x, y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, x @ y)


def test_a_sum_in_f32_and_rounded_once(build):
    text, (a, b) = dot_text(9, 4096, 33, types=("bf16", "bf16", "bf16"))
    ones = [np.ones(s, ml_dtypes.bfloat16) for s in (a, b)]
    np.testing.assert_array_equal(build(text)(*ones).astype(np.float32), 4096)


def test_vectors_are_as_wide_as_the_machine_has_them(build, width):
    text, _ = dot_text(37, 53, 71)
    ir = build(text).llvm_ir
    assert f"<{width // 32} x float> @llvm.fmuladd" in ir
    assert f"<{width // 16} x float>" not in ir


@pytest.mark.parametrize(
    ("row_cycles", "depth", "columns", "tile"),
    [
        (0.0, 1024, 3072, "8 rows by 2 vectors of 16"),
        (0.8, 1024, 3072, "6 rows by 4 vectors of 16"),
        (0.8, 3072, 768, "8 rows by 3 vectors of 16"),  # the panel of four vectors would not fit
    ],
)
def test_tiles_by_the_cost_of_rows(monkeypatch, row_cycles, depth, columns, tile):
    monkeypatch.setitem(costs.FAMILIES, "avx512", costs.COMMON.replace(row_cycles=row_cycles))
    blocking.cache_clear()
    target = Target("x86_64-unknown-linux-gnu", "", "+avx512f,+avx512vl,+avx512bw,+avx512dq", "")
    axis = ContractionAxis
    axes = (axis(128, depth, 0, columns),), (axis(columns, 0, 1, 1),), (axis(depth, 1, columns),)
    x = Contraction((), *axes, *(PrimitiveType.F32,) * 4)
    assert str(blocking(x, target, most_columns(x))) == tile
    blocking.cache_clear()


@pytest.mark.parametrize("sizes", [(70, 65, 56), (33, 56, 56), (17, 130, 33)])
def test_nothing_is_multiplied_behind_the_columns_of_a_panel(build, sizes):
    """Numbers that the stack holds there may be denormal, and a hundred times as slow."""
    text, _ = dot_text(*sizes, transposed=(False, True))
    exe = build(text)
    vector = 4 * min(exe.target.vector_bits // 32, 16)
    cleared = re.search(r"@\"?xlanb\.panel\.(\d+)", exe.llvm_ir)
    assert cleared is not None
    assert int(cleared[1]) == vector
    assert f"store <{vector} x i8> zeroinitializer" in exe.llvm_ir


@pytest.mark.parametrize("t", ["bf16", "f16"])
def test_a_vector_by_many_narrow_rows_reads_them_one_by_one(check, monkeypatch, t):
    monkeypatch.setattr(gemm, "_STREAMED", 1000)
    for rows, columns in ((1, 70), (2, 70), (1, 10)):
        text, shapes = dot_text(rows, 33, columns, types=(t, t, "f32"), transposed=(False, True))
        exe = check(text, shapes, (t, t))
        (columns_of_a_tile,) = re.findall(rf"tile[\w.]*\.{rows}x(\d+)x", exe.llvm_ir.split("define", 1)[1])[:1]
        assert columns_of_a_tile == ("1" if rows == 1 and columns > 30 else "4")
