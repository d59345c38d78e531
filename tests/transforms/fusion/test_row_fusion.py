"""Row fusion: softmax becomes one fusion, other code is unchanged, semantics are preserved."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms import PASSES
from xlanb.transforms.fusion import row_fusion

SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
"""
SOFTMAX = """  x = f32[6,40]{1,0} parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[6]{0} reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[6,40]{1,0} broadcast(m), dimensions={0}
  d = f32[6,40]{1,0} subtract(x, mb)
  e = f32[6,40]{1,0} exponential(d)
  s = f32[6]{0} reduce(e, zero), dimensions={1}, to_apply=sum
"""


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Fuse short rows of small arrays too."""
    monkeypatch.setattr(row_fusion, "_SHORTEST", 8)
    monkeypatch.setattr(row_fusion, "_LEAST_BYTES", 0)


def fused(body: str) -> tuple[HloModule, HloModule, bool]:
    """(the module, the same after the pass, whether it changed)."""
    text = f"HloModule m\n{SUM}ENTRY e {{\n{body}}}\n"
    before, after = parse(text), parse(text)
    result = PASSES["row-fusion"]().run(after)
    after.verify()
    return before, after, bool(result.changed)


def entry_opcodes(module: HloModule) -> list[Op]:
    return [i.opcode for i in module.entry_computation if i.opcode not in (Op.PARAMETER, Op.CONSTANT)]


@pytest.mark.parametrize(
    "end",
    [
        "  sb = f32[6,40]{1,0} broadcast(s), dimensions={0}\n  ROOT r = f32[6,40]{1,0} divide(e, sb)\n",
        "  l = f32[6]{0} log(s)\n  ROOT r = f32[6]{0} add(l, m)\n",
    ],
    ids=["softmax", "logsumexp"],
)
def test_a_chain_along_rows_becomes_one_fusion(end: str) -> None:
    before, after, changed = fused(SOFTMAX + end)
    assert changed
    assert entry_opcodes(after) == [Op.FUSION]
    x = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(before, x), evaluate(after, x))


@pytest.mark.parametrize(
    "body",
    [
        # A single reduction
        "  x = f32[6,40]{1,0} parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[6]{0} reduce(x, z), dimensions={1}, to_apply=sum\n",
        # Columns are not contiguous in memory
        (
            "  x = f32[40,6]{1,0} parameter(0)\n  z = f32[] constant(0)\n  s = f32[6]{0} reduce(x, z), dimensions={0}, to_apply=sum\n"
            "  b = f32[40,6]{1,0} broadcast(s), dimensions={1}\n  ROOT r = f32[40,6]{1,0} divide(x, b)\n"
        ),
        # broadcast along the other dimension
        (
            "  x = f32[40,40]{1,0} parameter(0)\n  z = f32[] constant(0)\n  s = f32[40]{0} reduce(x, z), dimensions={1}, to_apply=sum\n"
            "  b = f32[40,40]{1,0} broadcast(s), dimensions={1}\n  ROOT r = f32[40,40]{1,0} divide(x, b)\n"
        ),
        # Both the sum and its use are results
        (
            "  x = f32[6,40]{1,0} parameter(0)\n  z = f32[] constant(0)\n  s = f32[6]{0} reduce(x, z), dimensions={1}, to_apply=sum\n"
            "  b = f32[6,40]{1,0} broadcast(s), dimensions={0}\n  r = f32[6,40]{1,0} divide(x, b)\n  ROOT t = (f32[6]{0}, f32[6,40]{1,0}) tuple(s, r)\n"
        ),
    ],
    ids=["alone", "columns", "turned", "two results"],
)
def test_what_is_no_chain_along_rows_is_left_alone(body: str) -> None:
    before, after, changed = fused(body)
    assert not changed
    assert str(before) == str(after)


NORMALIZATION = """  x = f32[1,6,40]{2,1,0} parameter(0)
  zero = f32[] constant(0)
  part = f32[] constant(0.025)
  parts = f32[1,6]{1,0} broadcast(part), dimensions={}
  t = f32[1,6]{1,0} reduce(x, zero), dimensions={2}, to_apply=sum
  m = f32[1,6]{1,0} multiply(t, parts)
  squeezed = f32[6]{0} bitcast(m)
  mb = f32[1,6,40]{2,1,0} broadcast(squeezed), dimensions={1}
  d = f32[1,6,40]{2,1,0} subtract(x, mb)
  q = f32[1,6,40]{2,1,0} multiply(d, d)
  v = f32[1,6]{1,0} reduce(q, zero), dimensions={2}, to_apply=sum
  h = f32[1,6]{1,0} rsqrt(v)
  inverse = f32[6,1]{1,0} reshape(h)
  narrow = f32[6]{0} reshape(inverse)
  hb = f32[1,6,40]{2,1,0} broadcast(narrow), dimensions={1}
  ROOT r = f32[1,6,40]{2,1,0} multiply(d, hb)
"""


def test_values_of_rows_may_gain_and_lose_dimensions_of_size_1() -> None:
    """The simplifier makes bitcasts of broadcasts from f32[1,6]; a batch of 1 is common."""
    before, after, changed = fused(NORMALIZATION)
    assert changed
    assert entry_opcodes(after) == [Op.FUSION]
    x = np.random.default_rng(0).standard_normal((1, 6, 40)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(before, x), evaluate(after, x))


def test_a_reshape_that_mixes_rows_is_left_alone() -> None:
    body = SOFTMAX + (
        "  two = f32[2,3]{1,0} reshape(s)\n  t = f32[2,3]{1,0} negate(two)\n  one = f32[6]{0} reshape(t)\n"
        "  sb = f32[6,40]{1,0} broadcast(one), dimensions={0}\n  ROOT r = f32[6,40]{1,0} divide(e, sb)\n"
    )
    _, after, _ = fused(body)
    assert Op.RESHAPE in entry_opcodes(after)


@pytest.mark.parametrize(("rows", "length", "is_fused"), [(2048, 256, True), (256, 256, False), (32768, 64, False)])
def test_short_rows_and_small_arrays_have_loops_of_their_own(monkeypatch, rows, length, is_fused):
    monkeypatch.undo()
    body = SOFTMAX.replace("[6,40]", f"[{rows},{length}]").replace("f32[6]", f"f32[{rows}]")
    body += f"""  sb = f32[{rows},{length}]{{1,0}} broadcast(s), dimensions={{0}}
  ROOT r = f32[{rows},{length}]{{1,0}} divide(e, sb)
"""
    assert fused(body)[2] == is_fused
