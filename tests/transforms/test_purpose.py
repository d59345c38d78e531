"""Every edit names the rule that made it and its source, even if the pass names none."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.test_goldens import INPUTS
from xlanb.explorer.user_pass import make_pass
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.tracing import Edit, Event, observing
from xlanb.transforms import PASSES
from xlanb.transforms.purpose import drawing, place_of, purpose_of
from xlanb.view.parts.why import rewrites

ROOT = Path(__file__).parent.parent.parent
TWO = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] logistic(x)
  ROOT b = f32[4] logistic(a)
}
"""


class Edits:
    def __init__(self) -> None:
        self.found: list[Edit] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, Edit):
            self.found.append(event)


def edits_of(text: str, hlo_pass: Any) -> list[Edit]:
    seen = Edits()
    module = parse(text)
    with observing(seen):
        hlo_pass.run(module)
    return seen.found


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_edit_names_its_rule_and_a_line_of_the_source(path: Path) -> None:
    for edit in edits_of(path.read_text(encoding="utf-8"), PASSES[path.parent.name]()):
        assert edit.cause.pass_name == path.parent.name
        assert edit.cause.rule, edit
        file, _, line = edit.cause.where.partition(":")
        assert 0 < int(line) <= len((ROOT / file).read_text(encoding="utf-8").splitlines()), edit


def test_a_pass_without_rules_gives_what_its_file_draws() -> None:
    edits = edits_of(TWO, PASSES["logistic-expander"]())
    assert {e.cause.rule for e in edits} == {"logistic(x) => 1 / (1 + exp(-x))"}
    lines = [int(e.cause.where.rpartition(":")[2]) for e in edits]
    source = (ROOT / edits[0].cause.where.partition(":")[0]).read_text(encoding="utf-8").splitlines()
    assert any("replace" in source[n - 1] for n in lines)


def test_each_rewrite_of_a_pass_without_rules_stands_alone() -> None:
    groups = rewrites(edits_of(TWO, PASSES["logistic-expander"]()))
    assert [sum(e.kind == "replace" for e in g) for g in groups] == [1, 1]


def test_a_pass_of_a_user_has_the_lines_of_its_function() -> None:
    def negate_twice(module: HloModule) -> None:
        """Negates the result twice."""
        e = module.entry_computation
        root = e.root
        once = e.add(HloOpcode.NEGATE, (root,))
        e.set_root(e.add(HloOpcode.NEGATE, (once,)))

    first = negate_twice.__code__.co_firstlineno
    edits = edits_of(TWO, make_pass(negate_twice))
    assert {e.cause.rule for e in edits} == {"Negates the result twice."}
    assert sorted({int(e.cause.where.rpartition(":")[2]) - first for e in edits}) == [4, 5]
    assert all(e.cause.where.startswith("tests/transforms/test_purpose.py:") for e in edits)


def test_a_drawing_is_a_rule_where_it_is_one_rewrite_on_a_line_or_two() -> None:
    assert drawing("What it is.\n\n    a  =>  b\n\nMore.") == ["a  =>  b"]
    assert drawing("What it is.\n\nNo drawing.") == []
    assert purpose_of(PASSES["cse_barrier_expander"]).rule == "opt-barrier(x) => x"
    assert purpose_of(PASSES["float-normalization-s4"]).rule.startswith("Computes s4 in s8")
    assert purpose_of(PASSES["fusion"]).rule == "Fuses producers into consumers"


def test_what_python_did_not_compile_has_no_place() -> None:
    assert place_of(partial(int, base=2)) == ""
