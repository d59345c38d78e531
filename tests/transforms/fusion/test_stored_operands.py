"""What a product reads from memory is stored once, and not computed again by its other users."""

import numpy as np
import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms.fusion.cpu_instruction_fusion import CpuInstructionFusion

ENDS = {
    "dot": "d = f32[16,8] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "view": "v = f32[16,4,8] bitcast(y)\n"
    "d = f32[16,4,8,8] dot(v, w8), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    "sort": "d = f32[16,32] sort(y), dimensions={1}, to_apply=less",
    "negate": "d = f32[16,32] negate(y)",
}
TEXT = """HloModule m
less {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = pred[] compare(a, b), direction=LT }}
ENTRY e {{
  p = f32[16,32] parameter(0)
  q = f32[16,32] parameter(1)
  w = f32[32,8] parameter(2)
  w8 = f32[8,8,8] parameter(3)
  {x}
  y = f32[16,32] negate(x)
  {end}
  s = f32[16,32] add(y, q)
  ROOT r = ({shape}, f32[16,32]) tuple(d, s)
}}
"""


def _fused(end: str, *, reads_stored: bool, x: str = "x = f32[16,32] multiply(p, q)") -> xlanb.hlo.HloModule:
    shape = ENDS[end].rsplit("= ", 1)[1].split(" ")[0] if end != "view" else "f32[16,4,8,8]"
    module = xlanb.hlo.parse(TEXT.format(x=x, end=ENDS[end], shape=shape))
    CpuInstructionFusion(reads_stored=reads_stored).run(module)
    module.verify()
    return module


def _copies(module: xlanb.hlo.HloModule, opcode: Op) -> int:
    return sum(i.opcode is opcode for i in module.instructions())


@pytest.mark.parametrize("end", ["dot", "sort"])
def test_what_a_product_reads_is_computed_once(end: str) -> None:
    assert _copies(_fused(end, reads_stored=False), Op.MULTIPLY) == 2
    assert _copies(_fused(end, reads_stored=True), Op.MULTIPLY) == 1


def test_a_view_that_a_product_reads_stays_a_view() -> None:
    apart = _fused("view", reads_stored=False)
    assert _copies(apart, Op.MULTIPLY) == 2
    module = _fused("view", reads_stored=True)
    assert _copies(module, Op.MULTIPLY) == 1
    assert any(i.opcode is Op.BITCAST for i in module.entry_computation)


def test_what_only_loops_read_is_fused_into_each() -> None:
    assert str(_fused("negate", reads_stored=True)) == str(_fused("negate", reads_stored=False))


@pytest.mark.parametrize(
    "x",
    ["n = f32[] constant(2)\n  x = f32[16,32] broadcast(n), dimensions={}", "x = f32[16,32] iota(), iota_dimension=1"],
    ids=["broadcast", "iota"],
)
def test_what_reads_less_than_it_writes_is_computed_again(x: str) -> None:
    assert _copies(_fused("dot", reads_stored=True, x=x), Op.NEGATE) == 2


def test_results_are_the_same() -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(np.float32) for s in ((16, 32), (16, 32), (32, 8), (8, 8, 8))]
    for end in ENDS:
        one, other = (xlanb.evaluate(_fused(end, reads_stored=b), *given) for b in (False, True))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
