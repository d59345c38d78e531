"""Repeated structure.

Groups that do the same become one with a count, by name and content or, without names, by a period
in the order of the ops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import TreeBranch

_ALIKE = 0.9  # share of ops that two repeats have in common
FEWEST = 3
"""The fewest groups that are stacked."""
_SHORTEST = 3  # nodes of a period
_LONGEST = 1000
_COMPARISONS = 20_000_000
_NUMBER = re.compile(r"\d+")


def stack_repeats(root: TreeBranch, ops: Ops) -> None:
    """Merge siblings with equal ops, and names equal except for a number, into a group of kind
    "repeat".
    """
    for branch in list(root.walk()):
        if branch.kind == "repeat":
            continue
        stems: dict[str, list[TreeBranch]] = {}
        for b in branch.branches:
            stems.setdefault(_stem(b), []).append(b)
        many = {stem: found for stem, found in stems.items() if len(found) >= FEWEST}
        reads = _reads(branch, ops) if many else {}
        for stem, found in many.items():
            _stack(branch, stem, found, ops, reads)


def _stem(branch: TreeBranch) -> str:
    """Return the name without its last number.

    A group without a name of its own is identified by its label.
    """
    if branch.kind == "flow":
        return f"~{branch.label}"
    if branch.kind != "scope" or not (numbers := list(_NUMBER.finditer(branch.label))):
        return f"={branch.key}"
    last = numbers[-1]
    return f"{branch.label[: last.start()]}*{branch.label[last.end() :]}"


def _stack(parent: TreeBranch, stem: str, found: list[TreeBranch], ops: Ops, reads: dict[int, set[int]]) -> None:
    for same in (run for every in _alike(found, ops) for run in _runs(every, reads)):
        if len(same) < FEWEST:
            continue
        inner = {id(b) for b in same}
        at = next(k for k, b in enumerate(parent.branches) if id(b) in inner)
        prefix = f"{parent.key}/" if parent.key else ""
        stacked = TreeBranch(f"{prefix}{stem}", label_of_repeat(same), "repeat", branches=same)
        kept = [b for b in parent.branches if id(b) not in inner]
        parent.branches = [*kept[:at], stacked, *kept[at:]]


def _reads(branch: TreeBranch, ops: Ops) -> dict[int, set[int]]:
    """By group (its id) or op in a group (-1 - its position) the others in it that it reads."""
    home = {k: id(b) for b in branch.branches for part in b.walk() for k in part.ops}
    home |= {k: -1 - k for k in branch.ops}
    found: dict[int, set[int]] = {}
    for k, at in home.items():
        found.setdefault(at, set()).update(home[o] for o in ops.sources[k] if o in home)
    return found


def _runs(same: list[TreeBranch], reads: dict[int, set[int]]) -> Iterator[list[TreeBranch]]:
    """Group those without others between them: all, else those with consecutive numbers."""
    if not _is_interleaved(same, reads):
        yield same
        return
    numbers = [int(found[-1]) if (found := _NUMBER.findall(b.label)) else k for k, b in enumerate(same)]
    cuts = [0, *(k for k in range(1, len(same)) if abs(numbers[k] - numbers[k - 1]) != 1), len(same)]
    for run in (same[a:b] for a, b in pairwise(cuts)):
        if len(run) < len(same) and not _is_interleaved(run, reads):
            yield run


def _is_interleaved(same: list[TreeBranch], reads: dict[int, set[int]]) -> bool:
    """Whether the outputs of these groups lead back to them: conv_1, relu_1, conv_2, ... is not
    conv repeated three times.
    """
    inside = {id(b) for b in same}
    feeders = {o for at in inside for o in reads.get(at, ())} - inside
    return any(not inside.isdisjoint(reads.get(o, ())) for o in feeders)


def _alike(found: list[TreeBranch], ops: Ops) -> list[list[TreeBranch]]:
    """Groups of the same content, each list in its order."""
    lists: list[tuple[Counter[str], list[TreeBranch]]] = []
    for branch in found:
        content = Counter(ops.tokens[k] for k in branch.all_ops() if ops.is_shown(k))
        for other, members in lists:
            if alike(content, other):
                members.append(branch)
                break
        else:
            lists.append((content, [branch]))
    return [members for _, members in lists]


def alike(one: Counter[str], other: Counter[str]) -> bool:
    """Whether two groups hold nearly the same ops, by how often they have each."""
    return 2 * (one & other).total() >= _ALIKE * (one.total() + other.total())


def label_of_repeat(same: Sequence[TreeBranch]) -> str:
    """Return a repeat's name: `block 0-5` for block_0 ... block_5, which differ in one number."""
    for at in range(-1, -1 - min(len(_NUMBER.findall(b.label)) for b in same), -1):
        numbers, words = zip(*(_without_number(b.label, at) for b in same), strict=True)
        if len(set(words)) == 1 and len(set(numbers)) == len(same):
            return _numbered(words[0], numbers)
    return same[0].label


def _without_number(label: str, at: int) -> tuple[int, str]:
    """Return a label's number at an index from the end, and the label with a gap for it."""
    found = list(_NUMBER.finditer(label))[at]
    return int(found[0]), f"{label[: found.start()]}*{label[found.end() :]}"


def _numbered(words: str, numbers: Sequence[int]) -> str:
    numbers = sorted(numbers)
    words = words.replace("_*", " *")
    if all(b - a == 1 for a, b in pairwise(numbers)):
        return words.replace("*", f"{numbers[0]}-{numbers[-1]}")
    shown = ", ".join(map(str, numbers[:4]))
    return words.replace("*", f"{shown}, …" if len(numbers) > 4 else shown)


def period(tokens: Sequence[str]) -> tuple[int, int, int] | None:
    """Find the repeating sequence of tokens with the largest coverage: (start, length, times).

    It repeats without gaps and covers at least half of all; None if there is none.
    """
    if len(tokens) < 3 * _SHORTEST:
        return None
    numbers = {t: k for k, t in enumerate(dict.fromkeys(tokens))}
    row = np.array([numbers[t] for t in tokens], np.int32)
    best: tuple[int, int, int] | None = None
    covered = max(len(row) // 2, 2 * _SHORTEST)
    for length in range(1, min(len(row) // 3, _LONGEST, _COMPARISONS // len(row)) + 1):
        same = row[length:] == row[:-length]
        if np.count_nonzero(same) + length <= covered:
            continue  # no run of these covers more
        start, run = _longest_run(same)
        times = run // length + 1
        if times > 2 and length * times > covered * (1.05 if best else 1):
            best, covered = (start, length, times), length * times
    return best if best is not None and best[1] >= _SHORTEST else None


def _longest_run(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    ends = np.flatnonzero(~same)
    edges = np.concatenate(([-1], ends, [len(same)]))
    gaps = np.diff(edges) - 1
    longest = int(gaps.argmax())
    return int(edges[longest]) + 1, int(gaps[longest])
