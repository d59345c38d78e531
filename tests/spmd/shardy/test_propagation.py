"""Propagation: each value's final sharding, by strategies, priorities, edges and groups."""

from __future__ import annotations

from tests.spmd.shardy.shardy_programs import MESH, dims_of, program_of
from xlanb.spmd.sdy import parse_sharding
from xlanb.spmd.shardy.factor_propagation import Strategy
from xlanb.spmd.shardy.groups import unify_groups
from xlanb.spmd.shardy.program import DataFlowEdge, ShardyProgram, ShardyRegion, ShardyValue, ValueKind, add_edge
from xlanb.spmd.shardy.propagation import PropagationOptions, propagate


def _run(text: str, shardings: dict[str, str], options: PropagationOptions | None = None) -> dict[str, str]:
    program, named = program_of(f"HloModule m\nENTRY main {{\n{text}\n}}\n", shardings)
    propagate(program, options)
    out = {name: dims_of(value) for name, value in named.items()}
    (result,) = program.result_shardings
    out["result"] = "" if result is None else "[" + ", ".join(map(str, result.dims)) + "]"
    return out


_DOT = """
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  d = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[8,32] tanh(d)
"""


def test_dot_passes_free_dimensions_forward_and_the_summed_one_sideways() -> None:
    got = _run(_DOT, {"x": '[{"a"}, {"c"}]', "w": '[{?}, {"b"}]'})
    assert got["d"] == got["t"] == got["result"] == '[{"a", ?}, {"b", ?}]'
    assert got["w"] == '[{"c", ?}, {"b"}]'


def test_result_of_the_program_comes_back() -> None:
    got = _run(_DOT, {"result": '[{"a"}, {"b"}]'})
    assert got["t"] == got["d"] == '[{"a", ?}, {"b", ?}]'
    assert got["x"] == '[{"a", ?}, {?}]'
    assert got["w"] == '[{?}, {"b", ?}]'


def test_closed_dimensions_and_replicated_axes_take_nothing() -> None:
    assert _run(_DOT, {"x": '[{"a"}, {}]', "d": "[{}, {?}]"})["t"] == ""
    program, named = program_of(f"HloModule m\nENTRY main {{\n{_DOT}\n}}\n", {"x": '[{"a"}, {}]'})
    named["d"].sharding = parse_sharding('#sdy.sharding<@mesh, [{?}, {?}], replicated={"a"}>')
    propagate(program)
    assert dims_of(named["d"]) == "[{?}, {?}]"


_SPLIT = """
  x = f32[8] parameter(0)
  ROOT r = f32[2,4] reshape(x)
"""


def test_reshape_splits_and_joins_axes() -> None:
    assert _run(_SPLIT, {"x": '[{"c"}]'})["r"] == '[{"c":(1)2, ?}, {"c":(2)2, ?}]'
    assert _run(_SPLIT, {"r": '[{"a"}, {"c"}]'})["x"] == '[{"a", "c", ?}]'
    assert _run(_SPLIT, {"r": '[{}, {"c"}]'})["x"] == ""


def test_axes_that_have_no_place_in_a_factor_overflow() -> None:
    text = "x = f32[6] parameter(0)\n ROOT r = f32[3,2] reshape(x)"
    assert _run(text, {"x": '[{"a"}]'})["r"] == ""
    assert _run(text, {"r": '[{?}, {"a"}]'})["x"] == ""


_CONFLICT = """
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  ROOT d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def test_basic_strategy_yields_to_conflicts_and_the_aggressive_one_settles_them() -> None:
    given = {"x": '[{"a"}, {}]', "y": '[{}, {"a"}]'}
    assert _run(_CONFLICT, given, PropagationOptions((Strategy.BASIC,)))["d"] == ""
    assert _run(_CONFLICT, given)["d"] == '[{"a", ?}, {?}]'


def test_conflicts_name_the_factor_that_won() -> None:
    program, _ = program_of(f"HloModule m\nENTRY main {{\n{_CONFLICT}\n}}\n", {"x": '[{"a"}, {}]', "y": '[{}, {"a"}]'})
    done = propagate(program)
    (event,) = [e for e in done.of("d") if e.kind == "dot"]
    assert [str(g) for g in event.gains] == ['d is split along i by {"a"}, as x']
    assert [(c.factor, c.winner) for c in event.conflicts] == [("j", "i")]
    (left,) = done.disagreements()
    assert str(left) == 'd: along factor j y by {"a"}, d by {}'
    assert "dot d: d is split along i" in str(done)


_WIDE = """
  x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  s = f32[8,4] add(x, y)
  ROOT m = f32[8,4] multiply(s, s)
"""


def test_elementwise_conflict_goes_to_the_factor_with_more_parts() -> None:
    assert _run(_WIDE, {"x": '[{"a"}, {?}]', "y": '[{?}, {"a", "b"}]'})["s"] == '[{?}, {"a", "b", ?}]'


def test_operands_of_elementwise_operations_are_split_no_further_than_the_result() -> None:
    got = _run(_WIDE, {"x": '[{"a"}, {}]', "s": "[{}, {}]"})
    assert got["y"] == ""


_BROADCAST = """
  x = f32[8] parameter(0)
  y = f32[8,4] parameter(1)
  b = f32[8,4] broadcast(x), dimensions={0}
  ROOT s = f32[8,4] add(b, y)
