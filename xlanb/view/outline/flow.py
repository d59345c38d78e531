"""Group by data flow, if a group has too many nodes for a picture and no scopes separate them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from xlanb.view.outline.blocks import cut_into_blocks
from xlanb.view.outline.labels import describe
from xlanb.view.outline.ops import INPUT, RESULT, SHOWN, Ops
from xlanb.view.outline.repeats import period
from xlanb.view.outline.scopes import BACKWARD, FORWARD, INITIALIZERS
from xlanb.view.outline.tree import TreeBranch

WIDE = 24
"""The most nodes of a group before they are grouped again."""
_MOST = 12  # segments that a chain is cut into
_SMALL = 6  # nodes of the smallest segment
_FEW = 3  # groups that stand beside a forward and a backward pass; more of them become one
_LOOSE = 8  # ops that stand beside them at most
_LIGHT = 0.05  # what the ops beside groups cost of all, where they are worth no more than a box of their own,
_FEW_LIGHT = 4  # and how many those are at least
_SMALLEST = 3  # ops of the smallest such box
_UPDATE, _OTHERS = "update", "other ops"  # what a step does with its gradients, and what has nothing to do with them


def split_wide(root: TreeBranch, ops: Ops) -> None:
    """Subdivide every group with more than `WIDE` nodes.

    First by connected components, then into blocks with narrow data flow between them, else by
    repetition, else into segments.
    """
    todo = [root]
    while todo:
        branch = todo.pop()
        _gather_light(branch, ops)
        if branch.kind != "repeat" and (branch.shown(ops) > WIDE or _has_loose_ops(branch, ops)):
            _split(branch, ops)
            if len(branch.branches) > WIDE:
                _bundle(branch, ops)
        todo.extend(branch.branches)


def _gather_light(branch: TreeBranch, ops: Ops) -> None:
    """Group connected light ops next to heavy groups if they read the same groups.

    So no group is read between two of them.
    """
    own = [k for k in branch.ops if ops.is_shown(k)]
    if branch.kind not in ("", "scope") or not branch.branches or len(own) < _FEW_LIGHT:
        return
    if sum(ops.weights[k] for k in own) > _LIGHT * sum(ops.weights[k] for k in branch.all_ops()):
        return
    reads = _groups_read(branch, ops)
    made: list[TreeBranch] = []
    for mask in dict.fromkeys(reads[k] for k in own):
        parts = _connected([k for k in own if reads[k] == mask], ops)
        made.extend(_flow(branch, part, ops) for part in parts if len(part) >= _SMALLEST)
    _adopt(branch, made, ops, has_passes=False)


def _groups_read(branch: TreeBranch, ops: Ops) -> dict[int, int]:
    """Return for each op, at any depth, the groups that it depends on, as a bit mask."""
    home = {k: 1 << number for number, b in enumerate(branch.branches) for k in b.all_ops()}
    found: dict[int, int] = {}
    for k in branch.all_ops():
        found[k] = home.get(k, 0)
        for o in ops.sources[k]:
            found[k] |= found.get(o, 0)
    return found


def _has_loose_ops(branch: TreeBranch, ops: Ops) -> bool:
    """Whether many ops are outside forward and backward pass: an optimizer is a group like them."""
    return _has_passes(branch) and sum(ops.is_shown(k) for k in branch.ops) > _LOOSE


def _has_passes(branch: TreeBranch) -> bool:
    return {FORWARD, BACKWARD} <= {b.key.split("/", 1)[0] for b in branch.branches}


def _split(branch: TreeBranch, ops: Ops) -> None:
    own = [k for k in branch.ops if ops.is_shown(k)]
    has_passes = _has_passes(branch)
    is_apart = has_passes or not branch.branches
    made = _components(branch, own, ops) if is_apart and len(own) > 3 else []
    if made:
        _adopt(branch, made, ops, has_passes=has_passes)
        own = [k for k in branch.ops if ops.is_shown(k)]
    if not has_passes and branch.shown(ops) > WIDE and cut_into_blocks(branch, ops):
        _settle(branch, ops)
        return
    if not made and len(own) > 3:
        _adopt(branch, _repeated(branch, own, ops) or _segments(branch, own, ops), ops, has_passes=has_passes)


def _adopt(branch: TreeBranch, made: list[TreeBranch], ops: Ops, *, has_passes: bool) -> None:
    """Add groups of a branch's ops; next to forward and backward pass, many of them become one."""
    if len(made) > _FEW and has_passes:
        label = _UPDATE if _reads_backward(branch, made, ops) else _OTHERS
        made = [TreeBranch(f"{branch.key}~{label}", label, "flow", branches=made)]
    elif len(made) == 1 and has_passes and made[0].kind == "repeat" and _reads_backward(branch, made, ops):
        made[0].label = _UPDATE
    taken = {k for b in made for part in b.walk() for k in part.ops}
    branch.branches.extend(made)
    branch.ops = [k for k in branch.ops if k not in taken]
    _settle(branch, ops)


def _reads_backward(branch: TreeBranch, made: list[TreeBranch], ops: Ops) -> bool:
    backward = {k for b in branch.branches if b.key.split("/", 1)[0] == BACKWARD for k in b.all_ops()}
    return any(o in backward for b in made for k in b.all_ops() for o in ops.sources[k])


def _settle(branch: TreeBranch, ops: Ops) -> None:
    """Put ops that are not drawn as nodes into the group of their first user."""
    home = {k: b for inner in branch.branches if inner.kind != "scope" for b in inner.walk() for k in b.ops}
    branch.ops = [k for k in branch.ops if not _follow(k, ops, home)]


