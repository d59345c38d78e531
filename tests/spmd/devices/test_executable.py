"""Compiled programs on several devices: whole arrays, faults, any number of devices."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, DeviceError, UnimplementedError

HEAD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"


def rows_times_weights(devices: int, rows: int = 16) -> str:
    """Return a program with rows of x and w sharded: gathers w, reduces the sum over all rows."""
    n, k = rows // devices, 8 // devices
    everybody = "{{" + ",".join(map(str, range(devices))) + "}}"
    collective = f"channel_id=%d, use_global_device_ids=true, replica_groups={everybody}"
    return f"""HloModule m, num_partitions={devices}
{HEAD}ENTRY e_spmd {{
  x = f32[{n},8] parameter(0), sharding={{devices=[{devices},1]<=[{devices}]}}
  w = f32[{k},4] parameter(1), sharding={{devices=[{devices},1]<=[{devices}]}}
  g = f32[8,4] all-gather(w), {collective % 1}, dimensions={{0}}
  d = f32[{n},4] dot(x, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[] constant(0)
  s = f32[4] reduce(d, z), dimensions={{0}}, to_apply=add
  r = f32[4] all-reduce(s), {collective % 2}, to_apply=add
  ROOT t = (f32[{n},4], f32[4]) tuple(d, r), sharding={{{{devices=[{devices},1]<=[{devices}]}}, {{replicated}}}}
}}"""


def compiled(devices: int) -> Any:
    module = xlanb.hlo.parse(rows_times_weights(devices))
    module.spmd_output_sharding = module.entry_computation.root.sharding
    return xlanb.compile(module)


def arrays() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    return random.integers(-4, 5, (16, 8)).astype(np.float32), random.integers(-4, 5, (8, 4)).astype(np.float32)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_results_are_the_same_on_any_number_of_devices(devices: int) -> None:
    x, w = arrays()
    executable = compiled(devices)
    assert executable.device_count == devices
    for _ in range(5):
        product, total = executable(x, w)
        np.testing.assert_array_equal(product, x @ w)
        np.testing.assert_array_equal(total, (x @ w).sum(0))
    assert f"on {devices} devices" in str(executable)


def test_one_device_is_as_before():
    executable = xlanb.compile("HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] negate(x) }")
    assert executable.device_count == 1
    np.testing.assert_array_equal(executable.run_shards([[np.ones(2, np.float32)]]), [[-1, -1]])
    assert executable.timeline(np.ones(2, np.float32)).empty


def test_shardings_of_a_program_of_one_device_count_for_nothing_as_in_xla():
    module = xlanb.hlo.parse("""HloModule m
ENTRY e {
  p = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  ROOT n = f32[4,8] negate(p), sharding={devices=[2,2]<=[4]}
}""")
    p = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(xlanb.compile(module)(p), -p)


@pytest.mark.parametrize(("layout", "result"), [("{0,1}", "{1,0}"), ("{1,0}", "{0,1}"), ("{0,1}", "{0,1}")])
@pytest.mark.parametrize("rows", [4, 8])
def test_whole_arrays_of_any_layout(layout: str, result: str, rows: int) -> None:
    split = "sharding={devices=[2,1]<=[2]}"
    module = xlanb.hlo.parse(f"""HloModule m, num_partitions=2
ENTRY e {{
  p = f32[{rows},4]{layout} parameter(0), {split}
  ROOT c = f32[{rows},4]{result} copy(p), {split}
}}""")
    p = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
    exe = xlanb.compile(module)
    for _ in range(4):
        np.testing.assert_array_equal(exe(p), p)
    np.testing.assert_array_equal(exe(np.asfortranarray(p)), p)


def test_sums_do_not_depend_on_who_comes_first():
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    executable = compiled(8)
    first = executable(x, w)[1]
    assert all(np.array_equal(executable(x, w)[1], first) for _ in range(20))


def test_arguments_that_do_not_fit_are_refused_as_whole_arrays():
    executable = compiled(4)
    x, w = arrays()
    with pytest.raises(ArgumentError, match=r"expected 2 arguments"):
        executable(x)
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\): expected .*f32\[16,8\].*dtype float64"):
        executable(x.astype(np.float64), w)
    with pytest.raises(ArgumentError, match=r"argument 1 \(w\): expected a whole array"):
        executable(x, w[:2])
    with pytest.raises(ArgumentError, match="arguments for each of 4 devices"):
        executable.run_shards([[x, w]])
    np.testing.assert_array_equal(executable(x, w)[0], x @ w)


def test_a_timeline_has_a_row_for_each_collective_on_each_device():
    table = compiled(4).timeline(*arrays())
    assert len(table) == 8
    assert set(table["opcode"]) == {"all-gather", "all-reduce"}
    assert sorted(table[table["opcode"] == "all-reduce"]["device"]) == [0, 1, 2, 3]
    assert (table["came"] <= table["complete"]).all()
    assert (table["complete"] <= table["ended"]).all()


def test_numbers_of_devices_in_compiled_code():
    text = """HloModule m, num_partitions=4
ENTRY e_spmd { i = u32[] partition-id()
  b = u32[2] broadcast(i), dimensions={}
  k = u32[2] constant({0, 1})
  ROOT s = u32[2] add(b, k) }"""
    np.testing.assert_array_equal(xlanb.compile(text).run_shards([[]] * 4), [[0, 1], [1, 2], [2, 3], [3, 4]])


def test_a_ring_in_a_loop():
    text = """HloModule m, num_partitions=4
cond { s = (s32[], f32[2]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(k, n), direction=LT }
body { s = (s32[], f32[2]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  p = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  one = s32[] constant(1)
  next = s32[] add(k, one)
  ROOT t = (s32[], f32[2]) tuple(next, p) }
ENTRY e_spmd { x = f32[2] parameter(0), sharding={devices=[4]<=[4]}
  zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(s), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1, sharding={devices=[4]<=[4]} }"""
    module = xlanb.hlo.parse(text)
    module.spmd_output_sharding = "{devices=[4]<=[4]}"
    x = np.arange(8, dtype=np.float32)
    executable = xlanb.compile(module)
    for _ in range(20):
        np.testing.assert_array_equal(executable(x), np.roll(x, 10))


DIFFERENT_WAYS = f"""HloModule m, num_partitions=4
{HEAD}one {{ p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1,2,3}}}}, to_apply=add }}
two {{ p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p) }}
ENTRY e_spmd {{ x = f32[4] parameter(0)
  i = u32[] partition-id()
  k = s32[] convert(i)
  ROOT c = f32[4] conditional(k, x, x, x, x), branch_computations={{one, two, one, one}} }}"""


def test_a_device_that_goes_another_way_ends_the_run_at_once():
    executable = xlanb.compile(DIFFERENT_WAYS)
    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"device 1 ended without reaching r"):
        executable(np.ones(4, np.float32))
    assert time.monotonic() - began < 3


def test_a_device_that_loops_for_ever_is_late():
    text = f"""HloModule m, num_partitions=2
{HEAD}cond {{ s = f32[4] parameter(0)
  i = u32[] partition-id()
  one = u32[] constant(1)
  ROOT c = pred[] compare(i, one), direction=EQ }}
