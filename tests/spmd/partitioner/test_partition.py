"""Partitioned programs compute the whole program's results, with XLA's collectives."""

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
from xlanb.transforms import PASSES

_COLLECTIVES = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(")

SHARDINGS = (
    "{replicated}",
    "{devices=[8,1]<=[8]}",
    "{devices=[1,8]<=[8]}",
    "{devices=[2,4]<=[8]}",
    "{devices=[4,2]<=[8]}",
    "{devices=[2,4]<=[4,2]T(1,0)}",
    "{devices=[8,1]0,2,4,6,1,3,5,7}",
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[1,4,2]<=[8] last_tile_dim_replicate}",
    "{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
    "{devices=[1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
    "{maximal device=3}",
)


def _module(body: str, computations: str = "") -> HloModule:
    return parse(f"HloModule m, num_partitions=8\n{computations}\nENTRY main {{\n{body}\n}}\n")


def _arguments(module: HloModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(-9, 9, p.shape.as_array().dimensions).astype(p.shape.as_array().dtype)
        for p in module.entry_computation.parameters
    ]


def check(module: HloModule) -> list[str]:
    """Partition, compare with the whole program, and return the collectives' opcodes."""
    arguments = _arguments(module)
    whole = module.clone()
    del whole.header["num_partitions"]
    expected = xlanb.evaluate(whole, *arguments)
    partition(module, 8)
    module.verify()
    found = xlanb.evaluate(module, *arguments)
    for e, f in zip(_leaves(expected), _leaves(found), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5)
    channels = [i.attributes["channel_id"] for i in module.instructions() if "channel_id" in i.attributes]
    assert set(channels) <= set(causes_of(module).by_channel)
    return _COLLECTIVES.findall(str(module))


def _leaves(value: object) -> list[object]:
    return [leaf for e in value for leaf in _leaves(e)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(("source", "target"), [(s, t) for s, t in product(SHARDINGS, SHARDINGS) if s != t])
def test_a_reshard_keeps_the_values(source: str, target: str) -> None:
    check(
        _module(f"""
  p = f32[16,24] parameter(0), sharding={source}
  ROOT c = f32[16,24] copy(p), sharding={target}""")
    )


@pytest.mark.parametrize(("source", "target"), [(s, t) for s, t in product(SHARDINGS[:10], SHARDINGS[:10]) if s != t])
def test_a_reshard_of_uneven_tiles_keeps_the_values(source: str, target: str) -> None:
    check(
        _module(f"""
  p = f32[13,9] parameter(0), sharding={{replicated}}
  a = f32[13,9] copy(p), sharding={source}
  b = f32[13,9] copy(a), sharding={target}
  ROOT c = f32[13,9] copy(b), sharding={{replicated}}""")
    )


@pytest.mark.parametrize(
    ("source", "target", "collectives"),
    [
        ("{replicated}", "{devices=[8,1]<=[8]}", []),
        ("{devices=[8,1]<=[8]}", "{replicated}", ["all-gather"]),
        ("{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", ["all-to-all"]),
        ("{devices=[8,1]<=[8]}", "{devices=[8,1]0,2,4,6,1,3,5,7}", ["collective-permute"]),
        ("{devices=[2,4]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", ["all-gather"]),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[2,4]<=[8]}", []),
    ],
)
def test_each_step_of_the_ladder(source: str, target: str, collectives: list[str]) -> None:
    module = _module(f"""
  p = f32[16,24] parameter(0), sharding={source}
  ROOT c = f32[16,24] copy(p), sharding={target}""")
    assert check(module) == collectives


ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }"


@pytest.mark.parametrize("sharding", [s for s in SHARDINGS if "maximal" not in s])
@pytest.mark.parametrize("dims", ["0", "1", "0,1"])
def test_reduce(sharding: str, dims: str) -> None:
    shape = {"0": "f32[18]", "1": "f32[16]", "0,1": "f32[]"}[dims]
    check(
        _module(
            f"""
  p = f32[16,18] parameter(0), sharding={{replicated}}
  c = f32[16,18] copy(p), sharding={sharding}
  z = f32[] constant(0)
  ROOT r = {shape} reduce(c, z), dimensions={{{dims}}}, to_apply=add, sharding={{replicated}}""",
            ADD,
        )
    )


@pytest.mark.parametrize(
    ("before", "given", "after", "wanted"),
    [
        ("16,24", "{devices=[8,1]<=[8]}", "384", "{devices=[8]<=[8]}"),
        ("16,24", "{devices=[1,8]<=[8]}", "384", "{devices=[8]<=[8]}"),
        ("384", "{devices=[8]<=[8]}", "16,24", "{devices=[4,2]<=[8]}"),
        ("64", "{devices=[8]<=[8]}", "2,32", "{devices=[2,4]<=[8]}"),
        ("6,8", "{devices=[8,1]<=[8]}", "48", "{devices=[8]<=[8]}"),
        ("48", "{devices=[8]<=[8]}", "6,8", "{devices=[8,1]<=[8]}"),
        ("4,6,8", "{devices=[2,4,1]<=[8]}", "4,48", "{devices=[2,4]<=[8]}"),
    ],
)
def test_reshape(before: str, given: str, after: str, wanted: str) -> None:
    check(
        _module(f"""
  p = f32[{before}] parameter(0), sharding={{replicated}}
  c = f32[{before}] copy(p), sharding={given}
  r = f32[{after}] reshape(c), sharding={wanted}
  ROOT w = f32[{after}] copy(r), sharding={{replicated}}""")
    )


