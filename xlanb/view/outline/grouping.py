"""Make the tree of groups: scopes, then repeated structure, then data flow if a group is too
wide.
"""

from __future__ import annotations

from collections import Counter

from xlanb.view.outline.convex import make_convex
from xlanb.view.outline.flow import split_wide
from xlanb.view.outline.ops import INPUT, RESULT, Ops, settled_paths
from xlanb.view.outline.prefixes import name_groups
from xlanb.view.outline.repeats import stack_repeats
from xlanb.view.outline.scopes import BACKWARD, FORWARD, INITIALIZERS, Path
from xlanb.view.outline.tree import Outline, TreeBranch, outline

_DEEP = 40  # parts of a path that are looked at
_LETTERS = 24  # of two scopes' names for one group: beyond it the outer one alone


def outline_of(ops: Ops) -> Outline:
    """The tree of groups of these ops."""
    root = _by_scopes(ops, _directed(settled_paths(ops)))
    _prune(root, ops)
    name_groups(root, ops)
    stack_repeats(root, ops)
    split_wide(root, ops)
    make_convex(root, ops)
    return outline(root, ops)


def _directed(paths: list[Path]) -> list[Path]:
    """Return paths without their direction if there is only a forward pass."""
    directions = Counter(p[0] for p in paths if p and p[0] in (FORWARD, BACKWARD))
    if FORWARD in directions and BACKWARD in directions:
        return paths
    return [p[1:] if p and p[0] == FORWARD else p for p in paths]


def _by_scopes(ops: Ops, paths: list[Path]) -> TreeBranch:
    root = TreeBranch("", "")
    found: dict[Path, TreeBranch] = {(): root}
    for k, path in enumerate(paths):
        if ops.roles[k] in (INPUT, RESULT):
            root.ops.append(k)
            continue
        path = path[:_DEEP]
        if ops.clusters and ops.clusters[k]:
            path = (f"\0{ops.clusters[k]}", *path)
        if path not in found:
            for depth in range(1, len(path) + 1):
                if path[:depth] not in found:
                    found[path[:depth]] = branch = _branch(path[:depth])
                    found[path[: depth - 1]].branches.append(branch)
        found[path].ops.append(k)
    return root


def _branch(path: Path) -> TreeBranch:
    plain = [p for p in path if not p.startswith("\0")]
    if len(plain) < len(path) and not plain:
        return TreeBranch(f"[{path[0][1:]}]", path[0][1:], "cluster")
    return TreeBranch("/".join(plain), path[-1])


def _prune(root: TreeBranch, ops: Ops) -> None:
    """Dissolve groups of fewer than two nodes.

    A group that contains only another group is merged with it, as is the program with its only
    scope.
    """
    root.branches = [c for b in root.branches for c in _pruned(b, ops, root)]
    while not any(ops.is_shown(k) for k in root.ops):
        apart = [b for b in root.branches if b.key == INITIALIZERS]
        only = [b for b in root.branches if b.key != INITIALIZERS]
        if len(only) != 1 or only[0].kind == "cluster":
            break
        root.ops = sorted(root.ops + only[0].ops)
        root.branches = only[0].branches + apart


def _pruned(branch: TreeBranch, ops: Ops, parent: TreeBranch) -> list[TreeBranch]:
    branch.branches = [c for b in branch.branches for c in _pruned(b, ops, branch)]
    own = sum(ops.is_shown(k) for k in branch.ops)
    if branch.kind == "cluster":
        return [branch]
    if not branch.branches and own < 2:
        parent.ops.extend(branch.ops)
        return []
    if len(branch.branches) == 1 and not own:
        only = branch.branches[0]
        only.ops.extend(branch.ops)
        both = f"{branch.label}/{only.label}"
        only.label = both if len(both) <= _LETTERS else branch.label
        return [only]
    return [branch]
