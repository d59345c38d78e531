"""The command line of sweeps that compare cases by name, one outcome each."""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.peers.op_runs import Outcome


def report(names: Iterable[str], compare: Callable[[str], Outcome], what: str) -> None:
    """Compare the cases that the command line asks for.

    Prints a line for each that is not right (each, with --only), then the totals of `what`.

    Args:
        names: all cases; --only A,B chooses some.
        compare: the outcome of a case.
        what: what the cases are, in the plural.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help=f"the {what} to compare, by commas (default: all)")
    parser.add_argument("--list", help="write all outcomes to this file")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else names
    totals: collections.Counter[str] = collections.Counter()
    lines = []
    for name in wanted:
        outcome = compare(name)
        totals[outcome.status] += 1
        lines.append(f"{outcome.status}\t{name}\t{outcome.text!r}")
        if outcome.status != "ok" or given.only:
            sys.stdout.write(f"{outcome.status} {name}: {outcome.text}\n")
            sys.stdout.flush()
    if given.list:
        Path(given.list).write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{sum(totals.values())} {what}: {dict(totals)}\n")
