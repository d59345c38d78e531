"""Producers fusible on all paths: the same answers as by enumerating every path.

The number of queries is the number of edges.
"""

from __future__ import annotations

import random

import pytest

from xlanb.hlo import HloComputation, HloInstruction, parse
from xlanb.transforms.fusion.all_paths import AllPaths


def _additions(pairs: list[tuple[int, int]]) -> HloComputation:
    lines = ["v0 = f32[8] parameter(0)", "v1 = f32[8] tanh(v0)"]
    lines += [f"v{k} = f32[8] add(v{a}, v{b})" for k, (a, b) in enumerate(pairs, 2)]
    return parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n").entry_computation


def _paths(producer: HloInstruction, consumer: HloInstruction) -> list[list[tuple[HloInstruction, int]]]:
    """Every path between two instructions, as (consumer, operand number)."""
    found = []
    for n, o in enumerate(consumer.operands):
        found += [[(consumer, n)]] if o is producer else []
        found += [[*path, (consumer, n)] for path in (_paths(producer, o) if o is not producer else ())]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_edge_of_every_path_decides(seed: int) -> None:
    rng = random.Random(seed)
    computation = _additions([(rng.randrange(max(1, k - 4), k), rng.randrange(1, k)) for k in range(2, 14)])
    order = computation.post_order()
    unfusible = {order[0], *(i for i in order if rng.random() < 0.05)}
    refused = {(i, n) for i in order for n in range(len(i.operands)) if rng.random() < 0.15}
    producers = [i for i in order if len(i.operands) == 2]
    want: set[HloInstruction] = set()
    for p in reversed(producers):
        edges = {edge for u in p.users for path in _paths(p, u) for edge in path}
        bad = any(e in refused or {e[0], e[0].operands[e[1]]} & unfusible or e[0].operands[e[1]] in want for e in edges)
        if p in unfusible or bad:
            want.add(p)
    made = AllPaths(computation, lambda i: i not in unfusible, lambda i, n: (i, n) not in refused)
    assert made.forbidden(producers) == want


def test_values_used_again_much_later_are_asked_about_once() -> None:
    asked, count = [], 400

    def should_fuse(consumer: HloInstruction, index: int) -> bool:
        asked.append((consumer, index))
        return True

    computation = _additions([(k - 1, k // 2) for k in range(2, count)])
    made = AllPaths(computation, lambda i: bool(i.operands), should_fuse)
    assert not made.forbidden([i for i in computation.post_order() if len(i.operands) == 2])
    assert len(asked) == len(set(asked)) < 2 * count
    assert made._reach is None
