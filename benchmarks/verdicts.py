"""Whether the rules of algsimp keep what their verdicts claim: `python -m benchmarks verdicts [PART OF A LABEL]`, several minutes for all of them.

Columns: rule, its verdict, how it was established (proved, exhausted, sampled), over which types or how many shapes, compared elements, seconds, and the inputs that contradict it.
What each word means stands in `tests/transforms/verdicts/establish.py`. A last row counts.
"""

from __future__ import annotations

import sys

import pandas as pd

from tests.transforms.verdicts.establish import Checker, Established
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES

_EFFORT = 1.0


def table(*wanted: str) -> pd.DataFrame:
    """A row per rule; with `wanted` those whose labels have one of these texts in them."""
    rules = [r for r in RULES.rules if not wanted or any(w in r.label for w in wanted)]
    found = []
    for n, r in enumerate(rules):
        print(f"\r{n + 1} of {len(rules)}", end="", file=sys.stderr, flush=True)
        found.append(Checker(r, effort=_EFFORT).run())
    print(file=sys.stderr)
    return pd.DataFrame([*map(row, found), total(found)])


def row(e: Established) -> dict[str, object]:
    """What was found about one rule."""
    against = e.contradictions[0] if e.contradictions else None
    return {
        "rule": e.rule.label,
        "verdict": e.rule.keeps.text,
        "established": e.how,
        "over": e.over,
        "elements": e.cases,
        "seconds": round(e.seconds, 1),
        "contradicted by": "" if against is None else str(against),
    }


def total(found: list[Established]) -> dict[str, object]:
    """How many rules were proved or exhausted, and how many verdicts are contradicted."""
    sure = sum(e.is_sure for e in found)
    wrong = sum(bool(e.contradictions) for e in found)
    return {
        "rule": f"{len(found)} rules",
        "established": f"{sure} proved or exhausted",
        "elements": sum(e.cases for e in found),
        "seconds": round(sum(e.seconds for e in found), 1),
        "contradicted by": str(wrong),
    }
