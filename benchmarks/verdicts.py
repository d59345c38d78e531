"""Whether the rules of algsimp and the passes satisfy their verdicts.

`python -m benchmarks verdicts [PART OF A LABEL]` takes several minutes for all of them. Columns:
rule or pass, its verdict, how it was established (proved, exhausted, sampled), the types or the
number of shapes, compared elements, seconds, and contradictions.
`tests/transforms/verdicts/establish.py` defines these words for a rule. A pass is tried on its
examples, in each type that they can have, on the inputs of `tests/transforms/meaning.py`; if both
sides are the same terms, or equal over the real numbers, its result is proved for all inputs of
that example. The last rows count the rules and the passes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tests.gpu.transforms.test_goldens import INPUTS as OF_GPU
from tests.gpu.transforms.test_goldens import _pass_of
from tests.transforms.meaning import Compared, check_meaning, retyped
from tests.transforms.test_goldens import INPUTS, WITHOUT_TEXT
from tests.transforms.verdicts.establish import Checker, Established
from tests.transforms.verdicts.prove import algebra_of, are_equal
from xlanb.errors import XlanbError
from xlanb.hlo import HloModule, parse
from xlanb.transforms import PASSES, HloPass
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.verdict import Loss, Verdict

_EFFORT = 1.0


def table(*wanted: str) -> pd.DataFrame:
    """Return a row per rule; with `wanted`, only those whose label contains one of these texts."""
    rules = [r for r in RULES.rules if not wanted or any(w in r.label for w in wanted)]
    found = []
    for n, r in enumerate(rules):
        print(f"\r{n + 1} of {len(rules)}", end="", file=sys.stderr, flush=True)
        found.append(Checker(r, effort=_EFFORT).run())
    names = [n for n in of_ours() if not wanted or any(w in n for w in wanted)]
    tried = []
    for n, name in enumerate(names):
        print(f"\r{n + 1} of {len(names)} passes", end="", file=sys.stderr, flush=True)
        tried.append(pass_row(name))
    print(file=sys.stderr)
    return pd.DataFrame([*map(row, found), *([total(found)] if found else []), *tried, *total_of_passes(tried)])


def row(e: Established) -> dict[str, object]:
    """Return the findings about one rule."""
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
    """Count the rules that were proved or exhausted, and the contradicted verdicts."""
    sure = sum(e.is_sure for e in found)
    wrong = sum(bool(e.contradictions) for e in found)
    return {
        "rule": f"{len(found)} rules",
        "established": f"{sure} proved or exhausted",
        "elements": sum(e.cases for e in found),
        "seconds": round(sum(e.seconds for e in found), 1),
        "contradicted by": str(wrong),
    }


# -- passes ----------------------------------------------------------------------------------------


def of_ours() -> list[str]:
    """Return xlanb's own passes that rewrite a module's text, without algsimp, which has rules."""
    ours = ("xlanb.transforms.", "xlanb.spmd.", "xlanb.gpu.")
    names = {n for n, p in PASSES.items() if p.__module__.startswith(ours)}
    return sorted(names - WITHOUT_TEXT - {"algsimp"})


def pass_row(name: str) -> dict[str, object]:
    """Return the findings about one pass, over its examples in all types that they can have."""
    begin, made = time.perf_counter(), PASSES[name]
    texts = [(p, text) for p, path in examples(name) for text in _in_types(path.read_text(encoding="utf-8"))]
    compared, against, proved = Compared(), "", 0
    for hlo_pass, text in texts:
        try:
            after = check_meaning(text, hlo_pass.run, compared=compared)
        except AssertionError as error:
            against = str(error).strip().splitlines()[0]
            break
        proved += is_proved(parse(text), after, made.keeps)
    how = f"proved ({proved} of {len(texts)} modules), else sampled" if proved else f"sampled ({len(texts)} modules)"
    if texts and proved == len(texts):
        how = f"proved ({proved} modules)"
    return {
        "rule": name,
        "verdict": f"{made.keeps.text}, within {made.ulps:g} ulp" if made.ulps else made.keeps.text,
        "established": how if texts else "never run",
        "over": f"{len(compared.types)} types" + (f", off by {compared.ulps:.1f} ulp" if compared.ulps else ""),
        "elements": compared.elements,
        "seconds": round(time.perf_counter() - begin, 1),
        "contradicted by": against,
    }


def examples(name: str) -> Iterator[tuple[HloPass, Path]]:
    """Yield a pass's examples, each with the pass as configured there: default, or XLA:GPU's."""
    yield from ((PASSES[name](), path) for path in INPUTS if path.parent.name == name)
    yield from ((_pass_of(path), path) for path in OF_GPU if path.parent.name.partition("@")[0] == name)


def _in_types(text: str) -> Iterator[str]:
    yield text
    yield from retyped(text)


def is_proved(before: HloModule, after: HloModule, keeps: Verdict) -> bool:
    """Whether the results are equal for all inputs: the same terms, or equal over the real numbers.

    Real numbers suffice only if the verdict claims no more.
    """
    names = ("free", "reals") if Loss.ROUNDING in keeps.floats else ("free",)
    algebras = [a for a in map(algebra_of, names) if a is not None]
    try:
        return any(are_equal(before, after, a) is True for a in algebras)
    except XlanbError:  # tuples within tuples, say, that no algebra takes
        return False


def total_of_passes(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return a row that counts the passes, or none."""
    if not rows:
        return []
    sure = sum(str(r["established"]).startswith("proved") for r in rows)
    never = sum(r["established"] == "never run" for r in rows)
    return [
        {
            "rule": f"{len(rows)} passes",
            "established": f"{sure} proved on examples, {len(rows) - sure - never} sampled, {never} never run",
            "elements": sum(int(str(r["elements"])) for r in rows),
            "seconds": round(sum(float(str(r["seconds"])) for r in rows), 1),
            "contradicted by": str(sum(bool(r["contradicted by"]) for r in rows)),
        }
    ]
