from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from xlanb import gc_thresholds
from xlanb.errors import PassError, ShapeError
from xlanb.gc_thresholds import importing, raised_gc_thresholds
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.tracing import Decision, Edit, current_cause, observing
from xlanb.transforms import PASSES, HloPass, HloPassFix, HloPassPipeline
from xlanb.transforms.pipeline import DeferredPass

TEXT = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4] broadcast(zero), dimensions={}
  a = f32[4] add(x, zeros)
  b = f32[4] add(a, zeros)
  dead = f32[4] negate(x)
  ROOT n = f32[4] negate(b)
}
"""


class Recorder:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


def opcodes(module: HloModule) -> list[str]:
    return [str(i.opcode) for i in module.entry_computation]


def simplify() -> HloPassPipeline:
    return HloPassPipeline("simplify", [PASSES["algsimp"](), PASSES["dce"]()])


def test_run_gives_a_result_for_each_pass():
    module = parse(TEXT)
    results = simplify().run(module)
    assert [r.name for r in results] == ["algsimp", "dce"]
    assert [r.changed for r in results] == [True, True]
    assert opcodes(module) == ["parameter", "negate"]
    assert all(r.pipeline == ("simplify",) and r.seconds >= 0 for r in results)


def test_a_pass_by_itself_shows_before_and_after():
    module = parse(TEXT)
    before = module.record()
    result = PASSES["dce"]().run(module)
    assert result.changed
    assert result.before is before
    assert result.after is module.record()
    again = PASSES["dce"]().run(module)
    assert not again.changed
    assert again.before is again.after


def test_steps_run_exactly_one_pass_each():
    module = parse(TEXT)
    steps = simplify().steps(module)
    assert "negate" in opcodes(module)
    first = next(steps)
    assert first.name == "algsimp"
    assert opcodes(module).count("negate") == 2
    second = next(steps)
    assert second.name == "dce"
    assert second.before is first.after
    assert opcodes(module).count("negate") == 1
    with pytest.raises(StopIteration):
        next(steps)


def test_no_cause_is_held_between_steps():
    module = parse(TEXT)
    for _ in simplify().steps(module):
        assert current_cause().pass_name == ""


def test_edits_are_caused_by_pass_and_rule():
    recorder = Recorder()
    with observing(recorder):
        simplify().run(parse(TEXT))
    causes = {(e.cause.pass_name, e.cause.rule) for e in recorder.events if isinstance(e, Edit)}
    assert ("algsimp", "A + 0 => A") in causes
    assert ("dce", "Removes instructions that do not affect the result.") in causes
    where = next(e.cause.where for e in recorder.events if e.cause.rule == "A + 0 => A")
    assert where.startswith("xlanb/transforms/algebraic_simplifier/arithmetic.py:")


def test_observed_and_unobserved_runs_agree():
    quiet, loud = parse(TEXT), parse(TEXT)
    HloPassFix(simplify()).run(quiet)
    with observing(Recorder()):
        results = HloPassFix(simplify()).run(loud)
    assert str(quiet) == str(loud)
    assert all(r.before is not None for r in results)


def test_fixed_point_counts_rounds_and_stops():
    module = parse(TEXT)
    results = HloPassFix(simplify()).run(module)
    rounds = [r.iteration for r in results]
    assert rounds == [0, 0, 1, 1]
    assert not any(r.changed for r in results if r.iteration == rounds[-1])


@dataclass(frozen=True)
class Flip(HloPass):
    """Never reaches a fixed point."""

    name: ClassVar[str] = "flip"

    def apply(self, module):
        c = module.entry_computation
        c.set_root(c.add(HloOpcode.NEGATE, (c.root,)))


def test_fixed_point_has_a_limit():
    recorder = Recorder()
    with observing(recorder):
        results = HloPassFix(Flip(), limit=3).run(parse(TEXT))
    assert len(results) == 3
    last = recorder.events[-1]
    assert isinstance(last, Decision)
    assert (last.action, last.taken) == ("fixed point", False)


@dataclass(frozen=True)
class Fidget(HloPass):
    """Changes the module and restores it."""

    name: ClassVar[str] = "fidget"

    def apply(self, module):
        c = module.entry_computation
        c.remove(c.add(HloOpcode.NEGATE, (c.root,)))


def test_changed_is_computed_from_what_the_module_says():
    module = parse(TEXT)
    result = Fidget().run(module)
    assert not result.changed
    assert len(list(HloPassFix(Fidget()).steps(module))) == 1
    assert (
        len(HloPassFix(Fidget()).run(module)) < 6
    )  # without observers it takes a few iterations to detect that nothing changes


@dataclass(frozen=True)
class Refuse(HloPass):
    name: ClassVar[str] = "refuse"
    kind: type[Exception] = ShapeError

    def apply(self, module):
        raise self.kind("no, thank you")


def test_an_error_names_the_pass_and_shows_the_module():
    with pytest.raises(PassError, match=r"outer/refuse: no, thank you\n(.|\n)*ENTRY %main") as caught:
        HloPassPipeline("outer", [Refuse()]).run(parse(TEXT))
    assert isinstance(caught.value.__cause__, ShapeError)


def test_a_bug_stays_what_it_is_but_says_where():
    with pytest.raises(KeyError) as caught:
        HloPassPipeline("outer", [Refuse(kind=KeyError)]).run(parse(TEXT))
    assert "outer/refuse" in caught.value.__notes__[0]


@dataclass(frozen=True)
class Break(HloPass):
    name: ClassVar[str] = "break"

    def apply(self, module):
        c = module.entry_computation
        c.update(c.root, shape=c.root.array_shape.with_type(PrimitiveType.S32))


def test_verify_catches_a_pass_that_breaks_the_module():
    HloPassPipeline("outer", [Break()]).run(parse(TEXT))
    with pytest.raises(PassError, match="outer/break"):
        HloPassPipeline("outer", [Break()]).run(parse(TEXT), verify=True)


def nested() -> HloPassPipeline:
    inner = HloPassFix(HloPassPipeline("inner", [PASSES["algsimp"](), PASSES["dce"]()]))
    return HloPassPipeline("outer", [PASSES["cse"](), inner, PASSES["fusion"](), PASSES["dce"]()])


def test_nested_pipelines_are_walked_and_named():
    results = nested().run(parse(TEXT))
    assert results[0].pipeline == ("outer",)
    assert results[1].pipeline == ("outer", "inner")
    assert nested().names == ["cse", "inner", "algsimp", "dce", "fusion", "dce"]


def test_without_only_until_insert_reorder():
    p = nested()
    assert p.without("dce", "fusion").names == ["cse", "inner", "algsimp"]
    assert p.without("inner").names == ["cse", "fusion", "dce"]
    assert p.without("algsimp", "dce").names == ["cse", "fusion"]
    assert p.only("algsimp").names == ["inner", "algsimp"]
    assert p.only("inner").names == ["inner", "algsimp", "dce"]
    assert p.until("algsimp").names == ["cse", "inner", "algsimp"]
    assert p.until("fusion").names == ["cse", "inner", "algsimp", "dce", "fusion"]
    assert p.insert(PASSES["tuple-simplifier"](), after="algsimp").names == [
        "cse",
        "inner",
        "algsimp",
        "tuple-simplifier",
        "dce",
        "fusion",
        "dce",
    ]
    assert p.insert(PASSES["tuple-simplifier"](), before="cse").names[0] == "tuple-simplifier"
    assert p.insert(PASSES["tuple-simplifier"]()).names[-1] == "tuple-simplifier"
    assert p.reorder("fusion", "cse").names == ["fusion", "inner", "algsimp", "dce", "cse", "dce"]
    assert p.names == nested().names


def test_until_stops_after_the_first_run_within_a_loop():
    module = parse(TEXT)
    results = nested().until("algsimp").run(module)
    assert [r.name for r in results] == ["cse", "algsimp"]


@pytest.mark.parametrize(
    "wrong",
    [lambda p: p.until("nope"), lambda p: p.insert(PASSES["cse"](), after="nope"), lambda p: p.reorder("algsimp")],
)
def test_unknown_names_are_refused(wrong):
    with pytest.raises(PassError, match="no pass"):
        wrong(nested())


def test_pipelines_print_as_trees():
    text = str(nested())
    assert text.splitlines() == [
        "outer",
        "  cse",
        "  inner (to a fixed point, at most 25 iterations)",
        "    algsimp",
        "    dce",
        "  fusion",
        "  dce",
    ]
    assert str(PASSES["cse"](is_layout_sensitive=True)) == "cse{is_layout_sensitive=True}"


def test_registry_knows_passes_by_xla_name():
    for name in (
        "algsimp",
        "dce",
        "cse",
        "constant_folding",
        "call-inliner",
        "flatten-call-graph",
        "tuple-simplifier",
        "fusion",
    ):
        assert PASSES[name].name == name
    assert "no-such-pass" not in PASSES
    with pytest.raises(KeyError):
        PASSES["no-such-pass"]


@dataclass(frozen=True)
class Lose(HloPass):
    """Removes an instruction that must stay."""

    name: ClassVar[str] = "lose"

    def apply(self, module):
        c = module.entry_computation
        c.remove(module.find("call"))
        c.remove(module.find("sent"))


@dataclass(frozen=True)
class LoseOnPurpose(HloPass):
    name: ClassVar[str] = "lose-on-purpose"
    takes_out: ClassVar[frozenset[str]] = frozenset({"print"})

    def apply(self, module):
        module.entry_computation.remove(module.find("call"))


EFFECTS = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  call = () custom-call(x), custom_call_target="print", custom_call_has_side_effect=true
  after = token[] after-all()
  sent = token[] outfeed(x, after), outfeed_shape=f32[4]{0}
  ROOT n = f32[4] negate(x)
}
"""


