"""Before and after of a text, line by line: for artifacts that are neither HLO nor a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from xlanb.view.parts.items import Item, clip

if TYPE_CHECKING:
    from xlanb.view.pool import Pool

MAX_LINES: Final = 20_000
"""Lines of one side between common beginning and end; longer texts are shown as replaced."""

_CONTEXT: Final = 3

Pair = tuple[str | None, str | None]


def text_pairs(before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    """Pair lines before and after, None for a missing one; an unchanged line is a pair of equal
    ones.
    """
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    tail = 0
    while tail < min(len(before), len(after)) - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    left, right = before[start : len(before) - tail], after[start : len(after) - tail]
    yield from zip(before[:start], after[:start], strict=True)
    if max(len(left), len(right)) > MAX_LINES:
        blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(left), 0, len(right))]
    else:
        blocks = SequenceMatcher(None, left, right).get_opcodes()
    for _, a, b, c, d in blocks:
        paired = min(b - a, d - c)
        yield from zip(left[a : a + paired], right[c : c + paired], strict=True)
        yield from ((line, None) for line in left[a + paired : b])
        yield from ((None, line) for line in right[c + paired : d])
    yield from zip(before[len(before) - tail :], after[len(after) - tail :], strict=True)


def text_diff(pool: Pool, name: str, before: str, after: str) -> list[dict[str, Any]]:
    """Return rows of differences, as `diff_rows` does for HLO; up to the pool's limit."""
    pairs = list(text_pairs(before.splitlines(), after.splitlines()))
    near: set[int] = set()
    for k, (old, new) in enumerate(pairs):
        if old != new:
            near.update(range(k - _CONTEXT, k + _CONTEXT + 1))
    rows: list[Any] = []
    for k, (old, new) in enumerate(pairs):
        if len(rows) >= pool.limits.diff_rows:
            return [{"name": name, "plain": 1, "rows": rows, "cut": len(pairs) - k}]
        if k in near:
            rows.append(_index(pool, new) if old == new else [_index(pool, old), _index(pool, new)])
        elif rows and isinstance(rows[-1], int) and rows[-1] < 0:
            rows[-1] -= 1
        else:
            rows.append(-1)
    return [{"name": name, "plain": 1, "rows": rows}] if near else []


def _index(pool: Pool, line: str | None) -> int:
    return -1 if line is None else pool.item(_item(line))


def _item(line: str) -> Item:
    return {"n": "", "o": "", "s": "", "f": "other", "t": clip(line, 400)}
