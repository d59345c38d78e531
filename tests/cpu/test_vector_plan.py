"""What a loop's plan costs to make, and what it says the loop costs."""

from __future__ import annotations

from collections import Counter

import pytest

from xlanb.cpu.emitters import vector_plan
from xlanb.hlo import parse
from xlanb.hlo.opcode import HloOpcode


def _softmaxes(count: int) -> str:
    lines = [
        f"""  x{n} = f32[8,32] exponential(v{n - 1})
  sum{n} = f32[8] reduce(x{n}, z), dimensions={{1}}, to_apply=add
  b{n} = f32[8,32] broadcast(sum{n}), dimensions={{0}}
  v{n} = f32[8,32] divide(x{n}, b{n})"""
        for n in range(1, count + 1)
    ]
    return "\n".join(
        [
            "HloModule m",
            "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }",
            "ENTRY e {",
            "  z = f32[] constant(0)",
            "  v0 = f32[8,32] parameter(0)",
            *lines,
            f"  ROOT r = f32[8,32] negate(v{count})",
            "}",
        ]
    )


@pytest.mark.parametrize("count", [4, 24])
def test_a_chain_of_normalizations_is_planned_in_quadratic_time(monkeypatch, count):
    """Each broadcasts a sum of the one before, whose plan is one of its own."""
    module = parse(_softmaxes(count))
    entry = module.entry_computation
    planned = Counter()
    real = vector_plan._fresh_run

    def counted(p, bound, i, leaf):
        planned[i] += 1
        return real(p, bound, i, leaf)

    monkeypatch.setattr(vector_plan, "_fresh_run", counted)
    bound = [i for i in entry if i.opcode is HloOpcode.PARAMETER]
    vector_plan.plan(bound, [(entry.root, ())])
    assert max(planned.values()) <= count + 1


def test_a_shifted_operand_costs_no_arithmetic():
    shifted = parse("""HloModule m
ENTRY e {
  a = f32[64] parameter(0)
  low = f32[63] slice(a), slice={[0:63]}
  high = f32[63] slice(a), slice={[1:64]}
  two = f32[] constant(2)
  twos = f32[63] broadcast(two), dimensions={}
  m = f32[63] multiply(high, twos)
  ROOT s = f32[63] add(low, m)
}""").entry_computation
    plain = parse("""HloModule m
ENTRY e {
  a = f32[63] parameter(0)
  m = f32[63] multiply(a, a)
  ROOT s = f32[63] add(a, m)
}""").entry_computation
    costs = [vector_plan.plan(c.parameters, [(c.root, ())]).nanoseconds for c in (shifted, plain)]
    assert costs[0] == costs[1]