body {{ s = f32[4] parameter(0)
  ROOT n = f32[4] negate(s) }}
ENTRY e_spmd {{ x = f32[4] parameter(0)
  w = f32[4] while(x), condition=cond, body=body
  ROOT r = f32[4] all-reduce(w), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=add }}"""
    executable = xlanb.compile(text)
    with (
        xlanb.flags(xla_cpu_collective_call_terminate_timeout_seconds=1),
        pytest.raises(DeviceError, match=r"device 1, .*, did not arrive within 1 s, while device 0 waited"),
    ):
        executable(np.ones(4, np.float32))


def test_devices_meet_in_copies_of_a_computation():
    executable = xlanb.compile(DIFFERENT_WAYS.replace("{one, two, one, one}", "{one, one, one, one}"))
    results = [executable(np.ones(4, np.float32)) for _ in range(3)]
    np.testing.assert_array_equal(results, np.full((3, 4), 4))


def test_calls_from_several_threads_do_not_mix():
    executable, (x, w), found = compiled(4), arrays(), []

    def call(factor: float) -> None:
        scaled = np.float32(factor) * x
        found.extend(np.array_equal(executable(scaled, w)[0], scaled @ w) for _ in range(5))

    threads = [threading.Thread(target=call, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 15


def test_infeeds_of_several_devices_are_refused():
    text = """HloModule m, num_partitions=2
ENTRY e { t = token[] after-all()
  f = (f32[2], token[]) infeed(t)
  ROOT r = f32[2] get-tuple-element(f), index=0 }"""
    with pytest.raises(UnimplementedError, match="infeed and outfeed on 2 devices"):
        xlanb.compile(text)


def test_a_profile_is_of_the_first_device():
    table = compiled(4).profile(*arrays(), runs=2)
    assert any("all-reduce" in kernel or kernel == "r" for kernel in table["instruction"])
    assert (table["calls"] == 1).all()


def test_what_runs_on_devices_of_this_process_is_not_saved(tmp_path: Path):
    with pytest.raises(UnimplementedError, match="it runs on 4 devices"):
        compiled(4).save(tmp_path / "m.xlanb")
    with pytest.raises(UnimplementedError, match="it runs on 4 devices"):
        compiled(4).export_c(tmp_path)
