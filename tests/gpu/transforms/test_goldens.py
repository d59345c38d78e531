"""Golden tests of XLA:GPU's passes: IR in, IR out, the same meaning.

Each pass runs on the modules in the folder with its name (or name@variant).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.meaning import retyped
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.pipelines import _OF_DEVICE, _VARIANTS, _named
from xlanb.hlo import parse
from xlanb.transforms import PASSES

HERE = Path(__file__).parent / "goldens"
INPUTS = sorted(p for p in HERE.glob("*/*.hlo") if not p.name.endswith(".expected.hlo"))


def _pass_of(path: Path):
    return _named(path.parent.name, gpu_device("a100"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden(path: Path, golden, keeps_meaning) -> None:
    text = path.read_text(encoding="utf-8")
    after = keeps_meaning(text, _pass_of(path).run)
    assert str(after) != str(parse(text)), "the example is there to show a change"
    golden(path.with_suffix(".expected.hlo"), str(after))


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden_in_other_types(path: Path, keeps_meaning) -> None:
    for text in retyped(path.read_text(encoding="utf-8")):
        keeps_meaning(text, _pass_of(path).run)


def test_every_pass_has_an_example() -> None:
    shown = {p.parent.name for p in INPUTS}
    ours = {n for n, p in PASSES.items() if p.__module__.startswith("xlanb.gpu.")}
    assert ours <= shown, f"without example: {ours - shown}"
    assert {n for n in shown if "@" in n} <= _VARIANTS.keys() | _OF_DEVICE.keys()
