"""The generator's modules are valid, reproducible by seed, and as varied as documented."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.random_modules import FAMILIES, draft, random_module
from xlanb.errors import XlanbError
from xlanb.hlo import parse


def test_one_seed_gives_one_module():
    assert [random_module(np.random.default_rng(k)) for k in range(5)] == [
        random_module(np.random.default_rng(k)) for k in range(5)
    ]


@pytest.mark.parametrize("family", dict.fromkeys(FAMILIES), ids=lambda f: f.__name__)
def test_drafts_of_each_family_are_valid(family):
    rng = np.random.default_rng(3)
    refused = []
    for _ in range(30):
        text = draft(rng, (family,))
        try:
            parse(text).verify()
        except XlanbError as error:
            refused.append(str(error))
    assert not refused, refused[0]


def test_opcodes_types_and_layouts_are_all_there():
    rng = np.random.default_rng(5)
    modules = [parse(random_module(rng)) for _ in range(400)]
    opcodes = {str(i.opcode) for m in modules for i in m.instructions()}
    assert len(opcodes) > 60, sorted(opcodes)
    shapes = [s.as_array() for m in modules for p in m.entry_computation.parameters for _, s in p.shape.leaves()]
    assert len({s.element_type for s in shapes}) > 24
    assert {s.rank for s in shapes} >= {0, 1, 2, 3, 4, 5}
    assert any(list(s.minor_to_major) != list(range(s.rank))[::-1] for s in shapes)
    assert min(n for s in shapes for n in s.dimensions) == 0
