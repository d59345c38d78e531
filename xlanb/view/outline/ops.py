"""Ops of a computation or graph by position, in the form for grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xlanb.view.outline.scopes import Path

SHOWN, INLINED, PASSED, INPUT, RESULT = ".", "q", "p", "i", "o"
"""How an op is drawn.

As a node; within its users, as `0.1`; as the edges that run through it; on the rim, as a parameter
or as the tuple of the results.
"""


@dataclass(frozen=True)
class Ops:
    """Ops by position.

    `tokens` are equal for ops that do the same (opcode and shape), `words` say what an op does in
    one word, `paths` are its scopes (None: unknown), `weights` its costs, in any unit, `roles` how
    it is drawn, `heavy` whether it is one that a reader looks for.
    """

    names: Sequence[str]
    words: Sequence[str]
    tokens: Sequence[str]
    operands: Sequence[Sequence[int]]
    paths: Sequence[Path | None]
    weights: Sequence[float]
    roles: str
    heavy: Sequence[bool]
    clusters: Sequence[str] = field(default=())

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def users(self) -> list[list[int]]:
        """The users of each op."""
        found: list[list[int]] = [[] for _ in self.names]
        for k, operands in enumerate(self.operands):
            for o in operands:
                found[o].append(k)
        return found

    @cached_property
    def sources(self) -> list[tuple[int, ...]]:
        """The drawn ops that each op reads, directly or through ops drawn as edges."""
        found: list[tuple[int, ...]] = []
        for operands in self.operands:
            reads: dict[int, None] = {}
            for o in operands:
                if self.roles[o] == SHOWN:
                    reads[o] = None
                elif self.roles[o] != INPUT and o < len(found):
                    reads.update(dict.fromkeys(found[o]))
            found.append(tuple(reads))
        return found

    @cached_property
    def inputs(self) -> list[tuple[int, ...]]:
        """The parameters that each op reads, directly or through ops drawn as edges."""
        found: list[tuple[int, ...]] = []
        for operands in self.operands:
            reads: dict[int, None] = {}
            for o in operands:
                if self.roles[o] == INPUT:
                    reads[o] = None
                elif self.roles[o] != SHOWN and o < len(found):
                    reads.update(dict.fromkeys(found[o]))
            found.append(tuple(reads))
        return found

    def is_shown(self, k: int) -> bool:
        """Whether an op is a node of its own."""
        return self.roles[k] == SHOWN


def settled_paths(ops: Ops) -> list[Path]:
    """Return a path for every op.

    An op without one takes that of its users, else of its operands; inlined ops take their first
    user's.
    """
    paths: list[Path | None] = [None if ops.roles[k] == INLINED else p for k, p in enumerate(ops.paths)]
    if not any(paths):
        return [() for _ in paths]
    users = ops.users
    for k in range(len(paths) - 1, -1, -1):
        if paths[k] is None and ops.roles[k] != INPUT:
            paths[k] = _most([paths[u] for u in users[k]])
    for k, operands in enumerate(ops.operands):
        if paths[k] is None and ops.roles[k] != INPUT:
            paths[k] = _most([paths[o] for o in operands])
    return [p or () for p in paths]


def _most(paths: list[Path | None]) -> Path | None:
    """Return the most frequent path, the first of equally frequent ones; None if all are
    unknown.
    """
    known = [p for p in paths if p is not None]
    return max(dict.fromkeys(known), key=known.count) if known else None
