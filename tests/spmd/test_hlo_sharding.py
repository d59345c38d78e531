"""HloSharding: text, tiles, equality; meshes and Shardy's shardings as text."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import HloParseError, XlanbError
from xlanb.shape.primitive_type import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.spmd.hlo_sharding import HloSharding, ShardingType
from xlanb.spmd.mesh import Mesh, parse_meshes
from xlanb.spmd.sdy import parse_manual_axes, parse_sharding, parse_shardings, shardings_text
from xlanb.transforms import PASSES

F32 = PrimitiveType.F32


@pytest.mark.parametrize(
    "text",
    [
        "{replicated}",
        "{manual}",
        "{unknown}",
        "{maximal device=3}",
        "{}",
        "{devices=[8]<=[8]}",
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
        "{devices=[2,2]3,1,2,0}",
        '{devices=[2,2]<=[4] metadata={op_name="a"}}',
        "{devices=[2,2]<=[4] shard_as 3}",
        "{{replicated}, {devices=[4,2]<=[8]}}",
    ],
)
def test_text_is_read_and_written(text: str) -> None:
    assert str(HloSharding.parse(text)) == text


def test_a_list_equals_the_iota_that_numbers_the_same_devices() -> None:
    listed = HloSharding.parse("{devices=[2,2]0,2,1,3}")
    assert listed == HloSharding.parse("{devices=[2,2]<=[2,2]T(1,0)}")
    assert len({listed, HloSharding.iota_tile((2, 2), (2, 2), (1, 0))}) == 1
    assert str(HloSharding.tile(listed.tile_assignment)) == "{devices=[2,2]<=[2,2]T(1,0)}"
    assert str(HloSharding.tile([[3, 1], [2, 0]])) == "{devices=[2,2]3,1,2,0}"


def test_what_is_no_sharding_is_refused() -> None:
    with pytest.raises(HloParseError):
        HloSharding.parse("{devices=[2,2]0,1,2}")


def test_tiles_of_uneven_data() -> None:
    sharding, shape = HloSharding.iota_tile((4, 2)), array(F32, (10, 8))
    assert sharding.tile_shape(shape).as_array().dimensions == (3, 4)
    offsets = [sharding.tile_offset_for_device(shape, d) for d in range(8)]
    limits = [sharding.tile_limit_for_device(shape, d) for d in range(8)]
    assert offsets[7] == (9, 4)
    assert limits[7] == (10, 8)
    covered = np.zeros((10, 8), int)
    for (a, b), (c, d) in zip(offsets, limits, strict=True):
        covered[a:c, b:d] += 1
    assert (covered == 1).all()
    assert sharding.tile_shape(shape, 7).as_array().dimensions == (1, 4)
    assert (sharding.num_tiles(), sharding.num_tiles([1]), sharding.tiled_data_rank) == (8, 2, 2)


def test_simplest_form() -> None:
    devices = np.arange(8)
    assert HloSharding.partial_tile(devices.reshape(1, 8)).is_replicated
    assert HloSharding.partial_tile(devices.reshape(4, 2, 1)) == HloSharding.iota_tile((4, 2))
    assert HloSharding.partial_tile([[1, 0], [3, 2]]) == HloSharding.partial_tile([[0, 1], [2, 3]])
    manual, replicated = ShardingType.MANUAL, ShardingType.REPLICATED
    assert HloSharding.subgroup(devices.reshape(1, 4, 2), (manual, manual)).is_manual
    both = HloSharding.subgroup(devices.reshape(2, 2, 2), (replicated, manual))
    assert both.subgroup_types == (manual, replicated)
    assert (both.subgroup_manual_dim, both.subgroup_replication_dim, both.tiled_data_rank) == (1, 2, 1)
    assert both.is_manual_subgroup


def test_parts_of_a_tuple() -> None:
    shape = tuple_of([array(F32, (4,)), tuple_of([array(F32, (8,)), array(F32, (2,))])])
    text = "{{replicated}, {devices=[4]<=[4]}, {maximal device=1}}"
    sharding = HloSharding.parse(text, shape)
    assert str(sharding.subsharding(shape, 1)) == "{{devices=[4]<=[4]}, {maximal device=1}}"
    assert sharding.subsharding(shape, 1, 1).unique_device == 1
    assert str(sharding.tile_shape(shape)) == str(
        tuple_of([array(F32, (4,)), tuple_of([array(F32, (2,)), array(F32, (2,))])])
    )
    assert HloSharding.parse("{replicated}", shape).is_tuple


def test_meshes() -> None:
    meshes = parse_meshes('{mesh = #sdy.mesh<["data"=4, "model"=2]>, b = #sdy.mesh<["x"=2], device_ids=[1, 0]>}')
    assert meshes["mesh"] == Mesh("mesh", (("data", 4), ("model", 2)))
    assert meshes["b"].devices.tolist() == [1, 0]
    assert str(meshes["b"]) == '#sdy.mesh<["x"=2], device_ids=[1, 0]>'
    with pytest.raises(XlanbError, match="no axis"):
        meshes["b"].size("data")


@pytest.mark.parametrize(
    "text",
    [
        '#sdy.sharding<@mesh, [{"data"}, {}]>',
        '#sdy.sharding<@mesh, [{"data", "model":(1)2, ?}p1, {?}], replicated={"x"}, unreduced={"y"}>',
        "#sdy.sharding<@mesh, []>",
    ],
)
def test_shardys_text(text: str) -> None:
    sharding = parse_sharding(text)
    assert str(sharding) == text
    assert parse_sharding(text.replace('"', '\\"')) == sharding
    several = shardings_text([sharding, sharding])
    assert parse_shardings(several) == (sharding, sharding)


def test_a_mesh_written_out_is_named() -> None:
    meshes: dict[str, Mesh] = {}
    sharding = parse_sharding('#sdy.sharding<mesh<["x"=4]>, [{"x"}]>', meshes)
    assert meshes[sharding.mesh].axes == (("x", 4),)
    with pytest.raises(XlanbError, match="not a Shardy sharding"):
        parse_sharding("#sdy.sharding<@mesh, [{x}]>")
    assert parse_manual_axes('#sdy<manual_axes{"x", "y"}>') == ("x", "y")


def test_passes_of_the_room_are_registered() -> None:
    assert PASSES["shardy-xla"].__module__ == "xlanb.spmd.shardy_xla"


@pytest.mark.parametrize(
    ("named", "tiled"),
    [
        ("{mesh['x'=4,'y'=2], [{'x'}, {}]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        ("{mesh['x'=4,'y'=2], [{'y', ?}, {'x':(1)2}]}", "{devices=[2,2,2]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ("{mesh['x'=4,'y'=2], [{'x'}], manual={'y'}}", "{devices=[4,2]<=[8] last_tile_dims={manual}}"),
        ("{mesh['x'=4,'y'=2], manual}", "{manual}"),
        ("{mesh['x'=4,'y'=2], replicated}", "{replicated}"),
        ("{mesh['x'=4], device_ids=([2,2]T(1,0)), [{'x'}]}", "{devices=[4]<=[2,2]T(1,0)}"),
        ("{mesh['x'=4], device_ids=(3,1,2,0), [{'x'}]}", "{devices=[4]3,1,2,0}"),
        ("{maximal_mesh[device_id=3]}", "{maximal device=3}"),
    ],
)
def test_shardings_by_axes(named: str, tiled: str) -> None:
    assert str(HloSharding.parse(named)) == tiled