def test_verify_names_a_pass_that_loses_a_side_effect_and_shows_the_module_before_it():
    with pytest.raises(PassError) as caught:
        HloPassPipeline("outer", [PASSES["dce"](), Lose()]).run(parse(EFFECTS), verify=True)
    first, _, rest = str(caught.value).partition("\n")
    assert first == "outer/lose lost side effects: 1 custom-call to 'print', 1 outfeed"
    before, _, after = rest.partition("after it:")
    assert before.startswith("before it:")
    assert "outfeed" in before
    assert "outfeed" not in after


def test_what_a_pass_is_there_to_take_out_it_may_take_out():
    (result,) = HloPassPipeline("outer", [LoseOnPurpose()]).run(parse(EFFECTS), verify=True)
    assert result.changed


def test_verify_shows_the_module_before_the_pass_that_broke_it():
    with pytest.raises(PassError, match=r"outer/break left an invalid module: (.|\n)*before it:\n(.|\n)*after it:\n"):
        HloPassPipeline("outer", [Break()]).run(parse(TEXT), verify=True)


SORTED = """HloModule s

lt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

ENTRY e {
  x = f32[4] parameter(0)
  ROOT s = f32[4] sort(x), dimensions={0}, to_apply=lt
}
"""


@dataclass(frozen=True)
class _Counting(HloPass):
    """Records the modules that it is run on."""

    name = "counting"
    triggers = frozenset((HloOpcode.SORT,))
    asked: ClassVar[list[str]] = []

    def apply(self, module: HloModule) -> None:
        self.asked.append(module.name)


