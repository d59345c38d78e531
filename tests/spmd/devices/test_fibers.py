"""Short programs on several devices run in one thread, on fibers.

Long programs, and code that cannot run on a fiber's stack, use threads.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, DeviceError

ADD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"
ALL = "use_global_device_ids=true, replica_groups={{0,1,2,3}}"
SHORT = f"""HloModule m, num_partitions=4
{ADD}ENTRY e_spmd {{ x = f32[4] parameter(0), sharding={{devices=[4]<=[4]}}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[4] broadcast(f), dimensions={{}}
  y = f32[4] add(x, b)
  p = f32[4] collective-permute(y), channel_id=1, source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
  a = f32[4] all-to-all(p), channel_id=2, replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}
  t = f32[4] sort(a), dimensions={{0}}, to_apply=less
  g = f32[16] all-gather(t), channel_id=3, {ALL}, dimensions={{0}}
  ROOT r = f32[16] all-reduce(g), channel_id=4, {ALL}, to_apply=add }}
""".replace(
    "ENTRY",
    "less { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=LT }\nENTRY",
)


def in_one_thread(executable: Any) -> bool:
    return executable.devices.in_one_thread is not None


def test_a_short_program_gives_what_threads_and_the_evaluator_give():
    executable, x = xlanb.compile(SHORT), np.random.default_rng(1).normal(size=16).astype(np.float32)
    assert in_one_thread(executable)
    rows = [[x[4 * d : 4 * d + 4]] for d in range(4)]
    threads = executable.devices.run_shards(rows, visits=[])
    for _ in range(50):
        np.testing.assert_array_equal(executable.run_shards(rows), threads)
    np.testing.assert_array_equal(executable(x), xlanb.evaluate(SHORT, x))


def test_a_run_that_is_stuck_leaves_nothing_behind():
    text = f"""HloModule m, num_partitions=4
{ADD}one {{ p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), channel_id=1, {ALL}, to_apply=add }}
two {{ p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p) }}
ENTRY e_spmd {{ k = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(k, x, x), branch_computations={{one, two}} }}"""
    executable, x = xlanb.compile(text), np.ones(4, np.float32)
    choices = [[np.array(k, np.int32), x] for k in (0, 0, 1, 0)]
    for _ in range(3):
        with pytest.raises(DeviceError, match="device 2 ended without reaching r, where "):
            executable.run_shards(choices)
        np.testing.assert_array_equal(executable(np.array(0, np.int32), x), x * 4)
    with pytest.raises(ArgumentError):
        executable.run_shards([[np.array(0, np.int32), x[:2]]] * 4)
    np.testing.assert_array_equal(executable(np.array(1, np.int32), x), -x)


def test_threads_may_call_it_at_the_same_time():
    executable, x, found = xlanb.compile(SHORT), np.arange(16, dtype=np.float32), []
    expected = executable(x)

    def call() -> None:
        found.extend(np.array_equal(executable(x), expected) for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 60


def test_loops_run_in_threads():
    text = """HloModule m, num_partitions=2
cond { s = (s32[], f32[2]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(k, n), direction=LT }
body { s = (s32[], f32[2]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  p = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  one = s32[] constant(1)
  next = s32[] add(k, one)
  ROOT t = (s32[], f32[2]) tuple(next, p) }
ENTRY e_spmd { x = f32[2] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, x)
  ROOT w = (s32[], f32[2]) while(s), condition=cond, body=body }"""
    executable = xlanb.compile(text)
    assert not in_one_thread(executable)
    first, second = executable.run_shards([[np.zeros(2, np.float32)], [np.ones(2, np.float32)]])
    np.testing.assert_array_equal([first[1], second[1]], [[1, 1], [0, 0]])


def test_collectives_of_an_asynchronous_computation_run_in_threads():
    text = """HloModule m, num_partitions=2
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
aside { p = f32[2] parameter(0)
  q = f32[2] parameter(1)
  r = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=add
  s = f32[2] all-reduce(q), replica_groups={{0,1}}, to_apply=add
  ROOT t = (f32[2], f32[2]) tuple(r, s) }
ENTRY e { x = f32[2] parameter(0)
  n = f32[2] negate(x)
  start = ((f32[2], f32[2]), (f32[2], f32[2])) async-start(x, n), calls=aside, frontend_attributes={_collectives_group=""}
  ROOT done = (f32[2], f32[2]) async-done(start) }"""
    executable = xlanb.compile(text.replace("num_partitions", "replica_count"))
    rows = [[np.ones(2, np.float32)], [np.full(2, 2, np.float32)]]
    for total, negated in executable.run_shards(rows):
        np.testing.assert_array_equal([total, negated], [[3, 3], [-3, -3]])
