"""Derived shardings, checked against the placement of each device's data."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.shape.primitive_type import PrimitiveType
from xlanb.shape.shape import ArrayShape, array
from xlanb.spmd import sharding_util as util
from xlanb.spmd.hlo_sharding import HloSharding

P = HloSharding.parse
ROWS = P("{devices=[4,1,2]<=[8] last_tile_dim_replicate}")
COLUMNS = P("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}")
BOTH = P("{devices=[4,2]<=[8]}")
SWAPPED = P("{devices=[2,4]<=[4,2]T(1,0)}")


def shape(*dims: int) -> ArrayShape:
    return array(PrimitiveType.F32, dims)


def held(sharding: HloSharding, whole: np.ndarray, device: int) -> np.ndarray:
    """Return the part of an array that a device holds."""
    s = shape(*whole.shape)
    a, b = sharding.tile_offset_for_device(s, device), sharding.tile_limit_for_device(s, device)
    return whole[tuple(slice(i, j) for i, j in zip(a, b, strict=True))]


@pytest.mark.parametrize("sharding", [ROWS, COLUMNS, BOTH, SWAPPED])
def test_transpose_moves_no_data(sharding: HloSharding) -> None:
    whole = np.arange(64).reshape(8, 8)
    moved = util.transpose_sharding(sharding, (1, 0))
    for d in range(8):
        assert np.array_equal(held(moved, whole.T, d), held(sharding, whole, d).T)


@pytest.mark.parametrize(
    ("source", "target", "sharding"),
    [
        ((8, 4), (32,), "{devices=[4,2]<=[8]}"),
        ((32, 16, 8), (4, 8, 128), "{devices=[4,1,2]<=[8]}"),
        ((32,), (4, 8), "{devices=[8]<=[8]}"),
        ((8, 4), (8, 2, 2), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
    ],
)
def test_reshape_needs_no_data_of_others(source: tuple[int, ...], target: tuple[int, ...], sharding: str) -> None:
    made = util.reshape_sharding(shape(*source), shape(*target), P(sharding))
    assert made is not None
    whole = np.arange(np.prod(source)).reshape(source)
    for d in range(8):
        mine = held(P(sharding), whole, d)
        assert np.isin(mine, held(made, whole.reshape(target), d)).all()  # copies at most


def test_what_reshape_can_keep() -> None:
    kept = util.propagate_sharding_through_reshape(shape(8, 4), shape(32), ROWS)
    assert str(kept) == "{devices=[4,2]<=[8] last_tile_dim_replicate}"
    assert str(util.reshape_sharding(shape(32), shape(4, 8), P("{devices=[8]<=[8]}"))) == "{devices=[4,2]<=[8]}"


def test_merge() -> None:
    assert util.merge_sharding_if_compatible(ROWS, COLUMNS) == BOTH
    assert util.merge_sharding_if_compatible(COLUMNS, ROWS) == BOTH
    other = P("{devices=[2,1,4]<=[8] last_tile_dim_replicate}")
    assert util.merge_sharding_if_compatible(ROWS, other) is None  # four and two tiles of one dimension
    assert util.merge_sharding_if_compatible(ROWS, HloSharding.replicate()) == ROWS
    assert util.find_common_sharding([ROWS, COLUMNS]) == BOTH


def test_finer_tilings() -> None:
    s = shape(8, 8)
    assert util.is_sub_tiling_or_equal_sharding(s, BOTH, ROWS)
    assert util.is_sub_tiling_or_equal_sharding(s, BOTH, COLUMNS)
    assert not util.is_sub_tiling_or_equal_sharding(s, ROWS, BOTH)
    assert not util.is_sub_tiling_or_equal_sharding(s, SWAPPED, ROWS)


def test_replicating_dimensions() -> None:
    assert util.partially_replicate_tiled_sharding_on_dims(BOTH, [1]) == ROWS
    assert util.partially_replicate_tiled_sharding_on_dims(BOTH, [0]) == COLUMNS
    assert util.partially_replicate_tiled_sharding_on_all_dims_except(BOTH, [1]) == COLUMNS
    assert util.partially_replicate_tiled_sharding_on_dims(BOTH, [0, 1]).is_replicated
    manual = P("{devices=[2,2,2]<=[8] last_tile_dims={manual}}")
    kept = util.partially_replicate_tiled_sharding_on_dims(manual, [1])
    assert str(kept) == "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}"


def test_collapsed_dimensions() -> None:
    assert util.transpose_sharding_with_collapsed_dims(ROWS, [1, -1], [-1, 0]) == P(
        "{devices=[1,4,2]<=[8] last_tile_dim_replicate}"
    )
    assert util.transpose_sharding_with_collapsed_dims(BOTH, [1, -1], [-1, 0]) is None
    along = util.propagate_sharding_along_dims_and_replicate_others(BOTH, [0], [2], 3)
    assert str(along) == "{devices=[1,1,4,2]<=[8] last_tile_dim_replicate}"


@pytest.mark.parametrize(
    "sharding", [ROWS, COLUMNS, BOTH, SWAPPED, P("{devices=[2,2,2]<=[8] last_tile_dims={manual}}")]
)
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), (1, 0)])
def test_grouped_and_ungrouped(sharding: HloSharding, dims: tuple[int, ...]) -> None:
    if not sharding.subgroup_types:
        grouped = util.group_sharding_on_dims(sharding, dims)
        assert grouped.device_groups.size == 8
        assert util.ungroup_sharding(grouped) == sharding
        assert util.device_groups_are_match(grouped, grouped)
    else:
        grouped = util.get_manual_subgroup_sharding(sharding)
        assert grouped.num_groups == 2
        assert str(grouped.sharding) == "{devices=[2,2]<=[4]}"
        assert util.ungroup_sharding(grouped) == sharding


def test_groups_on_replicated_dimensions() -> None:
    grouped = util.group_sharding_on_replicated_dim(ROWS, 2, 8, 2)
    assert grouped.device_groups.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert str(grouped.sharding) == "{devices=[4,1]<=[4]}"
    whole = util.group_sharding_on_replicated_dim(HloSharding.replicate(), 4, 8, 2)
    assert whole.device_groups.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assigned = util.partial_replicated_group_sharding_with_assigned_device_groups(ROWS, 1, grouped.device_groups)
    assert assigned is not None
    assert assigned.sharding == P("{devices=[4,1]<=[4]}")


def test_moved_tiles() -> None:
    assert util.move_and_merge_sharding_tiles(BOTH, 0, 1).dimensions == (1, 8)
    assert str(util.move_and_merge_sharding_tiles(BOTH, 0, 1)) == "{devices=[1,8]<=[4,2]T(1,0)}"
    assert util.get_first_target_dim_to_move_sharding_tiles(shape(8, 8), BOTH, 0, lambda d: d == 1) == 1
    split = util.split_sharding_dimension(BOTH, 0, 2)
    assert split.dimensions == (2, 2, 2)
    assert util.merge_sharding_dimension(split, 0) == BOTH
    assert util.reverse_sharding(BOTH, [0]).tile_assignment[0, 0] == 6
