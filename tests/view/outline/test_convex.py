"""The outline has a cycle only where the program itself enters a scope twice."""

from __future__ import annotations

import random

import pytest

from xlanb.view.outline.convex import components
from xlanb.view.outline.grouping import outline_of
from xlanb.view.outline.ops import SHOWN, Ops
from xlanb.view.outline.tree import Outline

WORDS = ("dot", "add", "multiply", "fusion", "reduce", "reshape", "exponential")


def ops_of(operands, paths, words, weights):
    """Ops in the order of these lists, all drawn."""
    return Ops(
        names=[f"{word}.{k}" for k, word in enumerate(words)],
        words=words,
        tokens=[f"{word} f32[8]" for word in words],
        operands=operands,
        paths=paths,
        weights=weights,
        roles=SHOWN * len(words),
        heavy=[word in ("dot", "fusion") for word in words],
    )


def random_ops(random, *, scopes):
    """A random DAG; its scopes, if any, are intervals of a topological order, nested."""
    count = random.randrange(4, 160)
    reach = random.choice((3, 12, count))
    operands = [
        sorted({random.randrange(max(0, k - reach), k) for _ in range(random.randrange(4))}) if k else []
        for k in range(count)
    ]
    words = [random.choice(WORDS) for _ in range(count)]
    weights = [random.choice((0.0, 1.0, 50.0, 1000.0)) for _ in range(count)]
    paths = [None] * count
    if scopes:
        cuts = sorted(random.sample(range(count), min(count - 1, random.randrange(1, 9))))
        inner = sorted(random.sample(range(count), min(count - 1, random.randrange(1, 12))))
        for k in range(count):
            block, part = sum(cut <= k for cut in cuts), sum(cut <= k for cut in inner)
            path = (f"block_{block}", f"part_{part}")[: 1 + part % 2] if block else ()
            paths[k] = None if random.random() < 0.3 else path
    return ops_of(operands, paths, words, weights)


def cycles(outline: Outline, ops: Ops):
    """The groups and ops that lie on a cycle in one group, as names."""
    chains = []
    for group in outline.member:
        chain = []
        while group >= 0:
            chain.append(group)
            group = outline.groups[group].parent
        chains.append([-1, *reversed(chain)])
    levels = {}
    for k, sources in enumerate(ops.sources):
        for o in sources:
            depth = 0
            while depth < min(len(chains[k]), len(chains[o])) and chains[k][depth] == chains[o][depth]:
                depth += 1
            ends = [chain[depth] if depth < len(chain) else f"op {x}" for x, chain in ((o, chains[o]), (k, chains[k]))]
            if ends[0] != ends[1]:
                levels.setdefault(chains[k][depth - 1], []).append(ends)
    found = []
    for edges in levels.values():
        keys = list(dict.fromkeys(x for edge in edges for x in edge))
        at = {key: n for n, key in enumerate(keys)}
        reads = [set() for _ in keys]
        for a, b in edges:
            reads[at[b]].add(at[a])
        found += [[keys[n] for n in part] for part in components(reads) if len(part) > 1]
    return found


@pytest.mark.parametrize("scopes", [False, True], ids=["no scopes", "scopes"])
def test_random_graphs_are_grouped_without_cycles(scopes):
    grouped = 0
    for seed in range(250):
        ops = random_ops(random.Random(seed), scopes=scopes)
        outline = outline_of(ops)
        grouped += len(outline.groups)
        assert cycles(outline, ops) == [], f"seed {seed}"
    assert grouped > 500


def test_light_ops_after_two_layers_are_no_group_around_the_second():
    """Light ops of one kind, one before a layer and one after it, are not one box."""
    words = ["dot", "add", "dot", "add", "dot", "add"]
    operands = [[], [0], [1], [2], [3], [4]]
    paths = [("a",), None, ("b",), None, ("c",), None]
    ops = ops_of(operands, paths, words, [100.0, 1.0] * 3)
    assert cycles(outline_of(ops), ops) == []


def test_an_op_without_scope_between_two_of_a_scope_lies_in_it():
    words = ["dot", "exponential", "dot", "reduce", "dot", "dot"]
    operands = [[], [0], [1], [2], [1, 3], [1, 4]]
    paths = [("a",), None, ("a",), ("b",), ("b",), ("b",)]  # most of what reads it is in b
    ops = ops_of(operands, paths, words, [1.0] * 6)
    outline = outline_of(ops)
    assert cycles(outline, ops) == []
    assert [outline.groups[g].label for g in outline.member] == ["a", "a", "a", "b", "b", "b"]
