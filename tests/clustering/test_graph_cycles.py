"""GraphCycles keeps a graph acyclic; checked against plain searches on random graphs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xlanb.clustering.graph_cycles import GraphCycles

EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


def reaches(edges: set[tuple[int, int]], a: int, b: int) -> bool:
    seen, stack = set(), [a]
    while stack:
        node = stack.pop()
        for x, y in edges:
            if x == node and y not in seen:
                seen.add(y)
                stack.append(y)
    return b in seen


@given(EDGES)
def test_an_edge_is_refused_exactly_when_it_closes_a_cycle(edges: list[tuple[int, int]]) -> None:
    graph, kept = GraphCycles(10), set()
    for a, b in edges:
        allowed = a != b and not reaches(kept, b, a)
        assert graph.insert_edge(a, b) == allowed
        if allowed:
            kept.add((a, b))


@given(EDGES, st.integers(0, 9), st.integers(0, 9))
def test_a_contraction_is_refused_exactly_when_another_path_joins_the_two(
    edges: list[tuple[int, int]], a: int, b: int
) -> None:
    graph, kept = GraphCycles(10), set()
    for x, y in edges:
        if graph.insert_edge(x, y):
            kept.add((x, y))
    if (a, b) not in kept:
        return
    others = kept - {(a, b)}
    detour = any(x == a and (y == b or reaches(others, y, b)) for x, y in others)
    left = graph.contract_edge(a, b)
    assert (left is None) == detour
    if left is not None:
        gone = b if left == a else a
        merged = {(left if x == gone else x, left if y == gone else y) for x, y in others}
        assert gone not in list(graph.post_order())
        for x, y in merged:
            assert graph.has_edge(x, y)
        for x in range(10):
            for y in range(10):
                if x != y and gone not in (x, y):
                    assert (graph.path(x, y) is not None) == reaches(merged, x, y)


def test_path_names_the_detour() -> None:
    graph = GraphCycles(3)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        graph.insert_edge(a, b)
    assert graph.path(0, 2, avoiding_edge=True) == [0, 1, 2]
