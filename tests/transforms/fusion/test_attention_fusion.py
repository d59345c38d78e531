"""Fusion of attention: what becomes one kernel, what does not, and the reported reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.tracing import Decision, observing
from xlanb.transforms import PASSES
from xlanb.transforms.fusion.attention_fusion import KIND

CAUSAL = (Path(__file__).parents[1] / "goldens" / "attention-fusion" / "causal.hlo").read_text()


class Decisions(list[Decision]):
    """An observer of decisions."""

    def on_event(self, event: object) -> None:
        """Record a decision."""
        if isinstance(event, Decision):
            self.append(event)


def run(text: str) -> tuple[HloModule, Decisions]:
    """A module after the pass, and the decisions."""
    module, told = parse(text), Decisions()
    with observing(told):
        PASSES["attention-fusion"]().run(module)
    module.verify()
    return module, told


def is_fused(module: HloModule) -> bool:
    return any(i.opcode is Op.FUSION for i in module.entry_computation)


def with_end(end: str) -> str:
    """The causal attention with another end."""
    return CAUSAL.replace("  ROOT r =", "  r =").replace("\n}\n", "\n}\n").rstrip()[:-1] + end + "\n}\n"


def test_the_text_of_the_fusion_is_plain_hlo():
    module, told = run(CAUSAL)
    assert is_fused(module)
    parse(str(module)).verify()
    assert KIND in str(module)
    (decision,) = told
    assert decision.taken
    assert [p.name for p in decision.predicates][:1] == ["the scores have no other users"]
    assert "48 keys" in decision.predicates[2].value


def test_probabilities_that_a_backward_pass_reads_stay():
    module, told = run(
        with_end("  n = f32[16,48,48]{2,1,0} negate(p)\n  ROOT t = (f32[16,48,4], f32[16,48,48]) tuple(r, n)")
    )
    assert not is_fused(module)
    (decision,) = told
    last = decision.predicates[-1]
    assert (last.name, last.holds, last.value) == ("the scores have no other users", False, "n reads p")
    assert "backward pass" in last.remedy


@pytest.mark.parametrize(
    ("before", "after", "condition"),
    [("48", "32", "there are enough keys"), ("16,48", "8,48", "there are enough scores")],
)
def test_what_is_too_small_stays(before, after, condition):
    module, told = run(CAUSAL.replace(before, after))
    assert not is_fused(module)
    assert told[0].predicates[-1].name == condition


def test_few_queries_stay():
    text = (
        CAUSAL.replace("16,48", "64,48").replace("q = f32[64,48,4]", "q = f32[64,16,4]").replace("64,48,48", "64,16,48")
    )
    text = (
        text.replace("[48,48]", "[16,48]")
        .replace("f32[64,48]{1,0}", "f32[64,16]{1,0}")
        .replace("r = f32[64,48,4]", "r = f32[64,16,4]")
    )
    module, told = run(text)
    assert not is_fused(module)
    assert told[0].predicates[-1].name == "there are enough queries"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("low = f32[] constant(-inf)", "low = f32[] constant(-5)"),
        ("zero = f32[] constant(0)", "zero = f32[] constant(1)"),
        ("s = f32[16,48]{1,0} reduce(e, zero)", "s = f32[16,48]{1,0} reduce(x, zero)"),
        ("d = f32[16,48,48]{2,1,0} subtract(x, mb)", "d = f32[16,48,48]{2,1,0} subtract(scaled, mb)"),
        ("divide(e, sb)", "divide(sb, e)"),
        (
            "mb = f32[16,48,48]{2,1,0} broadcast(m), dimensions={0,1}",
            "mb = f32[16,48,48]{2,1,0} broadcast(m), dimensions={0,2}",
        ),
        ("rhs_contracting_dims={1}", "rhs_contracting_dims={1}, algorithm=dot_f32_f32_f32"),
    ],
)
def test_what_only_looks_like_it(before, after):
    assert before in CAUSAL
    module, told = run(CAUSAL.replace(before, after))
    assert is_fused(module) == ("algorithm" in after)
    assert len(told) == ("algorithm" in after)


def test_a_mask_of_several_layers_is_copied_into_each() -> None:
    begin, end = CAUSAL.index("  scores ="), CAUSAL.index("\n}", CAUSAL.index("ROOT r ="))
    own = {"scores", "scaled", "x", "m", "mb", "d", "e", "s", "sb", "p", "r"}
    layer = CAUSAL[begin:end].replace("ROOT ", "")
    lines = [line for line in layer.splitlines() if line.split() and line.split()[0] in own]
    second = "\n".join(lines)
    for name in own:
        second = re.sub(rf"(?<=[ (]){name}(?=[ ,)])(?! constant)", f"{name}_2", second)
    second = second.replace("dot(q, k)", "dot(r, k)")
    module, told = run(with_end(second + "\n  ROOT t = f32[16,48,4]{2,1,0} add(r, r_2)"))
    assert [d.taken for d in told] == [True, True]
    assert sum(i.opcode is Op.FUSION for i in module.entry_computation) == 2
    assert all(i.opcode is not Op.COMPARE for i in module.entry_computation), "each has its own mask"
