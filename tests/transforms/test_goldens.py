"""Run every pass on the modules of the folder with its name: expected HLO, same semantics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.meaning import retyped
from xlanb.hlo import parse
from xlanb.transforms import PASSES

HERE = Path(__file__).parent / "goldens"
# Their effects are not in the text: shared objects, and rewrites that a user registers (see
# test_small_passes.py).
WITHOUT_TEXT = {"apply-xla-transforms", "literal-canonicalizer", "shape-canonicalizer"}
INPUTS = sorted(p for p in HERE.glob("*/*.hlo") if not p.name.endswith(".expected.hlo"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden(path: Path, golden, keeps_meaning):
    text = path.read_text(encoding="utf-8")
    hlo_pass = PASSES[path.parent.name]()
    after = keeps_meaning(text, hlo_pass.run)
    assert str(after) != str(parse(text)), "the example is there to show a change"
    golden(path.with_suffix(".expected.hlo"), str(after))


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden_in_other_types(path: Path, keeps_meaning):
    for text in retyped(path.read_text(encoding="utf-8")):
        keeps_meaning(text, PASSES[path.parent.name]().run)


def test_every_pass_has_an_example():
    shown = {p.parent.name for p in INPUTS}
    ours = {
        n for n, p in PASSES.items() if p.__module__.startswith(("xlanb.transforms.", "xlanb.spmd."))
    } - WITHOUT_TEXT  # without those that tests define
    assert shown == ours, f"without example: {ours - shown}; without pass: {shown - ours}"
