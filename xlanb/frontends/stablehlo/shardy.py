"""Shardy's operations in a program for one device; shardings are dropped."""

from __future__ import annotations

import math
import re

from xlanb.frontends.stablehlo.ir import Opaque, StablehloOperation
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.wording import counted

_SIZE = re.compile(r"=\s*(\d{1,9})")
_MESH = re.compile(r"<\s*@([\w.$-]+)")


@rule("sdy.sharding_constraint", "sdy.reshard")
def _constraint(s: RegionScope, op: StablehloOperation) -> Instructions:
    return s.operands(op, 1)


@rule("sdy.manual_computation")
def _manual_computation(s: RegionScope, op: StablehloOperation) -> Instructions:
    """Lower a manual computation in place: on one device, its part is the whole."""
    operands, block = s.operands(op), s.block(op, 0)
    count = _device_count(s, op)
    if count > 1:
        s.refuse(op, f"runs per device on {count} devices: expected a mesh of one device")
    if len(operands) != len(block.arguments):
        s.fail(op, f"takes {counted(len(block.arguments), 'argument')}, not {len(operands)}")
    for argument, x in zip(block.arguments, operands, strict=True):
        s.bind(argument, x)
    return s.lower_block(block)


def _device_count(s: RegionScope, op: StablehloOperation) -> int:
    """Return the number of devices of the shardings' meshes; 1 if there are none."""
    texts = [op.attributes.get(name) for name in ("in_shardings", "out_shardings")]
    names = {m for t in texts if isinstance(t, Opaque) for m in _MESH.findall(t.text)}
    counts = [1]
    for name in sorted(names):
        mesh = s.program.meshes.get(name)
        if mesh is None:
            s.fail(op, f"no mesh @{name}")
        counts.append(math.prod(int(n) for n in _SIZE.findall(mesh)))
    return max(counts)
