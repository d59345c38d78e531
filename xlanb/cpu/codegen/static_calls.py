"""Kernels that only call routines with constant addresses, represented as data without code.

A matrix product, convolution or copy is a kernel of a few calls, each with a context: words on the
stack that contain array addresses plus offsets, tables and numbers. `static_calls` parses such a
kernel's instructions. Any other instruction, a loop or a computed address, makes it a normal
kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.types import VOID
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern

_MOST_LINES = 300
"""The most lines of a kernel to parse: contexts are small, and so are kernels that only call."""
_ALLOCA = pattern(r"  (%[\w.]+) = alloca \[\d+ x (ptr|i64|i8)\]")
_ADDRESS = pattern(r"  (%[\w.]+) = getelementptr (?:inbounds )?(\w+), ptr ([%@][\w.]+), i64 (-?\d+)$")
_STORE = pattern(r"  store (?:ptr|i64) ([%@]?[\w.-]+), ptr (%[\w.]+)(?:, align \d+)?$")
_CALL = pattern(r"  call void @([\w.]+)\((.*)\)$")
_WORD: Final = 8
_BYTES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
DIRECT: Final = -1
"""`threads` of a call that takes the four words of its context as arguments."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a context.

    `offset` bytes after a parameter's array (by number) or a symbol; just a number if `base` is
    None.
    """

    base: int | str | None
    offset: int


@dataclass(frozen=True, slots=True)
class StaticCall:
    """A call of a function with a context.

    Called as (context, 0, count, 0); or shared by `threads` in `chunks` parts if nonzero; or with
    the words themselves as arguments (DIRECT).
    """

    function: str
    words: tuple[Word, ...]
    count: int
    chunks: int
    threads: int


def static_calls(kernel: Function) -> tuple[StaticCall, ...] | None:
    """The calls that a finished kernel makes, in order; None if it does anything else."""
    only_calls = kernel.ready and kernel.calls_only and not kernel.outlined and kernel.result is VOID
    if not only_calls or kernel.size > _MOST_LINES:
        return None
    reader = _CallReader({f"%{p.name}": k for k, p in enumerate(kernel.parameters)})
    return tuple(reader.calls) if all(map(reader.take, kernel.body)) and reader.calls else None


class _CallReader:
    """Interprets instructions: tracks the value of each name, and the words of each context."""

    def __init__(self, parameters: Mapping[str, int]) -> None:
        self.calls: list[StaticCall] = []
        self._known = {name: Word(number, 0) for name, number in parameters.items()}
        self._places: dict[str, tuple[str, int]] = {}
        self._contexts: dict[str, dict[int, Word]] = {}

    def take(self, line: str) -> bool:
        """Interpret an instruction; False if it is unsupported."""
        if (found := _ADDRESS.match(line)) is not None:
            return self._address(*found.groups())
        if (found := _STORE.match(line)) is not None:
            return self._store(*found.groups())
        if (found := _CALL.match(line)) is not None:
            return self._call(found[1], found[2].split(", ") if found[2] else [])
        found = _ALLOCA.match(line)
        if found is not None:
            self._contexts[found[1]] = {}
            self._places[found[1]] = found[1], 0
        return found is not None

    def _address(self, name: str, element: str, base: str, index: str) -> bool:
        size = _BYTES.get(element)
        if size is None:
            return False
        by = size * int(index)
        if base in self._places:
            context, at = self._places[base]
            self._places[name] = context, at + by
            return True
        word = self._word(base)
        if word is not None:
            self._known[name] = Word(word.base, word.offset + by)
        return word is not None

    def _store(self, value: str, address: str) -> bool:
        word, place = self._word(value), self._places.get(address)
        if word is None or place is None or place[1] % _WORD:
            return False
        self._contexts[place[0]][place[1] // _WORD] = word
        return True

    def _word(self, text: str) -> Word | None:
        """A value as a word; None if it is a stack address or unknown."""
        if text.startswith("@"):
            return Word(text[1:], 0)
        if text.startswith("%"):
            return self._known.get(text)
        return Word(None, int(text)) if text.lstrip("-").isdigit() else None

    def _call(self, function: str, arguments: Sequence[str]) -> bool:
        """Interpret a call in one of the three forms."""
        given = [a.partition(" ")[::2] for a in arguments]
        kinds, values = [kind for kind, _ in given], [value for _, value in given]
        if function == PARALLEL and kinds == ["ptr", "ptr", "i64", "i64", "i64"] and values[0].startswith("@"):
            return self._add(values[0][1:], self._context(values[1]), values[2:])
        if kinds == ["ptr", "i64", "i64", "i64"] and values[1] == values[3] == "0":
            return self._add(function, self._context(values[0]), [values[2], "0", "0"])
        if kinds == ["ptr"] * 4:
            return self._add(function, [self._word(v) for v in values], ["0", "0", str(DIRECT)])
        return False

    def _context(self, address: str) -> Sequence[Word | None]:
        context, at = self._places.get(address, ("", 0))
        words = self._contexts.get(context, {})
        return [words.get(k) for k in range(max(words) + 1)] if words and not at else [None]

    def _add(self, function: str, words: Sequence[Word | None], numbers: Sequence[str]) -> bool:
        known = [w for w in words if w is not None]
        if len(known) < len(words) or not all(n.lstrip("-").isdigit() for n in numbers):
            return False
        self.calls.append(StaticCall(function, tuple(known), *map(int, numbers)))
        return True
