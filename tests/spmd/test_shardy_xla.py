"""shardy-xla: what it reads and writes; tests/spmd/shardy tests the propagation."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.spmd.shardy.constants import merge_constants, split_constants
from xlanb.spmd.shardy.import_ import import_module
from xlanb.spmd.shardy.program import ValueKind
from xlanb.transforms import PASSES

MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'


def sdy(*dims: str) -> str:
    """Return the frontend attribute with a sharding of these dimensions."""
    text = ", ".join("{" + (f'\\"{d}\\"' if d else "") + "}" for d in dims)
    return f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{text}]>"}}'


def run(body: str, before: str = "") -> HloModule:
    """Return the module of these computations after the pass."""
    module = parse(f"HloModule m, {MESHES}\n{before}\nENTRY main {{\n{body}\n}}")
    PASSES["shardy-xla"]().run(module)
    module.verify()
    return module


def test_parameters_and_header() -> None:
    module = run(f"  x = f32[8,4] parameter(0), {sdy('data', '')}\n  ROOT n = f32[8,4] negate(x)")
    x = module.entry_computation.parameters[0]
    assert x.sharding == "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
    assert not x.frontend_attributes
    assert module.header["num_partitions"] == "8"
    assert "frontend_attributes" not in module.header


def test_a_constraint_becomes_a_copy() -> None:
    module = run(
        f"  x = f32[8,4] parameter(0), {sdy('data', '')}\n"
        f'  ROOT c = f32[8,4] custom-call(x), custom_call_target="Sharding", {sdy("", "model")}'
    )
    root = module.entry_computation.root
    assert root.opcode is O.COPY
    assert root.sharding == "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"


def test_a_closed_constraint_reaches_its_operand() -> None:
    module = run(
        "  x = f32[8,4] parameter(0)\n  n = f32[8,4] negate(x)\n"
        f'  ROOT c = f32[8,4] custom-call(n), custom_call_target="Sharding", {sdy("", "model")}'
    )
    root = module.entry_computation.root
    assert root.operands[0].sharding == root.sharding


def test_each_use_of_a_constant_has_its_own() -> None:
    module = parse(
        f"HloModule m, {MESHES}\nENTRY main {{\n  x = f32[8] parameter(0)\n  y = f32[8] parameter(1)\n  z = f32[] constant(0)\n"
        "  b = f32[8] broadcast(z), dimensions={}\n  a = f32[8] add(x, b)\n  c = f32[8] add(y, b)\n  ROOT t = (f32[8], f32[8]) tuple(a, c)\n}"
    )
    program = import_module(module)
    split_constants(program)
    assert [op.opcode for op in program.walk()].count(O.BROADCAST) == 2
    assert [op.opcode for op in program.walk()].count(O.CONSTANT) == 1
    merge_constants(program)
    assert [op.opcode for op in program.walk()].count(O.BROADCAST) == 1


LOOP = """
body {
  p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  w = f32[8] get-tuple-element(p), index=1
  x = f32[8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] add(x, w)
  ROOT t = (s32[], f32[8], f32[8]) tuple(j, w, y)
}
condition {
  p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}"""


def test_what_a_loop_passes_through_goes_behind() -> None:
    module = run(
        f"  w = f32[8] parameter(0), {sdy('data')}\n  x = f32[8] parameter(1), {sdy('data')}\n  z = s32[] constant(0)\n"
        "  s = (s32[], f32[8], f32[8]) tuple(z, w, x)\n"
        "  l = (s32[], f32[8], f32[8]) while(s), condition=condition, body=body\n"
        "  ROOT r = f32[8] get-tuple-element(l), index=2",
        LOOP,
    )
    loop = module.entry_computation.root.operands[0]
    assert loop.opcode is O.WHILE
    given = loop.operands[0].operands
    assert [o.opcode for o in given] == [O.CONSTANT, O.PARAMETER, O.COPY]
    assert loop.sharding.startswith("{{replicated}, ")
    parts = {i.tuple_index: i.sharding for i in loop.attributes["body"] if i.opcode is O.GET_TUPLE_ELEMENT}
    assert parts[0] == "{replicated}"
    one, two = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    assert np.array_equal(evaluate(module, one, two), two + 3 * one)


def test_branches_get_what_they_use() -> None:
    module = run(
        f"  p = pred[] parameter(0)\n  x = f32[8] parameter(1), {sdy('data')}\n  y = f32[8] parameter(2)\n"
        "  a = (f32[8], f32[8]) tuple(x, y)\n"
        "  ROOT c = f32[8] conditional(p, a, x), true_computation=both, false_computation=one",
        "both {\n  q = (f32[8], f32[8]) parameter(0)\n  u = f32[8] get-tuple-element(q), index=0\n  v = f32[8] get-tuple-element(q), index=1\n"
        "  ROOT s = f32[8] add(u, v)\n}\none {\n  q = f32[8] parameter(0)\n  ROOT n = f32[8] negate(q)\n}",
    )
    one, two = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    for p in (True, False):
        assert np.array_equal(evaluate(module, np.array(p), one, two), one + two if p else -one)


SHARD_MAP = """
xla.sdy.manual_computation_body {
  p = f32[2,4] parameter(0)
  z = f32[] constant(0)
  ROOT n = f32[2,4] negate(p)
}"""


def shard_map(axes: str) -> str:
    """Return a manual computation over some axes."""
    named = ", ".join(f'\\"{a}\\"' for a in axes.split())
    dims = '[<@mesh, [{\\"data\\"}, {}]>]'
    return (
        f"  x = f32[8,4] parameter(0), {sdy('data', '')}\n"
        '  g = f32[2,4] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, '
        f'frontend_attributes={{xla.sdy.in_shardings="#sdy.sharding_per_value<{dims}>",xla.sdy.manual_axes="#sdy<manual_axes{{{named}}}>"}}\n'
        "  c = f32[2,4] call(g), to_apply=xla.sdy.manual_computation_body\n"
        '  ROOT l = f32[8,4] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, '
        f'frontend_attributes={{xla.sdy.manual_axes="#sdy<manual_axes{{{named}}}>",xla.sdy.out_shardings="#sdy.sharding_per_value<{dims}>"}}'
    )


@pytest.mark.parametrize(
    ("axes", "inside"),
    [("data model", "{manual}"), ("data", "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}")],
)
def test_manual_computations(axes: str, inside: str) -> None:
    module = run(shard_map(axes), SHARD_MAP)
    out = module.entry_computation.root
    assert out.attributes["custom_call_target"] == "SPMDShardToFullShape"
    assert out.sharding == "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
    call = out.operands[0].operands[0]
    assert call.sharding == inside
    assert {i.sharding for i in call.to_apply if i.opcode is not O.CONSTANT} == {inside}
    assert call.operands[0].attributes["custom_call_target"] == "SPMDFullToShardShape"
    assert call.operands[0].operands[0].sharding == out.sharding


def test_a_program_says_what_flows_where() -> None:
    module = parse(f"HloModule m, {MESHES}\n{LOOP}\nENTRY main {{\n  w = f32[8] parameter(0), {sdy('data')}\n"
                   "  x = f32[8] parameter(1)\n  z = s32[] constant(0)\n  s = (s32[], f32[8], f32[8]) tuple(z, w, x)\n"
                   "  l = (s32[], f32[8], f32[8]) while(s), condition=condition, body=body\n"
                   "  ROOT r = f32[8] get-tuple-element(l), index=2\n}")  # fmt: skip
    program = import_module(module)
    (loop,) = [op for op in program.walk() if op.kind is ValueKind.WHILE]
    assert [e.owner for e in program.edges] == loop.results
    edge = program.edges[1]
    assert edge.sources == [loop.operands[1], loop.regions[1].results[1]]
    assert len(edge.targets) == 3
    (opened,) = [op for op in program.walk() if op.kind is ValueKind.CONSTRAINT]
    assert opened.operands == [program.body.arguments[0]]
    assert str(opened.results[0].sharding) == "#sdy.sharding<@mesh, [{?}]>"


def test_result_shardings_differ_from_what_is_computed() -> None:
    module = run(
        f"  x = f32[8] parameter(0), {sdy('data')}\n"
        f'  ROOT r = f32[8] custom-call(x), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, {sdy("model")}'
    )
    root = module.entry_computation.root
    assert root.opcode is O.GET_TUPLE_ELEMENT
    assert root.sharding == "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PassError, match="rank 1"):
        run(f"  x = f32[8,4] parameter(0), {sdy('data')}\n  ROOT n = f32[8,4] negate(x)")
    with pytest.raises(PassError, match="names a mesh"):
        run("  x = f32[8] parameter(0), " + sdy("data").replace("@mesh", "@none") + "\n  ROOT n = f32[8] negate(x)")


def test_a_root_of_all_parts_is_the_whole() -> None:
    module = run(
        f"  x = f32[64,16] parameter(0), {sdy('data', '')}\n"
        "  k = (f32[64,4], s32[64,4]) topk(x), k=4, largest=true\n"
        "  a = f32[64,4] get-tuple-element(k), index=0\n  b = s32[64,4] get-tuple-element(k), index=1\n"
        "  ROOT t = (f32[64,4], s32[64,4]) tuple(a, b)"
    )
    assert module.entry_computation.root.opcode is O.TOPK


def test_constraints_within_a_reduction_become_copies() -> None:
    module = run(
        f"  x = f32[8] parameter(0), {sdy('data')}\n  z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum",
        "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  s = f32[] add(a, b)\n"
        '  ROOT c = f32[] custom-call(s), custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, []>"}\n}',
    )
    assert module.entry_computation.root.to_apply.root.opcode is O.COPY


def test_result_in_another_layout_is_reshaped_to_a_row_major_one() -> None:
    module = parse(
        """HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}
        ENTRY main {
          x = f32[16,8]{1,0} parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"}
          t = f32[8,16]{0,1} transpose(x), dimensions={1,0}
          n = f32[16,8]{1,0} negate(x)
          ROOT r = (f32[8,16]{0,1}, f32[16,8]{1,0}) tuple(t, n)
        }"""
    )
    PASSES["shardy-xla"]().run(module)
    first, second = module.entry_computation.root.operands
    assert (first.opcode.text, str(first.shape), first.sharding) == (
        "reshape",
        "f32[8,16]{1,0}",
        "{devices=[1,8]<=[8]}",
    )
    assert second.opcode.text == "negate"


def test_what_a_loop_uses_without_a_sharding_gets_none_within() -> None:
    module = run(
        f"  w = f32[8] parameter(0)\n  x = f32[8] parameter(1)\n  z = s32[] constant(0)\n  y = f32[8] parameter(2), {sdy('data')}\n"
        "  s = (s32[], f32[8], f32[8]) tuple(z, w, x)\n"
        "  l = (s32[], f32[8], f32[8]) while(s), condition=condition, body=body\n"
        "  g = f32[8] get-tuple-element(l), index=2\n  ROOT r = (f32[8], f32[8]) tuple(g, y)",
        LOOP,
    )
    (loop,) = [i for i in module.entry_computation if i.opcode is O.WHILE]
    assert loop.sharding == "{{replicated}, {replicated}, {replicated}}"
    parts = {i.tuple_index: i.sharding for i in loop.attributes["body"] if i.opcode is O.GET_TUPLE_ELEMENT}
    assert parts == {0: "{replicated}", 1: "{replicated}", 2: ""}
