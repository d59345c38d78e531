"""Programs for the tests of Shardy's propagation: HLO without tuples, with some shardings."""

from __future__ import annotations

from collections.abc import Mapping

from xlanb import hlo
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import TupleShape
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import parse_sharding
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind, add_op, set_results

MESH = Mesh("mesh", (("a", 2), ("b", 2), ("c", 4)))


def program_of(
    text: str, shardings: Mapping[str, str] | None = None, mesh: Mesh = MESH
) -> tuple[ShardyProgram, dict[str, ShardyValue]]:
    """Return a module's entry as a Program, and its values by name.

    `shardings` are Shardy's dimensions by name; `result` names the sharding of the program's
    result.
    """
    region = ShardyRegion()
    values: dict[HloInstruction, list[ShardyValue]] = {}
    named: dict[str, ShardyValue] = {}
    for i in hlo.parse(text).entry_computation.post_order():
        if i.opcode is HloOpcode.PARAMETER:
            values[i] = [ShardyValue(i.name, i.shape)]
            region.arguments += values[i]
        elif i.opcode is HloOpcode.GET_TUPLE_ELEMENT:
            values[i] = [values[i.operands[0]][i.tuple_index]]
        else:
            shapes = list(i.shape.shapes) if isinstance(i.shape, TupleShape) else [i.shape]
            values[i] = add_op(region, ValueKind.HLO, i, [values[o][0] for o in i.operands], shapes).results
        for value in values[i]:
            named.setdefault(i.name, value)
        if i.is_root:
            set_results(region, list(values[i]))
    program = ShardyProgram(region, {mesh.name: mesh}, [None] * len(region.results))
    for name, dims in (shardings or {}).items():
        sharding = parse_sharding(f"#sdy.sharding<@{mesh.name}, {dims}>")
        if name == "result":
            program.result_shardings[0] = sharding
        else:
            named[name].sharding = sharding
    return program, named


def op_of(line: str, **parameters: str) -> ShardyOp:
    """Return the operation of one line of HLO, with parameters of these shapes as operands."""
    declared = "\n".join(f"  {n} = {s} parameter({k})" for k, (n, s) in enumerate(parameters.items()))
    program, _ = program_of(f"HloModule m\n{_COMPUTATIONS}\nENTRY main {{\n{declared}\n  ROOT {line}\n}}\n")
    return program.body.ops[-1]


def dims_of(value: ShardyValue) -> str:
    """Return the dimensions of its sharding, "" if it has none."""
    return "" if value.sharding is None else "[" + ", ".join(map(str, value.sharding.dims)) + "]"


_COMPUTATIONS = """
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
first { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] copy(y) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = pred[] compare(x, y), direction=LT }
greater { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = pred[] compare(x, y), direction=GE }
"""
