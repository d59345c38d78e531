"""All devices' programs merged into one: the same results, and what is not merged."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlanb
from tests.spmd.devices.test_partitioned import arrays, program
from xlanb.cpu.devices import DevicePlacement
from xlanb.errors import ArgumentError, EvaluationError
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.spmd.devices.distribution import Distribution
from xlanb.spmd.devices.merging import merged
from xlanb.spmd.devices.not_merged import NotMergedError

ADD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"
ALL = "use_global_device_ids=true, replica_groups={{0,1,2,3}}"
PAIRS = "use_global_device_ids=true, replica_groups={{0,2},{3,1}}"


def of_four(body: str, before: str = "") -> str:
    """Return a program of four devices; x is a quarter of f32[16]."""
    return f"""HloModule m, num_partitions=4
{ADD}{before}ENTRY e_spmd {{ x = f32[4] parameter(0), sharding={{devices=[4]<=[4]}}
{body} }}"""


def merged_and_not(text: str, *given: Any) -> tuple[Any, Any, bool]:
    """Return the devices' own result, a call's result, and whether the programs were merged."""
    executable = xlanb.compile(text)
    split = executable.devices.distribution.split(given)
    by_devices = executable.devices.distribution.join(executable.run_shards(split))
    return by_devices, executable(*given), executable.devices.merged is not None


def why_not(text: str) -> str:
    module = xlanb.hlo.parse(text)
    with pytest.raises(NotMergedError) as caught:
        DevicePlacement(module).merged()
    return str(caught.value)


X = np.random.default_rng(1).normal(size=16).astype(np.float32)
BODIES = {
    "all-reduce": f"ROOT r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add",
    "all-reduce of two in groups": f"""y = f32[4] multiply(x, x)
  ROOT r = (f32[4], f32[4]) all-reduce(x, y), channel_id=1, {PAIRS}, to_apply=add""",
    "all-gather": f"ROOT r = f32[16] all-gather(x), channel_id=1, {ALL}, dimensions={{0}}",
    "all-gather in groups": f"g = f32[8] all-gather(x), channel_id=1, {PAIRS}, dimensions={{0}}\n  ROOT r = f32[8] negate(g)",
    "reduce-scatter": f"""g = f32[16] all-gather(x), channel_id=1, {ALL}, dimensions={{0}}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[16] broadcast(f), dimensions={{}}
  h = f32[16] multiply(g, b)
  ROOT r = f32[4] reduce-scatter(h), channel_id=2, {ALL}, dimensions={{0}}, to_apply=add""",
    "all-to-all along a dimension": "ROOT r = f32[4] all-to-all(x), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}",
    "all-to-all of a tuple": """a = f32[1] slice(x), slice={[0:1]}
  b = f32[1] slice(x), slice={[1:2]}
  c = f32[1] slice(x), slice={[2:3]}
  d = f32[1] slice(x), slice={[3:4]}
  ROOT r = (f32[1], f32[1], f32[1], f32[1]) all-to-all(a, b, c, d), channel_id=1, replica_groups={{0,1,2,3}}""",
    "collective-permute, one receives nothing": "ROOT r = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3}}",
    "collective-broadcast": "ROOT r = f32[4] collective-broadcast(x), channel_id=1, replica_groups={{2,0,1,3}}",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_collective_is_what_it_means(name: str) -> None:
    module = xlanb.hlo.parse(of_four(BODIES[name]))
    leaf = "{devices=[4]<=[4]}"
    shape = module.entry_computation.root.shape
    replicated = name in ("all-reduce", "all-gather")
    text = "{replicated}" if replicated else leaf
    count = len(shape.shapes) if shape.is_tuple else 1
    sharding = f"{{{', '.join([text] * count)}}}" if shape.is_tuple else text
    module.entry_computation.update(module.entry_computation.root, sharding=sharding)
    executable = xlanb.compile(module)
    rows = executable.run_shards([[X[4 * d : 4 * d + 4]] for d in range(4)])
    found = executable(X)
    assert executable.devices.merged is not None
    for k in range(count):
        parts = [np.asarray(row[k] if shape.is_tuple else row) for row in rows]
        wanted = parts[0] if replicated else np.concatenate(parts)
        np.testing.assert_array_equal(found[k] if shape.is_tuple else found, wanted)


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("rows", [16, 10])
def test_a_partitioned_program_gives_the_same(devices: int, rows: int) -> None:
    before, after, is_merged = merged_and_not(program(devices, rows), *arrays(rows))
    assert is_merged
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.shape == b.shape


def test_a_sum_of_16_bit_floats_is_rounded_once() -> None:
    text = """HloModule m, num_partitions=4
add { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b) }
ENTRY e_spmd { x = bf16[1] parameter(0), sharding={devices=[4]<=[4]}
  ROOT r = bf16[1] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=add, sharding={replicated} }"""
    given = np.array([256, 1, 1, 1], ml_dtypes.bfloat16)  # each 1 by itself would be lost
    before, after, is_merged = merged_and_not(text, given)
    assert is_merged
    np.testing.assert_array_equal(before, after)
    assert float(after[0]) == float(ml_dtypes.bfloat16(259))


LOOP = f"""body {{ s = (s32[], f32[4], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  w = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  m = s32[] add(n, one)
  p = f32[4] collective-permute(v), channel_id=1, source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
  t = f32[4] all-reduce(p), channel_id=2, {ALL}, to_apply=add
  u = f32[4] add(w, t)
  ROOT r = (s32[], f32[4], f32[4]) tuple(m, p, u) }}
cond {{ s = (s32[], f32[4], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(n, k), direction=LT }}
"""


def test_a_loop_that_all_devices_leave_together() -> None:
    body = """z = s32[] constant(0)
  zero = f32[] constant(0)
  w = f32[4] broadcast(zero), dimensions={}
  i = (s32[], f32[4], f32[4]) tuple(z, x, w)
  l = (s32[], f32[4], f32[4]) while(i), body=body, condition=cond
  v = f32[4] get-tuple-element(l), index=1
  t = f32[4] get-tuple-element(l), index=2
  ROOT r = f32[4] add(v, t), sharding={devices=[4]<=[4]}"""
    before, after, is_merged = merged_and_not(of_four(body, LOOP), X)
    assert is_merged
    np.testing.assert_array_equal(before, after)
    rows = X.reshape(4, 4)
    np.testing.assert_allclose(after.reshape(4, 4), np.roll(rows, 3, 0) + 3 * rows.sum(0), rtol=1e-5)


def test_what_becomes_different_in_a_loop_is_kept_for_each_device() -> None:
    """The third element starts as zeros on every device, which then adds its own numbers."""
    loop = LOOP.replace("u = f32[4] add(w, t)", "u = f32[4] add(w, p)")
    body = """z = s32[] constant(0)
  zero = f32[] constant(0)
  w = f32[4] broadcast(zero), dimensions={}
  i = (s32[], f32[4], f32[4]) tuple(z, x, w)
  l = (s32[], f32[4], f32[4]) while(i), body=body, condition=cond
  ROOT t = f32[4] get-tuple-element(l), index=2, sharding={devices=[4]<=[4]}"""
    before, after, is_merged = merged_and_not(of_four(body, loop), X)
    assert is_merged
    np.testing.assert_array_equal(before, after)


BRANCHES = f"""one {{ p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), channel_id=1, {ALL}, to_apply=add }}
two {{ p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p) }}
"""


def test_a_choice_that_all_devices_make_alike() -> None:
    text = of_four(
        "k = s32[] parameter(1)\n  ROOT c = f32[4] conditional(k, x, x), branch_computations={one, two}, sharding={devices=[4]<=[4]}",
        BRANCHES,
    )
    for k in (0, 1):
        before, after, is_merged = merged_and_not(text, X, np.array(k, np.int32))
        assert is_merged
        np.testing.assert_array_equal(before, after)


def test_devices_that_may_go_different_ways_run_by_themselves() -> None:
    choice = """i = u32[] partition-id()
  k = s32[] convert(i)
  ROOT c = f32[4] conditional(k, x, x), branch_computations={one, two}, sharding={devices=[4]<=[4]}"""
    assert "different branches" in why_not(of_four(choice, BRANCHES))
    loop = """i = u32[] partition-id()
  z = s32[] convert(i)
  t = (s32[], f32[4], f32[4]) tuple(z, x, x)
  l = (s32[], f32[4], f32[4]) while(t), body=body, condition=cond
  ROOT v = f32[4] get-tuple-element(l), index=1, sharding={devices=[4]<=[4]}"""
    assert "different iterations" in why_not(of_four(loop, LOOP))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("z = f32[] constant(0)\n  o = f32[] constant(1)\n  g = f32[4] rng(z, o), distribution=rng_uniform\n  ROOT r = f32[4] add(x, g), sharding={devices=[4]<=[4]}", "not a pure function"),
        (f"ROOT r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=odd", "not a plain binary operation"),
        ("ROOT r = f32[4] negate(x)", "may differ"),
        ("ROOT r = bf16[4] copy(x), sharding={devices=[4]<=[4]}", "r mixes floats of several types"),
        ("ROOT r = bf16[4] call(x), to_apply=same, sharding={devices=[4]<=[4]}", "r mixes floats of several types"),
    ],
)  # fmt: skip
def test_what_is_not_merged_says_why(body: str, words: str) -> None:
    odd = "odd { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] add(a, b)\n  ROOT s = f32[] tanh(c) }\n"
    same = "same { a = bf16[4] parameter(0)\n  ROOT s = bf16[4] copy(a) }\n"
    assert words in why_not(of_four(body, odd + same))


def test_results_have_the_declared_type_where_a_copy_rounds() -> None:
    text = """HloModule m, num_partitions=2
