"""The narrow float types that a GPU computes in directly."""

from __future__ import annotations

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.float_support import GpuFloatSupport
from xlanb.hlo import HloModule, parse
from xlanb.shape import PrimitiveType
from xlanb.transforms import make_pass

ELEMENTWISE = """HloModule m
ENTRY main {{
  x = bf16[4] parameter(0)
  ROOT r = bf16[4] {opcode}({operands})
}}
"""


def _supports(opcode: str, operands: str, device: str) -> bool:
    root = parse(ELEMENTWISE.format(opcode=opcode, operands=operands)).entry.root
    return GpuFloatSupport(gpu_device(device)).narrow(root, PrimitiveType.BF16)


@pytest.mark.parametrize(
    ("opcode", "operands", "devices"),
    [
        ("exponential", "x", {"v100", "a100", "h100"}),
        ("negate", "x", {"a100", "h100"}),
        ("multiply", "x, x", {"h100"}),
        ("divide", "x, x", set()),
    ],
)
def test_bf16_by_generation(opcode: str, operands: str, devices: set[str]) -> None:
    assert {d for d in ("v100", "a100", "h100") if _supports(opcode, operands, d)} == devices


def test_the_pipeline_asks_its_device() -> None:
    def opcodes(device: str) -> list[str]:
        m: HloModule = parse(ELEMENTWISE.format(opcode="multiply", operands="x, x"))
        make_pass("float-normalization-bf16", "float_normalization", device).run(m)
        return [i.opcode.text for i in m.entry.post_order()]

    assert opcodes("h100") == ["parameter", "multiply"]
    assert opcodes("a100") == ["parameter", "convert", "convert", "multiply", "convert"]


def test_mixed_types_are_widened_but_in_dots() -> None:
    m = parse("""HloModule m
maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}
ENTRY main {
  x = bf16[4,4] parameter(0)
  low = f32[] constant(-inf)
  d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[4] reduce(x, low), dimensions={1}, to_apply=maximum
  ROOT t = (f32[4,4], f32[4]) tuple(d, r)
}
""")
    make_pass("float-normalization-bf16", "float_normalization", "a100").run(m)
    d, r = m.entry.root.operands
    assert d.operands[0].opcode.text == "parameter"
    assert r.operands[0].opcode.text == "convert"
