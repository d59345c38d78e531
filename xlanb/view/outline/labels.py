"""What a group of ops computes, in few words that are facts: "softmax", "3 dot + 12 ops"."""

from __future__ import annotations

from collections import Counter

from xlanb.view.outline.ops import Ops

_PATTERNS = (
    ("softmax", frozenset(("exponential", "reduce", "divide", "subtract"))),
    ("normalize", frozenset(("rsqrt", "reduce", "subtract", "multiply"))),
    ("normalize", frozenset(("sqrt", "reduce", "subtract", "divide"))),
)
_PLAIN = frozenset(("reshape", "broadcast", "transpose", "copy", "convert", "bitcast", "slice"))
_SHARE = 3  # a pattern names a group that has at most so many times its ops


def describe(members: list[int], ops: Ops) -> str:
    """The heavy ops by number, else what the ops are known as together, else the most frequent.

    And how many others there are.
    """
    words = Counter(ops.words[k] for k in members)
    heavy = Counter(ops.words[k] for k in members if ops.heavy[k])
    if heavy:
        return _counted(heavy, len(members), 2)
    for name, needed in _PATTERNS:
        if needed <= words.keys() and len(members) <= _SHARE * len(needed):
            return name
    telling = Counter({word: n for word, n in words.items() if word not in _PLAIN})
    return _counted(telling or words, len(members), 2)


def _counted(words: Counter[str], total: int, most: int) -> str:
    kept = words.most_common(most)
    text = ", ".join(word if n == 1 else f"{n} {word}" for word, n in kept)
    rest = total - sum(n for _, n in kept)
    return f"{text} + {rest}" if rest else text
