from __future__ import annotations

import pytest

from xlanb.errors import XlanbError
from xlanb.explorer.order import pass_tree, reordered
from xlanb.transforms import PASSES
from xlanb.transforms.pipeline import HloPassFix, HloPassPipeline


@pytest.fixture
def pipeline():
    loop = HloPassFix(HloPassPipeline("simplify", [PASSES["algsimp"](), PASSES["dce"]()]), 7)
    return HloPassPipeline("all", [PASSES["cse"](), loop, PASSES["fusion"]()])


def entries(tree):
    return [[e["id"], entries(e["inside"])] if "inside" in e else [e["id"]] for e in tree]


def test_the_tree_numbers_what_is_there(pipeline):
    tree = pass_tree(pipeline)
    assert [(e["id"], e["name"], e["loop"]) for e in tree] == [
        (0, "cse", False),
        (1, "simplify", True),
        (4, "fusion", False),
    ]
    assert [e["name"] for e in tree[1]["inside"]] == ["algsimp", "dce"]
    assert reordered(pipeline, entries(tree)).names == pipeline.names


def test_passes_move_in_and_out_of_pipelines_and_loops_stay_loops(pipeline):
    moved = reordered(pipeline, [[4], [1, [[3]]], [2]])
    assert [p.name for p in moved.passes] == ["fusion", "simplify", "algsimp"]
    loop = moved.passes[1]
    assert isinstance(loop, HloPassFix)
    assert loop.limit == 7
    assert moved.passes[0] is pipeline.passes[2]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([[9]], "does not exist"),
        ([[0], [0]], "occurs twice"),
        ([[0, [[2]]]], "cannot contain others"),
        (["cse"], "is neither"),
        ([[1, 3]], "is neither"),
        ([[-1]], "does not exist"),
    ],
)
def test_what_is_no_order_is_refused(pipeline, order, says):
    with pytest.raises(XlanbError, match=says):
        reordered(pipeline, order)
