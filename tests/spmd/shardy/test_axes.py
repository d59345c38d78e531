"""Algebra of axes and sub-axes."""

from __future__ import annotations

from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef
from xlanb.spmd.shardy import axes

WHOLE = AxisRef("a")
MESH = Mesh("m", (("a", 8), ("b", 3)))


def test_prefix_without_overlap() -> None:
    assert axes.prefix_without_overlap(WHOLE, AxisRef("b")) == WHOLE
    assert axes.prefix_without_overlap(WHOLE, WHOLE) is None
    assert axes.prefix_without_overlap(WHOLE, AxisRef("a", 4, 2)) == AxisRef("a", 1, 4)
    assert axes.prefix_without_overlap(AxisRef("a", 2, 4), AxisRef("a", 1, 4)) is None
    assert axes.prefix_without_overlap(AxisRef("a", 1, 2), AxisRef("a", 2, 4)) == AxisRef("a", 1, 2)


def test_parts_that_no_cut_can_give() -> None:
    assert not axes.can_coexist(AxisRef("a", 1, 2), AxisRef("a", 1, 3))
    assert axes.can_coexist(AxisRef("a", 1, 4), AxisRef("a", 2, 4))


def test_consecutive_parts_join() -> None:
    parts = (AxisRef("a", 1, 2), AxisRef("a", 2, 4), AxisRef("b"))
    assert axes.merged(parts, MESH) == (WHOLE, AxisRef("b"))
    assert axes.merged(parts[1:], MESH) == parts[1:]


def test_prefixes_of_lists() -> None:
    longer = (AxisRef("b"), AxisRef("a", 1, 4))
    assert axes.is_strict_list_prefix((), longer)
    assert axes.is_strict_list_prefix((AxisRef("b"), AxisRef("a", 1, 2)), longer)
    assert not axes.is_strict_list_prefix(longer, longer)
    assert axes.is_list_prefix(longer, longer)
    assert not axes.is_list_prefix((AxisRef("b"), AxisRef("a", 2, 2)), longer)
