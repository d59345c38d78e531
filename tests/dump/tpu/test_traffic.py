"""Bytes of HBM that instructions of a TPU's module read and write."""

from __future__ import annotations

import pytest

from xlanb.dump.tpu.traffic import HbmTraffic
from xlanb.hlo import parse

MODULE = """HloModule m

%inner (p: f32[64,8], k: s32[]) -> f32[1,8] {
  %p = f32[64,8]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %row = f32[1,8]{1,0} dynamic-slice(%p, %k, %zero), dynamic_slice_sizes={1,8}
}

%outer (q: f32[512], i: s32[]) -> f32[1,8] {
  %q = f32[512]{0} parameter(0)
  %i = s32[] parameter(1)
  %table = f32[64,8]{1,0} bitcast(%q)
  %taken = f32[1,8]{1,0} fusion(%table, %i), kind=kLoop, calls=%inner
  ROOT %neg = f32[1,8]{1,0} negate(%taken)
}

%update (t: f32[64,8], u: f32[1,8], j: s32[]) -> f32[64,8] {
  %t = f32[64,8]{1,0} parameter(0)
  %u = f32[1,8]{1,0} parameter(1)
  %j = s32[] parameter(2)
  %none = s32[] constant(0)
  ROOT %dus = f32[64,8]{1,0} dynamic-update-slice(%t, %u, %j, %none)
}

ENTRY %main (x: f32[512], n: s32[], w: f32[64,8]) -> f32[64,8] {
  %x = f32[512]{0} parameter(0)
  %n = s32[] parameter(1)
  %w = f32[64,8]{1,0} parameter(2)
  %f = f32[1,8]{1,0:S(1)} fusion(%x, %n), kind=kLoop, calls=%outer
  %g = f32[64,8]{1,0} fusion(%w, %f, %n), kind=kLoop, calls=%update
  %square = f32[64,8]{1,0} multiply(%g, %g)
  %part = f32[4,8]{1,0} slice(%square), slice={[0:4], [0:8]}
  ROOT %sum = f32[64,8]{1,0} add(%square, %g)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f", 32 + 4),  # a row of the table through a bitcast and two fusions, and n; the result is in VMEM
        ("g", 32 + 4),  # the row that is written, and n; the table is updated in place, the row lies in VMEM
        ("square", 2 * 2048),  # the operand once, the result
        ("part", 2 * 128),
        ("sum", 3 * 2048),
    ],
)
def test_bytes_of_hbm(name: str, expected: int) -> None:
    """Slices count what they read, in-place updates what they write."""
    module = parse(MODULE).record()
    instruction = module.entry_computation.by_name[name]
    assert HbmTraffic(module).bytes_of(instruction) == expected


def test_bitcasts_that_fan_out_are_counted_once_each() -> None:
    """Ten of each before, in thirty rows: no path is visited twice."""
    rows = ["  %p = f32[8]{0} parameter(0)", "  %b0 = f32[8]{0} bitcast(%p)"]
    for k in range(1, 30):
        rows.append(f"  %c{k} = f32[8]{{0}} add(%b{k - 1}, %b{k - 1})")
        rows.append(f"  %b{k} = f32[8]{{0}} bitcast(%b{k - 1})")
    text = "\n".join([*rows, "  ROOT %r = f32[8]{0} negate(%b29)"])
    module = parse(
        f"HloModule m\n\n%f (p: f32[8]) -> f32[8] {{\n{text}\n}}\n\nENTRY %e (x: f32[8]) -> f32[8] {{\n"
        "  %x = f32[8]{0} parameter(0)\n  ROOT %y = f32[8]{0} fusion(%x), kind=kLoop, calls=%f\n}"
    ).record()
    assert HbmTraffic(module).bytes_of(module.entry_computation.by_name["y"]) == 64
