"""Bytes and times of collectives, and the mesh axes that they communicate along."""

from __future__ import annotations

import pytest

from xlanb.errors import UnimplementedError, XlanbError
from xlanb.spmd.costs import INTERCONNECTS, Topology, bytes_moved, interconnect, seconds
from xlanb.spmd.device_axes import axes_of_groups, axes_of_pairs, axes_text
from xlanb.spmd.mesh import Mesh

MESH = Mesh("mesh", (("data", 4), ("model", 2)))
LINE = Mesh("mesh", (("x", 8),))


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("all-gather", 700),
        ("reduce-scatter", 87),
        ("all-reduce", 175),
        ("all-to-all", 87),
        ("collective-permute", 100),
        ("collective-broadcast", 100),
    ],
)
def test_what_each_of_eight_devices_sends_of_100_bytes(kind: str, sent: int) -> None:
    assert bytes_moved(kind, 100, 8) == sent


def test_one_device_sends_nothing() -> None:
    assert bytes_moved("all-reduce", 100, 1) == 0
    assert seconds("all-reduce", 100, 1, interconnect("cpu")) == 0


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather_of_its_parts() -> None:
    for link in INTERCONNECTS.values():
        size, n = 1 << 20, 8
        both = seconds("reduce-scatter", size, n, link) + seconds("all-gather", size // n, n, link)
        assert seconds("all-reduce", size, n, link) == pytest.approx(both)


def test_a_gather_over_a_tpu_axis_takes_its_size_over_both_directions() -> None:
    # 34 MB in all over a v5e axis: bytes / 9e10, as in the scaling book, less its own part.
    link = interconnect("v5e")
    assert seconds("all-gather", 1 << 22, 8, link) == pytest.approx((7 << 22) / 9e10 + 4e-6)


def test_an_all_to_all_on_a_ring_takes_a_quarter_of_a_gather() -> None:
    ring = interconnect("v5p")
    assert ring.topology is Topology.RING
    size = 1 << 30
    whole = seconds("all-gather", size // 8, 8, ring) * 8 / 7
    assert seconds("all-to-all", size // 8, 8, ring) == pytest.approx(whole / 4, rel=1e-2)


def test_an_unknown_kind_or_interconnect_is_named() -> None:
    with pytest.raises(UnimplementedError, match="gossip"):
        bytes_moved("gossip", 1, 2)
    with pytest.raises(XlanbError, match="v5p"):
        interconnect("v5pp")


@pytest.mark.parametrize(
    ("groups", "mesh", "text"),
    [
        ([[0, 1], [2, 3], [4, 5], [6, 7]], MESH, '{"model"}'),
        ([[0, 2, 4, 6], [1, 3, 5, 7]], MESH, '{"data"}'),
        ([[0, 1, 2, 3, 4, 5, 6, 7]], MESH, '{"data", "model"}'),
        ([[0, 4], [1, 5], [2, 6], [3, 7]], MESH, '{"data":(1)2}'),
        ([[0, 1, 2, 3], [4, 5, 6, 7]], LINE, '{"x":(2)4}'),
        ([[0, 1], [2, 3]], Mesh("m", (("a", 2), ("b", 2)), (0, 2, 1, 3)), '{"a"}'),
    ],
)
def test_groups_by_axes(groups: list[list[int]], mesh: Mesh, text: str) -> None:
    axes = axes_of_groups(groups, mesh)
    assert axes is not None
    assert axes_text(axes) == text


def test_groups_that_are_no_grid_have_no_axes() -> None:
    assert axes_of_groups([[0, 3], [1, 2]], LINE) is None
    assert axes_of_groups([[0, 9]], LINE) is None


def test_pairs_by_axes() -> None:
    ring = axes_of_pairs([[0, 2], [2, 4], [4, 6], [6, 0]], MESH)
    assert ring is not None
    assert axes_text(ring) == '{"data"}'
    assert axes_of_pairs([[0, 8]], MESH) is None
