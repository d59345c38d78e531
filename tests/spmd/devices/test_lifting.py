"""Operations of all devices lifted to one operation on whole arrays, with the devices' results."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.devices import DevicePlacement

SUM = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"
LESS = "less { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT }\n"
ALL = "use_global_device_ids=true, replica_groups={{0,1,2,3}}"
ROWS = "sharding={devices=[4,1]<=[4]}"
COLUMNS = "sharding={devices=[1,4]<=[4]}"
BOTH = "sharding={devices=[2,2]<=[4]}"

# name: the program of each of four devices, and how many instructions of the opcode are left
CASES = {
    "elementwise": ("tanh", 1, f"x = f32[2,6] parameter(0), {ROWS}\n  ROOT r = f32[2,6] tanh(x), {ROWS}"),
    "elementwise with a number": ("multiply", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  k = f32[] constant(3)
  b = f32[2,6] broadcast(k), dimensions={{}}
  ROOT r = f32[2,6] multiply(x, b), {ROWS}"""),
    "elementwise with a row that all have": ("add", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  v = f32[6] parameter(1)
  b = f32[2,6] broadcast(v), dimensions={{1}}
  e = f32[2,6] negate(b)
  ROOT r = f32[2,6] add(x, e), {ROWS}"""),
    "elementwise with an iota of whole rows": ("add", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  i = f32[2,6] iota(), iota_dimension=1
  ROOT r = f32[2,6] add(x, i), {ROWS}"""),
    "elementwise with an iota of each device's own": ("add", 4, f"""x = f32[2,6] parameter(0), {ROWS}
  i = f32[2,6] iota(), iota_dimension=0
  ROOT r = f32[2,6] add(x, i), {ROWS}"""),
    "select": ("select", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  y = f32[2,6] negate(x)
  p = pred[2,6] compare(x, y), direction=LT
  ROOT r = f32[2,6] select(p, x, y), {ROWS}"""),
    "broadcast of tiles": ("broadcast", 1, f"""x = f32[2] parameter(0), sharding={{devices=[4]<=[4]}}
  ROOT r = f32[3,2] broadcast(x), dimensions={{1}}, {COLUMNS}"""),
    "elementwise on every second row": ("tanh", 1, f"""x = f32[4,6] parameter(0), {ROWS}
  y = f32[2,6] slice(x), slice={{[1:4:2], [0:6]}}
  ROOT r = f32[2,6] tanh(y), {ROWS}"""),
    "transpose": ("transpose", 1, f"x = f32[2,6] parameter(0), {ROWS}\n  ROOT r = f32[6,2] transpose(x), dimensions={{1,0}}, {COLUMNS}"),
    "reduce of whole rows": ("reduce", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  z = f32[] constant(0)
  ROOT r = f32[2] reduce(x, z), dimensions={{1}}, to_apply=add, sharding={{devices=[4]<=[4]}}"""),
    "reduce of tiles": ("reduce", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  z = f32[] constant(0)
  s = f32[6] reduce(x, z), dimensions={{0}}, to_apply=add
  ROOT r = f32[6] all-reduce(s), channel_id=1, {ALL}, to_apply=add, sharding={{replicated}}"""),
    "reduce of tiles along an inner dimension": ("reduce", 1, f"""x = f32[3,2] parameter(0), {COLUMNS}
  z = f32[] constant(0)
  s = f32[3] reduce(x, z), dimensions={{1}}, to_apply=add
  ROOT r = f32[3] all-reduce(s), channel_id=1, {ALL}, to_apply=add, sharding={{replicated}}"""),
    "reduce of tiles to a number": ("reduce", 1, f"""x = f32[3,2] parameter(0), {BOTH}
  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={{0,1}}, to_apply=add
  ROOT r = f32[] all-reduce(s), channel_id=1, {ALL}, to_apply=add, sharding={{replicated}}"""),
    "reduce of one of two dimensions that are cut": ("reduce", 1, f"""x = f32[3,2] parameter(0), {BOTH}
  z = f32[] constant(0)
  s = f32[3] reduce(x, z), dimensions={{1}}, to_apply=add
  ROOT r = f32[3] all-reduce(s), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add, sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}}"""),
    "dot of rows": ("dot", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  w = f32[6,5] parameter(1)
  ROOT r = f32[2,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {ROWS}"""),
    "dot of rows and columns": ("dot", 1, f"""x = f32[3,6] parameter(0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
  w = f32[6,2] parameter(1), sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
  ROOT r = f32[3,2] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {BOTH}"""),
    "dot of batches": ("dot", 1, """x = f32[1,3,6] parameter(0), sharding={devices=[4,1,1]<=[4]}
  w = f32[1,6,2] parameter(1), sharding={devices=[4,1,1]<=[4]}
  ROOT r = f32[1,3,2] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, sharding={devices=[4,1,1]<=[4]}"""),
    "dot along tiles": ("dot", 1, f"""x = f32[3,2] parameter(0), {COLUMNS}
  w = f32[2,5] parameter(1), {ROWS}
  d = f32[3,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[3,5] all-reduce(d), channel_id=1, {ALL}, to_apply=add, sharding={{replicated}}"""),
    "dot along tiles, of rows": ("dot", 1, f"""x = f32[3,2] parameter(0), {BOTH}
  w = f32[2,5] parameter(1), sharding={{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
  d = f32[3,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[3,5] all-reduce(d), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add, sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}"""),
    "sums of tiles within groups": ("add", 1, """x = f32[2] parameter(0), sharding={devices=[4]<=[4]}
  s = f32[2] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,2},{1,3}}, to_apply=add
  ROOT r = f32[2] copy(s), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"""),
    "pad of whole rows": ("pad", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  z = f32[] constant(5)
  ROOT r = f32[2,9] pad(x, z), padding=0_0x1_2, {ROWS}"""),
    "reverse of whole rows": ("reverse", 1, f"x = f32[2,6] parameter(0), {ROWS}\n  ROOT r = f32[2,6] reverse(x), dimensions={{1}}, {ROWS}"),
    "sort of whole rows": ("sort", 1, f"x = f32[2,6] parameter(0), {ROWS}\n  ROOT r = f32[2,6] sort(x), dimensions={{1}}, to_apply=less, {ROWS}"),
    "sort of two arrays": ("sort", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  i = f32[2,6] negate(x)
  s = (f32[2,6], f32[2,6]) sort(x, i), dimensions={{1}}, to_apply=lesser
  ROOT r = f32[2,6] get-tuple-element(s), index=1, {ROWS}"""),
    "concatenation of whole rows": ("concatenate", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  y = f32[2,6] negate(x)
  ROOT r = f32[2,12] concatenate(x, y), dimensions={{1}}, {ROWS}"""),
    "rows of a table": ("gather", 1, f"""t = f32[7,6] parameter(0)
  x = f32[2,1] parameter(1), {ROWS}
  i = s32[2,1] convert(x)
  ROOT r = f32[2,6] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,6}}, {ROWS}"""),
    "dynamic slice of whole rows": ("dynamic-slice", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  z = s32[] constant(0)
  k = f32[] parameter(1)
  i = s32[] convert(k)
  ROOT r = f32[2,3] dynamic-slice(x, z, i), dynamic_slice_sizes={{2,3}}, {ROWS}"""),
    "dynamic update of whole rows": ("dynamic-update-slice", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  y = f32[2,6] negate(x)
  u = f32[2,2] slice(y), slice={{[0:2], [1:3]}}
  z = s32[] constant(0)
  k = f32[] parameter(1)
  i = s32[] convert(k)
  ROOT r = f32[2,6] dynamic-update-slice(x, u, z, i), {ROWS}"""),
    "a window of whole rows": ("reduce-window", 1, f"""x = f32[2,6] parameter(0), {ROWS}
  z = f32[] constant(0)
  ROOT r = f32[2,6] reduce-window(x, z), window={{size=1x3 pad=0_0x1_1}}, to_apply=add, {ROWS}"""),
    "a window over tiles that overlap": ("reduce-window", 1, f"""x = f32[4] parameter(0), sharding={{devices=[4]<=[4]}}
  g = f32[16] all-gather(x), channel_id=1, {ALL}, dimensions={{0}}
  z = f32[] constant(0)
  p = f32[19] pad(g, z), padding=3_0
  i = u32[] partition-id()
  four = u32[] constant(4)
  s = u32[] multiply(i, four)
  d = f32[7] dynamic-slice(p, s), dynamic_slice_sizes={{7}}
  ROOT r = f32[4] reduce-window(d, z), window={{size=4}}, to_apply=add, sharding={{devices=[4]<=[4]}}"""),
    "a convolution of images": ("convolution", 1, """x = f32[1,5,5,2] parameter(0), sharding={devices=[4,1,1,1]<=[4]}
  k = f32[3,3,2,3] parameter(1)
  ROOT r = f32[1,5,5,3] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[4,1,1,1]<=[4]}"""),
    "a convolution of channels": ("convolution", 1, """x = f32[1,5,5,2] parameter(0)
  k = f32[3,3,2,3] parameter(1), sharding={devices=[1,1,1,4]<=[4]}
  ROOT r = f32[1,5,5,3] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[1,1,1,4]<=[4]}"""),
    "an all-to-all there and back": ("transpose", 0, """x = f32[1,8,3] parameter(0), sharding={devices=[4,1,1]<=[4]}
  a = f32[1,8,3] all-to-all(x), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={1}
  t = f32[1,8,3] tanh(a)
  ROOT r = f32[1,8,3] all-to-all(t), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={1}, sharding={devices=[4,1,1]<=[4]}"""),
    "dimensions that are merged": ("reshape", 1, f"x = f32[2,6] parameter(0), {ROWS}\n  y = f32[12] reshape(x)\n  ROOT r = f32[12] tanh(y), sharding={{devices=[4]<=[4]}}"),
    "dimensions that are merged within tiles": ("tanh", 1, f"x = f32[4,2] parameter(0), {COLUMNS}\n  y = f32[8] reshape(x)\n  ROOT r = f32[8] tanh(y), sharding={{devices=[4]<=[4]}}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_done_at_once(name: str) -> None:
    opcode, count, body = CASES[name]
    text = f"HloModule m, num_partitions=4\n{SUM}{LESS}{TWO_LESS}ENTRY e_spmd {{ {body} }}"
    merged = DevicePlacement(xlanb.hlo.parse(text)).merged()
    merged.verify()
    assert sum(i.opcode.text == opcode for i in merged.entry_computation) == count
    executable = xlanb.compile(text)
    given = [whole_array(s.dimensions, n) for n, s in enumerate(executable.devices.distribution.parameters)]
    wanted = xlanb.evaluate(text, *given)
    np.testing.assert_allclose(xlanb.evaluate(merged, *given), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(executable(*given), wanted, rtol=1e-5, atol=1e-5)
    rows = executable.devices.distribution.split(given)
    by_devices = executable.devices.distribution.join(executable.run_shards(rows))
    np.testing.assert_allclose(by_devices, wanted, rtol=1e-5, atol=1e-5)


TWO_LESS = """lesser { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
"""


def whole_array(dims: tuple[int, ...], number: int) -> np.ndarray:
    random = np.random.default_rng(number)
    return (random.normal(size=dims) * 2).astype(np.float32)


def loop(body: str, first: str) -> str:
    """Return a program of four devices whose loop adds to a second array three times."""
    return f"""HloModule m, num_partitions=4
body {{ s = (s32[], f32[2,6], f32[2,6]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  v = f32[2,6] get-tuple-element(s), index=1
  w = f32[2,6] get-tuple-element(s), index=2
  {body}
  ROOT r = (s32[], f32[2,6], f32[2,6]) tuple(m, p, q) }}
cond {{ s = (s32[], f32[2,6], f32[2,6]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(n, k), direction=LT }}
ENTRY e_spmd {{ x = f32[2,6] parameter(0), {ROWS}
  z = s32[] constant(0)
  zero = f32[] constant(0)
  w = f32[2,6] {first}
  i = (s32[], f32[2,6], f32[2,6]) tuple(z, x, w)
  l = (s32[], f32[2,6], f32[2,6]) while(i), body=body, condition=cond
  ROOT t = f32[2,6] get-tuple-element(l), index=2, {ROWS} }}"""


PERMUTED = "p = f32[2,6] collective-permute(v), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
GATHERED = f"g = f32[8,6] all-gather(v), channel_id=1, {ALL}, dimensions={{0}}\n  f = f32[2,6] slice(g), slice={{[2:4], [0:6]}}"
ZEROS = "broadcast(zero), dimensions={}"


@pytest.mark.parametrize(
    ("body", "first", "carried"),
    [
        (f"{GATHERED}\n  p = f32[2,6] tanh(v)\n  q = f32[2,6] add(w, p)", "negate(x)", 3),  # two wholes
        (f"{GATHERED}\n  p = f32[2,6] tanh(v)\n  q = f32[2,6] add(w, p)", ZEROS, 3),  # zeros become tiles
        (f"{GATHERED}\n  p = f32[2,6] tanh(v)\n  q = f32[2,6] add(w, f)", ZEROS, 3),  # the same for all stays so
        (f"{PERMUTED}\n  q = f32[2,6] add(w, p)", ZEROS, 9),  # tiles in other order: each for itself
    ],
)
def test_a_loop_carries_whole_arrays_where_it_can(body: str, first: str, carried: int) -> None:
    text = loop(body, first)
    merged = DevicePlacement(xlanb.hlo.parse(text)).merged()
    (found,) = (i for i in merged.entry_computation if i.opcode.text == "while")
    assert len(found.shape.shapes) == carried
    given = whole_array((8, 6), 0)
    wanted = xlanb.evaluate(text, given)
    np.testing.assert_allclose(xlanb.evaluate(merged, given), wanted, rtol=1e-5)
    np.testing.assert_allclose(xlanb.compile(text)(given), wanted, rtol=1e-5)


def test_a_choice_that_a_device_s_number_decides_is_made_at_once() -> None:
    text = f"""HloModule m, num_partitions=4
ENTRY e_spmd {{ x = f32[2,6] parameter(0), {ROWS}
  i = u32[] partition-id()
  two = u32[] constant(2)
  c = pred[] compare(i, two), direction=LT
  b = pred[2,6] broadcast(c), dimensions={{}}
  y = f32[2,6] tanh(x)
  ROOT r = f32[2,6] select(b, x, y), {ROWS} }}"""
    merged = DevicePlacement(xlanb.hlo.parse(text)).merged()
    assert not any(i.opcode.text == "select" for i in merged.entry_computation)
    given = whole_array((8, 6), 0)
    np.testing.assert_allclose(xlanb.compile(text)(given), np.concatenate([given[:4], np.tanh(given[4:])]), rtol=1e-6)
