"""The tokens of HLO text: a Cursor over the text, one regular-expression match per token.

The rules are those of xla/hlo/parser/hlo_lexer.cc. An identifier directly followed by `=` is an
attribute name, by `:` a name. Numbers, `1x2` lists, `1_2` paddings and dimension labels are
distinguished by their whole text. Comments are blanks. Nothing is tokenized in advance: the parser
requests the token it expects, and a Cursor is always at the start of a token.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xlanb.errors import HloParseError
from xlanb.patterns import pattern
from xlanb.shape.primitive_type import BY_TEXT as PRIMITIVE_TYPES

MAX_DEPTH = 100
"""The maximum nesting of operands, computations, shapes and literals.

Deeper nesting raises HloParseError.
"""

_STRING = r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"' + r"|'[^'\\]*(?:\\[\s\S][^'\\]*)*'"
# An unclosed quote matches the rest of the text: searching for its end again from every later quote
# would be quadratic. The pattern begins with a character set, which re finds quickly.
_COMMENT = re.compile(
    r"""["'/](?:(?<=")[^"\\]*(?:\\[\s\S][^"\\]*)*"|(?<=')[^'\\]*(?:\\[\s\S][^'\\]*)*'"""
    r"""|(?<=["'])(?P<open>[\s\S]*)|(?<=/)(?:/[^\n\r]*|\*[\s\S]*?\*/|\*))"""
)
_BLANK = re.compile(r"[ \t\n\r]*")
_NOT_EOL = pattern(r"[^\n\r]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_NAME = re.compile(r"(?:%([A-Za-z_][A-Za-z0-9_.\-]*)|([A-Za-z_][A-Za-z0-9_.\-]*)([:=]?))[ \t\n\r]*")
_ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=[ \t\n\r]*")
_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)(?![:=])[ \t\n\r]*")
_NUMBER = pattern(
    r"(?P<float>-?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)[eE][+-]?[0-9]+|[0-9]++\.[0-9]*|\.[0-9]+))"
    r"|(?P<labels>[0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,})"
    r"|(?P<dxd>[0-9]+(?:x[0-9]+)+)"
    r"|(?P<pad>-?[0-9]+_-?[0-9]+(?:_[0-9]+)?(?:x-?[0-9]+_-?[0-9]+(?:_[0-9]+)?)*)"
    r"|(?P<int>-?[0-9]+)"
)
_LABELS = pattern(r"([0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,})[ \t\n\r]*")
_INT = re.compile(r"-?[0-9]+")
_INTS = re.compile(r"\{[ \t\n\r]*(?:(-?[0-9]{1,18}(?:[ \t\n\r]*,[ \t\n\r]*-?[0-9]{1,18})*)[ \t\n\r]*)?\}[ \t\n\r]*")
_STRING_TOKEN = pattern(rf"(?:{_STRING})")
_JSON_STEP = pattern(r'[^{}"]+|"[^"\\]*(?:\\[\s\S][^"\\]*)*"|[{}]')
_ESCAPE = pattern(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))")
_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    "'": "'",
    '"': '"',
}
_INT_MIN, _UINT_MAX = -(2**63), 2**64 - 1

KEYWORDS = frozenset(
    "true false inf nan HloModule ENTRY ROOT FileLocations FileNames FunctionNames StackFrames "
    "maximal replicated manual "
    "last_tile_dim_replicate shard_as shard_like unknown unreduced".split()
)
RESERVED = KEYWORDS | frozenset(t for t in PRIMITIVE_TYPES if t not in ("tuple", "b"))
"""Identifiers that are not names unless preceded by %."""


