"""The partitioned program computes what the whole one does.

Covers gathers, scatters, sorts, slices, pads, concatenations, updates and custom calls.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import xlanb
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.spmd.partitioner.causes import CauseKind, causes_of
from xlanb.spmd.partitioner.driver import partition

_COLLECTIVES = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(")
_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}"
_LESS = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}"

REPLICATED = "{replicated}"
ROWS = "{devices=[8,1]<=[8]}"
COLUMNS = "{devices=[1,8]<=[8]}"
BOTH = "{devices=[4,2]<=[8]}"
PARTIAL = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
PARTIAL_COLUMNS = "{devices=[1,4,2]<=[4,2]T(1,0) last_tile_dim_replicate}"
SHARDINGS = (REPLICATED, ROWS, COLUMNS, BOTH, PARTIAL, PARTIAL_COLUMNS)


def pairs(*values):
    return list(product(*values))


def module_of(body: str, computations: str = "") -> HloModule:
    return parse(f"HloModule m, num_partitions=8\n{computations}\nENTRY main {{\n{body}\n}}\n")


def check(module: HloModule, *arguments: np.ndarray) -> list[str]:
    """Partition, compare with the whole program, and return the collectives' opcodes."""
    whole = module.clone()
    del whole.header["num_partitions"]
    expected = xlanb.evaluate(whole, *arguments)
    partition(module, 8)
    module.verify()
    found = xlanb.evaluate(module, *arguments)
    several = isinstance(expected, tuple)
    for e, f in zip(expected if several else (expected,), found if several else (found,), strict=True):
        np.testing.assert_allclose(
            f[tuple(map(slice, e.shape))], e, rtol=1e-5
        )  # uneven results come with their padding
    channels = {i.attributes["channel_id"] for i in module.instructions() if "channel_id" in i.attributes}
    causes = causes_of(module).by_channel
    assert channels <= set(causes)
    assert all(causes[c].reason for c in channels)
    return _COLLECTIVES.findall(str(module))


def floats(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-50, 50, dims).astype(np.float32)


def indices(low: int, high: int, *dims: int) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, dims).astype(np.int32)


# -- gathers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "ids"), pairs(SHARDINGS, (REPLICATED, ROWS, BOTH, PARTIAL)))
def test_rows_of_a_table(table, ids):
    output = "{devices=[2,2,2]<=[8]}"
    module = module_of(f"""
  t = f32[16,8] parameter(0), sharding={table}
  i = s32[8,4] parameter(1), sharding={ids}
  ROOT g = f32[8,4,8] gather(t, i), offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=2, slice_sizes={{1,8}}, sharding={output}""")
    check(module, floats(16, 8), indices(-3, 20, 8, 4))


def test_a_table_split_by_rows_is_not_gathered():
    module = module_of(f"""
  t = f32[1024,32] parameter(0), sharding={ROWS}
  i = s32[8,1] parameter(1), sharding={REPLICATED}
  ROOT g = f32[8,32] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,32}}, sharding={REPLICATED}""")
    assert check(module, floats(1024, 32), indices(0, 1024, 8, 1)) == ["all-reduce"]
    (cause,) = (c for c in causes_of(module).by_channel.values() if c.collective == "all-reduce")
    assert cause.kind is CauseKind.PARTIAL_REDUCTION
    assert (cause.opcode, cause.instruction, cause.operand) == ("gather", "g", 0)
    assert dict(cause.estimates)["sent by trivial-sliced-operand"] == 2 * 8 * 32 * 4


def test_whole_columns_pass_through():
    module = module_of(f"""
  t = f32[64,8] parameter(0), sharding={COLUMNS}
  i = s32[8,1] parameter(1), sharding={REPLICATED}
  ROOT g = f32[8,8] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}, sharding={COLUMNS}""")
    assert check(module, floats(64, 8), indices(0, 64, 8, 1)) == []


