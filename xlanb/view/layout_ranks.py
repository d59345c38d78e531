"""The first steps of the layered layout: cycles broken, each node given its rank."""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[str, str]


class Ranked:
    """The graph over integers, without cycles, each node with its rank."""

    def __init__(
        self,
        names: Sequence[str],
        edges: Sequence[Edge],
        first: frozenset[str],
        last: frozenset[str],
    ) -> None:
        self.names = names
        self.index = {n: i for i, n in enumerate(names)}
        pairs = [(self.index[a], self.index[b]) for a, b in edges]
        backwards = _back_edges(len(names), pairs)
        self.pairs = [(b, a) if (a, b) in backwards else (a, b) for a, b in pairs]
        self.flipped = [(a, b) in backwards for a, b in pairs]
        self.below: list[list[int]] = [[] for _ in names]
        self.above: list[list[int]] = [[] for _ in names]
        for a, b in dict.fromkeys(self.pairs):
            self.below[a].append(b)
            self.above[b].append(a)
        self.order = _topological(self.above, self.below)
        self.rank = self._ranks()
        self._pin(first, last)

    def _ranks(self) -> list[int]:
        rank = [0] * len(self.names)
        for v in self.order:
            if self.above[v]:
                rank[v] = 1 + max(rank[u] for u in self.above[v])
        # What has no more operands than users stands just above its first user: a constant, or
        # a variable and its read, beside what they feed. In this order whole chains come down.
        for v in reversed(self.order):
            if self.below[v] and len(self.above[v]) <= len(self.below[v]):
                rank[v] = min(rank[w] for w in self.below[v]) - 1
        return rank

    def _pin(self, first: frozenset[str], last: frozenset[str]) -> None:
        inner = [r for r, n in zip(self.rank, self.names, strict=True) if n not in first and n not in last]
        for v, n in enumerate(self.names):
            if n in first:
                self.rank[v] = min(inner, default=0) - 1
            elif n in last:
                self.rank[v] = max(inner, default=0) + 1


def _back_edges(n: int, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Edges that close a cycle in a depth-first walk from the sources."""
    below: list[list[int]] = [[] for _ in range(n)]
    indegree = [0] * n
    for a, b in pairs:
        below[a].append(b)
        indegree[b] += 1
    state = bytearray(n)  # 0 unseen, 1 on the path, 2 done
    back: set[tuple[int, int]] = set()
    starts = [v for v in range(n) if not indegree[v]] + [v for v in range(n) if indegree[v]]
    for start in starts:
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(below[start]))]
        while stack:
            v, rest = stack[-1]
            for w in rest:
                if state[w] == 1:
                    back.add((v, w))
                elif not state[w]:
                    state[w] = 1
                    stack.append((w, iter(below[w])))
                    break
            else:
                state[v] = 2
                stack.pop()
    return back


def _topological(above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[int]:
    missing = [len(a) for a in above]
    order = [v for v, m in enumerate(missing) if not m]
    for v in order:  # grows while it is walked
        for w in below[v]:
            missing[w] -= 1
            if not missing[w]:
                order.append(w)
    return order
