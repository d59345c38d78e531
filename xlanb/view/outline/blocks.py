"""Divide a group that is too wide into blocks: cut its data flow where it is narrow, stack equal
blocks.

A chain of residual blocks has one live value between two blocks, and two within one, so it needs no
scopes. If nothing is narrow, light ops join the heavy op that they read: conv, batch norm and relu
are one box.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from xlanb.view.outline.labels import CALLS, describe
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.repeats import alike, label_of_repeat
from xlanb.view.outline.scopes import BACKWARD, FORWARD, INITIALIZERS
from xlanb.view.outline.tree import TreeBranch

_FEWEST = 3  # blocks that a group is cut into,
_MANY = 5  # where two values are alive between them: one may be there all the time, a mask for all layers
_SMALL = 3  # items of the smallest block
_PERIOD = 4  # blocks that repeat together
_NARROW = 2  # values alive between two blocks
_SEPARATORS = re.compile(r"[_.-]")
_NUMBERS = re.compile(r"[_.-]?\d+")


@dataclass(frozen=True, eq=False)
class Item:
    """An op or a group: its drawn ops, and the group if it is one."""

    members: tuple[int, ...]
    branch: TreeBranch | None
    is_heavy: bool
    is_free: bool  # to join others: a scope that is one of its kind stands alone


def cut_into_blocks(branch: TreeBranch, ops: Ops) -> bool:
    """Divide a group's content into blocks; return whether there are any."""
    items, reads = _items(branch, ops)
    parts = _narrow(items, reads) or _units(items, reads)
    if not parts:
        return False
    blocks = _stacked([_block(branch, part, ops) for part in parts], ops)
    grouped = {id(item.branch) for part in parts for item in part if item.branch is not None}
    loose = {k for part in parts for item in part if item.branch is None for k in item.members}
    branch.branches = [b for b in branch.branches if id(b) not in grouped] + [
        b for b in blocks if isinstance(b, TreeBranch)
    ]
    branch.ops = [k for k in branch.ops if k not in loose] + [k for k in blocks if not isinstance(k, TreeBranch)]
    return True


# -- items -----------------------------------------------------------------------------------------


def _items(branch: TreeBranch, ops: Ops) -> tuple[list[Item], list[set[int]]]:
    """Return a group's content in topological order (except for cycles), and what each item
    reads.
    """
    shown = [k for k in branch.all_ops() if ops.is_shown(k)]
    heavy = {k for k in shown if ops.heavy[k]}
    heavy = {k for k in heavy if ops.words[k] not in CALLS} or heavy  # relu is a call next to truly heavy ops
    found = [Item((k,), None, k in heavy, True) for k in branch.ops if ops.is_shown(k)]
    kinds = Counter(_kind(b) for b in branch.branches)
    for b, members in _layers(branch, ops):
        found.append(Item(members, b, not heavy.isdisjoint(members), kinds[_kind(b)] > 1))
    home = {k: n for n, item in enumerate(found) for k in item.members}
    reads = [{home[o] for k in item.members for o in ops.sources[k] if o in home} - {n} for n, item in enumerate(found)]
    order = _in_order([item.members[0] for item in found], reads)
    place = {n: p for p, n in enumerate(order)}
    return [found[n] for n in order], [{place[o] for o in reads[n]} for n in order]


def _kind(branch: TreeBranch) -> str:
    """Return a scope's name without numbers: `batch_normalization` of `batch_normalization_3_1`."""
    return _NUMBERS.sub("", branch.label)


def _layers(branch: TreeBranch, ops: Ops) -> list[tuple[TreeBranch, tuple[int, ...]]]:
    """Return the groups in a group with their drawn ops, except backward pass and optimizer."""
    found = [(b, tuple(k for k in b.all_ops() if ops.is_shown(k))) for b in branch.branches]
    backward = {k for b, members in found if b.key == BACKWARD for k in members}
    return [
        (b, members)
        for b, members in found
        if members
        and b.key not in (FORWARD, BACKWARD, INITIALIZERS)
        and not any(o in backward for k in members for o in ops.sources[k])
    ]


