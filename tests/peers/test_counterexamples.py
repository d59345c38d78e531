"""The real XLA:CPU does with the counterexamples of algsimp's rules what the page of the docs says."""

from __future__ import annotations

import json

import pytest

from tests.transforms.verdicts.counterexamples import MENDED, PATH, WITHOUT, by_real_xla, judged
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.peer
KNOWN = json.loads(PATH.read_text(encoding="utf-8"))
_EVERY = 6


def test_the_real_xla_changes_what_it_is_said_to_change():
    if jax.__version__ != KNOWN["jax"]:
        pytest.skip(f"the page was made with JAX {KNOWN['jax']}")
    cases = KNOWN["entries"][::_EVERY]
    results = zip(cases, by_real_xla(cases), by_real_xla(cases, WITHOUT), strict=True)
    assert [judged(*r) for r in results] == [c["real"] for c in cases]


def test_the_real_xla_takes_an_iota_that_wraps_for_non_negative():
    cases = [{"hlo": hlo, "arrays": []} for hlo in MENDED.values()]
    for case, real, without in zip(cases, by_real_xla(cases), by_real_xla(cases, WITHOUT), strict=True):
        right = evaluate(parse(case["hlo"]))
        assert (without == right).all()
        assert (real != right).any(), "mended there: say so in the docs"
