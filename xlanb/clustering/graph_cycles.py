"""A directed graph that stays free of cycles while nodes are merged (Pearce and Kelly's dynamic topological order).

Each node has a rank such that every edge goes up. Whether a merge would close a cycle is then a search among ranks between the two nodes.
"""

from __future__ import annotations

from collections.abc import Iterator


class GraphCycles:
    """Nodes 0..n-1 with edges; `contract_edge` merges two neighbours unless that would close a cycle."""

    def __init__(self, count: int) -> None:
        self._rank = list(range(count))
        # dictionaries are ordered sets here: walks must not depend on hashes
        self._in: list[dict[int, None]] = [{} for _ in range(count)]
        self._out: list[dict[int, None]] = [{} for _ in range(count)]

    def successors(self, node: int) -> tuple[int, ...]:
        """Nodes that an edge from `node` leads to."""
        return tuple(self._out[node])

    def has_edge(self, a: int, b: int) -> bool:
        """Whether there is an edge from a to b."""
        return b in self._out[a]

    def insert_edge(self, a: int, b: int) -> bool:
        """Add an edge; False, and nothing changed, where it would close a cycle."""
        if a == b:
            return False
        if b in self._out[a]:
            return True
        if self._rank[a] > self._rank[b]:
            above = self._reach(b, self._out, upper=self._rank[a])
            if a in above:
                return False
            below = self._reach(a, self._in, lower=self._rank[b])
            self._reorder(below, above)
        self._out[a][b] = None
        self._in[b][a] = None
        return True

    def path(self, a: int, b: int, *, avoiding_edge: bool = False) -> list[int] | None:
        """Some path from a to b, None if there is none; with `avoiding_edge`, other than the edge itself."""
        came: dict[int, int] = {a: a}
        stack = [a]
        while stack:
            node = stack.pop()
            for n in self._out[node]:
                if n in came or self._rank[n] > self._rank[b] or (avoiding_edge and node == a and n == b):
                    continue
                came[n] = node
                if n == b:
                    return _walk_back(came, a, b)
                stack.append(n)
        return None

    def contract_edge(self, a: int, b: int) -> bool:
        """Merge b into a across their edge; False, and nothing changed, where another path joins them."""
        if self.path(a, b, avoiding_edge=True) is not None:
            return False
        del self._out[a][b]
        del self._in[b][a]
        outs, ins = tuple(self._out[b]), tuple(self._in[b])
        for n in outs:
            del self._in[n][b]
        for n in ins:
            del self._out[n][b]
        self._out[b].clear()
        self._in[b].clear()
        for n in outs:
            self.insert_edge(a, n)
        for n in ins:
            self.insert_edge(n, a)
        return True

    def post_order(self) -> Iterator[int]:
        """All nodes, those that others lead to first."""
        return iter(sorted(range(len(self._rank)), key=self._rank.__getitem__, reverse=True))

    def _reach(
        self, start: int, edges: list[dict[int, None]], *, lower: int = -1, upper: int | None = None
    ) -> list[int]:
        seen = {start: None}
        stack = [start]
        while stack:
            for n in edges[stack.pop()]:
                if n not in seen and self._rank[n] >= lower and (upper is None or self._rank[n] <= upper):
                    seen[n] = None
                    stack.append(n)
        return list(seen)

    def _reorder(self, below: list[int], above: list[int]) -> None:
        """Give the ranks of both sets out anew: `below` first, each set in its old order."""
        ordered = sorted(below, key=self._rank.__getitem__) + sorted(above, key=self._rank.__getitem__)
        ranks = sorted(self._rank[n] for n in ordered)
        for node, rank in zip(ordered, ranks, strict=True):
            self._rank[node] = rank


def _walk_back(came: dict[int, int], a: int, b: int) -> list[int]:
    path = [b]
    while path[-1] != a:
        path.append(came[path[-1]])
    return path[::-1]