def test_a_pass_without_its_opcodes_is_not_asked():
    _Counting.asked.clear()
    result = _Counting().run(parse(TEXT))
    assert (_Counting.asked, result.changed, result.before is result.after) == ([], False, True)
    results = HloPassPipeline("p", [_Counting()]).run(parse(TEXT))
    assert (_Counting.asked, [r.name for r in results]) == ([], ["counting"])
    _Counting().run(parse(SORTED))
    assert _Counting.asked == ["s"]


def test_the_same_pass_on_the_same_module_is_asked_once():
    _Counting.asked.clear()
    once = _Counting()
    results = HloPassPipeline("p", [once, PASSES["dce"](), once]).run(parse(SORTED))
    assert (_Counting.asked, [r.name for r in results]) == (["s"], ["counting", "dce", "counting"])


def test_a_deferred_pass_is_made_for_a_module_with_its_opcodes_or_to_be_shown():
    _Counting.asked.clear()
    made = []

    def make():
        made.append("made")
        return once

    once = _Counting()
    deferred = DeferredPass("counting", _Counting.triggers, make)
    ran = []
    passes = HloPassPipeline("p", [deferred, PASSES["dce"]()])
    passes.run_unwatched(parse(TEXT), ran.append)
    assert (made, ran, _Counting.asked) == ([], ["counting", "dce"], [])
    passes.run_unwatched(parse(SORTED), ran.append)
    assert (len(made), _Counting.asked) == (1, ["s"])
    assert passes.names == ["counting", "dce"]
    assert passes == HloPassPipeline("p", [once, PASSES["dce"]()])
    assert len(made) == 2
    with pytest.raises(AttributeError, match="has no attribute 'passed'"):
        _ = passes.passed