class Cursor:
    """A position in a text.

    `text` has its comments replaced by blanks, `source` is the original; offsets are the same in
    both. `filled` counts the elements of literals that the text left out. Every method that reads a
    token also skips the blanks after it, and raises HloParseError if there is another token.
    """

    __slots__ = ("depth", "end", "filled", "pos", "source", "text")

    def __init__(self, source: str) -> None:
        self.source = source
        self.text = blank_comments(source)
        self.end = len(source)
        self.depth = 0
        self.filled = 0
        self.pos = 0
        self.skip()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise HloParseError that shows the line of `at` (by default the current token's)."""
        raise HloParseError(message, self.source, self.pos if at is None else at)

    def skip(self) -> None:
        """Skip blanks to the next token."""
        self.pos = skipped(self.text, self.pos)

    def enter(self) -> None:
        """Enter a nesting level; `self.depth -= 1` leaves it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep")

    @property
    def at_end(self) -> bool:
        """Whether the end of the text is reached."""
        return self.pos >= self.end

    # -- punctuation -------------------------------------------------------------------------------

    def at(self, mark: str) -> bool:
        """Whether a punctuation mark is next."""
        return self.text.startswith(mark, self.pos)

    def accept(self, mark: str) -> bool:
        """Read a punctuation mark if it is next; return whether it was."""
        if not self.text.startswith(mark, self.pos):
            return False
        self.pos += len(mark)
        self.skip()
        return True

    def expect(self, mark: str, where: str = "") -> None:
        """Read a punctuation mark that must be next."""
        if not self.accept(mark):
            self.fail(f"expects '{mark}'{' ' + where if where else ''}")

    # -- identifiers -------------------------------------------------------------------------------

    def peek_word(self) -> str:
        """The bare identifier that is next, or ""; nothing is read."""
        found = _WORD.match(self.text, self.pos)
        return found[1] if found else ""

    def word(self, what: str = "a word") -> str:
        """Read a bare identifier."""
        found = _WORD.match(self.text, self.pos)
        if found is None:
            self.fail(f"expects {what}")
        self.pos = found.end()
        return found[1]

    def accept_word(self, word: str) -> bool:
        """Read a certain bare identifier if it is next; return whether it was."""
        found = _WORD.match(self.text, self.pos)
        if found is None or found[1] != word:
            return False
        self.pos = found.end()
        return True

    def try_name(self) -> str:
        """Read a name with or without %, or `name:`; "" if none is next."""
        found = _NAME.match(self.text, self.pos)
        if found is None:
            return ""
        percent, bare, mark = found[1], found[2], found[3]
        if not percent and (mark == "=" or (not mark and bare in RESERVED)):
            return ""
        if bare and not mark and _LABELS.match(self.text, self.pos):
            return ""
        self.pos = found.end()
        return percent or bare

    def name(self, what: str = "name") -> str:
        """Read a name with or without %."""
        found = self.try_name()
        if not found:
            self.fail(f"expects {what}")
        return found

    def attribute_name(self) -> str:
        """Read an identifier directly followed by `=`, and the `=`."""
        found = _ATTRIBUTE.match(self.text, self.pos)
        if found is None:
            self.fail("expects attribute name")
        self.pos = found.end()
        return found[1]

    def labels(self) -> str:
        """Read dimension labels, `b01f_01io->b01f`."""
        found = _LABELS.match(self.text, self.pos)
        if found is None:
            self.fail("expects dim labels pattern, e.g., 'bf0_0io->0bf'")
        self.pos = found.end()
        return found[1]

    # -- numbers -----------------------------------------------------------------------------------

    def number_kind(self) -> tuple[str, str]:
        """The kind and text of the number-like token that is next; nothing is read.

        The kind is "float", "labels", "dxd", "pad", "int" or "".
        """
        found = _NUMBER.match(self.text, self.pos)
        return (found.lastgroup or "", found[0]) if found else ("", "")

    def eat(self, text: str) -> None:
        """Skip a token whose text is known."""
        self.pos += len(text)
        self.skip()

    def is_int(self) -> bool:
        """Whether an integer is next."""
        return self.number_kind()[0] == "int"

    def integer(self) -> int:
        """Read a 64-bit integer; as in XLA, 2**63 and more wrap around to negative values."""
        kind, text = self.number_kind()
        if kind != "int":
            self.fail("expects integer")
        value = self._checked(text)
        self.eat(text)
        return value

    def plain_integer(self) -> int:
        """Read an integer in a list of integers, where `1_2` and `1x2` are not tokens."""
        found = _INT.match(self.text, self.pos)
        if found is None:
            self.fail("expects integer")
        value = self._checked(found[0])
        self.eat(found[0])
        return value

    def _checked(self, text: str) -> int:
        if len(text) > 21 or not _INT_MIN <= int(text) <= _UINT_MAX:
            self.fail("integer out of range")
        value = int(text)
        return value - 2**64 if value >= 2**63 else value

    def boolean(self) -> bool:
        """Read true or false."""
        word = self.peek_word()
        if word not in ("true", "false"):
            self.fail("expects true or false")
        self.word()
        return word == "true"

    def ints(self, start: str = "{", stop: str = "}", comma: str = ",") -> tuple[int, ...]:
        """Read a list of integers, `{1,2}`."""
        if start == "{" and comma == ",":
            found = _INTS.match(self.text, self.pos)
            if found is not None:
                self.pos = found.end()
                return tuple(map(int, found[1].split(","))) if found[1] else ()
        self.expect(start, "at the start of a list")
        out: list[int] = []
        if not self.at(stop):
            out.append(self.plain_integer())
            while self.accept(comma):
                out.append(self.plain_integer())
        self.expect(stop, "at the end of a list")
        return tuple(out)

    # -- strings -----------------------------------------------------------------------------------

    def at_string(self) -> bool:
        """Whether a quoted string is next."""
        return self.text.startswith(('"', "'"), self.pos)

    def string(self) -> str:
        """Read a quoted string and resolve its escapes."""
        found = _STRING_TOKEN.match(self.source, self.pos)
        if found is None:
            self.fail("expects string")
        value = found[0][1:-1]
        if "\\" in value:
            value = unescape(value, self)
        self.pos = found.end()
        self.skip()
        return value

    def json_dict(self) -> str:
        """Read text in balanced braces, verbatim; braces within double quotes do not count."""
        start = self.pos
        if not self.at("{"):
            self.fail("expects JSON dict")
        depth, pos = 0, start
        while True:
            step = _JSON_STEP.match(self.source, pos)
            if step is None:
                self.fail("expects JSON dict", start)
            pos = step.end()
            depth += (step[0] == "{") - (step[0] == "}")
            if depth == 0:
                break
        self.pos = pos
        self.skip()
        return self.source[start:pos]


def skipped(text: str, pos: int) -> int:
    """The offset of the next token of a text without comments."""
    found = _BLANK.match(text, pos)
    return found.end() if found else pos


def has_comment(source: str) -> bool:
    """Whether it contains a comment outside strings, or an unterminated string."""
    if "//" not in source and "/*" not in source and "'" not in source:
        return False
    return any(found[0][0] == "/" or found.lastgroup == "open" for found in _COMMENT.finditer(source))


def blank_comments(source: str) -> str:
    """Replace every comment outside strings by blanks of the same length.

    Raises:
        HloParseError: a comment is not closed.
    """
    if "//" not in source and "/*" not in source:
        return source

    def blank(found: re.Match[str]) -> str:
        text = found[0]
        if text[0] != "/":
            return text
        if text == "/*":
            raise HloParseError("unterminated comment", source, found.start())
        return _NOT_EOL.sub(lambda line: " " * len(line[0]), text)

    return _COMMENT.sub(blank, source)


def check_characters(source: str) -> None:
    """Raise HloParseError if a text has an unpaired surrogate, which UTF-8 cannot encode.

    A byte that is not UTF-8 may occur as Python's `surrogateescape` decodes it.
    """
    try:
        source.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        message = f"{source[error.start]!r} is half of a surrogate pair, which UTF-8 cannot encode"
        raise HloParseError(message, source, error.start) from error


def unescape(text: str, cursor: Cursor) -> str:
    """Resolve C escapes. Octal and hex escapes are bytes of UTF-8, as in absl::CUnescape.

    Raises:
        HloParseError: an escape is unknown, or the bytes are not UTF-8.
    """

    def resolve(found: re.Match[str]) -> bytes:
        octal, hexadecimal, short, long, simple = found.groups()
        if octal or hexadecimal:
            value = int(octal, 8) if octal else int(hexadecimal, 16)
            if value > 255:
                cursor.fail("escape out of range in a string")
            return bytes([value])
        if short or long:
            value = int(short or long, 16)
            if value > 0x10FFFF or 0xD800 <= value < 0xE000:
                cursor.fail("escape out of range in a string")
            return chr(value).encode()
        if simple not in _SIMPLE_ESCAPES:
            cursor.fail("unknown escape in a string")
        return _SIMPLE_ESCAPES[simple].encode()

    out, last = bytearray(), 0
    for found in _ESCAPE.finditer(text):
        out += text[last : found.start()].encode("utf-8", "surrogateescape") + resolve(found)
        last = found.end()
    out += text[last:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


def is_attribute_name(text: str) -> bool:
    """Whether `attribute_name` reads all of it."""
    return _ATTRIBUTE.fullmatch(f"{text}=") is not None
