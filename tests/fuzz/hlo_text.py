"""Mutated HLO text: the goldens of the tests, small modules of every opcode, random modules.

Tokens, lines and attributes are changed. Many changes are made consistently everywhere (a size, an
element type), and shapes that can be inferred are dropped afterwards, so that most modules remain
valid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.fuzz import hlo_edits
from tests.fuzz.hlo_changes import CHANGES, loosened, pick
from tests.fuzz.hlo_check import check_module
from tests.fuzz.hlo_seeds import seeds
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import change_text
from tests.fuzz.random_modules import random_module
from xlanb.hlo import parse

_RANDOM = 0.25
_EDITS = 0.4
"""The fraction of changes that are edits, which leave fewer modules valid."""


def mutants(rng: np.random.Generator) -> Iterator[Item]:
    """Texts, endlessly; over a third of them are modules that verify."""
    while True:
        yield _mutant(rng)


def modules(rng: np.random.Generator) -> Iterator[Item]:
    """Random modules, endlessly and unchanged: all of them verify."""
    while True:
        yield random_module(rng)


def _mutant(rng: np.random.Generator) -> str:
    text = random_module(rng) if rng.random() < _RANDOM else pick(rng, seeds())
    for _ in range(int(rng.integers(1, 4))):
        text = pick(rng, hlo_edits.EDITS if rng.random() < _EDITS else CHANGES)(text, rng)
    if rng.random() < 0.03:
        text = change_text(text, rng)
    return loosened(text) if rng.random() < 0.6 else text


def check(item: Item, rng: np.random.Generator) -> str | None:
    """The find for a text; None if it is rejected with a reason or everything holds."""
    assert isinstance(item, str)
    return check_module(lambda: parse(item), rng)


def quick(item: Item, _rng: np.random.Generator) -> str | None:
    """The find for a text without compiling it."""
    assert isinstance(item, str)
    return check_module(lambda: parse(item), None)