@pytest.mark.parametrize("sharding", [s for s in SHARDINGS if "maximal" not in s])
def test_elementwise_and_what_moves_nothing(sharding: str) -> None:
    check(
        _module(f"""
  p = f32[24,16] parameter(0), sharding={{devices=[8,1]<=[8]}}
  b = f32[24] parameter(1), sharding={{replicated}}
  t = f32[16,24] transpose(p), dimensions={{1,0}}, sharding={sharding}
  w = f32[16,24] broadcast(b), dimensions={{1}}, sharding={sharding}
  i = s32[16,24] iota(), iota_dimension=1, sharding={sharding}
  f = f32[16,24] convert(i), sharding={sharding}
  a = f32[16,24] add(t, w), sharding={sharding}
  m = f32[16,24] multiply(a, f), sharding={{devices=[4,2]<=[8]}}
  k = f32[2,2] constant({{{{1,2}},{{3,4}}}}), sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}
  ROOT r = (f32[16,24], f32[2,2]) tuple(m, k), sharding={{{sharding}, {{replicated}}}}""")
    )


def test_a_loop_and_a_branch() -> None:
    module = _module(
        """
  p = f32[16] parameter(0), sharding={devices=[8]<=[8]}
  zero = s32[] constant(0)
  t = (s32[], f32[16]) tuple(zero, p), sharding={{replicated}, {devices=[8]<=[8]}}
  w = (s32[], f32[16]) while(t), condition=cond, body=body, sharding={{replicated}, {devices=[8]<=[8]}}
  x = f32[16] get-tuple-element(w), index=1, sharding={devices=[8]<=[8]}
  n = s32[] get-tuple-element(w), index=0
  three = s32[] constant(3)
  is = pred[] compare(n, three), direction=EQ
  ROOT c = f32[16] conditional(is, x, x), true_computation=yes, false_computation=no, sharding={replicated}""",
        """
cond { t = (s32[], f32[16]) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(n, k), direction=LT }
body { t = (s32[], f32[16]) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  x = f32[16] get-tuple-element(t), index=1
  r = f32[16] copy(x), sharding={replicated}
  one = s32[] constant(1)
  m = s32[] add(n, one)
  y = f32[16] add(r, r), sharding={devices=[8]<=[8]}
  ROOT u = (s32[], f32[16]) tuple(m, y) }
yes { x = f32[16] parameter(0)
  ROOT y = f32[16] negate(x), sharding={devices=[8]<=[8]} }
no { x = f32[16] parameter(0)
  ROOT y = f32[16] copy(x) }""",
    )
    assert check(module).count("all-gather") >= 2


def test_full_rematerialization_is_a_finding() -> None:
    module = _module("""
  p = f32[18,10] parameter(0), sharding={replicated}
  a = f32[18,10] copy(p), sharding={devices=[4,2]<=[8]}
  b = f32[18,10] copy(a), sharding={devices=[1,8]<=[8]}
  ROOT c = f32[18,10] copy(b), sharding={replicated}""")
    check(module)
    findings = causes_of(module).findings
    assert {(f.instruction, f.operand_name, f.have, f.want) for f in findings} == {
        ("b", "a", "{devices=[4,2]<=[8]}", "{devices=[1,8]<=[8]}")
    }
    assert "involuntary full rematerialization" in str(findings[0])


def test_a_barrier_of_a_tuple() -> None:
    check(
        _module("""
  p = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  q = f32[16] parameter(1), sharding={devices=[8]<=[8]}
  t = (f32[16,8], f32[16]) tuple(p, q), sharding={{devices=[8,1]<=[8]}, {devices=[8]<=[8]}}
  ROOT o = (f32[16,8], f32[16]) opt-barrier(t), sharding={{devices=[8,1]<=[8]}, {replicated}}""")
    )


def test_a_cause_names_the_instruction_and_its_operand() -> None:
    module = _module(
        """
  p = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(p, z), dimensions={0}, to_apply=add, sharding={replicated}""",
        ADD,
    )
    (cause,) = partition(module, 8).by_channel.values()
    assert (cause.kind, cause.instruction, cause.collective) == (CauseKind.PARTIAL_REDUCTION, "r", "all-reduce")
    assert cause.have == "{devices=[8,1]<=[8]}"
    assert cause.want == "{replicated}"
    assert "own tile" in str(cause)


def test_the_pass_leaves_shardings_on_parameters_only() -> None:
    module = _module("""
  p = f32[16] parameter(0), sharding={devices=[8]<=[8]}
  ROOT n = f32[16] negate(p), sharding={devices=[8]<=[8]}""")
    PASSES["spmd-partitioning"]().run(module)
    entry = module.entry_computation
    assert entry.name == "main_spmd"
    assert [i.sharding for i in entry.instructions if i.sharding] == ["{devices=[8]<=[8]}"]
    assert str(entry.root.shape) == "f32[2]{0}"
    before = str(module)
    PASSES["spmd-partitioning"]().run(module)
    assert str(module) == before


def test_unreduced_values_are_not_added_up() -> None:
    module = _module("""
  a = f32[8,16] parameter(0), sharding={devices=[1,8]<=[8]}
  b = f32[16,8] parameter(1), sharding={devices=[8,1]<=[8]}
  d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={unreduced}
  ROOT c = f32[8,8] copy(d), sharding={unreduced}""")
    PASSES["spmd-partitioning"]().run(module)
    assert "all-reduce" not in str(module)
    assert "unreduced" not in str(module)
