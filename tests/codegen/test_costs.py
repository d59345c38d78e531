"""The table of costs that emitters use."""

from __future__ import annotations

from pathlib import Path

import pytest

import xlanb
from benchmarks import costs as measured
from xlanb.codegen import costs

SOURCES = "\n".join(
    p.read_text()
    for room in ("codegen", "cpu")
    for p in (Path(xlanb.__file__).parent / room).rglob("*.py")
    if p.name != "costs.py"
)


@pytest.mark.parametrize("name", costs.NAMES)
def test_each_cost_is_weighed_and_measured(name: str) -> None:
    assert f".{name}" in SOURCES
    assert name in {*measured.times(16), *measured.TRIALS, *measured.SHARED, *measured.FACTS}


@pytest.mark.parametrize("family", sorted(costs.FAMILIES))
def test_families_agree_on_what_is_decided_before_the_machine_is_known(family: str) -> None:
    table = costs.FAMILIES[family]
    for name in {*costs.NAMES} - costs.BY_FAMILY:
        assert getattr(table, name) == getattr(costs.COMMON, name), name


def test_family_of_a_machine() -> None:
    assert costs.family(512, frozenset({"avx2", "avx512f"})) == "avx512"
    assert costs.family(256, frozenset({"avx2"})) == "avx2"
    assert costs.family(128, frozenset({"neon"})) == "other"


def test_units_and_documentation_of_costs() -> None:
    assert costs.unit("wake_ns") == "ns"
    assert costs.unit("parts_per_thread") == ""
    text = Path(costs.__file__).read_text()
    for name in costs.NAMES:
        after = text.split(f"\n    {name}: ", 1)[1].split("\n", 1)[1]
        assert after.startswith('    """'), name
