"""Reported decisions about gemm fusions, and the devices that have them."""

from __future__ import annotations

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.transforms.gemm_fusion import GemmFusion, is_triton_gemm
from xlanb.gpu.transforms.gemm_fusion_swap_operands import GemmFusionSwapOperands
from xlanb.gpu.transforms.hoist_fused_bitcasts import HoistFusedBitcasts
from xlanb.gpu.transforms.splitk_rewriter import SplitkRewriter
from xlanb.hlo import HloModule, parse
from xlanb.tracing import Decision, observing

DOT = """HloModule m

ENTRY e {
  x = f32[64,32] parameter(0)
  z = f32[64,32] parameter(1)
  w = f32[32,64] parameter(2)
  e = f32[64,32] exponential(x)
  s = f32[64,32] add(e, z)
  d = f32[64,64] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[64,64] negate(d)
}
"""


class _Decisions(list[Decision]):
    def on_event(self, event: object) -> None:
        if isinstance(event, Decision):
            self.append(event)

    def of(self, action: str, *subject: str) -> Decision:
        (found,) = [d for d in self if d.action == action and d.subject == subject]
        return found


def _decisions(text: str, hlo_pass) -> tuple[HloModule, _Decisions]:
    module, seen = parse(text), _Decisions()
    with observing(seen):
        hlo_pass.run(module)
    return module, seen


def test_each_instruction_around_the_dot_is_explained() -> None:
    module, seen = _decisions(DOT, GemmFusion())
    assert is_triton_gemm(module.entry_computation.root)
    assert seen.of("make a gemm fusion", "d").taken
    assert seen.of("fuse", "n", "d").taken
    refused = seen.of("fuse", "s", "d")
    assert not refused.taken
    assert refused.predicates[-1].name == "fusing does not read more bytes"
    assert refused.predicates[-1].value == "it reads 8192 bytes more than it writes"


def test_a_small_dot_is_explained() -> None:
    small = DOT.replace("[64,32]", "[2,1]").replace("[32,64]", "[1,2]").replace("[64,64]", "[2,2]")
    module, seen = _decisions(small, GemmFusion())
    assert not any(is_triton_gemm(i) for i in module.instructions())
    failed = seen.of("make a gemm fusion", "d").predicates[-1]
    assert (failed.holds, failed.value, failed.remedy) == (False, "4 elements", "use larger operands for `d`")


def test_devices_without_triton_keep_their_dots() -> None:
    for device, fused in (("v100", False), ("h100", True), ("mi300", False)):
        module = parse(DOT)
        GemmFusion(device=gpu_device(device)).run(module)
        assert is_triton_gemm(module.entry_computation.root) is fused


def test_control_dependencies_end_a_fusion() -> None:
    waits = DOT.replace("ROOT n = f32[64,64] negate(d)", "ROOT n = f32[64,64] negate(d), control-predecessors={z}")
    module, seen = _decisions(waits, GemmFusion())
    assert module.entry_computation.root.name == "n"
    assert seen.of("fuse", "n", "d").predicates[-1].value == "it has control dependencies"


def test_the_costs_of_parts_are_told() -> None:
    text = DOT.replace("[64,32]", "[64,4096]").replace("[32,64]", "[4096,64]")
    module, seen = _decisions(text, SplitkRewriter())
    told = seen.of("split the contracting dimension", "d")
    assert told.taken
    assert told.predicates[-1].value.startswith("16 cost ")
    _, seen = _decisions(DOT, SplitkRewriter())
    assert seen.of("split the contracting dimension", "d").predicates[-1].value.startswith("1 cost ")
    # Other devices have other costs and other numbers of multiprocessors.
    parts = {}
    for device in ("a6000", "a100", "h100", "b200"):
        module = parse(text)
        SplitkRewriter(device=gpu_device(device)).run(module)
        (dot,) = [i for i in module.instructions() if str(i.opcode) == "dot"]
        parts[device] = dot.array_shape.dimensions[0]
    assert parts["h100"] > parts["a100"]


def test_swapping_and_hoisting_are_explained() -> None:
    text = DOT.replace("[64,32]", "[8,32]").replace("f32[64,64]", "f32[8,64]")
    module, _ = _decisions(text, GemmFusion())
    module, seen = _decisions(str(module), GemmFusionSwapOperands())
    (dot,) = [i for i in module.instructions() if str(i.opcode) == "dot"]
    assert str(dot.shape) == "f32[64,8]{0,1}"
    (told,) = [d for d in seen if d.action == "swap operands"]
    assert told.taken
    assert told.predicates[1].value == "8 computed by 64"
    _, seen = _decisions(str(module), HoistFusedBitcasts())
    assert [d.taken for d in seen if d.action == "hoist"] == [True, True]  # the one at the root, the one after the dot


def test_products_of_f16_that_add_in_f32_are_fused() -> None:
    text = """HloModule m
ENTRY e {
  a = f16[32,32] parameter(0)
  ROOT d = f16[32,32] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=ALGORITHM
}
"""
    module, _ = _decisions(text.replace("ALGORITHM", "dot_f16_f16_f32"), GemmFusion())
    assert is_triton_gemm(module.entry_computation.root)
    module, found = _decisions(text.replace("ALGORITHM", "dot_f16_f16_f16"), GemmFusion())
    assert module.entry_computation.root.name == "d"
    assert "the emitter does not support dot_f16_f16_f16" in {
        p.value for p in found.of("make a gemm fusion", "d").predicates
    }
