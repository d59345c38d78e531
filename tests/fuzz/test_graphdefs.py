"""The mutations of graphs and checkpoints: what is not changed goes every way, what is changed is another input each time."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tests.fuzz import checkpoints, graphdefs
from tests.fuzz.graph_seeds import seeds
from tests.fuzz.kinds import kinds


@pytest.mark.parametrize("name", seeds())
def test_a_seed_is_read_shown_written_clustered_and_run(name: str) -> None:
    assert graphdefs.check(seeds()[name], np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", ["graphdef", "graphdef_text", "checkpoint"])
def test_mutants_differ_and_depend_on_the_seed_alone(kind: str) -> None:
    first, again, other = (list(islice(kinds()[kind].mutants(np.random.default_rng(s)), 30)) for s in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(set(first)) > 20


def test_an_unchanged_checkpoint_is_read() -> None:
    whole = checkpoints._packed(list(checkpoints._whole()))
    assert checkpoints.check(whole, np.random.default_rng(0)) is None
