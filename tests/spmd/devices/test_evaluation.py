"""The meaning of each collective on several devices, in all modes and group notations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, DeviceError, EvaluationError, UnimplementedError
from xlanb.spmd.devices.evaluation import evaluate_shards
from xlanb.spmd.devices.threads import Visit

ADD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"


def program(body: str, header: str) -> Any:
    module = xlanb.hlo.parse(f"HloModule m, {header}\n{ADD}ENTRY e {{\n  x = f32[4] parameter(0)\n  {body}\n}}")
    module.verify()
    return module


def each(module: Any, shards: Sequence[Any]) -> list[Any]:
    return evaluate_shards(module, [[s] for s in shards])


def numbered(count: int, size: int = 4) -> list[Any]:
    """Return arrays in which device k has k * 10 + 0, 1, 2, ..."""
    return [np.arange(size, dtype=np.float32) + 10 * k for k in range(count)]


PARTS = "num_partitions=4"
BOTH = "replica_count=2, num_partitions=2"
GLOBAL = "channel_id=1, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("header", "attributes", "groups"),
    [
        ("replica_count=4", "replica_groups={{0,2},{1,3}}", [[0, 2], [1, 3]]),
        ("replica_count=4", "replica_groups={}", [[0, 1, 2, 3]]),
        (PARTS, f"{GLOBAL}, replica_groups={{{{0,1}},{{2,3}}}}", [[0, 1], [2, 3]]),
        (PARTS, f"{GLOBAL}, replica_groups=[2,2]<=[2,2]T(1,0)", [[0, 2], [1, 3]]),
        (PARTS, f"{GLOBAL}, replica_groups=mesh['a'=2,'b'=2] {{'a'}}", [[0, 2], [1, 3]]),
        (PARTS, "channel_id=1, replica_groups={{0}}", [[0, 1, 2, 3]]),
        (BOTH, "replica_groups={{0,1}}", [[0, 2], [1, 3]]),
        (BOTH, "channel_id=1, replica_groups={{0},{1}}", [[0, 1], [2, 3]]),
        (BOTH, "channel_id=1, replica_groups={}", [[0, 1, 2, 3]]),
        (BOTH, f"{GLOBAL}, replica_groups={{{{0,3}},{{1,2}}}}", [[0, 3], [1, 2]]),
    ],
)
def test_an_all_reduce_adds_up_the_members_of_each_group(header: str, attributes: str, groups: list[list[int]]) -> None:
    module = program(f"ROOT r = f32[4] all-reduce(x), {attributes}, to_apply=add", header)
    shards = numbered(4)
    results = each(module, shards)
    for group in groups:
        for d in group:
            np.testing.assert_array_equal(results[d], sum(shards[k] for k in group))


def test_an_all_reduce_rounds_narrow_floats_once():
    module = xlanb.hlo.parse(
        "HloModule m, num_partitions=4\nadd { a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT s = bf16[] add(a, b) }\n"
        f"ENTRY e {{ x = bf16[1] parameter(0)\n ROOT r = bf16[1] all-reduce(x), {GLOBAL}, replica_groups={{{{0,1,2,3}}}}, to_apply=add }}"
    )
    shards = [np.array([v], ml_dtypes.bfloat16) for v in (256, 1, 1, 2)]
    assert [float(r[0]) for r in each(module, shards)] == [260.0] * 4


def test_an_all_reduce_by_any_computation():
    module = xlanb.hlo.parse(
        "HloModule m, num_partitions=2\nf { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] subtract(a, b) }\n"
        f"ENTRY e {{ x = f32[2] parameter(0)\n y = (f32[2], f32[2]) all-reduce(x, x), {GLOBAL}, replica_groups={{{{0,1}}}}, to_apply=f\n"
        " ROOT r = f32[2] get-tuple-element(y), index=1 }"
    )
    np.testing.assert_array_equal(each(module, numbered(2, 2))[1], [-10, -10])


TWO_AND_TWO = f"{GLOBAL}, replica_groups={{{{0,1}},{{3,2}}}}"


def test_all_gather_and_reduce_scatter_follow_the_order_of_the_group():
    shards = numbered(4)
    gathered = each(program(f"ROOT r = f32[8] all-gather(x), {TWO_AND_TWO}, dimensions={{0}}", PARTS), shards)
    np.testing.assert_array_equal(gathered[2], np.concatenate([shards[3], shards[2]]))
    np.testing.assert_array_equal(gathered[1], np.concatenate([shards[0], shards[1]]))
    body = f"ROOT r = f32[2] reduce-scatter(x), {TWO_AND_TWO}, dimensions={{0}}, to_apply=add"
    scattered = each(program(body, PARTS), shards)
    np.testing.assert_array_equal(scattered[3], (shards[2] + shards[3])[:2])
    np.testing.assert_array_equal(scattered[2], (shards[2] + shards[3])[2:])


def test_both_forms_of_all_to_all():
    shards = numbered(2)
    groups = "channel_id=1, replica_groups={{1,0}}"
    array = each(program(f"ROOT r = f32[4] all-to-all(x), {groups}, dimensions={{0}}", "num_partitions=2"), shards)
    np.testing.assert_array_equal(array[1], [10, 11, 0, 1])
    np.testing.assert_array_equal(array[0], [12, 13, 2, 3])
    halves = "a = f32[2] slice(x), slice={[0:2]}\n  b = f32[2] slice(x), slice={[2:4]}\n  "
    several = each(program(f"{halves}ROOT r = (f32[2], f32[2]) all-to-all(a, b), {groups}", "num_partitions=2"), shards)
    np.testing.assert_array_equal(several[0], [[12, 13], [2, 3]])


def test_a_permute_gives_zeros_to_whom_nobody_sends():
    module = program("ROOT r = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2}}", PARTS)
    shards = numbered(4)
    np.testing.assert_array_equal(each(module, shards), [np.zeros(4), shards[0], shards[1], np.zeros(4)])
    replicas = program("ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}", BOTH)
    np.testing.assert_array_equal(each(replicas, shards), [shards[2], shards[3], shards[0], shards[1]])


def test_a_broadcast_comes_from_the_first_member():
    module = program("ROOT r = f32[4] collective-broadcast(x), channel_id=1, replica_groups={{1,0},{2,3}}", PARTS)
    shards = numbered(4)
    np.testing.assert_array_equal(each(module, shards), [shards[1], shards[1], shards[2], shards[2]])


def test_collectives_in_two_halves():
    body = (
        f"s = (f32[4], f32[8]) all-gather-start(x), {TWO_AND_TWO}, dimensions={{0}}\n  g = f32[8] all-gather-done(s)\n"
        "  c = (f32[8], f32[8], u32[], u32[]) collective-permute-start(g), channel_id=2, source_target_pairs={{0,1},{1,0},{2,3},{3,2}}\n"
        "  p = f32[8] collective-permute-done(c)\n"
        "  a = f32[8] all-reduce-start(p), channel_id=3, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=add\n"
        "  ROOT r = f32[8] all-reduce-done(a)"
    )
    shards = numbered(4)
    expected = 2 * (np.concatenate([shards[0], shards[1]]) + np.concatenate([shards[3], shards[2]]))
    for result in each(program(body, PARTS), shards):
        np.testing.assert_array_equal(result, expected)


def test_a_wrapped_collective():
    text = (
        "HloModule m, num_partitions=2\nwrapped { p = f32[4] parameter(0)\n ROOT g = f32[4] all-to-all(p), channel_id=1, replica_groups={{0,1}}, dimensions={0} }\n"
        "ENTRY e { x = f32[4] parameter(0)\n s = ((f32[4]), f32[4]) async-start(x), calls=wrapped\n ROOT d = f32[4] async-done(s) }"
    )
    np.testing.assert_array_equal(each(xlanb.hlo.parse(text), numbered(2)), [[0, 1, 10, 11], [2, 3, 12, 13]])


def test_send_and_receive():
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'
    body = (
        f"t = token[] after-all()\n  s = (f32[4], u32[], token[]) send(x, t), channel_id=1, {pairs}\n  sd = token[] send-done(s), channel_id=1\n"
        f"  q = (f32[4], u32[], token[]) recv(t), channel_id=1, {pairs}\n  rd = (f32[4], token[]) recv-done(q), channel_id=1\n"
        "  ROOT r = f32[4] get-tuple-element(rd), index=0"
    )
    shards = numbered(3)
    np.testing.assert_array_equal(each(program(body, "num_partitions=3"), shards), [np.zeros(4), shards[0], shards[1]])


def test_each_device_knows_its_numbers():
    module = program("i = u32[] replica-id()\n  j = u32[] partition-id()\n  ROOT r = (u32[], u32[]) tuple(i, j)", BOTH)
    assert [tuple(map(int, r)) for r in each(module, numbered(4))] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_ragged_all_to_all():
    text = (
        "HloModule m, num_partitions=2\nENTRY e {\n x = f32[3] parameter(0)\n o = f32[4] parameter(1)\n a = s64[2] parameter(2)\n b = s64[2] parameter(3)\n"
        " c = s64[2] parameter(4)\n d = s64[2] parameter(5)\n ROOT r = f32[4] ragged-all-to-all(x, o, a, b, c, d), channel_id=1, replica_groups={{0,1}} }"
    )

    def ints(*n: int) -> Any:
        return np.array(n, np.int64)

    rows = [
        [np.float32([1, 2, 3]), np.zeros(4, np.float32), ints(0, 1), ints(1, 2), ints(0, 0), ints(1, 2)],
        [np.float32([4, 5, 6]), np.zeros(4, np.float32), ints(0, 2), ints(2, 1), ints(1, 2), ints(2, 1)],
    ]
    np.testing.assert_array_equal(evaluate_shards(xlanb.hlo.parse(text), rows), [[1, 4, 5, 0], [2, 3, 6, 0]])


@pytest.mark.parametrize(("size", "place"), [(4, 0), (-1, 0), (2, 3), (1, -1)])
def test_a_ragged_all_to_all_past_the_end_of_an_array_is_refused(size: int, place: int):
    text = (
        "HloModule m\nENTRY e {\n x = f32[3] parameter(0)\n o = f32[4] parameter(1)\n a = s64[1] constant({0})\n"
        f" b = s64[1] constant({{{size}}})\n c = s64[1] constant({{{place}}})\n"
        " ROOT r = f32[4] ragged-all-to-all(x, o, a, b, c, b), replica_groups={{0}} }"
    )
    with pytest.raises(EvaluationError, match=r"update 0 is out of bounds"):
        xlanb.evaluate(text, np.zeros(3, np.float32), np.zeros(4, np.float32))


# -- whole arrays ----------------------------------------------------------------------------------

SHARDED = """HloModule m, num_partitions=4
ENTRY e_spmd {
  x = f32[2,3] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  y = f32[3] parameter(1), sharding={replicated}
  b = f32[2,3] broadcast(y), dimensions={1}
  ROOT r = f32[2,3] add(x, b), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
}"""


@pytest.mark.parametrize("rows", [4, 3])
def test_whole_arrays_are_cut_and_put_together_by_the_shardings(rows: int) -> None:
    x, y = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3), np.float32([1, 2, 3])
    result = xlanb.evaluate(SHARDED, x, y)
    np.testing.assert_array_equal(result[:rows], x + y)


def test_a_whole_array_of_the_wrong_size_is_refused():
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\): expected a whole array of at most 4x3"):
        xlanb.evaluate(SHARDED, np.zeros((2, 3), np.float32), np.zeros(3, np.float32))


def test_what_has_no_sharding_must_be_the_same_on_all_devices():
    same = program("ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add", "replica_count=3")
    np.testing.assert_array_equal(xlanb.evaluate(same, np.ones(4, np.float32)), [3, 3, 3, 3])
    different = program("ROOT r = u32[] replica-id()", "replica_count=3")
    with pytest.raises(EvaluationError, match="they have no sharding to combine them by"):
        xlanb.evaluate(different, np.ones(4, np.float32))


def test_a_program_that_is_not_partitioned_is_one_program():
    text = SHARDED.replace("e_spmd", "e")
    x, y = np.ones((2, 3), np.float32), np.float32([1, 2, 3])
    np.testing.assert_array_equal(xlanb.evaluate(text, x, y), x + y)


# -- faults ----------------------------------------------------------------------------------------


def test_devices_that_go_different_ways_end_in_an_error():
    text = f"""HloModule m, num_partitions=2
{ADD}one {{ p = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(p), {GLOBAL}, replica_groups={{{{0,1}}}}, to_apply=add }}
two {{ p = f32[4] parameter(0)\n ROOT q = f32[4] negate(p) }}
ENTRY e {{ x = f32[4] parameter(0)\n i = u32[] partition-id()\n k = s32[] convert(i)
  ROOT c = f32[4] conditional(k, x, x), branch_computations={{one, two}} }}"""
    with pytest.raises(DeviceError, match=r"device 1 ended without reaching r, where device 0 waited"):
        each(xlanb.hlo.parse(text), numbered(2))


def test_a_device_outside_all_groups_is_an_error():
    text = f"HloModule m, num_partitions=3\n{ADD}ENTRY e {{ x = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(x), {GLOBAL}, replica_groups={{{{0,1}}}}, to_apply=add }}"
    with pytest.raises(DeviceError, match="is in none of its groups"):
        each(xlanb.hlo.parse(text), numbered(3))


def test_too_many_devices_are_refused():
    groups = f"[1,{1 << 40}]<=[{1 << 40}]"
    module = program(f"ROOT r = f32[4] all-reduce(x), replica_groups={groups}, to_apply=add", "is_scheduled=false")
    with pytest.raises(UnimplementedError, match=r"needs (several|[\d,]+) devices"):
        xlanb.evaluate(module, np.ones(4, np.float32))


def test_arguments_for_each_device():
    module = program("ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add", "replica_count=3")
    with pytest.raises(ArgumentError, match="runs on 3 devices"):
        each(module, numbered(2))


def test_visits_say_when_each_device_came_and_went_on():
    visits: list[Visit] = []
    module = program("ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add", "replica_count=3")
    evaluate_shards(module, [[s] for s in numbered(3)], visits=visits)
    assert sorted(v.device for v in visits) == [0, 1, 2]
    assert all(v.collective == "r" and v.opcode == "all-reduce" and v.came <= v.complete <= v.ended for v in visits)


def test_a_permute_among_replicas_that_are_not_there_is_refused() -> None:
    """Without a channel the pairs are of replicas, and there is only one."""
    text = """HloModule m, num_partitions=2
ENTRY e_spmd { x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  ROOT r = f32[2] collective-permute(x), source_target_pairs={{0,1},{1,0}}, sharding={devices=[2]<=[2]} }"""
    given = np.ones(4, np.float32)
    with pytest.raises(DeviceError, match=r"source_target_pairs name device [23]; the program has 2"):
        xlanb.evaluate(text, given)
    with pytest.raises(EvaluationError, match="source_target_pairs name device"):
        xlanb.compile(text)(given)
