"""A directed graph that stays acyclic while nodes are merged (XLA's graphcycles).

Pearce and Kelly's dynamic topological order: each node has a rank, and every edge goes to a higher
one. To find out whether a merge closes a cycle, only ranks between the two nodes are searched.
"""

from __future__ import annotations

from collections.abc import Iterator


class _OrderedSet:
    """A set whose order depends only on inserts and erasures: the last element replaces an erased
    one.

    XLA's set does the same. The order decides which of two edges is contracted first, so it must be
    identical.
    """

    __slots__ = ("index", "items")

    def __init__(self) -> None:
        self.items: list[int] = []
        self.index: dict[int, int] = {}

    def insert(self, value: int) -> bool:
        if value in self.index:
            return False
        self.index[value] = len(self.items)
        self.items.append(value)
        return True

    def erase(self, value: int) -> None:
        place = self.index.pop(value)
        last = self.items.pop()
        if last != value:
            self.items[place] = last
            self.index[last] = place


class GraphCycles:
    """Nodes 0..n-1 with edges; `contract_edge` merges two neighbours unless that would close a
    cycle.
    """

    def __init__(self, count: int) -> None:
        self._rank = list(range(count))
        self._in = [_OrderedSet() for _ in range(count)]
        self._out = [_OrderedSet() for _ in range(count)]
        self._gone: set[int] = set()

    def new_node(self) -> int:
        """Add a node; its number."""
        self._rank.append(len(self._rank))
        self._in.append(_OrderedSet())
        self._out.append(_OrderedSet())
        return len(self._rank) - 1

    def successors(self, node: int) -> tuple[int, ...]:
        """Nodes that an edge from `node` leads to."""
        return tuple(self._out[node].items)

    def predecessors(self, node: int) -> tuple[int, ...]:
        """Nodes from which an edge leads to `node`."""
        return tuple(self._in[node].items)

    def has_edge(self, a: int, b: int) -> bool:
        """Whether there is an edge from a to b."""
        return b in self._out[a].index

    def insert_edge(self, a: int, b: int) -> bool:
        """Add an edge; return False, and change nothing, if it would close a cycle."""
        if a == b:
            return False
        if not self._out[a].insert(b):
            return True
        self._in[b].insert(a)
        if self._rank[a] < self._rank[b]:
            return True
        above = self._forward(b, self._rank[a])
        if above is None:
            self.remove_edge(a, b)
            return False
        self._reorder(self._backward(a, self._rank[b]), above)
        return True

    def remove_edge(self, a: int, b: int) -> None:
        """Remove an edge that is there."""
        self._out[a].erase(b)
        self._in[b].erase(a)

    def path(self, a: int, b: int, *, avoiding_edge: bool = False) -> list[int] | None:
        """Return a path from a to b, or None; with `avoiding_edge`, other than the edge itself."""
        came: dict[int, int] = {a: a}
        stack = [a]
        while stack:
            node = stack.pop()
            for n in self._out[node].items:
                if n in came or self._rank[n] > self._rank[b] or (avoiding_edge and node == a and n == b):
                    continue
                came[n] = node
                if n == b:
                    return _walk_back(came, a, b)
                stack.append(n)
        return None

    def contract_edge(self, a: int, b: int) -> int | None:
        """Merge two nodes across their edge, and return the remaining one, which had more edges.

        Returns None, and changes nothing, if another path joins them.
        """
        self.remove_edge(a, b)
        if self._rank[a] < self._rank[b] and self._forward(a, self._rank[b]) is None:
            self.insert_edge(a, b)
            return None
        if self._degree(b) > self._degree(a):
            a, b = b, a
        outs, ins = self._out[b].items, self._in[b].items
        self._out[b], self._in[b] = _OrderedSet(), _OrderedSet()
        for n in outs:
            self._in[n].erase(b)
        for n in ins:
            self._out[n].erase(b)
        self._gone.add(b)
        for n in outs:
            self.insert_edge(a, n)
        for n in ins:
            self.insert_edge(n, a)
        return a

    def post_order(self) -> Iterator[int]:
        """All nodes that are left, those that others lead to first."""
        left = (n for n in range(len(self._rank)) if n not in self._gone)
        return iter(sorted(left, key=self._rank.__getitem__, reverse=True))

    def _degree(self, node: int) -> int:
        return len(self._in[node].items) + len(self._out[node].items)

    def _forward(self, start: int, upper: int) -> list[int] | None:
        """Return nodes reachable from `start` below rank `upper`; None if the node of that rank
        is.
        """
        seen = {start: None}
        stack = [start]
        while stack:
            for n in self._out[stack.pop()].items:
                rank = self._rank[n]
                if rank == upper:
                    return None
                if rank < upper and n not in seen:
                    seen[n] = None
                    stack.append(n)
        return list(seen)

    def _backward(self, start: int, lower: int) -> list[int]:
        seen = {start: None}
        stack = [start]
        while stack:
            for n in self._in[stack.pop()].items:
                if self._rank[n] > lower and n not in seen:
                    seen[n] = None
                    stack.append(n)
        return list(seen)

    def _reorder(self, below: list[int], above: list[int]) -> None:
        """Redistribute the ranks of both sets: `below` first, each set in its old order."""
        ordered = sorted(below, key=self._rank.__getitem__) + sorted(above, key=self._rank.__getitem__)
        ranks = sorted(self._rank[n] for n in ordered)
        for node, rank in zip(ordered, ranks, strict=True):
            self._rank[node] = rank


def _walk_back(came: dict[int, int], a: int, b: int) -> list[int]:
    path = [b]
    while path[-1] != a:
        path.append(came[path[-1]])
    return path[::-1]