@pytest.mark.parametrize(("x", "i"), pairs(("{devices=[8,1]<=[8]}", "{devices=[2,4]<=[8]}"), (ROWS, BOTH, REPLICATED)))
def test_batching_dimensions_and_counted_ones(x, i):
    batched = module_of(f"""
  x = f32[8,12] parameter(0), sharding={x}
  i = s32[8,5] parameter(1), sharding={i}
  ROOT g = f32[8,5] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1}}, sharding={ROWS}""")
    assert "all-reduce" not in check(batched, floats(8, 12), indices(0, 12, 8, 5)) or x != ROWS
    counted = module_of(f"""
  x = f32[8,12] parameter(0), sharding={x}
  r = s32[8,5,1] iota(), iota_dimension=0, sharding={{devices=[8,1,1]<=[8]}}
  i = s32[8,5,1] parameter(1), sharding={{devices=[8,1,1]<=[8]}}
  c = s32[8,5,2] concatenate(r, i), dimensions={{2}}, sharding={{devices=[8,1,1]<=[8]}}
  ROOT g = f32[8,5] gather(x, c), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=2, slice_sizes={{1,1}}, sharding={ROWS}""")
    collectives = check(counted, floats(8, 12), indices(0, 12, 8, 5, 1))
    assert x != ROWS or collectives == []


# -- scatters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "u"), pairs(SHARDINGS, SHARDINGS))
def test_rows_added_to_a_table(x, u):
    module = module_of(
        f"""
  x = f32[16,8] parameter(0), sharding={x}
  i = s32[24,1] parameter(1), sharding={ROWS}
  u = f32[24,8] parameter(2), sharding={u}
  ROOT s = f32[16,8] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add, sharding={x}""",
        _ADD,
    )
    check(module, floats(16, 8), indices(-2, 18, 24, 1), floats(24, 8, seed=2))


def test_split_updates_of_a_whole_operand_are_summed():
    module = module_of(
        f"""
  x = f32[16,8] parameter(0), sharding={REPLICATED}
  i = s32[640,1] parameter(1), sharding={ROWS}
  u = f32[640,8] parameter(2), sharding={ROWS}
  ROOT s = f32[16,8] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add, sharding={REPLICATED}""",
        _ADD,
    )
    assert check(module, floats(16, 8), indices(0, 16, 640, 1), floats(640, 8, seed=2)) == ["all-reduce"]


def test_uneven_indices_drop_their_padding():
    module = module_of(
        f"""
  x = f32[16] parameter(0), sharding={REPLICATED}
  i = s32[13,1] parameter(1), sharding={ROWS}
  u = f32[13] parameter(2), sharding={{devices=[8]<=[8]}}
  ROOT s = f32[16] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add, sharding={REPLICATED}""",
        _ADD,
    )
    check(module, floats(16), indices(0, 16, 13, 1), floats(13, seed=2))


# -- sorts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sharding", "dim"), pairs(SHARDINGS, (0, 1)))
def test_sorts(sharding, dim):
    module = module_of(
        f"""
  x = f32[16,16] parameter(0), sharding={sharding}
  ROOT s = f32[16,16] sort(x), dimensions={{{dim}}}, to_apply=less, sharding={sharding}""",
        _LESS,
    )
    collectives = check(module, floats(16, 16))
    assert "all-gather" not in collectives or "last_tile" in sharding or sharding == BOTH


def test_what_has_no_other_dimension_is_gathered():
    sharding = "{devices=[8]<=[8]}"
    module = module_of(
        f"  x = f32[16] parameter(0), sharding={sharding}\n"
        f"  ROOT s = f32[16] sort(x), dimensions={{0}}, to_apply=less, sharding={sharding}",
        _LESS,
    )
    assert check(module, floats(16)) == ["all-gather"]


# -- slices, pads, concatenations ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharding", "box"),
    pairs((ROWS, COLUMNS, BOTH, PARTIAL), ("[0:8], [2:18]", "[3:14], [0:20]", "[1:16:2], [0:20:3]", "[0:16], [0:1]")),
)
def test_slices(sharding, box):
    sizes = [len(range(*(int(n) for n in part.strip(" []").split(":")))) for part in box.split(",")]
    dims = ",".join(map(str, sizes))
    module = module_of(f"""
  x = f32[16,20] parameter(0), sharding={sharding}
  ROOT s = f32[{dims}] slice(x), slice={{{box}}}, sharding={sharding}""")
    check(module, floats(16, 20))


@pytest.mark.parametrize(
    ("sharding", "padding", "value"), pairs((ROWS, COLUMNS, BOTH), ("1_1x0_0", "0_3x2_0", "-1_2x0_0_1"), (0, 7))
)
def test_pads(sharding, padding, value):
    dims = {"1_1x0_0": "18,16", "0_3x2_0": "19,18", "-1_2x0_0_1": "17,31"}[padding]
    module = module_of(f"""
  x = f32[16,16] parameter(0), sharding={sharding}
  v = f32[] constant({value})
  ROOT p = f32[{dims}] pad(x, v), padding={padding}, sharding={sharding}""")
    check(module, floats(16, 16))


