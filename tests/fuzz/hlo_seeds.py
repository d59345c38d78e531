"""HLO modules that mutations start from.

The goldens of the tests, small modules of every opcode, and those in XLANB_FUZZ_SEEDS.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from xlanb.errors import XlanbError
from xlanb.hlo import parse

_TESTS = Path(__file__).parents[1]
_SEPARATOR = re.compile(r"(?m)^// ----\n|^(?=HloModule )")
_LONGEST = 6_000


@cache
def seeds() -> tuple[str, ...]:
    """Modules that verify: all goldens, seeds.hlo, and those in XLANB_FUZZ_SEEDS.

    The latter are HLO files, .jsonl, .jsonl.gz, or folders.
    """
    given = [Path(p) for p in os.environ.get("XLANB_FUZZ_SEEDS", "").split(os.pathsep) if p]
    texts = chain.from_iterable(map(_texts, (*sorted(_TESTS.rglob("*.hlo")), *chain.from_iterable(map(_files, given)))))
    return tuple(dict.fromkeys(t for t in texts if t.strip() and len(t) <= _LONGEST and is_valid(t)))


def _files(path: Path) -> list[Path]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [p for p in found if p.name.endswith((".hlo", ".jsonl", ".jsonl.gz"))]


def _texts(path: Path) -> Iterator[str]:
    """The modules of a file: concatenated HLO texts, or JSON lines with HLO in some values."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from _SEPARATOR.split(path.read_text(encoding="utf-8"))
        return
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            values = found.values() if isinstance(found, dict) else ()
            yield from (v for v in values if isinstance(v, str) and "ENTRY" in v)


def is_valid(text: str) -> bool:
    """Whether a text is a module that verifies."""
    try:
        parse(text).verify()
    except XlanbError:
        return False
    return True
