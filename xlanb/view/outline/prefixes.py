"""Groups by the beginning of a name, where layers are named flat: block_1_expand, block_1_depthwise, ... -> block_1."""

from __future__ import annotations

import re

from xlanb.view.outline.flow import WIDE
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import Branch

_PREFIX = re.compile(r"(.*?\D\d+)[_.-](?=\D|\d+[_.-]\D)")


def name_groups(root: Branch, ops: Ops) -> None:
    """In every group that has more than `WIDE` nodes put those whose names begin alike, up to a number, into one.

    conv2_block1_1_conv, conv2_block1_1_bn, ... -> conv2, and in it block1: what is above is left out of a label.
    """
    todo = [(root, "")]
    while todo:
        branch, above = todo.pop()
        made = _group(branch, ops, above) if branch.shown(ops) > WIDE else {}
        inside = {id(group): above + prefix for prefix, group in made.items()}
        todo.extend((b, inside.get(id(b), "")) for b in branch.branches)


def _group(branch: Branch, ops: Ops, above: str) -> dict[str, Branch]:
    """The groups that were made, by the beginning of the names in them; all of these begin with `above`."""
    found: dict[str, list[Branch]] = {}
    for b in branch.branches:
        if prefix := _prefix(b.label):
            found.setdefault(prefix, []).append(b)
    made = {prefix: _made(branch, prefix, inner) for prefix, inner in found.items() if len(inner) > 1}
    if len(made) < 2:
        return {}
    homes: dict[int, Branch] = {}
    for k in branch.ops:
        words = (_rest(word, above) for word in ops.paths[k] or () if word.startswith(above))
        home = next((made[p] for word in words if (p := _prefix(word)) in made), None)
        if home is not None:
            home.ops.append(k)
            homes[k] = home
    branch.ops = [k for k in branch.ops if k not in homes]
    placed: set[str] = set()
    children: list[Branch] = []
    for b in branch.branches:
        prefix = _prefix(b.label)
        if prefix not in made:
            children.append(b)
        elif prefix not in placed:
            placed.add(prefix)
            children.append(made[prefix])
    branch.branches = children
    for prefix, group in made.items():
        for b in group.branches:
            b.label = _rest(b.label, prefix)
    return made


def _rest(name: str, above: str) -> str:
    return name[len(above) :].strip("_.-")


def _made(parent: Branch, prefix: str, inner: list[Branch]) -> Branch:
    return Branch(f"{parent.key}/{prefix}" if parent.key else prefix, prefix, branches=inner)


def _prefix(name: str) -> str:
    found = _PREFIX.match(name)
    return found[1] if found else ""
