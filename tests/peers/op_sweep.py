"""All op types of tf2xla with all their dtypes: how many are right.

    python -m tests.peers.op_sweep [--only Abs,Add] [--list FILE]

An op type is right when it agrees with TensorFlow's XLA for every dtype with which TensorFlow's XLA itself runs it.
"""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path

from tests.peers.op_cases import CASES, PROGRAMS
from tests.peers.op_runs import Outcome, run, variants


def sweep(name: str) -> list[tuple[dict[str, str], Outcome]]:
    """Each variant of one op type and how it went."""
    from xlanb.clustering.xla_kernels import kernel_constraints
    from xlanb.graph.ops.op_def import BY_SHORT_NAME

    kernels = {a: [BY_SHORT_NAME[t].name for t in ts] for a, ts in (kernel_constraints(name) or {}).items()}
    return [(types, run(name, types)) for types in variants(name, kernels)]


def verdict(rows: list[tuple[dict[str, str], Outcome]]) -> str:
    """What an op type is: right, partly right, wrong, or refused by TensorFlow."""
    counts = collections.Counter(o.status for _, o in rows)
    if not counts["ok"] and not counts["wrong"] and not counts["fails"]:
        return "refused"
    if not counts["wrong"] and not counts["fails"]:
        return "right"
    return "part" if counts["ok"] else "wrong"


def main() -> None:
    """Print a line for each op type that is not right, then the totals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--list")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    given = parser.parse_args()
    names = given.only.split(",") if given.only else sorted({*CASES, *PROGRAMS})[given.start :: given.step]
    totals: collections.Counter[str] = collections.Counter()
    lines = []
    for name in names:
        rows = sweep(name)
        totals[verdict(rows)] += 1
        lines += [f"{verdict(rows)}\t{name}\t{o.status}\t{t}\t{o.text!r}" for t, o in rows]
        if verdict(rows) != "right" or given.only:
            shown = [f"    {o.status} {t} {o.text}" for t, o in rows if o.status != "ok"]
            sys.stdout.write("\n".join([f"{verdict(rows)} {name}", *shown[:2]]) + "\n")
            sys.stdout.flush()
    if given.list:
        Path(given.list).write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{len(names)} op types: {dict(totals)}\n")


if __name__ == "__main__":
    main()
