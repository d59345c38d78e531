"""Regular expressions of TensorFlow's string ops.

They use RE2 if google-re2 is installed, otherwise Python's re within a limit of steps. TensorFlow
uses RE2, whose time is linear in the text. Python's re backtracks: `(a+)+$` takes 2^n steps on n
times `a` and a
`b`. So the steps of a pattern are estimated from its repetitions before re is used; too many raise
an error that suggests google-re2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from xlanb.errors import GraphValueError

_MOST_STEPS = 10**8
"""Steps of Python's re that take some seconds."""

_ATOM = re.compile(rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(rb"\(\?(?:[a-zA-Z-]*:|P<\w+>)")
_LAZY = re.compile(rb"([*+?}])[?+]")
_REPEAT = re.compile(rb"[*+]|\{[\d,]+\}")
_REPEATED_GROUP = re.compile(rb"\)[*+{]")
_REFERENCE = re.compile(rb"\\(.?)", re.DOTALL)


@cache
def _re2() -> Any:
    """The module of google-re2; None if it is not installed or another package has its name."""
    try:
        module = import_module("re2")
    except ImportError:
        return None
    return module if hasattr(module, "Options") else None


class Re2Pattern:
    """A regular expression over bytes; RE2 matches them as UTF-8.

    Raises:
        GraphValueError: The text is not a regular expression.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._engine = _re2()
        refusals = (re.error, OverflowError, RecursionError) if self._engine is None else self._engine.error
        try:
            self._compiled = re.compile(text) if self._engine is None else _of_re2(self._engine, text)
        except refusals as error:
            raise GraphValueError(f"{text!r} is not a regular expression: {_shown(error)}") from None

    def matches_whole(self, texts: Iterable[bytes]) -> list[bool]:
        """Whether each text matches as a whole."""
        texts = list(texts)
        self._check(texts, searches=False)
        return [self._compiled.fullmatch(t) is not None for t in texts]

    def replaced(self, texts: Iterable[bytes], rewrite: bytes, *, everywhere: bool) -> list[bytes]:
        r"""Replace the first match or all by `rewrite`, in which `\0` to `\9` stand for groups.

        An empty match directly after another match is ignored, as in RE2.
        """
        texts = list(texts)
        written = self._rewriter(rewrite)
        self._check(texts, searches=True)
        return [self._replace(t, written, everywhere) for t in texts]

    def _replace(self, text: bytes, written: Callable[[Any], bytes], everywhere: bool) -> bytes:
        parts, at, last = [], 0, -1
        for m in self._compiled.finditer(text):
            start, end = m.span()
            if start == end and (start == last or self._is_within_character(text, start)):
                continue
            parts += [text[at:start], written(m)]
            at = last = end
            if not everywhere:
                break
        return b"".join([*parts, text[at:]])

    def _is_within_character(self, text: bytes, at: int) -> bool:
        return self._engine is not None and at < len(text) and text[at] & 0xC0 == 0x80

    def _rewriter(self, rewrite: bytes) -> Callable[[Any], bytes]:
        r"""A function that returns a match's replacement: `\\` is a backslash, `\n` a group."""
        parts: list[bytes | int] = []
        at = 0
        for m in _REFERENCE.finditer(rewrite):
            parts.append(rewrite[at : m.start()])
            at = m.end()
            if m[1] != b"\\" and not m[1].isdigit():
                raise GraphValueError(
                    f"the rewrite {rewrite!r} has a backslash before {m[1]!r}: only digits or \\ may follow it"
                )
            parts.append(int(m[1]) if m[1].isdigit() else m[1])
        parts.append(rewrite[at:])
        most = max((p for p in parts if isinstance(p, int)), default=0)
        if most > self._compiled.groups:
            raise GraphValueError(
                f"the rewrite {rewrite!r} names group {most}; {self._text!r} has {self._compiled.groups}"
            )
        return lambda m: b"".join(p if isinstance(p, bytes) else m.group(p) or b"" for p in parts)

    def _check(self, texts: list[bytes], *, searches: bool) -> None:
        """Raise an error if Python's re might take forever."""
        if self._engine is not None or sum(_steps(self._text, len(t), searches) for t in texts) <= _MOST_STEPS:
            return
        longest = max(map(len, texts))
        raise GraphValueError(
            f"Python's re may need hours to match {self._text!r} on {longest} bytes: install google-re2 (pip install "
            "'xlanb[re2]'), which takes linear time, or avoid nested repetitions"
        )


def _shown(error: Exception) -> str:
    said = error.args[0] if error.args else type(error).__name__
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _of_re2(engine: Any, text: bytes) -> Any:
    options = engine.Options()
    options.log_errors = False
    return engine.compile(text, options)


@lru_cache(256)
def compiled(text: bytes) -> Re2Pattern:
    """The compiled pattern of a text."""
    return Re2Pattern(text)


@lru_cache(1024)
def _steps(pattern: bytes, size: int, searches: bool) -> float:
    """An upper bound of the steps of Python's re on a text of this many bytes.

    Each repetition may begin and end anywhere, each alternative doubles the steps; infinite for
    nested repetitions.
    """
    plain = _LAZY.sub(rb"\1", _GROUP.sub(b"(", _ATOM.sub(b"c", pattern)))
    if b"(" not in plain and b"|" in plain:
        return sum(_steps_of_branch(p, size, searches) for p in plain.split(b"|"))
    return _steps_of_branch(plain, size, searches)


def _steps_of_branch(plain: bytes, size: int, searches: bool) -> float:
    repeats = _REPEAT.findall(plain)
    choices = plain.count(b"?") + plain.count(b"|")
    if _REPEATED_GROUP.search(plain) and len(repeats) + choices > 1:
        return float("inf")
    ends = searches and plain[-1:] in (b"*", b"+")  # nothing after it can fail
    power = len(repeats) + searches - ends
    return float("inf") if power > 20 or choices > 60 else float((size + 1) ** max(power, 1) * 2**choices)
