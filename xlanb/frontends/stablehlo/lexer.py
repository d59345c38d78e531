"""Tokens of MLIR text: HLO's Cursor with MLIR's names, strings and numbers.

Grammar: mlir.llvm.org/docs/LangRef.
"""

from __future__ import annotations

import re

from xlanb.hlo.text.lexer import Cursor

_BLANK = r"[ \t\n\r]*"
_STRING = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"')
_SUFFIX = re.compile(rf"([0-9]+|[A-Za-z_$.\-][\w$.\-]*){_BLANK}")
_BARE = re.compile(rf"([A-Za-z_][\w$.]*){_BLANK}")
_VALUE = re.compile(rf"%([0-9]+|[A-Za-z_$.\-][\w$.\-]*)(?:#([0-9]{{1,6}}))?{_BLANK}")
_INTEGER = re.compile(rf"(-?(?:0x[0-9a-fA-F]+|[0-9]+)){_BLANK}")
_FLOAT = re.compile(rf"(-?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?){_BLANK}")
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{2}|.)")
_SIMPLE = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_LONGEST_INTEGER = 40
"""Digits of the longest integer that is read: that of 128 bits."""


class MlirCursor(Cursor):
    """A place in MLIR text."""

    __slots__ = ()

    def bare(self, what: str = "a name") -> str:
        """A bare identifier, which may have dots: `stablehlo.add`."""
        found = _BARE.match(self.text, self.pos)
        if found is None:
            self.fail(f"expects {what}")
        self.pos = found.end()
        return found[1]

    def peek_bare(self) -> str:
        """Return the bare identifier here without consuming it, or ""."""
        found = _BARE.match(self.text, self.pos)
        return found[1] if found else ""

    def accept_bare(self, word: str) -> bool:
        """Consume this bare identifier if it is next."""
        found = _BARE.match(self.text, self.pos)
        if found is None or found[1] != word:
            return False
        self.pos = found.end()
        return True

    def expect_bare(self, word: str) -> None:
        """Consume a required bare identifier."""
        if not self.accept_bare(word):
            self.fail(f"expects '{word}'")

    def value_name(self) -> tuple[str, int | None]:
        """Consume the name of a value without its `%`, and the optional number after `#`."""
        found = _VALUE.match(self.text, self.pos)
        if found is None:
            self.fail("expects a value such as %0")
        self.pos = found.end()
        return found[1], None if found[2] is None else int(found[2])

    def suffix(self, mark: str) -> str:
        """Consume a mark and return the name after it: `#map`, `!type`, `^bb0` or `@main`."""
        if not self.at(mark):
            self.fail(f"expects '{mark}' and a name")
        if mark == "@" and self.text.startswith('"', self.pos + 1):
            self.pos += 1
            return self.quoted()
        found = _SUFFIX.match(self.text, self.pos + 1)
        if found is None:
            self.fail(f"expects a name after '{mark}'")
        self.pos = found.end()
        return found[1]

    def quoted(self) -> str:
        """Consume a string in double quotes; a backslash escapes two hex digits, a quote, a
        backslash, n or t.
        """
        found = _STRING.match(self.source, self.pos)
        if found is None:
            self.fail("expects a string")
        self.pos = found.end()
        self.skip()
        return _ESCAPE.sub(_resolved, found[1]) if "\\" in found[1] else found[1]

    def at_integer(self) -> bool:
        """Whether an integer, not a float, is next."""
        return _INTEGER.match(self.text, self.pos) is not None and _FLOAT.match(self.text, self.pos) is None

    def number(self) -> int | float:
        """An integer, decimal or hexadecimal, or a float."""
        found = _FLOAT.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
            return float(found[1])
        return self.whole_number()

    def whole_number(self) -> int:
        """An integer, decimal or hexadecimal."""
        found = _INTEGER.match(self.text, self.pos)
        if found is None:
            self.fail("expects an integer")
        if len(found[1]) > _LONGEST_INTEGER:
            self.fail(f"expects an integer of at most {_LONGEST_INTEGER} digits")
        self.pos = found.end()
        return int(found[1], 16 if "x" in found[1] else 10)


def _resolved(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 16)) if len(text) == 2 else _SIMPLE.get(text, text)