GOLDENS = sorted(Path(__file__).parent.glob("goldens/*/*.hlo"))


@pytest.mark.parametrize("name", sorted(n for n in PASSES if PASSES[n].triggers is not None))
def test_triggers_leave_out_nothing_that_the_pass_would_change(name):
    """Run `apply` itself on modules without any of the trigger opcodes."""
    hlo_pass, seen = PASSES[name](), 0
    for path in GOLDENS[::7]:
        module = parse(path.read_text())
        if hlo_pass.triggers.isdisjoint(module.opcodes):
            version = module.version
            hlo_pass.apply(module)
            assert module.version == version, path.name
            seen += 1
    assert seen > 5


def test_a_block_that_did_not_put_the_collector_back_leaves_that_to_the_next() -> None:
    before = gc.get_threshold()
    stopped = raised_gc_thresholds()
    stopped.__enter__()
    gc_thresholds._running.clear()  # the state after an interrupt between its last steps
    with raised_gc_thresholds():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before


def test_the_collector_is_as_it_was_when_passes_are_done() -> None:
    before = gc.get_threshold()
    with raised_gc_thresholds(), raised_gc_thresholds():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    with raised_gc_thresholds():
        gc.set_threshold(1234)
    assert gc.get_threshold()[0] == 1234
    gc.set_threshold(*before)


def test_imported_objects_are_old_and_frozen_ones_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_thresholds, "_others_freeze", False)

    def is_old(found: object) -> bool:
        return any(o is found for o in gc.get_objects(generation=2))

    gc.collect()
    with importing():
        made: list[object] = []
    assert is_old(made)
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with importing():
            other: list[object] = []
        assert gc.get_freeze_count() == frozen
        assert not is_old(other)
    finally:
        gc.unfreeze()


def test_what_many_allocations_leave_is_old_and_collected_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def generation_of(found: object) -> int:
        return next(g for g in range(3) if any(o is found for o in gc.get_objects(generation=g)))

    monkeypatch.setattr(gc_thresholds, "_others_freeze", False)
    monkeypatch.setattr(gc_thresholds, "_MANY", 1000)
    monkeypatch.setattr(gc_thresholds, "_unvisited", 0)
    with raised_gc_thresholds():
        few: list[object] = [[]]
    assert generation_of(few) < 2
    with raised_gc_thresholds():
        many: list[object] = [[] for _ in range(2000)]
    assert generation_of(many) == 2
    gone = weakref.ref(cycle := _Cycle())
    del cycle
    monkeypatch.setattr(gc_thresholds, "_UNVISITED", 1)
    monkeypatch.setattr(gc_thresholds, "_unvisited", len(gc.get_objects()))
    assert gone() is not None
    with raised_gc_thresholds():
        many += [[] for _ in range(2000)]
    assert gone() is None
    assert gc_thresholds._unvisited == 0


def test_records_of_an_observed_block_count_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def unvisited() -> int:
        monkeypatch.setattr(gc_thresholds, "_unvisited", 0)
        with raised_gc_thresholds():
            kept = [[] for _ in range(2000)]
        assert len(kept) == 2000
        return gc_thresholds._unvisited

    monkeypatch.setattr(gc_thresholds, "_MANY", 1000)
    alone = unvisited()
    with observing(Recorder()):
        assert unvisited() < alone / 2


class _Cycle:
    def __init__(self) -> None:
        self.itself = self
