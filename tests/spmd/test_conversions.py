"""Shardings by axes against HLO's: text, placement of the data, and the inverse."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import XlanbError
from xlanb.spmd.conversions import evenly_sharded, from_hlo_sharding, to_hlo_sharding
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import parse_sharding

MESH = Mesh("mesh", (("data", 4), ("model", 2)))
OTHER = Mesh("mesh", (("x", 2), ("y", 2), ("z", 2)), (0, 2, 4, 6, 1, 3, 5, 7))


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ('[{"data"}, {}]', "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        ('[{}, {"model"}]', "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ('[{"data"}, {"model"}]', "{devices=[4,2]<=[8]}"),
        ('[{"model"}, {"data"}]', "{devices=[2,4]<=[4,2]T(1,0)}"),
        ('[{"model", "data"}]', "{devices=[8]<=[4,2]T(1,0)}"),
        ("[{}, {?}]", "{replicated}"),
        ('[{"data":(1)2}, {}]', "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
        ('[{"data":(2)2}, {"data":(1)2}]', "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"),
        ('[{}], unreduced={"model"}', "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dims={unreduced, replicated}}"),
    ],
)
def test_to_hlo(dims: str, expected: str) -> None:
    assert str(to_hlo_sharding(parse_sharding(f"#sdy.sharding<@mesh, {dims}>"), MESH)) == expected


def test_manual_axes() -> None:
    sharding = parse_sharding('#sdy.sharding<@mesh, [{"data"}]>')
    assert to_hlo_sharding(sharding, MESH, ("data", "model")).is_manual
    partly = to_hlo_sharding(sharding, MESH, ("model",))
    assert str(partly) == "{devices=[4,2]<=[8] last_tile_dims={manual}}"
    with pytest.raises(XlanbError, match="unreduced"):
        to_hlo_sharding(parse_sharding('#sdy.sharding<@mesh, [{}], unreduced={"data"}>'), MESH, ("model",))


def test_one_device() -> None:
    sharding = parse_sharding("#sdy.sharding<@one, []>")
    assert to_hlo_sharding(sharding, Mesh("one", (), (3,))).unique_device == 3
    assert to_hlo_sharding(sharding, Mesh("one", ())).is_replicated


@pytest.mark.parametrize("mesh", [MESH, OTHER])
@pytest.mark.parametrize("dims", [((0,), (1,)), ((1,), (0,)), ((), (1,)), ((1, 0), ()), ((), ())])
def test_back(mesh: Mesh, dims: tuple[tuple[int, ...], ...]) -> None:
    names = [name for name, _ in mesh.axes]
    text = ", ".join("{" + ", ".join(f'"{names[a]}"' for a in d) + "}" for d in dims)
    sharding = parse_sharding(f"#sdy.sharding<@mesh, [{text}]>")
    assert from_hlo_sharding(to_hlo_sharding(sharding, mesh), mesh, 2) == sharding


def test_devices_of_a_mesh_in_another_order() -> None:
    hlo = to_hlo_sharding(parse_sharding('#sdy.sharding<@mesh, [{"x"}]>'), OTHER)
    assert np.array_equal(hlo.tile_assignment, [[0, 2, 4, 6], [1, 3, 5, 7]])


def test_what_no_axes_give() -> None:
    assert from_hlo_sharding(HloSharding.parse("{devices=[2,4]0,1,2,3,4,5,7,6}"), MESH, 2) is None
    assert from_hlo_sharding(HloSharding.parse("{devices=[2,2]<=[4]}"), MESH, 2) is None


@pytest.mark.parametrize(
    ("dims", "size", "expected"),
    [
        ('{"data"}', 8, '{"data"}'),
        ('{"data", ?}', 46, "{?}"),
        ('{"data"}', 46, '{"data":(1)2}'),
        ('{"data", "model", ?}', 12, '{"data", ?}'),
        ('{"data"}', 3, "{}"),
    ],
)
def test_ends_are_even(dims: str, size: int, expected: str) -> None:
    sharding = parse_sharding(f"#sdy.sharding<@mesh, [{dims}]>")
    assert str(evenly_sharded(sharding, [size], MESH)) == f"#sdy.sharding<@mesh, [{expected}]>"
