"""Reshards that Shardy makes explicit: for concatenations, and for dots with scattered sums."""

from __future__ import annotations

import pytest

from tests.spmd.test_shardy_xla import run, sdy
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O

ROWS = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"


def entry(module: HloModule) -> list[tuple[str, str]]:
    """Return opcode and sharding of each entry instruction except parameters."""
    return [(i.opcode.text, i.sharding) for i in module.entry_computation if i.opcode is not O.PARAMETER]


def test_operands_of_a_concatenation_get_one_sharding() -> None:
    module = run(
        f"  x = f32[32,16] parameter(0), {sdy('data', '')}\n  y = f32[32,16] parameter(1), {sdy('model', '')}\n"
        "  ROOT c = f32[32,32] concatenate(x, y), dimensions={1}"
    )
    assert entry(module) == [("copy", ROWS), ("concatenate", ROWS), ("copy", "{replicated}")]


def test_a_concatenation_along_a_split_dimension_is_not() -> None:
    module = run(
        f"  x = f32[32,16] parameter(0), {sdy('data', '')}\n  y = f32[32,16] parameter(1), {sdy('data', '')}\n"
        "  ROOT c = f32[64,16] concatenate(x, y), dimensions={0}"
    )
    assert [opcode for opcode, _ in entry(module)].count("concatenate") == 1


def scattered(out: str) -> list[tuple[str, str]]:
    """Return the entry of a dot over the axis `model` whose result must be split by `out`."""
    return entry(
        run(
            f"  x = f32[32,16] parameter(0), {sdy('data', 'model')}\n  w = f32[16,8] parameter(1), {sdy('model', '')}\n"
            "  d = f32[32,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            f'  ROOT c = f32[32,8] custom-call(d), custom_call_target="Sharding", {sdy(out, "")}'
        )
    )


@pytest.mark.parametrize("out", ["data", "model"])
def test_a_dot_is_computed_as_its_operand_is_split(out: str) -> None:
    wanted = ROWS if out == "data" else "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
    resharded = [] if out == "data" else [("copy", wanted)]
    assert scattered(out) == [("dot", ROWS), *resharded, ("copy", wanted)]
