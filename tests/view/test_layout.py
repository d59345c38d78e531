from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.view.drawing import DrawnGroup, Node, draw
from xlanb.view.layout import layout
from xlanb.view.layout_steps import count_crossings
from xlanb.view.parts.hlo import near

SIZE = (80.0, 40.0)


def boxes_overlap(boxes):
    items = sorted(boxes.values())
    for i, (x, y, w, h) in enumerate(items):
        for x2, y2, _, h2 in items[i + 1 :]:
            if x2 >= x + w:
                break
            if y < y2 + h2 and y2 < y + h:
                return True
    return False


@st.composite
def graphs(draw_from, *, cyclic=False):
    n = draw_from(st.integers(1, 25))
    pairs = draw_from(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=50))
    edges = [(f"n{a}", f"n{b}") for a, b in pairs if cyclic or a < b]
    sizes = {f"n{i}": (40.0 + 10 * (i % 7), 30.0 + 5 * (i % 3)) for i in range(n)}
    return sizes, edges


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_edges_run_downwards_and_nothing_overlaps(graph):
    sizes, edges = graph
    placed = layout(sizes, edges)
    assert set(placed.boxes) == set(sizes)
    assert not boxes_overlap(placed.boxes)
    for a, b in edges:
        assert placed.boxes[a][1] + placed.boxes[a][3] < placed.boxes[b][1]
    assert set(placed.routes) == set(edges)
    for (a, b), route in placed.routes.items():
        assert route[0][1] == placed.boxes[a][1] + placed.boxes[a][3]
        assert route[-1][1] == placed.boxes[b][1]


@settings(max_examples=40, deadline=None)
@given(graphs(cyclic=True))
def test_cycles_and_self_edges_are_placed_too(graph):
    sizes, edges = graph
    placed = layout(sizes, edges)
    assert set(placed.boxes) == set(sizes)
    assert not boxes_overlap(placed.boxes)
    assert set(placed.routes) == {(a, b) for a, b in edges if a != b}


def test_the_layout_is_deterministic():
    sizes = {f"n{i}": SIZE for i in range(40)}
    edges = [(f"n{i}", f"n{(i * 7) % 40}") for i in range(40) if (i * 7) % 40 > i]
    assert layout(sizes, edges) == layout(sizes, edges)


def test_a_tree_is_drawn_without_crossings_and_a_parent_over_its_children():
    sizes = {f"n{i}": SIZE for i in range(7)}
    placed = layout(sizes, [(f"n{i}", f"n{c}") for i in range(3) for c in (2 * i + 1, 2 * i + 2)])
    centre = {n: b[0] + b[2] / 2 for n, b in placed.boxes.items()}
    for i in range(3):
        assert abs(centre[f"n{i}"] - (centre[f"n{2 * i + 1}"] + centre[f"n{2 * i + 2}"]) / 2) < 2


def test_crossings_are_counted():
    down = [[3], [2], [], []]
    assert count_crossings([[0, 1], [2, 3]], down) == 1
    assert count_crossings([[1, 0], [2, 3]], down) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30))
def test_crossings_are_those_of_every_pair_of_edges(pairs):
    down = [[9 + b for a, b in pairs if a == v] for v in range(9)] + [[] for _ in range(9)]
    crossing = sum((a - c) * (b - d) < 0 for k, (a, b) in enumerate(pairs) for c, d in pairs[k + 1 :])
    assert count_crossings([list(range(9)), list(range(9, 18))], down) == crossing


def test_ten_thousand_nodes_take_seconds_at_most():
    n = 10_000
    sizes = {f"n{i}": SIZE for i in range(n)}
    edges = [(f"n{max(0, i - 1 - (i * 7919) % 30)}", f"n{i}") for i in range(1, n)] + [
        (f"n{i - 1}", f"n{i}") for i in range(1, n, 3)
    ]
    begin = time.process_time()
    placed = layout(sizes, edges)
    assert time.process_time() - begin < 5  # processor time: half a second on an idle machine
    assert len(placed.boxes) == n


def test_a_long_chain_does_not_recurse():
    n = 5000
    placed = layout({f"n{i}": SIZE for i in range(n)}, [(f"n{i}", f"n{i + 1}") for i in range(n - 1)])
    assert placed.boxes["n4999"][1] > placed.boxes["n0"][1]


def test_nodes_without_edges_stand_in_rows():
    placed = layout({f"n{i}": SIZE for i in range(100)}, [])
    assert placed.width < 20 * 110
    assert not boxes_overlap(placed.boxes)


def test_a_group_holds_its_nodes_and_edges_enter_it_from_above():
    nodes = [Node("a", 60, 40), Node("p", 60, 40, "f"), Node("q", 60, 40, "f"), Node("z", 60, 40)]
    drawing = draw(nodes, [("a", "p"), ("a", "q"), ("p", "q"), ("q", "z")], [DrawnGroup("f", "fusion", "fusion")])
    x, y, w, h = drawing.groups["f"]
    for n in ("p", "q"):
        nx, ny, nw, nh = drawing.nodes[n]
        assert x < nx < nx + nw < x + w
        assert y < ny < ny + nh < y + h
    assert drawing.nodes["a"][1] + 40 < y
    assert y + h < drawing.nodes["z"][1]
    passing = drawing.edges["a", "q"]
    px, py, pw, ph = drawing.nodes["p"]
    assert not any(px < ex < px + pw and py < ey < py + ph for ex, ey in passing), (
        "the edge passes beside p, not through it"
    )


def test_a_node_may_have_any_name():
    nodes = [Node("", 60, 40), Node("\x01a", 60, 40, "\x02"), Node("a", 60, 40)]
    drawing = draw(nodes, [("a", "\x01a"), ("\x01a", "")], [DrawnGroup("\x02", "g", "fusion", "missing")])
    assert set(drawing.nodes) == {"", "\x01a", "a"}


def test_of_many_things_to_look_at_the_first_few_grow_into_a_connected_part():
    neighbours = {f"n{k}": [f"n{j}" for j in (k - 1, k + 1) if 0 <= j < 300] for k in range(300)}
    kept = near(neighbours, [f"n{k}" for k in range(0, 300, 10)], 60)
    assert len(kept) == 60
    assert sum(f"n{k + 1}" in kept for k in range(300) if f"n{k}" in kept) > 55
