"""Shardings in words, by the axes of a mesh, and drawn."""

from __future__ import annotations

import re

import pytest

from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.mesh import Mesh
from xlanb.view.parts.sharding import guessed_mesh, sharding_data
from xlanb.view.payload_builder import PayloadBuilder, merge
from xlanb.view.sharding import part_slices, ranges, sharding_html, sharding_text

MESH = Mesh("mesh", (("data", 4), ("model", 2)))
WHOLE = """HloModule program, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}, num_partitions=8

ENTRY main {
  x = f32[64,32]{1,0} parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  w = f32[32,16]{1,0} parameter(1), sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[64,16]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,2]<=[8]}
}
"""
LOCAL = """HloModule program, num_partitions=8

ENTRY main_spmd {
  x = f32[16,32]{1,0} parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  ROOT y = f32[16,32]{1,0} negate(x)
}
"""


@pytest.mark.parametrize(
    ("text", "axes", "words"),
    [
        ("{devices=[4,2]<=[8]}", '[{"data"}, {"model"}]', "dimension 0 in 4 parts along data, dimension 1 in 2 parts along model"),
        ("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", '[{}, {"model"}]', "dimension 1 in 2 parts along model; each part on 4 devices along data"),
        ("{devices=[8,1]<=[8]}", '[{"data", "model"}, {}]', "dimension 0 in 8 parts along data and model"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", '[{"data":(1)2}, {}]', "dimension 0 in 2 parts along data:(1)2; each part on 4 devices"),
        ("{devices=[2,4]0,3,1,2,4,7,6,5}", "", "dimension 0 in 2 parts, dimension 1 in 4 parts"),
        ("{devices=[4,2]<=[8] last_tile_dims={manual}}", '[{"data"}]', "dimension 0 in 4 parts along data; in 2 parts chosen by the program (manual)"),
        ("{replicated}", "replicated", "the whole array on every device"),
        ("{maximal device=3}", "", "the whole array on device 3"),
        ("{manual}", "", "the program decides what each device holds (manual)"),
        ("{{replicated}, {devices=[8]<=[8]}}", '(replicated, [{"data", "model"}])', "a tuple of 2"),
    ],
)  # fmt: skip
def test_a_sharding_by_axes_and_in_words(text, axes, words):
    data = sharding_data(HloSharding.parse(text), MESH)
    assert (data["x"], data["w"]) == (axes, words)


def test_each_part_names_the_devices_that_hold_it():
    data = sharding_data(HloSharding.parse("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"), MESH)
    assert (data["t"], data["d"], data["a"]) == ([1, 2], [[0, 2, 4, 6], [1, 3, 5, 7]], [1])


def test_devices_that_a_mesh_numbers_otherwise():
    mesh = Mesh("mesh", (("x", 2), ("y", 2)), (0, 2, 1, 3))
    assert sharding_data(HloSharding.parse("{devices=[2,2]<=[4]}"), mesh)["x"] == '[{"y"}, {"x"}]'


def test_a_mesh_is_found_in_the_shardings_where_none_is_named():
    parse_all = lambda *texts: [HloSharding.parse(t) for t in texts]  # noqa: E731
    assert guessed_mesh(parse_all("{devices=[8,1]<=[8]}", "{replicated}")).axes == (("axis_0", 8),)
    assert guessed_mesh(parse_all("{devices=[4,2]<=[8]}", "{devices=[8,1]<=[8]}")).axes == (
        ("axis_0", 4),
        ("axis_1", 2),
    )
    assert guessed_mesh(parse_all("{devices=[3,2]<=[6]}")).axes == (("axis_0", 3), ("axis_1", 2))
    assert guessed_mesh(parse_all("{replicated}")) is None
    assert guessed_mesh(parse_all("{devices=[4]0,3,1,2}")) is None


def test_slices_are_those_of_xla_where_parts_are_uneven():
    sharding = HloSharding.parse("{devices=[4,2]<=[8]}")
    shape = parse("HloModule m\nENTRY e { ROOT p = f32[10,5] parameter(0) }").entry_computation.root.shape
    for number, device in enumerate(sharding.tile_assignment.flat):
        low, high = (
            sharding.tile_offset_for_device(shape, int(device)),
            sharding.tile_limit_for_device(shape, int(device)),
        )
        assert part_slices((4, 2), (10, 5), number) == f"[{low[0]}:{high[0]}, {low[1]}:{high[1]}]"
    assert part_slices((2, 1), (8, 3), 1) == "[4:8, :]"


def test_ranges():
    assert [ranges(n) for n in ([0], [0, 1], [0, 1, 2], [0, 2, 4], [1, 2, 3, 7])] == [
        "0",
        "0, 1",
        "0-2",
        "0, 2, 4",
        "1-3, 7",
    ]


def test_a_sharding_shows_itself_in_a_notebook():
    bundle = HloSharding.parse("{devices=[4,2]<=[8]}")._repr_mimebundle_()
    assert bundle["text/plain"] == "{devices=[4,2]<=[8]}\ndimension 0 in 4 parts, dimension 1 in 2 parts"
    assert bundle["text/html"].count("<rect") == 8
    assert "<script" not in bundle["text/html"]
    mesh = MESH._repr_mimebundle_()
    assert mesh["text/plain"] == str(MESH)
    assert mesh["text/html"].count("<rect") == 8
    assert sharding_text(HloSharding.parse("{devices=[4,2]<=[8]}"), MESH).splitlines()[1] == '[{"data"}, {"model"}]'


def test_an_instruction_shows_its_slices():
    root = parse(WHOLE).entry_computation.root
    html = root._repr_mimebundle_()["text/html"]
    assert "[16:32, 8:16] on device 3" in html
    assert "along data, dimension 1 in 2 parts along model" in html
    local = parse(LOCAL).entry_computation.instructions[0]._repr_mimebundle_()["text/html"]
    assert "<title>on devices 2, 3</title>" in local
    assert "[16:" not in local


def test_names_of_a_program_are_escaped():
    html = sharding_html(HloSharding.parse("{devices=[2]<=[2]}"), None, Mesh("m", (("<b>", 2),)))
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_the_payload_has_each_sharding_once_and_keeps_the_mesh():
    whole, local = parse(WHOLE).record(), parse(LOCAL).record()
    builder = PayloadBuilder()
    copy = {"revision": 0, "items": [], "chunks": [], "artifacts": [], "frames": [], "traces": [], "order": []}
    first = Stage("tf2xla", "input", whole, whole)
    merge(copy, builder.update([trace := Trace("t", [first])]))
    trace.stages.append(Stage("hlo_pass", "spmd-partitioning", whole, local, index=1))
    delta = builder.update([trace])
    merge(copy, delta)
    ((key, table),) = builder.payload["shardings"].items()
    assert key == str(MESH)
    assert table["axes"] == [["data", 4], ["model", 2]]
    assert table["ids"] == list(range(8))
    assert len(table["of"]) == 3
    assert "shardings" not in delta
    assert copy["shardings"] == builder.payload["shardings"]
    assert [(a["mesh"], a.get("spmd", 0)) for a in builder.payload["artifacts"]] == [(key, 0), (key, 1)]


def test_a_program_without_shardings_carries_nothing():
    record = parse(
        re.sub(r", (sharding|frontend_attributes)=\{[^\n]*", "", WHOLE.split("\n", 1)[1].join(["HloModule m\n", ""]))
    ).record()
    builder = PayloadBuilder()
    builder.update([Trace("t", [Stage("tf2xla", "input", record, record)])])
    assert "shardings" not in builder.payload
    assert "mesh" not in builder.payload["artifacts"][0]