@pytest.mark.parametrize(("sharding", "dim"), pairs(SHARDINGS, (0, 1)))
def test_concatenations(sharding, dim):
    dims = "24,16" if dim == 0 else "16,24"
    second = "8,16" if dim == 0 else "16,8"
    module = module_of(f"""
  x = f32[16,16] parameter(0), sharding={sharding}
  y = f32[{second}] parameter(1), sharding={REPLICATED}
  ROOT c = f32[{dims}] concatenate(x, y), dimensions={{{dim}}}, sharding={sharding}""")
    check(module, floats(16, 16), floats(*map(int, second.split(",")), seed=3))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_reversals(sharding):
    module = module_of(f"""
  x = f32[16,13] parameter(0), sharding={sharding}
  ROOT r = f32[16,13] reverse(x), dimensions={{0,1}}, sharding={sharding}""")
    check(module, floats(16, 13))


@pytest.mark.parametrize(("size", "amount"), pairs((16, 13), (1, 3, 12)))
def test_rotations_become_permutes(size, amount):
    module = module_of(f"""
  x = f32[{size},2] parameter(0), sharding={ROWS}
  c = f32[{size},2] copy(x), sharding={ROWS}
  back = f32[{amount},2] slice(c), slice={{[{size - amount}:{size}], [0:2]}}, sharding={ROWS}
  front = f32[{size - amount},2] slice(c), slice={{[0:{size - amount}], [0:2]}}, sharding={ROWS}
  ROOT r = f32[{size},2] concatenate(back, front), dimensions={{0}}, sharding={ROWS}""")
    assert set(check(module, floats(size, 2))) == {"collective-permute"}


# -- dynamic slices and updates --------------------------------------------------------------------


@pytest.mark.parametrize(("sharding", "start"), pairs(SHARDINGS, (0, 5, 14)))
def test_dynamic_slices(sharding, start):
    module = module_of(f"""
  x = f32[16,16] parameter(0), sharding={sharding}
  i = s32[] parameter(1), sharding={REPLICATED}
  z = s32[] constant(0)
  ROOT d = f32[4,16] dynamic-slice(x, i, z), dynamic_slice_sizes={{4,16}}, sharding={sharding}""")
    check(module, floats(16, 16), np.int32(start))


@pytest.mark.parametrize(("sharding", "rows", "start"), pairs(SHARDINGS, (1, 3), (0, 7, 15)))
def test_dynamic_updates(sharding, rows, start):
    module = module_of(f"""
  x = f32[16,16] parameter(0), sharding={sharding}
  u = f32[{rows},16] parameter(1), sharding={REPLICATED}
  i = s32[] parameter(2), sharding={REPLICATED}
  z = s32[] constant(0)
  ROOT d = f32[16,16] dynamic-update-slice(x, u, i, z), sharding={sharding}""")
    collectives = check(module, floats(16, 16), floats(rows, 16, seed=5), np.int32(start))
    assert collectives == [] or rows > 1


# -- TopK ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharding", [COLUMNS, BOTH, ROWS, REPLICATED])
def test_the_largest_of_each_shard_are_sorted_together(sharding):
    module = module_of(f"""
  x = f32[4,64] parameter(0), sharding={sharding}
  t = (f32[4,3], s32[4,3]) custom-call(x), custom_call_target="TopK", called_computations={{}}, sharding={{{{replicated}}, {{replicated}}}}
  ROOT v = f32[4,3] get-tuple-element(t), index=0, sharding={REPLICATED}""")
    partition(module, 8)
    module.verify()
    assert ("sort(" in str(module)) == (sharding != REPLICATED)


def test_an_unknown_call_gets_whole_arrays():
    module = module_of(f"""
  x = f32[16,8] parameter(0), sharding={ROWS}
  ROOT c = f32[16,8] custom-call(x), custom_call_target="my_call", sharding={ROWS}""")
    partition(module, 8)
    call = next(i for i in module.instructions() if i.opcode.text == "custom-call")
    assert call.array_shape.dimensions == (16, 8)
    assert "all-gather" in str(module)


# -- corner cases ---------------------------------------------------------------------------------


def test_a_mask_that_differs_between_groups_stays_in_them():
    module = module_of(f"""
  t = f32[16,8] parameter(0), sharding={PARTIAL}
  i = s32[8,4] parameter(1), sharding={REPLICATED}
  ROOT g = f32[8,4,8] gather(t, i), offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=2, slice_sizes={{1,8}}, sharding={{devices=[2,2,2]<=[8]}}""")
    check(module, floats(16, 8), indices(0, 16, 8, 4))