ENTRY e {
  x = f8e5m2[4,4] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[4,4] copy(x), sharding={devices=[2,1]<=[2]}
  ROOT c = f32[8,4] concatenate(x, y), dimensions={0}
}"""
    result = xlanb.compile(text)(np.ones((4, 4), ml_dtypes.float8_e5m2))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.ones((8, 4)))


def test_results_that_differ_without_a_sharding_are_an_error_at_every_call() -> None:
    executable = xlanb.compile(of_four("i = u32[] partition-id()\n  ROOT r = u32[4] broadcast(i), dimensions={}"))
    for _ in range(2):
        with pytest.raises(EvaluationError, match="results differ"):
            executable(X)


def test_a_program_that_is_too_long_is_not_merged() -> None:
    module = xlanb.hlo.parse(
        of_four(BODIES["all-gather in groups"] + ", sharding={devices=[2,2]<=[4] last_tile_dim_replicate}")
    )
    distribution = Distribution.of_each(module, DeviceGrid(1, 4))
    assert merged(module, distribution, 20).instruction_count <= 20
    with pytest.raises(NotMergedError, match="instructions, more than 3"):
        merged(module, distribution, 3)


def test_the_first_call_and_later_ones_give_the_same_bits() -> None:
    random = np.random.default_rng(0)
    x, w, v = (random.normal(size=a.shape).astype(np.float32) for a in arrays())
    executable = xlanb.compile(program(4))
    first = executable(x, w, v)
    for _ in range(5):
        for a, b in zip(executable(x, w, v), first, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(executable(np.asfortranarray(x), w, v), first, strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_that_call_first_at_the_same_time_wait_for_one_another() -> None:
    executable, found = xlanb.compile(program(4)), []
    threads = [threading.Thread(target=lambda: found.append(executable(*arrays()))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    for given in found:
        np.testing.assert_array_equal(given[0], found[0][0])


def test_what_is_the_same_for_all_devices_is_computed_once() -> None:
    text = of_four(
        "k = f32[4] parameter(1)\n  t = f32[4] tanh(k)\n  ROOT r = f32[4] add(x, t), sharding={devices=[4]<=[4]}"
    )
    module = DevicePlacement(xlanb.hlo.parse(text)).merged()
    assert str(module).count(" tanh(") == 1


def test_arguments_are_checked_as_before() -> None:
    executable = xlanb.compile(program(4))
    x, w, v = arrays()
    executable(x, w, v)
    assert executable.devices.merged is not None
    with pytest.raises(ArgumentError, match=r"argument 1 \(w\)"):
        executable(x, v, v)
    with pytest.raises(ArgumentError, match="expected 3 arguments"):
        executable(x, w)
    np.testing.assert_array_equal(executable(np.asfortranarray(x), w, v)[0], executable(x, w, v)[0])


def test_shorter_arrays_still_fit_a_program_of_each_device() -> None:
    text = of_four("ROOT r = f32[4] negate(x), sharding={devices=[4]<=[4]}")
    executable = xlanb.compile(text)
    for given in (X, X, X, X[:14], X):
        np.testing.assert_array_equal(executable(given)[: len(given)], -given)


LAID_OUT = """x = f32[4,6]{0,1} parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[4,6]{0,1} negate(x)
  %s"""


def test_layouts_say_nothing_of_values() -> None:
    body = LAID_OUT % "ROOT r = f32[6,4]{0,1} transpose(y), dimensions={1,0}, sharding={devices=[1,4]<=[4]}"
    text = f"HloModule m, num_partitions=4\nENTRY e_spmd {{ {body} }}"
    given = np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32)
    before, after, is_merged = merged_and_not(text, given)
    assert is_merged
    np.testing.assert_array_equal(after, -given.T)
    np.testing.assert_array_equal(before, -given.T)


def test_what_reads_bytes_of_a_layout_is_not_merged() -> None:
    body = LAID_OUT % "ROOT r = f32[6,4]{1,0} bitcast(y), sharding={devices=[1,4]<=[4]}"
    assert "r depends on layouts" in why_not(f"HloModule m, num_partitions=4\nENTRY e_spmd {{ {body} }}")


def test_a_custom_call_may_write_in_an_order_of_its_own() -> None:
    text = """HloModule m, num_partitions=4
