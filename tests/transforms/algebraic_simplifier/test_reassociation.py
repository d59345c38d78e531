"""Constants of sums and products.

Every release folds those of integers, releases up to JAX 0.10.2 also those of floats.
"""

from __future__ import annotations

import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import AlgebraicSimplifier

EXPRESSIONS = {
    "(x + 2) + 3": "a = T[4] add(x, c) ROOT r = T[4] add(a, d)",
    "(2 - x) + 3": "a = T[4] subtract(c, x) ROOT r = T[4] add(a, d)",
    "(x * 2) * 3": "a = T[4] multiply(x, c) ROOT r = T[4] multiply(a, d)",
    "(x * 2) * s": "a = T[4] multiply(x, c) b = T[4] broadcast(s), dimensions={} ROOT r = T[4] multiply(a, b)",
}


def _simplified(expression: str, dtype: str, *, reassociates_floats: bool) -> list[O]:
    lines = EXPRESSIONS[expression].replace(") ", ")\n").replace("={} ", "={}\n").replace("T[", f"{dtype}[")
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[4] parameter(0)
  s = {dtype}[] parameter(1)
  two = {dtype}[] constant(2)
  three = {dtype}[] constant(3)
  c = {dtype}[4] broadcast(two), dimensions={{}}
  d = {dtype}[4] broadcast(three), dimensions={{}}
{lines}
}}"""
    module = xlanb.hlo.parse(text)
    AlgebraicSimplifier(reassociates_floats=reassociates_floats).run(module)
    module.verify()
    return [
        i.opcode for i in module.entry_computation.post_order() if i.shape.dimensions and i.opcode is not O.BROADCAST
    ]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_floats_are_reassociated_where_the_release_does(expression):
    kept = _simplified(expression, "f32", reassociates_floats=False)
    folded = _simplified(expression, "f32", reassociates_floats=True)
    assert len(kept) == len(folded) + 1


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_integers_are_reassociated_by_every_release(expression):
    found = [_simplified(expression, "s32", reassociates_floats=r) for r in (False, True)]
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_the_pipeline_of_0_12_leaves_floats_alone():
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  two = f32[] constant(2.5)
  c = f32[4] broadcast(two), dimensions={}
  a = f32[4] multiply(x, c)
  ROOT r = f32[4] multiply(a, c)
}"""
    found = {}
    for release in ("0.10.2", "0.12"):
        module = xlanb.hlo.parse(text)
        xlanb.cpu.pipeline(xla=release).run(module)
        found[release] = sum(i.opcode is O.MULTIPLY for i in module.instructions())
    assert found == {"0.10.2": 1, "0.12": 2}
