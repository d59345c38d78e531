"""Concatenations of concatenations: chains are flattened once, shared ones don't multiply."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo import parse
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms import PASSES

FLATTENING = ("algsimp", "dynamic-dimension-simplifier")


def chain(length: int) -> HloModule:
    """Each concatenation appends a parameter to the previous one."""
    lines = ["p = f32[1] parameter(0)", "v0 = f32[1] parameter(1)"]
    lines += [f"v{k} = f32[{k + 1}] concatenate(v{k - 1}, p), dimensions={{0}}" for k in range(1, length)]
    lines += [f"ROOT r = f32[{length}] tanh(v{length - 1})"]
    return parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


def doubling(levels: int) -> HloModule:
    """Each concatenation joins the previous one to itself."""
    lines = ["p = f32[1] parameter(0)", "q = f32[1] parameter(1)", "v0 = f32[2] concatenate(p, q), dimensions={0}"]
    lines += [f"v{k} = f32[{2 << k}] concatenate(v{k - 1}, v{k - 1}), dimensions={{0}}" for k in range(1, levels)]
    lines += [f"ROOT r = f32[{1 << levels}] tanh(v{levels - 1})"]
    return parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


@pytest.mark.parametrize("name", FLATTENING)
def test_a_chain_is_flattened_once(name, monkeypatch):
    added = []
    add = HloComputation.add

    def counting(self, opcode, operands=(), *args, **named):
        new = add(self, opcode, operands, *args, **named)
        added.append(len(new.operands))
        return new

    module = chain(200)
    monkeypatch.setattr(HloComputation, "add", counting)
    PASSES[name]().run(module)
    assert added == [200]
    (joined,) = module.entry_computation.root.operands
    assert [o.name for o in joined.operands] == ["v0", *["p"] * 199]


@pytest.mark.parametrize("name", FLATTENING)
def test_shared_concatenations_do_not_multiply(name):
    module = doubling(16)
    before = module.clone()
    PASSES[name]().run(module)
    PASSES[name]().run(module)
    widths = [len(i.operands) for i in module.entry_computation if i.opcode is HloOpcode.CONCATENATE]
    assert max(widths) <= 128
    x, y = np.float32([0.25]), np.float32([-3.0])
    np.testing.assert_array_equal(xlanb.evaluate(module, x, y), xlanb.evaluate(before, x, y))


@pytest.mark.parametrize("length", [2, 3, 70])
def test_compiled_chains_give_what_the_evaluator_gives(length):
    module = chain(length)
    x, y = np.float32([0.5]), np.float32([2.0])
    expected = xlanb.evaluate(module, x, y)
    np.testing.assert_allclose(xlanb.compile(module)(x, y), expected, rtol=1e-6)


def test_a_concatenation_with_another_user_stays_for_it():
    module = parse("""HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  a = f32[4] concatenate(p, p), dimensions={0}
  b = f32[6] concatenate(a, p), dimensions={0}
  ROOT t = (f32[4], f32[6]) tuple(a, b)
}
""")
    PASSES["algsimp"]().run(module)
    a, b = module.entry_computation.root.operands
    assert (len(a.operands), len(b.operands)) == (2, 3)