def _bundle(branch: TreeBranch, ops: Ops) -> None:
    """Merge neighbouring groups if there are too many."""

    def first(b: TreeBranch) -> int:
        return min((k for k in b.all_ops() if ops.is_shown(k)), default=0)

    ranked = sorted((b for b in branch.branches if b.key != INITIALIZERS), key=first)
    size = -(-len(ranked) // _MOST)
    made = []
    for start in range(0, len(ranked), size):
        inner = ranked[start : start + size]
        label = f"{inner[0].label} … {inner[-1].label}"
        made.append(
            TreeBranch(f"{branch.key}~{inner[0].key}", label, "flow", branches=inner) if len(inner) > 1 else inner[0]
        )
    branch.branches = made + [b for b in branch.branches if b.key == INITIALIZERS]


def _follow(k: int, ops: Ops, home: dict[int, TreeBranch]) -> bool:
    """Move an op that is not drawn as a node to its first user; return whether it was moved."""
    if ops.roles[k] in (SHOWN, INPUT, RESULT):
        return False
    users = ops.users[k]
    target = home.get(users[0]) if users else None
    if target is None or target.kind == "repeat":
        return False
    target.ops.append(k)
    home[k] = target
    return True


def _flow(branch: TreeBranch, members: list[int], ops: Ops) -> TreeBranch:
    """A group of these ops, known by the heaviest of them."""
    head = max(members, key=lambda k: (ops.heavy[k], ops.weights[k], -k))
    return TreeBranch(f"{branch.key}~{ops.names[head]}", describe(members, ops), "flow", list(members))


# -- what is not connected -------------------------------------------------------------------------


def _components(branch: TreeBranch, own: list[int], ops: Ops) -> list[TreeBranch]:
    """Return connected components as groups, if several; equal ones as repeats, single ops by
    kind.
    """
    parts = _connected(own, ops)
    if len(parts) < 2 or max(map(len, parts)) > 0.9 * len(own):
        return []
    by_content: dict[tuple[tuple[str, int], ...], list[list[int]]] = {}
    for part in parts:
        words = Counter(ops.words[k] for k in part)
        by_content.setdefault(tuple(sorted(words.items())), []).append(part)
    made: list[TreeBranch] = []
    for alike in by_content.values():
        if len(alike) > 2:
            inner = [_flow(branch, part, ops) for part in alike]
            made.append(TreeBranch(f"{inner[0].key}*", inner[0].label, "repeat", branches=inner))
        else:
            made.extend(_flow(branch, part, ops) for part in alike if len(part) > 1)
    return made


def _connected(own: list[int], ops: Ops) -> list[list[int]]:
    inside = set(own)
    near = _neighbours(own, ops)
    seen: set[int] = set()
    parts = []
    for start in own:
        if start in seen:
            continue
        seen.add(start)
        part, todo = [], [start]
        while todo:
            k = todo.pop()
            part.append(k)
            for n in near[k]:
                if n in inside and n not in seen:
                    seen.add(n)
                    todo.append(n)
        parts.append(sorted(part))
    return parts


def _neighbours(own: list[int], ops: Ops) -> dict[int, list[int]]:
    """Drawn operands and users of each op, those behind a bitcast or the like too."""
    near: dict[int, list[int]] = {k: [] for k in own}
    for k in own:
        for o in ops.sources[k]:
            if o in near:
                near[k].append(o)
                near[o].append(k)
    return near


# -- what repeats ----------------------------------------------------------------------------------


def _repeated(branch: TreeBranch, own: list[int], ops: Ops) -> list[TreeBranch]:
    """Group the longest sequence that occurs several times in succession.

    The ops before and after it are divided into segments.
    """
    found = period([ops.tokens[k] for k in own])
    if found is None:
        return []
    start, length, times = found
    inner = [_flow(branch, own[at : at + length], ops) for at in range(start, start + length * times, length)]
    repeat = TreeBranch(f"{inner[0].key}*", inner[0].label, "repeat", branches=inner)
    made = [repeat]
    for side in (own[:start], own[start + length * times :]):
        if len(side) > _SMALL:
            made.extend(_segments(branch, side, ops))
    return made


# -- segments --------------------------------------------------------------------------------------


def _segments(branch: TreeBranch, own: list[int], ops: Ops) -> list[TreeBranch]:
    """Cut the topological order into parts of similar size where the fewest edges cross."""
    count = max(2, min(_MOST, round(len(own) / (2 * _SMALL))))
    size = len(own) / count
    crossing = _crossing(own, ops)
    cuts = [0]
    for number in range(1, count):
        ideal = number * size
        low, high = max(cuts[-1] + 2, round(ideal - size * 0.4)), min(len(own) - 2, round(ideal + size * 0.4))
        if low < high:
            cuts.append(min(range(low, high + 1), key=lambda at: (crossing[at], abs(at - ideal))))
    cuts.append(len(own))
    return [_flow(branch, own[a:b], ops) for a, b in pairwise(cuts) if b > a]


def _crossing(own: list[int], ops: Ops) -> list[int]:
    """Count the live ops at each position in the order."""
    at = {k: place for place, k in enumerate(own)}
    last = list(range(len(own)))
    for place, k in enumerate(own):
        for o in ops.sources[k]:
            if o in at:
                last[at[o]] = max(last[at[o]], place)
    change = [0] * (len(own) + 2)
    for place, end in enumerate(last):
        change[place + 1] += 1
        change[end + 1] -= 1
    total, out = 0, []
    for c in change:
        total += c
        out.append(total)
    return out
