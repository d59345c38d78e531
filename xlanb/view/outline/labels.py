"""Describe a group's computation in a few factual words: "softmax", "3 dot + 12 ops"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xlanb.view.outline.ops import Ops

_PATTERNS = (
    ("softmax", frozenset(("exponential", "reduce", "divide", "subtract"))),
    ("normalize", frozenset(("rsqrt", "reduce", "subtract", "multiply"))),
    ("normalize", frozenset(("sqrt", "reduce", "subtract", "divide"))),
)
_PLAIN = frozenset(("reshape", "broadcast", "transpose", "copy", "convert", "bitcast", "slice"))
_SHARE = 3  # a pattern names a group that has at most so many times its ops


CALLS = frozenset(("call",))
"""Ops whose name says nothing about their work."""
_FEW = 4  # ops that are all named
_FITS = 22  # letters that a box has room for


def describe(members: list[int], ops: Ops) -> str:
    """List the heavy ops by number, else the name of a known combination, else the most frequent
    ops.
    """
    words = Counter(ops.words[k] for k in members)
    if len(members) <= _FEW:  # each, as the data flows
        return _counted(words, words)
    heavy = Counter(ops.words[k] for k in members if ops.heavy[k])
    if telling := Counter({word: n for word, n in heavy.items() if word not in CALLS}):
        return _counted(telling)
    for name, needed in _PATTERNS:
        if needed <= words.keys() and len(members) <= _SHARE * len(needed):
            return name
    return _counted(Counter({word: n for word, n in words.items() if word not in _PLAIN}) or words)


def _counted(words: Counter[str], order: Iterable[str] = ()) -> str:
    """List as many words as fit, the most frequent first; the box also shows the number of ops."""
    text = ""
    for word in order or [word for word, _ in words.most_common()]:
        part = word if words[word] == 1 else f"{words[word]} {word}"
        if text and len(f"{text}, {part}") > _FITS:
            break
        text = f"{text}, {part}" if text else part
    return text
