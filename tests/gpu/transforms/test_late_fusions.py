"""Conditions that keep copies, slices, transposes, sorts and concatenations unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.meaning import check_meaning
from xlanb.gpu.transforms.copy_fusion import CopyFusion
from xlanb.gpu.transforms.fusion_block_level_rewriter import FusionBlockLevelRewriter
from xlanb.gpu.transforms.fusion_dynamic_memcpy_rewriter import FusionDynamicMemcpyRewriter
from xlanb.gpu.transforms.sort_iota_fusion import SortIotaFusion
from xlanb.gpu.transforms.variadic_op_splitter import VariadicOpSplitter
from xlanb.hlo import parse
from xlanb.tracing import Decision, observing
from xlanb.transforms.base import HloPass

GOLDENS = Path(__file__).parent / "goldens"


class _Recorder:
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_event(self, event: object) -> None:
        self.events.append(event)


def _read(name: str) -> str:
    return (GOLDENS / f"{name}.hlo").read_text(encoding="utf-8")


def _refusal(hlo_pass: HloPass, text: str) -> str:
    """Return the failed condition in the only decision of a pass, which changes nothing."""
    module, recorder = parse(text), _Recorder()
    before = str(module)
    with observing(recorder):
        hlo_pass.run(module)
    assert str(module) == before
    (decision,) = [e for e in recorder.events if isinstance(e, Decision)]
    return decision.predicates[-1].name


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        (
            "ROOT b = f32[4,16]{1,0} broadcast(zero)",
            "n = f32[] cosine(zero) ROOT b = f32[4,16]{1,0} broadcast(n)",
            "",
        ),
        ("ROOT b = f32[4,16]{1,0} broadcast(zero), dimensions={}",
         "s = f32[1,16]{1,0} broadcast(zero), dimensions={} o = s32[] constant(1) z = f32[4,16]{1,0} broadcast(zero),"
         " dimensions={} ROOT b = f32[4,16]{1,0} dynamic-update-slice(z, s, o, o)", "nothing is updated in place"),
    ],
)  # fmt: skip
def test_copies_of_results(old: str, new: str, condition: str) -> None:
    text = _read("copy_fusion/zeros").replace(old, new)
    if condition:
        assert _refusal(CopyFusion(), text) == condition
    else:
        module = check_meaning(text, CopyFusion().run)
        assert not [i for i in module.entry_computation if str(i.opcode) == "copy"]


def test_a_fusion_that_moves_elements_keeps_its_copy() -> None:
    text = _read("copy_fusion/one_of_two_results").replace(
        "n = f32[8,32]{1,0} negate(p)", "n = f32[8,32]{1,0} reverse(p), dimensions={0}"
    )
    assert _refusal(CopyFusion(), text) == "elements of its operands stay in place"


def test_a_copy_in_a_loop_stays() -> None:
    text = """
HloModule m
twice { p = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(p) }
body { x = f32[8]{0} parameter(0) f = f32[8]{0} fusion(x), kind=kLoop, calls=twice ROOT c = f32[8]{0} copy(f) }
stop { x = f32[8]{0} parameter(0) ROOT f = pred[] constant(false) }
ENTRY e { x = f32[8]{0} parameter(0) ROOT w = f32[8]{0} while(x), condition=stop, body=body }
"""
    module = parse(text)
    assert not CopyFusion().run(module).changed


def test_slow_transposes_of_what_triton_lacks_stay() -> None:
    text = _read("fusion-block-level-rewriter/slow_transpose").replace("f32[", "u32[")
    assert _refusal(FusionBlockLevelRewriter(), text) == "Triton supports its instructions"


def test_sums_of_floats_stay_with_the_reduction_emitter() -> None:
    text = _read("fusion-block-level-rewriter/integer_reduction").replace("s32[", "f32[")
    assert not FusionBlockLevelRewriter().run(parse(text)).changed


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        ("b = f32[1,8,16]{2,1,0} bitcast(q)", "n = f32[8,16]{1,0} negate(q) b = f32[1,8,16]{2,1,0} bitcast(n)",
         "it copies part of a parameter"),
        ("b = f32[1,8,16]{2,1,0} bitcast(q)",
         "t = f32[2,8]{1,0} slice(q), slice={[0:2], [0:8]} b = f32[1,8,16]{2,1,0} bitcast(q)",
         "every slice is contiguous, at an offset computed from the loop counter"),
    ],
)  # fmt: skip
def test_what_is_no_copy_of_a_slice(old: str, new: str, condition: str) -> None:
    text = _read("fusion-dynamic-memcpy-rewriter/rows_of_a_loop").replace(old, new)
    text = text.replace(
        "ROOT b = f32[8,16]{1,0} bitcast(s)", "c = f32[8,16]{1,0} bitcast(s) ROOT b = f32[8,16]{1,0} abs(c)"
    )
    assert _refusal(FusionDynamicMemcpyRewriter(), text) == condition


def test_sorts_without_iotas_and_short_concatenations_stay() -> None:
    sorts = _read("sort-iota-fusion/numbered").replace("places = s32[16,200]{1,0} iota(), iota_dimension=1",
                                                       "places = s32[16,200]{1,0} parameter(1)")  # fmt: skip
    sorts = sorts.replace("main (x: f32[16,200])", "main (x: f32[16,200], places: s32[16,200])")
    assert not SortIotaFusion().run(parse(sorts)).changed
    short = _read("variadic-op-splitter/many_parts").replace("p130, p129, p128, ", "").replace(
        "ROOT whole = f32[2,393]", "ROOT whole = f32[2,384]"
    ).replace("-> f32[2,393]", "-> f32[2,384]")  # fmt: skip
    assert not VariadicOpSplitter().run(parse(short)).changed