ENTRY e_spmd { x = f32[1,3,3] parameter(0), sharding={devices=[4,1,1]<=[4]}
  c = f32[1,3,3]{1,2,0} custom-call(x), custom_call_target="Cholesky"
  ROOT r = f32[1,3,3]{1,2,0} negate(c), sharding={devices=[4,1,1]<=[4]} }"""
    merged_text = str(DevicePlacement(xlanb.hlo.parse(text)).merged())
    assert merged_text.count("f32[1,3,3]{1,2,0} custom-call(") == 4
    assert "f32[4,3,3]{2,1,0} parameter" in merged_text


def test_replicas_are_merged_too() -> None:
    text = f"""HloModule r, replica_count=2
{ADD}ENTRY e {{ p = f32[2] parameter(0)
  i = u32[] replica-id()
  f = f32[] convert(i)
  b = f32[2] broadcast(f), dimensions={{}}
  q = f32[2] add(p, b)
  ROOT r = f32[2] all-reduce(q), replica_groups={{{{0,1}}}}, to_apply=add }}"""
    before, after, is_merged = merged_and_not(text, np.array([1, 2], np.float32))
    assert is_merged
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(after, np.array([3, 5], np.float32))


def test_the_devices_are_still_there() -> None:
    executable = xlanb.compile(program(4))
    executable(*arrays())
    assert executable.devices.merged is not None
    table = executable.timeline(*arrays())
    assert set(table.device) == {0, 1, 2, 3}
    assert executable.cancel() == 0
