"""Matching dimensions of gathers and scatters, and the shardings that follow."""

import pytest

from xlanb.hlo import HloOpcode, parse
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.gather_dimensions import IndexedDimensions, MatchingDims, dimension_for_iota

EMBEDDING = """HloModule m
ENTRY main {
  table = f32[256,32] parameter(0)
  ids = s32[16,8,1] parameter(1)
  ROOT g = f32[16,8,32] gather(table, ids), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,32}
}"""
TAKE_ALONG_AXIS = """HloModule m
ENTRY main {
  x = f32[8,100] parameter(0)
  row = s32[8,5,1] iota(), iota_dimension=0
  column = s32[8,5,1] parameter(1)
  indices = s32[8,5,2] concatenate(row, column), dimensions={2}
  c = s32[8,5,2] copy(indices)
  ROOT g = f32[8,5] gather(x, c), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}
}"""
BATCHED = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY main {
  x = f32[8,100,4] parameter(0)
  indices = s32[8,5] parameter(1)
  updates = f32[8,5,4] parameter(2)
  ROOT s = f32[8,100,4] scatter(x, indices, updates), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add
}"""


def dims(text: str) -> IndexedDimensions:
    return IndexedDimensions.of(parse(text).entry_computation.root)


def test_rows_of_a_table():
    d = dims(EMBEDDING)
    assert d.has_index_vectors
    assert d.operand_passthrough((1, 32)) == MatchingDims(operand=(1,), output=(2,))
    assert d.index_passthrough() == MatchingDims(indices=(0, 1), output=(0, 1))
    assert d.explicit_batch() is None
    assert d.index_parallel() is None


def test_indices_that_count_up_are_parallel():
    d = dims(TAKE_ALONG_AXIS)
    assert d.index_parallel() == MatchingDims((0,), (0,), (0,))
    assert d.index_passthrough() == MatchingDims(indices=(1,), output=(1,))


def test_a_scatter_is_the_gather_of_its_updates():
    d = dims(BATCHED)
    assert not d.has_index_vectors
    assert d.explicit_batch() == MatchingDims((0,), (0,), (0,))
    assert d.index_passthrough() == MatchingDims(indices=(1,), output=(1,))
    x, _, updates = d.hlo.operands
    assert d.slice_sizes(x.array_shape, updates.array_shape) == (1, 1, 4)
    assert d.operand_passthrough((1, 1, 4)) == MatchingDims(operand=(2,), output=(2,))


@pytest.mark.parametrize(
    ("indices", "output"),
    [
        ("{devices=[4,1,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,1,2]<=[8] last_tile_dim_replicate}"),
        ("{devices=[2,4,1]<=[8]}", "{devices=[2,4,1]<=[8]}"),
        ("{replicated}", "{replicated}"),
    ],
)
def test_output_and_indices_give_each_other_their_shardings(indices, output):
    d = dims(EMBEDDING)
    given = HloSharding.parse(indices)
    assert str(d.output_from_indices(given)) == output
    assert d.indices_from_output(d.output_from_indices(given)) == given


def test_a_column_sharding_passes_through():
    d = dims(EMBEDDING)
    table = d.operand.array_shape
    columns = HloSharding.parse("{devices=[1,8]<=[8]}")
    assert str(d.output_from_operand(table, columns, (1, 32))) == "{devices=[1,1,8]<=[8]}"
    assert d.output_from_operand(table, HloSharding.parse("{devices=[8,1]<=[8]}"), (1, 32)) is None


@pytest.mark.parametrize(
    ("lines", "dim"),
    [
        ("ROOT r = s32[3,4] iota(), iota_dimension=1", 1),
        ("ROOT r = s32[2,3] constant({{0,1,2},{0,1,2}})", 1),
        ("ROOT r = s32[2,3] constant({{0,1,2},{0,1,3}})", None),
        ("i = s32[4] iota(), iota_dimension=0\n ROOT r = s32[3,4] broadcast(i), dimensions={1}", 1),
        ("ROOT r = s32[4] parameter(0)", None),
    ],
)
def test_what_counts_up(lines, dim):
    assert dimension_for_iota(parse(f"HloModule m\nENTRY e {{\n {lines}\n}}").entry_computation.root) == dim


def test_a_loop_that_carries_an_iota_counts_up():
    text = """HloModule m
body {
  p = (s32[4], s32[]) parameter(0)
  i = s32[4] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT t = (s32[4], s32[]) tuple(i, n)
}
condition {
  p = (s32[4], s32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=1
  z = s32[] constant(3)
  ROOT l = pred[] compare(n, z), direction=LT
}
ENTRY main {
  i = s32[4] iota(), iota_dimension=0
  n = s32[] constant(0)
  t = (s32[4], s32[]) tuple(i, n)
  ROOT w = (s32[4], s32[]) while(t), condition=condition, body=body
}"""
    module = parse(text)
    elements = [
        i for c in module.computations if c.name == "body" for i in c if i.opcode is HloOpcode.GET_TUPLE_ELEMENT
    ]
    assert [dimension_for_iota(e) for e in elements] == [0, None]
