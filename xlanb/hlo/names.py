"""Unique names as XLA gives them (service/name_uniquer.cc): `add`, `add.1`, `add.2`, ..."""

from __future__ import annotations


class NameUniquer:
    """Hands out names; a name is a root and a number, and `add`, `add.0` and `add.00` are the same one."""

    __slots__ = ("_next", "_used")

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """`wanted` (its number in plain decimal) if it is free, else its root with the first free number; taken from then on."""
        root, number = wanted, 0
        numbered = False
        stem, _, suffix = wanted.rpartition(".")
        if stem and suffix.isdigit() and suffix.isascii() and len(suffix) < 19:
            root, number, numbered = stem, int(suffix), True
        key = f"{root}.{number}"
        used = self._used
        if key in used:
            number = self._next.get(root, 0)
            while (key := f"{root}.{number}") in used:
                number += 1
            self._next[root] = number + 1
        used.add(key)
        return f"{root}.{number}" if number or numbered else root

    def copy(self) -> NameUniquer:
        """Another one with the same names taken."""
        new = NameUniquer()
        new._used = set(self._used)
        new._next = dict(self._next)
        return new
