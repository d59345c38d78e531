"""Group by name prefixes of flatly named layers: block_1_expand, block_1_depthwise, ... ->
block_1.
"""

from __future__ import annotations

import re
from collections import Counter

from xlanb.view.outline.flow import WIDE
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import TreeBranch

_FEW = 6  # nodes of a group by name, beyond which names are looked at in it too
_PREFIX = re.compile(r"(.*?\D\d+)[_.-](?=\D|\d+[_.-]\D)")


def name_groups(root: TreeBranch, ops: Ops) -> None:
    """Group names with a common prefix up to a number, in every group with more than `WIDE` nodes.

    conv2_block1_1_conv, conv2_block1_1_bn, ... -> conv2, and in it block1: labels omit the parent's
    prefix. If an op is all that is left of its scope, as after fusion, the scope's name is used.
    """
    todo = [(root, "", WIDE)]
    while todo:
        branch, above, most = todo.pop()
        made = _group(branch, ops, above) if branch.shown(ops) > most else {}
        inside = {id(group): above + prefix for prefix, group in made.items()}
        todo.extend((b, inside.get(id(b), ""), _FEW if id(b) in inside else WIDE) for b in branch.branches)


def _group(branch: TreeBranch, ops: Ops, above: str) -> dict[str, TreeBranch]:
    """Return the new groups by prefix; all prefixes begin with `above`."""
    named = {k: prefix for k, prefix in _prefixes(branch, ops, above).items() if prefix}
    found: dict[str, list[TreeBranch]] = {}
    for b in branch.branches:
        if prefix := _prefix(b.label):
            found.setdefault(prefix, []).append(b)
    members = Counter({prefix: len(inner) for prefix, inner in found.items()})
    members.update(prefix for k, prefix in named.items() if ops.is_shown(k))
    made = {prefix: _made(branch, prefix, found.get(prefix, [])) for prefix, count in members.items() if count > 1}
    if len(made) < 2:
        return {}
    for k, prefix in named.items():
        if prefix in made:
            made[prefix].ops.append(k)
    branch.ops = [k for k in branch.ops if named.get(k) not in made]
    placed: set[str] = set()
    children: list[TreeBranch] = []
    for b in branch.branches:
        prefix = _prefix(b.label)
        if prefix not in made:
            children.append(b)
        elif prefix not in placed:
            placed.add(prefix)
            children.append(made[prefix])
    branch.branches = children + [group for prefix, group in made.items() if prefix not in placed]
    for prefix, group in made.items():
        for b in group.branches:
            b.label = _rest(b.label, prefix)
    return made


def _prefixes(branch: TreeBranch, ops: Ops, above: str) -> dict[int, str]:
    """Return the prefix of the scope's name for each op directly in a group, or ""."""
    paths = {k: ops.paths[k] or () for k in branch.ops}
    known = [set(path) for path in paths.values() if path]
    around = set.intersection(*known) if len(known) > 1 else set()
    return {
        k: next(
            (
                p
                for word in path
                if word not in around and word.startswith(above) and (p := _prefix(_rest(word, above)))
            ),
            "",
        )
        for k, path in paths.items()
    }


def _rest(name: str, above: str) -> str:
    return name[len(above) :].strip("_.-")


def _made(parent: TreeBranch, prefix: str, inner: list[TreeBranch]) -> TreeBranch:
    return TreeBranch(f"{parent.key}/{prefix}" if parent.key else prefix, prefix, branches=inner)


def _prefix(name: str) -> str:
    found = _PREFIX.match(name)
    return found[1] if found else ""
