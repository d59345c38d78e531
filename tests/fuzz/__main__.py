"""Feed mutated and generated inputs to xlanb until the time is over.

    python -m tests.fuzz [--minutes M | --count N] [--seed S] [--jobs J] [--reduce SECONDS]
    [KIND...]

Prints the seed, and at the end how many inputs of each kind were checked and what was found, by
class. If no kind is given, interrupts follow (tests.fuzz.interrupts). XLANB_FUZZ_SEEDS adds modules
to start from: HLO files, .jsonl or .jsonl.gz files whose objects contain HLO texts, StableHLO
(.mlir), GraphDefs (.pb, .pbtxt), or folders of these, separated by `:`. The finds are in
build/fuzz, reduced, each with its reason (.why); the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import importlib
import secrets
import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

from tests.fuzz.driver import Campaign
from tests.fuzz.kinds import kinds

_WARM = (
    "scipy.fft",
    "scipy.linalg",
    "xlanb",
    "xlanb.cpu.compiler",
    "xlanb.explorer.explore",
    "xlanb.explorer.live",
    "xlanb.explorer.why",
    "xlanb.runtime.session",
    "xlanb.tf",
    "xlanb.view.page",
)
_WARM_PACKAGES = ("xlanb.frontends.stablehlo", "xlanb.runtime.host", "xlanb.transforms")
"""Packages imported as a whole before the first child is forked, to save half a batch's time."""

_INTERRUPTS = 20
"""Interrupts per minute of a campaign of all kinds; they take about a tenth of its time."""


def main() -> int:
    """The command line; returns 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds())}; all where none is named")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--count", type=int, help="inputs of each kind, where that is reached sooner")
    parser.add_argument("--seed", type=int, default=None, help="a number; a new one each time where it is left out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--reduce", type=float, default=300.0, metavar="SECONDS", help="for making finds smaller")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    unknown = set(options.kinds) - set(kinds())
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}; there are {', '.join(kinds())}")
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    _say(f"seed {seed}")
    _import_all()
    campaign = Campaign([kinds()[k] for k in options.kinds or kinds()], seed, options.folder)
    found = campaign.run(60 * options.minutes, options.count, options.jobs, _say)
    _say(f"seed {seed}\n{campaign.report()}")
    campaign.reduce_finds(seconds=options.reduce)
    if not options.kinds:
        found += _interrupts(options.count or round(_INTERRUPTS * options.minutes), seed)
    return 1 if found else 0


def _import_all() -> None:
    for name in _WARM:
        importlib.import_module(name)
    for name in _WARM_PACKAGES:
        for module in walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)


def _interrupts(count: int, seed: int) -> int:
    """The campaign of interrupts, in a process of its own; returns 1 if something was wrong."""
    command = [sys.executable, "-m", "tests.fuzz.interrupts", "--count", str(count), "--seed", str(seed)]
    return 1 if subprocess.run(command, check=False).returncode else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
