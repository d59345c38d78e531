"""Unique names as in XLA (service/name_uniquer.cc): `add`, `add.1`, `add.2`, ..."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from xlanb.shape.primitive_type import BY_TEXT

_PLAIN: Final = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_TYPES: Final = BY_TEXT.keys() - {"tuple", "b"}
_OTHER: Final = re.compile(rb"[^A-Za-z0-9_.-]")


@lru_cache(maxsize=16_384)
def sanitized(name: str) -> str:
    """The name with only characters that HLO text allows (NameUniquer::GetSanitizedName).

    Letters, digits, `_`, `.` and `-`; no leading digit; not an element type.

    a b => a_b    1x => _x    f32 => f32_    __x => a_x
    """
    if (_PLAIN.fullmatch(name) and name not in _TYPES) or not name:
        return name
    made = _OTHER.sub(b"_", name.encode("utf-8", "surrogateescape")).decode("ascii")
    if not (made[0].isalpha() or made[0] == "_"):
        made = f"_{made[1:]}"
    if made in _TYPES:
        made += "_"
    return f"a{made[1:]}" if made.startswith("__") and not made.startswith("__xla_") else made


class NameUniquer:
    """Creates unique names, each a root and a number.

    `add`, `add.0` and `add.00` are the same name. `separator` is put between root and number.
    """

    __slots__ = ("_next", "_separator", "_used")

    def __init__(self, separator: str = ".") -> None:
        self._separator = separator
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """Reserve `wanted` if it is free, else its root with the first free number.

        A number in `wanted` is normalized to plain decimal.
        """
        used, separator = self._used, self._separator
        stem, _, suffix = wanted.rpartition(separator)
        numbered = suffix.isdigit() and bool(stem) and suffix.isascii() and len(suffix) < 19
        root = stem if numbered else wanted
        if not numbered:
            key = f"{wanted}{separator}0"
        elif suffix[0] != "0":
            key = wanted
        else:
            wanted = key = f"{stem}{separator}{int(suffix)}"
        if key not in used:  # nearly always
            used.add(key)
            return wanted
        number = self._next.get(root, 0)
        while (key := f"{root}{separator}{number}") in used:
            number += 1
        self._next[root] = number + 1
        used.add(key)
        return key if number or numbered else root

    def copy(self) -> NameUniquer:
        """A copy with the same names reserved."""
        new = NameUniquer(self._separator)
        new._used = set(self._used)
        new._next = dict(self._next)
        return new


def escape(text: str) -> str:
    """The text as absl::CEscape escapes it for double quotes."""
    if text.isascii() and text.isprintable() and not _NEEDS_ESCAPE.search(text):
        return text
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        out.append(_ESCAPED.get(char) or (char if 32 <= byte < 127 else f"\\{byte:03o}"))
    return "".join(out)


_NEEDS_ESCAPE = re.compile(r"""["'\\]""")
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