def _in_order(first: Sequence[int], reads: Sequence[set[int]]) -> list[int]:
    """Return a topological order; a cycle is broken at the first op of the program."""
    waiting = [len(r) for r in reads]
    users: list[list[int]] = [[] for _ in reads]
    for n, given in enumerate(reads):
        for o in given:
            users[o].append(n)
    ready = [(first[n], n) for n, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    rest = sorted(range(len(reads)), key=first.__getitem__, reverse=True)
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(reads):
        if ready:
            _, n = heapq.heappop(ready)
        else:
            while rest[-1] in done:
                rest.pop()
            n = rest.pop()
        if n in done:
            continue
        done.add(n)
        order.append(n)
        for u in users[n]:
            waiting[u] -= 1
            if waiting[u] == 0 and u not in done:
                heapq.heappush(ready, (first[u], u))
    return order


# -- where the flow is narrow ----------------------------------------------------------------------


def _narrow(items: Sequence[Item], reads: Sequence[set[int]]) -> list[list[Item]]:
    """Cut where the fewest values are live; return [] if the parts would be few or one would
    dominate.
    """
    alive = _alive(reads)
    inner = alive[len(items) // 4 : -(len(items) // 4) or None]
    narrowest = min(inner, default=0)
    if narrowest > _NARROW:
        return []
    cuts = [0, *(k for k in range(1, len(items)) if alive[k] <= narrowest), len(items)]
    has_heavy = any(item.is_heavy for item in items)
    parts: list[list[Item]] = []
    small: list[Item] = []
    for a, b in pairwise(cuts):
        part = items[a:b]
        if b - a < _SMALL or (has_heavy and not any(item.is_heavy for item in part)):
            small.extend(part)
        else:
            _put(small, parts)
            parts.append(list(part))
            small = []
    _put(small, parts)
    blocks = sum(len(part) >= _SMALL for part in parts)
    if blocks < (_FEWEST if narrowest == 1 else _MANY) or max(map(len, parts)) > len(items) / 2:
        return []
    return parts


def _put(small: list[Item], parts: list[list[Item]]) -> None:
    """Append leading light items to the previous part; make the rest, from the first heavy one, a
    part.
    """
    at = next((k for k, item in enumerate(small) if item.is_heavy), len(small)) if parts else 0
    if parts:
        parts[-1].extend(small[:at])
    if small[at:]:
        parts.append(small[at:])


def _alive(reads: Sequence[set[int]]) -> list[int]:
    """Count the live items at each position in the order."""
    last = list(range(len(reads)))
    for n, given in enumerate(reads):
        for o in given:
            last[o] = max(last[o], n)
    change = [0] * (len(reads) + 2)
    for n, end in enumerate(last):
        if end > n:
            change[n + 1] += 1
            change[end + 1] -= 1
    total, out = 0, []
    for c in change:
        total += c
        out.append(total)
    return out


# -- what is light with what is heavy --------------------------------------------------------------


def _units(items: Sequence[Item], reads: Sequence[set[int]]) -> list[list[Item]]:
    """Return heavy items, each with the light ones that depend only on it, and with their own
    inputs.
    """
    users: list[list[int]] = [[] for _ in items]
    for n, given in enumerate(reads):
        for o in given:
            users[o].append(n)
    is_light = [item.is_free and not item.is_heavy for item in items]
    is_given: list[bool] = []  # made of parameters and constants alone
    home = list(range(len(items)))
    for n, given in enumerate(reads):
        before = [o for o in given if o < n and not is_given[o]]
        is_given.append(is_light[n] and not before)
        sources = {home[o] for o in before}
        if is_light[n] and len(sources) == 1 and all(is_light[u] for o in before for u in users[o]):
            home[n] = sources.pop()
    for n in range(len(items) - 1, -1, -1):
        if is_given[n] and len(readers := {home[u] for u in users[n]}) == 1:
            home[n] = readers.pop()
    units: dict[int, list[Item]] = {}
    for n, item in enumerate(items):
        units.setdefault(home[n], []).append(item)
    parts = list(units.values())
    return parts if _FEWEST <= len(parts) < len(items) else []


# -- blocks ----------------------------------------------------------------------------------------


def _block(parent: TreeBranch, part: Sequence[Item], ops: Ops) -> TreeBranch | int:
    """Make a group of these items; a single item is unchanged."""
    if len(part) == 1:
        (item,) = part
        return item.branch if item.branch is not None else item.members[0]
    members = [k for item in part for k in item.members]
    head = max(members, key=lambda k: (ops.heavy[k], ops.weights[k], -k))
    own = [k for item in part if item.branch is None for k in item.members]
    inner = [item.branch for item in part if item.branch is not None]
    return TreeBranch(f"{parent.key}~{ops.names[head]}", _label(part, members, ops), "flow", own, inner)


def _label(part: Sequence[Item], members: list[int], ops: Ops) -> str:
    """Return the names of its groups if they do its work, else its heavy ops."""
    heavy = [item for item in part if item.is_heavy] or part
    named = [item.branch.label for item in heavy if item.branch is not None and item.branch.kind != "flow"]
    if not named or (len(named) < len(heavy) and any(item.is_heavy for item in part)):
        return describe(members, ops)
    if len(named) == 1:
        return named[0] if any(item.is_heavy for item in part) else f"{named[0]} …"
    words = [_SEPARATORS.split(name) for name in named]
    shared = "_".join(column[0] for column in takewhile(lambda c: len(set(c)) == 1, zip(*words, strict=False)))
    return shared if any(letter.isdigit() for letter in shared) else f"{named[0]} … {named[-1]}"


def _stacked(blocks: list[TreeBranch | int], ops: Ops) -> list[TreeBranch | int]:
    """Merge consecutive equal blocks, or equal sequences of a few, into one."""
    content = [_content(b, ops) for b in blocks]
    made: list[TreeBranch | int] = []
    at = 0
    while at < len(blocks):
        length, times = _run(content, at)
        if times < 2:
            made.append(blocks[at])
            at += 1
            continue
        inner = [_together(blocks[k : k + length], ops) for k in range(at, at + length * times, length)]
        made.append(TreeBranch(f"{inner[0].key}*", label_of_repeat(inner), "repeat", branches=inner))
        at += length * times
    return made


def _content(block: TreeBranch | int, ops: Ops) -> Counter[str]:
    if not isinstance(block, TreeBranch):
        return Counter()
    return Counter(ops.tokens[k] for k in block.all_ops() if ops.is_shown(k))


def _run(content: Sequence[Counter[str]], at: int) -> tuple[int, int]:
    """Return how many blocks from an index repeat together, and how often; (1, 1) if none do."""
    best = (1, 1)
    for length in range(1, _PERIOD + 1):
        times = 1
        while at + length * (times + 1) <= len(content) and all(
            content[at + k] and alike(content[at + k], content[at + length * times + k]) for k in range(length)
        ):
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def _together(blocks: Sequence[TreeBranch | int], ops: Ops) -> TreeBranch:
    found = [b for b in blocks if isinstance(b, TreeBranch)]
    if len(found) == 1:
        return found[0]
    members = [k for b in found for k in b.all_ops() if ops.is_shown(k)]
    return TreeBranch(f"{found[0].key}+", describe(members, ops), "flow", branches=found)