"""


def test_broadcast_yields_to_what_comes_from_elsewhere() -> None:
    got = _run(_BROADCAST, {"x": '[{"a"}]', "y": '[{"b"}, {"a"}]'})
    assert got["b"] == got["s"] == '[{"b", ?}, {"a", ?}]'


def test_user_priorities_bring_a_dimension_later() -> None:
    given = {"x": '[{"a"}p1, {?}]', "y": '[{?}, {"a"}p0]'}
    got = _run(_CONFLICT, given)
    assert got["d"] == '[{?}, {"a", ?}]'
    assert got["x"] == '[{"a"}, {?}]'
    earlier = _run(_CONFLICT, {"x": '[{"a"}p0, {?}]', "y": '[{?}, {"a"}p1]'})
    assert earlier["d"] == '[{"a", ?}, {?}]'


def test_groups_share_one_sharding() -> None:
    program, named = program_of(
        "HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
        " n = f32[8] negate(x)\n c = f32[8] cosine(y)\n ROOT s = f32[8] add(n, n)\n}\n",
        {"x": '[{"a"}]'},
    )
    program.groups.append([named["n"], named["c"]])
    propagate(program)
    assert dims_of(named["c"]) == dims_of(named["y"]) == '[{"a", ?}]'


def _loop(program: ShardyProgram, named: dict[str, ShardyValue]) -> tuple[ShardyValue, ShardyValue]:
    """Make the operation `w` a while loop over its operand with a negating body.

    Returns the body's argument and the negation.
    """
    while_op = named["w"].producer
    negation = named["n"].producer
    assert while_op is not None
    assert negation is not None
    while_op.kind = ValueKind.WHILE
    argument = ShardyValue("argument", named["w"].shape)
    body = ShardyRegion([argument], [negation], [named["n"]], while_op)
    program.body.ops.remove(negation)
    negation.region = body
    negation.operands[0].uses.remove((negation, 0))
    negation.operands[0] = argument
    argument.uses.append((negation, 0))
    named["n"].returned.append((body, 0))
    while_op.regions = [body]
    return argument, named["n"]


def test_loop_has_one_sharding_for_all_its_rounds() -> None:
    program, named = program_of(
        "HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n n = f32[8] negate(x)\n w = f32[8] copy(x)\n ROOT s = f32[8] tanh(w)\n}\n",
        {"x": '[{"a"}]'},
    )
    argument, negation = _loop(program, named)
    op = named["w"].producer
    assert op is not None
    add_edge(program, DataFlowEdge(named["w"], op=op, targets=[named["w"], argument], **_sources(op.regions[0])))
    propagate(program)
    assert dims_of(argument) == dims_of(negation) == dims_of(named["s"]) == '[{"a", ?}]'


def _sources(body: ShardyRegion) -> dict[str, tuple[object, ...]]:
    return {"operands": (0,), "results": ((body, 0),)}


def test_barrier_lets_shardings_pass_one_way() -> None:
    for direction, expected in (("FORWARD", '[{"a", ?}]'), ("BACKWARD", ""), ("NONE", "")):
        program, named = program_of(
            "HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n ROOT b = f32[8] copy(x)\n}\n", {"x": '[{"a"}]'}
        )
        op = named["b"].producer
        assert op is not None
        op.kind = ValueKind.BARRIER
        op.attributes["allowed_direction"] = direction
        propagate(program)
        assert dims_of(named["b"]) == expected


def test_arrays_on_different_meshes_do_not_meet() -> None:
    program, named = program_of(f"HloModule m\nENTRY main {{\n{_WIDE}\n}}\n", {"x": '[{"a"}, {?}]'})
    program.meshes["other"] = type(MESH)("other", (("a", 4),))
    named["y"].sharding = parse_sharding('#sdy.sharding<@other, [{?}, {"a"}]>')
    propagate(program)
    assert dims_of(named["s"]) == ""


_GROUPED = (
    "HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n ROOT s = f32[8] add(x, y)\n}\n"
)


def test_groups_with_a_value_in_common_are_one() -> None:
    program, named = program_of(_GROUPED, {"x": '[{"a"}]'})
    x, y, s = named["x"], named["y"], named["s"]
    program.groups += [[y, y], [x, s], [s, y]]
    unify_groups(program)
    assert [set(g) for g in program.groups] == [{x, y, s}]


def test_group_of_values_with_different_shardings_gets_open_constraints() -> None:
    program, named = program_of(_GROUPED, {"x": '[{"a"}]', "y": '[{"b"}]'})
    program.groups.append([named["x"], named["y"]])
    propagate(program)
    assert dims_of(named["x"]) == '[{"a"}]'
    assert dims_of(named["y"]) == '[{"b"}]'
    constraints = [op for op in program.body.ops if op.kind is ValueKind.CONSTRAINT]
    assert [dims_of(op.results[0]) for op in constraints] == ['[{"b", ?}]'] * 2
    assert program.body.ops[-1].operands == [op.results[0] for op in reversed(constraints)]
