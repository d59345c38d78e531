"""Run one of the measurements and print its table: `python -m benchmarks NAME [WORD ...]`.

Some measurements take words as arguments.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))
TAKE_WORDS = {"devices", "explorer", "load", "models", "products", "shardy", "verdicts"}


def main() -> int:
    """Run the measurements named on the command line, or one with its arguments."""
    wanted, words = sys.argv[1:], []
    if wanted and wanted[0] in TAKE_WORDS:
        wanted, words = wanted[:1], wanted[1:]
    if not wanted or not set(wanted) <= set(NAMES):
        print(f"usage: python -m benchmarks {{{','.join(NAMES)}}} ...")
        return 2
    for name in wanted:
        print(import_module(f"benchmarks.{name}").table(*words).to_string(index=False, na_rep=""))
    return 0


sys.exit(main())
