"""The CPU's pipelines on every example of a pass: valid HLO and equal results after each pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlanb.cpu.pipelines import PIPELINES, pipeline

INPUTS = sorted(p for p in Path(__file__).parent.glob("goldens/*/*.hlo") if not p.name.endswith(".expected.hlo"))


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_pipeline_keeps_the_meaning(path, name, keeps_meaning):
    keeps_meaning(path.read_text(encoding="utf-8"), lambda m: pipeline(name).run(m, verify=True))
