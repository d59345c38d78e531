"""All op types of tf2xla with all their dtypes: the number of correct ones.

    python -m tests.peers.op_sweep [--only Abs,Add] [--list FILE]

An op type is correct if it agrees with TensorFlow's XLA for every dtype that TensorFlow's XLA runs.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.peers.op_cases import CASES, PROGRAMS
from tests.peers.op_runs import Outcome, run, variants


def sweep(name: str) -> list[tuple[dict[str, str], Outcome]]:
    """Each variant of one op type and how it went."""
    from xlanb.clustering.xla_kernels import kernel_constraints
    from xlanb.graph.ops.op_def import BY_SHORT_NAME

    kernels = {a: [BY_SHORT_NAME[t].name for t in ts] for a, ts in (kernel_constraints(name) or {}).items()}
    return [(types, run(name, types)) for types in variants(name, kernels)]


def _work(pipe: Any, names: list[str], known: set[tuple[str, str]]) -> None:
    """Send each variant before it is run, then its outcome; `known` ones are skipped."""
    from xlanb.clustering.xla_kernels import kernel_constraints
    from xlanb.graph.ops.op_def import BY_SHORT_NAME

    for name in names:
        kernels = {a: [BY_SHORT_NAME[t].name for t in ts] for a, ts in (kernel_constraints(name) or {}).items()}
        for types in variants(name, kernels):
            if (name, str(types)) not in known:
                pipe.send((name, types, None))
                pipe.send((name, types, run(name, types)))
    pipe.send(None)


def results(names: list[str]) -> Iterator[tuple[str, dict[str, str], Outcome]]:
    """Yield every variant of these op types and its outcome; if TensorFlow aborts, continue in a
    new process.
    """
    known: set[tuple[str, str]] = set()
    context = multiprocessing.get_context("spawn")
    at: tuple[str, dict[str, str]] | None = None
    while True:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, names, known))
        process.start()
        theirs.close()
        try:
            while (said := ours.recv()) is not None:
                name, types, outcome = said
                at = (name, types)
                if outcome is not None:
                    known.add((name, str(types)))
                    yield name, types, outcome
        except EOFError:
            process.join()
            if at is None:
                raise
            known.add((at[0], str(at[1])))
            yield *at, Outcome("refused", f"the process ended with {process.exitcode}")
        else:
            process.join()
            return


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
    lines: list[str] = []
    rows: dict[str, list[tuple[dict[str, str], Outcome]]] = {}

    def close(name: str) -> None:
        found = verdict(rows[name])
        totals[found] += 1
        lines.extend(f"{found}\t{name}\t{o.status}\t{t}\t{o.text!r}" for t, o in rows[name])
        if found != "right" or given.only:
            shown = [f"    {o.status} {t} {o.text}" for t, o in rows[name] if o.status != "ok"]
            sys.stdout.write("\n".join([f"{found} {name}", *shown[:2]]) + "\n")
            sys.stdout.flush()

    for name, types, outcome in results(names):
        if rows and name not in rows:
            close(next(reversed(rows)))
        rows.setdefault(name, []).append((types, outcome))
    if rows:
        close(next(reversed(rows)))
    if given.list:
        Path(given.list).write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{len(names)} op types: {dict(totals)}\n")


if __name__ == "__main__":
    main()
