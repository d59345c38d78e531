"""Shapes of calls and control flow (xla/service/shape_inference.cc)."""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, rule
from xlanb.shape import Shape
from xlanb.shape.shape import TOKEN, same

_O = HloOpcode


@rule(_O.AFTER_ALL)
def _after_all(site: Site) -> Shape:
    return TOKEN


@rule(_O.CALL)
def _call(site: Site) -> Shape:
    called = site.computation("to_apply")
    parameters = called.parameters
    if len(parameters) != len(site.shapes):
        site.fail(f"expected {len(parameters)} operands, as {called.name} has parameters, not {len(site.shapes)}")
    for i, (p, s) in enumerate(zip(parameters, site.shapes, strict=True)):
        if not same(p.shape, s):
            site.fail(f"expected operand {i} of shape {p.shape}, as parameter {p.name} of {called.name}")
    return called.root.shape


@rule(_O.WHILE)
def _while(site: Site) -> Shape:
    site.count(1)
    return site.shapes[0]
