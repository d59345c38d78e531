"""Read small reports about an LLO program.

Bundles by HLO instruction, checksums by stage, HLO instructions that share a program:

    total scheduled bundles:    602
    empty scheduled bundles:    5
     443.00 scheduled bundles (74.20%): <no hlo>
      11.50 scheduled bundles ( 1.93%): %copy-start = (f32[256,1024]{1,0}) copy-start(%p)

    m/OFNgBtgp1fdJpn=:i=0000047b:c=000000c9:a=00000040:b=00000017 post-simplifier-1

    key:reduce_sum.80
    ordinal:5
    equivalent_hlos[size=2]:
      reduce_sum.80
      reduce_sum.66
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from xlanb.errors import DumpError

MAX_ROWS: Final = 200_000

_TOTAL = re.compile(r"\s*(total|empty) scheduled bundles:\s*(\d{1,12})\s*$")
_SHARE = re.compile(r"\s*(?P<bundles>\d{1,12}(?:\.\d{1,6})?) scheduled bundles \([ \d.]{1,12}%\): (?P<hlo>.*)$")
_NAMED = re.compile(r"%(\S+) = ")
_FINGERPRINT = re.compile(
    r"(?P<sum>[\w+/=]{8,88}):i=(?P<i>[0-9a-f]{1,8}):c=(?P<c>[0-9a-f]{1,8})"
    r":a=(?P<a>[0-9a-f]{1,8}):b=(?P<b>[0-9a-f]{1,8}) (?P<label>\S.*)"
)


@dataclass(frozen=True)
class ScheduleAnalysis:
    """Counts of a program's bundles: all, empty ones, and by HLO instruction, largest first.

    "" is for bundles without an instruction. A bundle that serves several instructions counts in
    parts.
    """

    total: int
    empty: int
    by_instruction: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What was dumped of a program after one LLO stage.

    It has a checksum, and numbers of instructions, constants, memory allocations and regions.
    """

    label: str
    checksum: str
    instructions: int
    constants: int
    allocations: int
    regions: int


def parse_schedule_analysis(text: str) -> ScheduleAnalysis:
    """Parse a schedule-analysis file.

    Raises:
        DumpError: it does not say how many bundles there are.
    """
    totals: dict[str, int] = {}
    rows: list[tuple[str, float]] = []
    for line in text.splitlines():
        total = _TOTAL.match(line)
        if total is not None:
            totals[total[1]] = int(total[2])
        elif len(rows) < MAX_ROWS and (share := _SHARE.match(line)) is not None and not share["hlo"].startswith("["):
            named = _NAMED.match(share["hlo"])
            rows.append((named[1] if named is not None else "", float(share["bundles"])))
    if "total" not in totals:
        raise DumpError(
            f"not a schedule analysis: expected 'total scheduled bundles: N', the text begins {text[:80]!r}"
        )
    return ScheduleAnalysis(totals["total"], totals.get("empty", 0), tuple(rows))


def parse_fingerprints(text: str) -> tuple[Fingerprint, ...]:
    """Parse the stages of a fingerprints file, in order, skipping other lines."""
    found = []
    for line in text.splitlines()[:MAX_ROWS]:
        m = _FINGERPRINT.fullmatch(line.strip())
        if m is not None:
            numbers = [int(m[k], 16) for k in "icab"]
            found.append(Fingerprint(m["label"], m["sum"], *numbers))
    return tuple(found)


def parse_deduplication(text: str) -> dict[str, tuple[str, ...]]:
    """Return HLO instructions by the program that computes them, for shared programs only."""
    found: dict[str, tuple[str, ...]] = {}
    key = ""
    served: list[str] = []
    for line in [*text.splitlines()[:MAX_ROWS], "key:"]:
        if line.startswith("key:"):
            if len(served) > 1:
                found[key] = tuple(served)
            key, served = line.removeprefix("key:").strip(), []
        elif line.startswith("  ") and key:
            served.append(line.strip())
    return found
