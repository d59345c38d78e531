"""Words of messages and reports that depend on a number."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural but for one: "1 launch", "1,200 launches"."""
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


_SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(n: float, unit: str) -> str:
    """A count in a unit's multiple, three digits: "33.6 Mflop", "512 B", "1.2 kB"."""
    for size, letter in _SCALES:
        if n >= size * 0.9995:
            return f"{n / size:.3g} {letter}{unit}"
    return f"{n:.3g} {unit}"
