"""Words of messages and reports that depend on a number."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """A number with its noun, in the plural but for one: "1 launch", "1,200 launches"."""
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"
