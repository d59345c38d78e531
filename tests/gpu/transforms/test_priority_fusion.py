"""Which producers priority-fusion fuses, in which order, and how it explains that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.meaning import check_meaning
from xlanb.conditions import asking
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.transforms.priority_fusion import PriorityFusion, creation_ranks, fusible_computations
from xlanb.hlo import HloModule, parse
from xlanb.tracing import Decision, observing

GOLDENS = Path(__file__).parent / "goldens" / "priority-fusion"


class _Recorder:
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_event(self, event: object) -> None:
        self.events.append(event)


def _read(name: str) -> str:
    return (GOLDENS / f"{name}.hlo").read_text(encoding="utf-8")


def _fused(text: str, device: str = "a100") -> HloModule:
    return check_meaning(text, PriorityFusion(device=gpu_device(device)).run)


def _decisions(text: str) -> list[Decision]:
    recorder = _Recorder()
    with observing(recorder):
        PriorityFusion().run(parse(text))
    return [e for e in recorder.events if isinstance(e, Decision)]


def _failing(decisions: list[Decision], *subject: str) -> str:
    found = [d for d in decisions if d.subject == subject and not d.taken]
    return found[-1].predicates[-1].name if found else ""


def test_fuses_the_producer_that_saves_most_first() -> None:
    taken = [d.subject for d in _decisions(_read("two_consumers")) if d.taken]
    # XLA's own order: the dump of the same program has these steps.
    assert taken == [
        ("mul.2.0", "add.2.0"),
        ("broadcast.1.0", "fusion"),
        ("fusion", "reduce_sum.7.0"),
        ("fusion", "tanh.1.0"),
    ]


def test_says_what_is_saved() -> None:
    fused = next(d for d in _decisions(_read("two_consumers")) if d.subject == ("mul.2.0", "add.2.0"))
    assert fused.taken
    assert fused.predicates[-1].name == "fusing into all users saves time"
    assert fused.predicates[-1].value == "priority 1.60275 us: 3.81 us unfused, 2.20725 us fused"


def test_leaves_what_would_cost_time() -> None:
    decisions = _decisions(_read("column_reductions"))
    assert _failing(decisions, "log.1.0", "reduce_max.7.0") == "fusing into all users saves time"
    refused = next(d for d in decisions if d.subject == ("log.1.0", "reduce_max.7.0"))
    assert refused.predicates[-1].value.startswith("priority -268.21")


def test_scalar_constants_are_fused_last() -> None:
    module = _fused(_read("update_in_place"))
    fusion = module.entry_computation.root
    assert [i for i in fusion.fused_computation if str(i.opcode) == "constant"]
    assert all(str(o.opcode) != "constant" for o in fusion.operands)


def test_nothing_goes_into_the_result_of_a_scatter() -> None:
    text = """
HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[100,64]{1,0} parameter(0)
  i = s32[10,1]{1,0} parameter(1)
  u = f32[10,64]{1,0} parameter(2)
  s = f32[100,64]{1,0} scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT n = f32[100,64]{1,0} negate(s)
}
"""
    assert _failing(_decisions(text), "s", "n") == "scatter can be emitted"


def test_two_reductions_stay_apart() -> None:
    text = """
HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[64,64,64]{2,1,0} parameter(0)
  z = f32[] constant(0)
  one = f32[64,64]{1,0} reduce(x, z), dimensions={2}, to_apply=add
  ROOT two = f32[64]{0} reduce(one, z), dimensions={1}, to_apply=add
}
"""
    assert _failing(_decisions(text), "one", "two") == "at most one of them is a significant reduction"


def test_what_is_updated_in_place_is_not_read_elsewhere() -> None:
    text = """
HloModule m
ENTRY e {
  x = f32[64,64]{1,0} parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  t = f32[8,64]{1,0} slice(x), slice={[3:11], [0:64]}
  ROOT d = f32[64,64]{1,0} dynamic-update-slice(x, t, i, z)
}
"""
    assert _failing(_decisions(text), "t", "d") == "an array updated in place has no other readers"
    assert str(_fused(text).entry_computation.root.operands[1].opcode) == "slice"


def test_triton_fusions_tell_what_they_cannot_take() -> None:
    text = _read("softmax").replace("exp.1.0 = f32[256,640]{1,0} exponential(", "exp.1.0 = f32[256,640]{1,0} reverse(")
    text = text.replace("reverse(triton_softmax.3)", "reverse(triton_softmax.3), dimensions={0}")
    decisions = _decisions(text)
    assert _failing(decisions, "triton_softmax.3", "exp.1.0") == "consumer can be emitted by Triton"
    assert _failing(decisions, "exp.1.0", "triton_softmax.2") == "producer can be emitted by Triton"


def test_asked_pairs_are_told_to_the_end() -> None:
    names = frozenset({"log.1.0", "reduce_max.7.0"})
    with asking(names):
        decisions = _decisions(_read("column_reductions"))
    told = next(d for d in decisions if set(d.subject) == names)
    assert len(told.predicates) == 11


def test_equal_priorities_go_by_age() -> None:
    text = """
HloModule m
ENTRY e {
  x = f32[4096]{0} parameter(0)
  exp.12.0 = f32[4096]{0} exponential(x)
  exp.3.0 = f32[4096]{0} exponential(exp.12.0)
  constant.1.0 = f32[] constant(1)
  mul.2.0 = f32[4096]{0} broadcast(constant.1.0), dimensions={}
  ROOT add.1.0 = f32[4096]{0} add(exp.3.0, mul.2.0)
}
"""
    module = parse(text)
    ranks = creation_ranks(module.entry_computation)
    age = {i.name: rank for i, rank in ranks.items()}
    assert age["mul.2.0"] < age["exp.3.0"] < age["exp.12.0"]


@pytest.mark.parametrize("device", ["a100", "h100", "b200", "mi300x", "pvc"])
def test_every_device_has_a_model(device: str) -> None:
    for path in sorted(GOLDENS.glob("*.hlo")):
        if not path.name.endswith(".expected.hlo"):
            module = parse(path.read_text(encoding="utf-8"))
            PriorityFusion(device=gpu_device(device)).run(module)
            module.verify()


def test_called_computations_are_left() -> None:
    module = parse("""
HloModule m
f { a = f32[8] parameter(0) n = f32[8] negate(a) ROOT e = f32[8] exponential(n) }
ENTRY e { x = f32[8] parameter(0) ROOT c = f32[8] call(x), to_apply=f }
""")
    assert [c.name for c in fusible_computations(module)] == ["e"]


def test_dead_code_and_empty_arrays() -> None:
    text = """
HloModule m
ENTRY e {
  x = f32[0,8]{1,0} parameter(0)
  n = f32[0,8]{1,0} negate(x)
  t = f32[8,0]{1,0} transpose(n), dimensions={1,0}
  d = f32[8,0]{1,0} exponential(t)
  ROOT r = f32[8,0]{1,0} add(t, t)
}
"""
    _fused(text)
