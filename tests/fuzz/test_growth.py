"""Programs that grow: each shape can be read, for any size and kind."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz import growth
from tests.fuzz.bombs import bombs
from xlanb.hlo import parse


@pytest.mark.parametrize("seed", range(4))
def test_programs_are_read(seed):
    for name, text in growth.programs(Random(seed)):
        module = parse(text)
        module.verify()
        assert len(module.entry_computation) > 10, name


def test_the_campaign_has_them():
    names = [name for name, _ in bombs(Random(1))]
    assert sum(name.startswith("growth-") for name in names) == len(growth._SHAPES)
