"""Collectives among several devices run on them, compiled and in the evaluator.

What no device of this process can do is rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError, HloVerifierError, UnimplementedError
from xlanb.hlo import parse
from xlanb.hlo.devices import why_several
from xlanb.spmd.devices.evaluation import evaluate_shards

X = np.arange(4, dtype=np.float32)
ADD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }"


def module(body: str, header: str = "") -> str:
    return f"HloModule m{header}\n{ADD}\nENTRY e {{\n  x = f32[4] parameter(0)\n  {body}\n}}"


def reduce(groups: str, header: str = "", more: str = "") -> str:
    return module(f"ROOT r = f32[4] all-reduce(x), replica_groups={groups}, {more}to_apply=add", header)


SEVERAL = {
    "replicas": (reduce("{}", ", replica_count=2"), "its groups have 2 participants"),
    "a group": (reduce("{{0,1}}"), "its groups have 2 participants"),
    "groups of a rectangle": (reduce("[1,4]<=[4]"), "its groups have 4 participants"),
    "the larger of two groups": (reduce("{{0},{1,2}}"), "its groups have 2 participants"),
    "partitions": (
        reduce("{{0,1}}", ", num_partitions=2", "channel_id=1, use_global_device_ids=true, "),
        "its groups have 2 participants",
    ),
    "an axis of a mesh": (reduce("mesh['a'=2,'b'=3] {'b'}"), "its groups have 3 participants"),
    "part of an axis of a mesh": (reduce("mesh['a'=2,'b'=4] {'a','b':(1)2}"), "its groups have 4 participants"),
    "a gathering along an axis of a mesh": (
        module("ROOT r = f32[8] all-gather(x), replica_groups=mesh['a'=2] {'a'}, dimensions={0}"),
        "its groups have 2 participants",
    ),
    "a start": (
        module(
            "s = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add\n  ROOT r = f32[4] all-reduce-done(s)",
            ", replica_count=3",
        ),
        "its groups have 3 participants",
    ),
    "a gathering": (
        module("ROOT r = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}"),
        "its groups have 2 participants",
    ),
    "a ring": (
        module("ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}"),
        "it sends between participants 0 and 1",
    ),
    "from itself, beside others": (
        module("ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,0}}", ", replica_count=2"),
        "the module runs on 2 devices",
    ),
    "its own number": (
        module("i = u32[] replica-id()\n  ROOT r = (f32[4], u32[]) tuple(x, i)", ", replica_count=2"),
        "the module has replica_count=2",
    ),
    "its own partition": (
        module("i = u32[] partition-id()\n  ROOT r = (f32[4], u32[]) tuple(x, i)", ", num_partitions=2"),
        "the module has num_partitions=2",
    ),
}


TOKEN = "t = token[] after-all()\n  "
TRANSFERS = {
    "send": "s = (f32[4], u32[], token[]) send(x, t), channel_id=1{0}\n  d = token[] send-done(s), channel_id=1{0}\n  ROOT r = f32[4] copy(x)",
    "recv": "s = (f32[4], u32[], token[]) recv(t), channel_id=1{0}\n  d = (f32[4], token[]) recv-done(s), channel_id=1{0}\n  ROOT r = f32[4] copy(x)",
    "recv, needed": "s = (f32[4], u32[], token[]) recv(t), channel_id=1{0}\n  d = (f32[4], token[]) recv-done(s), channel_id=1{0}\n  ROOT r = f32[4] get-tuple-element(d), index=0",
}


@pytest.mark.parametrize("name", TRANSFERS)
@pytest.mark.parametrize("more", ["", ", is_host_transfer=true"])
@pytest.mark.parametrize("header", ["", ", replica_count=2", ", num_partitions=2"])
def test_what_talks_to_another_device_is_refused(name: str, more: str, header: str) -> None:
    text = module(TOKEN + TRANSFERS[name].replace("{0}", more), header)
    opcode = name.partition(",")[0]
    with pytest.raises(UnimplementedError, match=rf"{opcode} needs another device.*(?s:.*)%s.* = .*{opcode}\("):
        xlanb.compile(text)
    with pytest.raises(UnimplementedError, match=rf"{opcode} needs another device.*(?s:.*)%s.* = .*{opcode}\("):
        xlanb.evaluate(text, X)


@pytest.mark.parametrize("name", SEVERAL)
def test_what_takes_several_devices_runs_on_them(name: str) -> None:
    text, reason = SEVERAL[name]
    parsed = xlanb.hlo.parse(text)
    assert reason in next(filter(None, map(why_several, parsed.instructions())))
    executable = xlanb.compile(text)
    shards = [[X + 10 * k] for k in range(executable.device_count)]
    assert executable.device_count > 1
    for ours, meant in zip(executable.run_shards(shards), evaluate_shards(parsed, shards), strict=True):
        np.testing.assert_equal(ours, meant)


@pytest.mark.parametrize("groups", [f"[{1 << 45},2]<=[2,{1 << 45}]T(1,0)", "[1,5000]<=[5000]"])
def test_more_devices_than_threads_can_be_are_refused(groups: str) -> None:
    with pytest.raises(UnimplementedError, match=r"needs (several|[\d,]+) devices"):
        xlanb.compile(reduce(groups))
    with pytest.raises(UnimplementedError, match=r"needs (several|[\d,]+) devices"):
        xlanb.evaluate(reduce(groups), X)


@pytest.mark.parametrize(
    "text",
    [
        reduce("{}"),
        reduce("{{0}}"),
        reduce("mesh['a'=1,'b'=2] {'a'}"),
        reduce("{{0},{1}}", ", replica_count=2"),
        module("ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,0}}"),
        module("ROOT r = f32[4] copy(x)", ", replica_count=4, num_partitions=2"),
    ],
)
def test_what_one_device_can_do_alone_runs(text: str) -> None:
    np.testing.assert_array_equal(xlanb.evaluate(text, X), X)
    np.testing.assert_array_equal(xlanb.compile(text)(X), X)


def test_the_end_of_a_collective_has_the_shape_of_its_result():
    text = module(
        "s = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add\n  ROOT r = f16[4] all-reduce-done(s)"
    )
    with pytest.raises(EvaluationError, match="needs more than one participant"):
        xlanb.evaluate(text, np.ones(4, np.float32))


@pytest.mark.parametrize(
    "header",
    [
        "num_partitions=0",
        "replica_count=-1",
        "num_partitions=9223372036854775807",
        "replica_count=65536, num_partitions=65536",
    ],
)
def test_a_header_asks_for_one_device_at_least_and_no_more_than_can_be_numbered(header: str) -> None:
    module = parse(f"HloModule m, {header}\nENTRY e {{ ROOT a = f32[] parameter(0) }}")
    with pytest.raises(HloVerifierError, match=r"expected 1 to 2,147,483,647 devices"):
        module.verify()