def test_index_vectors_are_made_whole():
    module = module_of(f"""
  x = f32[8,12] parameter(0), sharding={BOTH}
  i = s32[16,2] parameter(1), sharding={BOTH}
  ROOT g = f32[16] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}, sharding={{devices=[8]<=[8]}}""")
    check(module, floats(8, 12), indices(0, 8, 16, 2))


@pytest.mark.parametrize(
    ("size", "padding", "padded", "sharding"),
    [
        (16, "2_-1_1", 32, REPLICATED),
        (8, "-1_-1_1", 13, "{devices=[4,2]<=[8] last_tile_dim_replicate}"),
        (16, "-1_3_2", 48, "{devices=[8]<=[8]}"),
    ],
)
def test_pads_between_elements_that_also_cut(size, padding, padded, sharding):
    module = module_of(f"""
  x = f32[{size}] parameter(0), sharding={sharding}
  v = f32[] constant(0)
  ROOT p = f32[{padded}] pad(x, v), padding={padding}, sharding={{devices=[4,2]<=[8] last_tile_dim_replicate}}""")
    check(module, floats(size))


def test_periodic_padding_becomes_rotations():
    module = module_of(f"""
  x = f32[16,2] parameter(0), sharding={ROWS}
  c = f32[16,2] negate(x), sharding={ROWS}
  a = f32[1,2] slice(c), slice={{[15:16], [0:2]}}, sharding={ROWS}
  n = f32[1,2] negate(a), sharding={ROWS}
  b = f32[2,2] slice(c), slice={{[0:2], [0:2]}}, sharding={ROWS}
  ROOT r = f32[19,2] concatenate(n, c, b), dimensions={{0}}, sharding={ROWS}""")
    assert set(check(module, floats(16, 2))) == {"collective-permute"}


def test_trying_what_a_way_costs_warns_of_nothing(caplog):
    module = module_of(f"""
  t = f32[64,8] parameter(0), sharding={COLUMNS}
  i = s32[8,1] parameter(1), sharding={ROWS}
  ROOT g = f32[8,8] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}, sharding={COLUMNS}""")
    partition(module, 8)
    assert len(caplog.records) == len(causes_of(module).findings)


@pytest.mark.parametrize(
    ("x", "i", "u", "output"),
    [
        # Device groups in another order than the operand's; indices split in a batching dimension.
        ("{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", REPLICATED, "{devices=[2,2,2]6,7,4,5,0,2,1,3 last_tile_dim_replicate}", "{devices=[2,4]<=[2,4]T(1,0)}"),
        ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[2,4]<=[2,4]T(1,0)}", REPLICATED, ROWS),
    ],
)  # fmt: skip
def test_each_group_counts_the_operand_once(x, i, u, output):
    module = module_of(
        f"""
  x = f32[2,16] parameter(0), sharding={x}
  i = s32[24,1] parameter(1), sharding={i}
  u = f32[24,16] parameter(2), sharding={u}
  ROOT s = f32[2,16] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add, sharding={output}""",
        _ADD,
    )
    check(module, floats(2, 16), indices(0, 2, 24, 1), floats(24, 16, seed=2))


def test_indices_split_in_a_batching_dimension_too():
    sharding = "{devices=[4,1,1,2]<=[8] last_tile_dim_replicate}"
    module = module_of(
        f"""
  x = f32[16,8,5] parameter(0), sharding={sharding}
  i = s32[16,2] parameter(1), sharding={{devices=[2,4]<=[2,4]T(1,0)}}
  u = f32[16,2,5] parameter(2), sharding={REPLICATED}
  ROOT s = f32[16,8,5] scatter(x, i, u), update_window_dims={{2}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, index_vector_dim=2, to_apply=add, sharding={sharding}""",
        _ADD,
    )
    check(module, floats(16, 8, 5), indices(0, 8, 16, 2), floats(16, 2, 5, seed=2))


def test_a_gather_within_groups_reshards_what_a_group_has():
    module = module_of("""
  t = f32[16,16] parameter(0), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}
  i = s32[16,1,1] parameter(1), sharding={devices=[1,2,1,4]<=[8] last_tile_dim_replicate}
  ROOT g = f32[16,1,16] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,16}, sharding={devices=[1,4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}""")
    check(module, floats(16, 16), indices(0, 16, 16, 1, 1))
