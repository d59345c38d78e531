"""Products of a vector by a computed matrix become sums, which fuse with what computes it."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.dots.gemv_to_reduce import GemvToReduce

QUANTIZED = """HloModule m
ENTRY e {
  v = f32[40] parameter(0)
  q = s8[40,70] parameter(1)
  s = f32[70] parameter(2)
  w = f32[40,70] convert(q)
  t = f32[40,70] broadcast(s), dimensions={1}
  m = f32[40,70] multiply(w, t)
  ROOT r = f32[70] dot(v, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def _arguments(module, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-8, 9, p.array_shape.dimensions).astype(p.array_shape.element_type.dtype)
        for p in module.entry_computation.parameters
    ]


def _run(text, *, transposed=False):
    """Whether the pass changed the module; its values are checked."""
    module, before = xlanb.hlo.parse(text), xlanb.hlo.parse(text)
    changed = GemvToReduce(transposed=transposed).run(module).changed
    module.verify()
    given = _arguments(before)
    np.testing.assert_array_equal(xlanb.evaluate(module, *given), xlanb.evaluate(before, *given))
    left = {i.opcode for i in module.entry_computation}
    assert (O.REDUCE in left) == changed == (O.DOT not in left)
    return changed


def _product(matrix, *, operands="v, m", more="", result="f32[70]", vector="f32[40]", contracted="{0}"):
    dims = ("lhs", "rhs") if operands == "v, m" else ("rhs", "lhs")
    return f"""HloModule m
ENTRY e {{
  v = {vector} parameter(0)
  {matrix}
  ROOT r = {result} dot({operands}), {dims[0]}_contracting_dims={{0}}, {dims[1]}_contracting_dims={contracted}{more}
}}
"""


COMPUTED = "a = f32[40,70] parameter(1)\n  m = f32[40,70] negate(a)"
TURNED = "a = f32[70,40] parameter(1)\n  m = f32[70,40] negate(a)"
SLICED = "a = f32[3,40,70] parameter(1)\n  b = f32[1,40,70] slice(a), slice={[1:2], [0:40], [0:70]}\n"


@pytest.mark.parametrize(
    "text",
    [
        QUANTIZED,
        _product(COMPUTED),
        _product(COMPUTED, operands="m, v"),
        _product(TURNED, contracted="{1}"),
        _product(SLICED + "  m = f32[40,70] reshape(b)"),
        _product(COMPUTED.replace("f32", "s32"), vector="s32[40]", result="s32[70]"),
        _product(COMPUTED.replace("f32", "bf16"), vector="bf16[40]", result="bf16[70]"),
        _product(COMPUTED.replace("f32", "bf16"), vector="bf16[40]"),
    ],
)
def test_a_computed_matrix_is_summed(text):
    assert _run(text)


def test_batches_are_summed():
    assert _run("""HloModule m
ENTRY e {
  v = f32[3,40] parameter(0)
  q = s8[3,40,70] parameter(1)
  w = f32[3,40,70] convert(q)
  ROOT r = f32[3,70] dot(v, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
""")


@pytest.mark.parametrize(
    "text",
    [
        _product("m = f32[40,70] parameter(1)"),
        _product(COMPUTED, more=", algorithm=dot_bf16_bf16_f32"),
        _product("m = f32[40] negate(v)", result="f32[]"),
        _product("a = f32[9,40] parameter(1)\n  m = f32[40,70] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
        .replace("  m =", "  b = f32[9,70] parameter(2)\n  m =")),
        _product(COMPUTED.replace("f32", "c64"), vector="c64[40]", result="c64[70]"),
    ],
)  # fmt: skip
def test_other_products_stay(text):
    assert not _run(text)


def test_a_matrix_with_another_user_is_stored_anyway():
    text = QUANTIZED.replace("ROOT r =", "r =").replace("\n}", "\n  ROOT z = (f32[70], f32[40,70]) tuple(r, m)\n}")
    module = xlanb.hlo.parse(text)
    assert not GemvToReduce().run(module).changed


BATCHED = """HloModule m
ENTRY e {{
  v = f32[3,5,40] parameter(0)
  a = f32[{sizes}] parameter(1)
  ROOT r = f32[3,5,70] dot(v, a), lhs_batch_dims={{0,1}}, lhs_contracting_dims={{2}}, {dims}
}}
"""


@pytest.mark.parametrize(
    ("sizes", "dims", "is_summed"),
    [
        ("3,70,5,40", "rhs_batch_dims={0,2}, rhs_contracting_dims={3}", True),
        ("5,40,70,3", "rhs_batch_dims={3,0}, rhs_contracting_dims={1}", True),
        ("3,5,70,40", "rhs_batch_dims={0,1}, rhs_contracting_dims={3}", False),
        ("3,5,40,70", "rhs_batch_dims={0,1}, rhs_contracting_dims={2}", False),
    ],
)
def test_batches_side_by_side_are_summed_in_the_order_of_memory(sizes, dims, is_summed):
    assert _run(BATCHED.format(sizes=sizes, dims=dims), transposed=True) == is_summed


def test_a_matrix_between_its_free_dimensions_is_not_transposed():
    between = _product("m = f32[7,40,10] parameter(1)", contracted="{1}", result="f32[7,10]")
    assert _run(between, transposed=True)
    assert not _run(_product("m = f32[40,70] parameter(1)"), transposed=True)


def test_transposes_of_a_computed_matrix_are_undone():
    turned = "a = f32[70,40] parameter(1)\n  n = f32[70,40] negate(a)\n  m = f32[40,70] transpose(n), dimensions={1,0}"
    assert _run(_product(turned))
    exe = xlanb.compile(_product(turned))
    assert O.TRANSPOSE not in exe.hlo_module.opcodes


@pytest.mark.parametrize("opcode", ["copy", "transpose"])
def test_a_matrix_computed_from_a_turned_array_stays(opcode):
    dims = ", dimensions={1,0}" if opcode == "transpose" else ""
    shape = "f32[70,40]" if opcode == "transpose" else "f32[40,70]{0,1}"
    assert not _run(
        _product(f"a = {shape} parameter(1)\n  b = f32[40,70] {opcode}(a){dims}\n  m = f32[40,70] negate(b)")
    )


def test_a_matrix_in_another_layout_is_read_in_place():
    text = """HloModule m, entry_computation_layout={(f32[40]{0}, f32[40,70]{0,1})->f32[70]{0}}
ENTRY e {
  v = f32[40] parameter(0)
  a = f32[40,70]{0,1} parameter(1)
  ROOT r = f32[70] dot(v, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
    exe = xlanb.compile(text)
    assert {i.opcode for i in exe.hlo_module.entry_computation} == {O.PARAMETER, O.DOT}
    v, a = np.arange(40, dtype=np.float32), np.arange(2800, dtype=np.float32).reshape(40, 70) % 7
    np.testing.assert_array_equal(exe(v, np.asfortranarray(a)), v @ a)


def test_what_stays_a_product_is_no_part_of_a_loop():
    turned = _product("a = f32[700,400] parameter(1)\n  b = f32[400,700] transpose(a), dimensions={1,0}\n"
                      "  m = f32[400,700] negate(b)", vector="f32[400]", result="f32[700]")  # fmt: skip
    exe = xlanb.compile(turned)
    assert O.CALL not in exe.hlo_module.opcodes
    given = _arguments(exe.hlo_module)
    np.testing.assert_array_equal(exe(*given), -(given[1] @ given[0]))


def test_bytes_are_read_once_in_one_kernel():
    exe = xlanb.compile(QUANTIZED)
    kernels = [i for i in exe.hlo_module.entry_computation if i.opcode is O.FUSION]
    assert [k.fused_computation.root.opcode for k in kernels] == [O.REDUCE]
    given = _arguments(exe.hlo_module)
    v, q, s = given
    np.testing.assert_allclose(exe(*given), v @ (q * s), rtol=1e-5)


def test_sums_of_narrow_floats_are_rounded_once():
    text = _product(COMPUTED.replace("f32", "bf16").replace("40", "600"), vector="bf16[600]", result="bf16[70]")
    exe = xlanb.compile(text)
    kind = exe.hlo_module.entry_computation.parameters[0].array_shape.element_type.dtype
    made = exe(np.ones(600, kind), -np.ones((600, 70), kind))
    np.testing.assert_array_equal(made.astype(np.float32), np.full(70, 600.0, np.float32))  # steps would stop at 256
