"""Read how busy each bundle keeps each unit: final_hlo-static-per-bundle-utilization.

    == CAPACTIY:
    MATMUL, MATPUSH, XLU, VALU
        4     4     3     4
    == UTILIZATION:
    0 1 0 2

A row is a bundle, a column a unit. A matrix unit counts as long as an instruction occupies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from xlanb.errors import DumpError

MAX_UNITS: Final = 64

_WORDS: Final = {
    "MXU": "matrix units",
    "MATMUL": "matrix units that multiply",
    "MATPUSH": "matrix units that take weights",
    "XLU": "cross-lane units",
    "VALU": "vector arithmetic",
    "VPOP": "pops of results from queues",
    "EUP": "transcendentals",
    "VLOAD": "vector loads",
    "VLOAD:FILL": "vector loads that bring back spilled registers",
    "VSTORE": "vector stores",
    "VSTORE:SPILL": "vector stores that spill registers",
    "SALU": "scalar arithmetic",
}


_MATRIX_UNITS: Final = ("MATMUL", "MXU")
"""Names of the matrix units in libtpu releases.

Before 0.0.52, all their work is under one name.
"""


def matrix_share(shares: Mapping[str, float]) -> float:
    """Return the used share of the matrix units' capacity, 0 to 1; 0 for a program without them."""
    return next((shares[u] for u in _MATRIX_UNITS if u in shares), 0.0)


@dataclass(frozen=True)
class Utilization:
    """Units in use: `rows[bundle][unit]` of `capacity[unit]`."""

    units: tuple[str, ...]
    capacity: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    @cached_property
    def shares(self) -> dict[str, float]:
        """The used share of each unit's capacity over all bundles, 0 to 1."""
        totals = [sum(column) for column in zip(*self.rows, strict=True)] or [0] * len(self.units)
        places = [c * max(len(self.rows), 1) for c in self.capacity]
        return {u: t / p if p else 0.0 for u, t, p in zip(self.units, totals, places, strict=True)}

    @property
    def busiest(self) -> str:
        """The most used unit, "" if none."""
        best = max(self.shares, key=lambda u: self.shares[u], default="")
        return best if best and self.shares[best] > 0 else ""

    def __repr__(self) -> str:
        return f"<Utilization: {len(self.rows):,} bundles, {len(self.units)} units>"


def unit_words(unit: str) -> str:
    """Describe what a column counts."""
    return _WORDS.get(unit, unit)


def parse_utilization(text: str) -> Utilization:
    """Parse a final_hlo-static-per-bundle-utilization file.

    Raises:
        DumpError: it has no heading, or a row that does not match it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not lines[0].startswith("=="):
        raise DumpError(f"not a utilization table: expected the heading '== CAPACITY:', the text begins {text[:80]!r}")
    units = tuple(u.strip() for u in lines[1].split(","))
    capacity = _row(lines[2], 3, len(units))
    if len(units) > MAX_UNITS:
        raise DumpError(f"the utilization table has {len(units)} units, more than the limit of {MAX_UNITS}")
    body = [(k, line) for k, line in enumerate(lines[3:], 4) if not line.startswith("==")]
    return Utilization(units, capacity, tuple(_row(line, k, len(units)) for k, line in body))


def _row(line: str, number: int, count: int) -> tuple[int, ...]:
    parts = line.split()
    if len(parts) != count or not all(p.isascii() and p.isdigit() and len(p) < 7 for p in parts):
        raise DumpError(f"line {number} of the utilization table: expected {count} numbers, got {line[:80]!r}")
    return tuple(map(int, parts))
