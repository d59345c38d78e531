"""Constraints applied to the value that they constrain."""

from __future__ import annotations

from tests.spmd.shardy.shardy_programs import dims_of, program_of
from xlanb.spmd.sdy import parse_sharding
from xlanb.spmd.shardy.constraints import apply_constraints
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind

_CHAIN = """HloModule m
ENTRY main {
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  c = f32[8] copy(n)
  d = f32[8] copy(c)
  ROOT s = f32[8] add(n, d)
}"""


def _chain(first: str, last: str) -> tuple[ShardyProgram, dict[str, ShardyValue]]:
    program, named = program_of(_CHAIN, {"c": first, "d": last})
    for name in ("c", "d"):
        op = named[name].producer
        assert op is not None
        op.kind = ValueKind.CONSTRAINT
    return program, named


def test_value_takes_the_sharding_that_is_wanted_of_it() -> None:
    program, named = _chain('[{"a"}]', '[{"b"}]')
    apply_constraints(program)
    assert dims_of(named["n"]) == '[{"a"}]'


def test_open_constraint_is_not_applied() -> None:
    program, named = _chain('[{"a", ?}]', '[{"b"}]')
    apply_constraints(program)
    assert dims_of(named["n"]) == ""


def test_what_stands_behind_a_chain_takes_its_end_in_a_body_its_result_too() -> None:
    program, named = _chain('[{"a"}]', '[{"b"}]')
    body = program.body
    body.parent = ShardyOp(ValueKind.WHILE, named["s"].producer.opcode, named["s"].producer.hlo, [])  # type: ignore[union-attr]
    body.results = [named["n"]]
    named["n"].returned.append((body, 0))
    program.body = ShardyRegion(ops=[body.parent])
    body.parent.regions = [body]
    apply_constraints(program)
    assert body.results == [named["d"]]
    assert body.ops[-1].operands == [named["d"], named["d"]]


def test_what_must_still_be_summed_is_kept_for_a_value_of_a_loop() -> None:
    program, named = program_of("HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n ROOT c = f32[8] copy(x)\n}\n")
    op = named["c"].producer
    assert op is not None
    op.kind = ValueKind.CONSTRAINT
    named["c"].sharding = parse_sharding('#sdy.sharding<@mesh, [{}], unreduced={"a"}>')
    apply_constraints(program)
    assert named["x"].sharding == named["c"].sharding
