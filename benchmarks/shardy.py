"""Shardy's own tests of propagation against ours: `python -m benchmarks shardy FOLDER`.

FOLDER is shardy/dialect/sdy/transforms/propagation/test of its sources. Columns: the file, its
functions, those that HLO can express (no calls between functions, no operation that becomes several
instructions), those of these with the same shardings (or rules), and a few of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmarks._shardy_cases import Case, cases, read_case
from xlanb.errors import XlanbError
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.factor_propagation import Strategy
from xlanb.spmd.shardy.program import ShardyProgram, ShardyRegion, ValueKind
from xlanb.spmd.shardy.propagation import PropagationOptions, propagate
from xlanb.spmd.shardy.rules import sharding_rule

_AT_ONCE = PropagationOptions((Strategy.AGGRESSIVE,), op_priorities=False, user_priorities=False)
_BASIC = PropagationOptions((Strategy.BASIC,), op_priorities=False, user_priorities=False)
FILES = {
    "basic_propagation": _BASIC,
    "basic_propagation_data_flow_edges": _BASIC,
    "aggressive_propagation": _AT_ONCE,
    "op_priority_propagation": PropagationOptions(user_priorities=False),
    "user_priority_propagation": PropagationOptions(),
    "sharding_group_propagation": _BASIC,
}
RULES = "op_sharding_rule_registry"


def table(folder: str) -> pd.DataFrame:
    """A row per file of tests, and their sum.

    Raises:
        FileNotFoundError: the folder has none of the files.
    """
    rows = [_row(Path(folder), name) for name in (*FILES, RULES)]
    whole = pd.DataFrame(rows)
    total = {"file": "all", **{c: whole[c].sum() for c in ("cases", "expressible", "same")}, "others": ""}
    return pd.concat([whole, pd.DataFrame([total])])


def _row(folder: Path, name: str) -> dict[str, object]:
    count = expressible = same = 0
    others = []
    for case in cases((folder / f"{name}.mlir").read_text()):
        count += 1
        try:
            program = read_case(case)
        except XlanbError:
            continue
        expressible += 1
        agrees = _same_rules(case, program) if name == RULES else _same_shardings(case, program, FILES[name])
        same += agrees
        if not agrees:
            others.append(case.name)
    return {
        "file": name,
        "cases": count,
        "expressible": expressible,
        "same": same,
        "others": ", ".join(others[:4]),
    }


def _same_rules(case: Case, program: ShardyProgram) -> bool:
    found = [str(rule) for op in program.walk() if op.kind is ValueKind.HLO and (rule := sharding_rule(op))]
    return _is_subsequence(case.rules, found)


def _same_shardings(case: Case, program: ShardyProgram, options: PropagationOptions) -> bool:
    """Whether the shardings that are expected come in this order among ours."""
    propagate(program, options)
    ours = [s.text for s in _shardings(program) if s is not None]
    return _is_subsequence(case.shardings, ours)


def _shardings(program: ShardyProgram) -> Iterator[TensorSharding | None]:
    """In the order in which Shardy prints them."""
    yield from (a.sharding for a in program.body.arguments)
    yield from program.result_shardings
    yield from _of_region(program.body)


def _of_region(region: ShardyRegion) -> Iterator[TensorSharding | None]:
    for op in region.ops:
        edges = [r.edge is not None for r in op.results]
        if not any(edges):
            yield from (r.sharding for r in op.results)
        for inner in op.regions:
            yield from _of_region(inner)
        if any(edges):
            yield from (r.sharding for r in op.results)


def _is_subsequence(wanted: list[str], found: list[str]) -> bool:
    rest = iter(found)
    return all(any(w == f for f in rest) for w in wanted)
