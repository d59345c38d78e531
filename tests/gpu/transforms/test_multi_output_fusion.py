"""Which instructions become results of one kernel, and why others do not."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.meaning import check_meaning
from xlanb.gpu.transforms.multi_output_fusion import MultiOutputFusion
from xlanb.hlo import parse
from xlanb.tracing import Decision, observing

GOLDENS = Path(__file__).parent / "goldens" / "multi_output_fusion"


class _Recorder:
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_event(self, event: object) -> None:
        self.events.append(event)


def _decisions(text: str) -> list[Decision]:
    recorder = _Recorder()
    with observing(recorder):
        MultiOutputFusion().run(parse(text))
    return [e for e in recorder.events if isinstance(e, Decision)]


def _refused(text: str) -> dict[tuple[str, ...], str]:
    return {d.subject: d.predicates[-1].name for d in _decisions(text) if not d.taken}


def test_says_what_a_side_result_saves() -> None:
    text = (GOLDENS / "producer_with_result.hlo").read_text(encoding="utf-8")
    taken = next(d for d in _decisions(text) if d.taken)
    assert (taken.action, taken.subject) == ("fuse", ("difference", "product"))
    assert taken.predicates[-1].name == "fusing saves time"
    assert "us unfused" in taken.predicates[-1].value


def test_the_producer_gives_its_result_too() -> None:
    text = (GOLDENS / "producer_with_result.hlo").read_text(encoding="utf-8")
    module = check_meaning(text, MultiOutputFusion().run)
    fusions = [i for i in module.entry_computation if str(i.opcode) == "fusion"]
    assert [len(f.shape.shapes) for f in fusions] == [2]


def test_a_multi_output_fusion_takes_more_siblings() -> None:
    text = (GOLDENS / "results_join.hlo").read_text(encoding="utf-8")
    module = check_meaning(text, MultiOutputFusion().run)
    (fusion,) = [i for i in module.entry_computation if str(i.opcode) == "fusion"]
    assert len(fusion.shape.shapes) == 4


_LOOPS = """
HloModule m
a {{ p = f32[64,64]{{1,0}} parameter(0) ROOT n = {one} }}
b {{ p = f32[64,64]{{1,0}} parameter(0) ROOT n = {two} }}
ENTRY e {{
  x = f32[64,64]{{1,0}} parameter(0)
  f = {shape_one} fusion(x), kind=kLoop, calls=a
  g = {shape_two} fusion({read}), kind=kLoop, calls=b
  h = {shape_one} negate(f)
  k = {shape_two} negate(g)
  ROOT t = ({shape_one}, {shape_two}) tuple(h, k)
}}
"""


def test_siblings_of_which_one_needs_the_other_stay_apart() -> None:
    text = """
HloModule m
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT c = pred[] compare(p, q), direction=LT }
a { p = f32[64,64]{1,0} parameter(0) ROOT n = f32[64,64]{1,0} negate(p) }
b {
  p = f32[64,64]{1,0} parameter(0)
  q = f32[64,64]{1,0} parameter(1)
  ROOT n = f32[64,64]{1,0} add(p, q)
}
ENTRY e {
  x = f32[64,64]{1,0} parameter(0)
  f = f32[64,64]{1,0} fusion(x), kind=kLoop, calls=a
  w = f32[64,64]{1,0} sort(f), dimensions={0}, to_apply=less
  g = f32[64,64]{1,0} fusion(x, w), kind=kLoop, calls=b
  ROOT k = f32[64,64]{1,0} negate(g)
}
"""
    assert set(_refused(text).values()) >= {"no path between them"}
    assert str(check_meaning(text, MultiOutputFusion().run)) == str(parse(text))


def test_different_slices_are_no_reason_to_share() -> None:
    part = "f32[16,64]{1,0}"
    text = _LOOPS.format(
        one=f"{part} slice(p), slice={{[0:16], [0:64]}}", two=f"{part} slice(p), slice={{[32:48], [0:64]}}",
        shape_one=part, shape_two=part, read="x",
    )  # fmt: skip
    assert "they read the same slice" in _refused(text).values()
    assert str(check_meaning(text, MultiOutputFusion().run)) == str(parse(text))


def test_loops_over_different_shapes_stay_apart() -> None:
    text = _LOOPS.format(
        one="f32[64,64]{1,0} negate(p)", two="f32[16,64]{1,0} slice(p), slice={[0:16], [0:64]}",
        shape_one="f32[64,64]{1,0}", shape_two="f32[16,64]{1,0}", read="x",
    )  # fmt: skip
    assert "both have the same loop" in _refused(text).values()


_OPCODES = ("negate", "exponential", "cosine", "abs")


@st.composite
def _programs(draw: st.DrawFn) -> str:
    """Draw loop fusions and instructions on arrays of one shape, each reading earlier ones."""
    shape = "f32[8,32]{1,0}"
    bodies, lines, values = [], [f"  v0 = {shape} parameter(0)", f"  v1 = {shape} parameter(1)"], 2
    for n in range(draw(st.integers(2, 7))):
        a, b = (f"v{draw(st.integers(0, values - 1))}" for _ in range(2))
        opcode = draw(st.sampled_from(_OPCODES))
        if draw(st.booleans()):
            operands = f"{a}, {b}" if a != b else a
            second = "q" if a != b else "p"
            parameter = f"q = {shape} parameter(1)" if a != b else ""
            bodies.append(
                f"f{n} {{ p = {shape} parameter(0) {parameter} i = {shape} {opcode}(p) "
                f"ROOT r = {shape} add(i, {second}) }}"
            )
            lines.append(f"  v{values} = {shape} fusion({operands}), kind=kLoop, calls=f{n}")
        else:
            lines.append(f"  v{values} = {shape} {opcode}({a})")
        values += 1
    results = sorted(draw(st.sets(st.integers(2, values - 1), min_size=1, max_size=3)))
    shapes, names = ", ".join([shape] * len(results)), ", ".join(f"v{n}" for n in results)
    lines.append(f"  ROOT t = ({shapes}) tuple({names})")
    return "\n".join(["HloModule m", *bodies, "ENTRY e {", *lines, "}"])


@settings(max_examples=40, deadline=None)
@given(_programs())
def test_any_program_keeps_its_meaning(text: str) -> None:
    check_meaning(text, MultiOutputFusion().run)
