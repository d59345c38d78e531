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


def _run(text):
    """Whether the pass changed the module; its values are checked."""
    module, before = xlanb.hlo.parse(text), xlanb.hlo.parse(text)
    changed = GemvToReduce().run(module).changed
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
