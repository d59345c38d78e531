"""What must hold for the module as a whole: entry layout, schedule, channels, fusions, aliases (HloVerifier::Run in hlo_verifier.cc)."""

from __future__ import annotations

import re

from xlanb.errors import HloVerifierError, ShapeError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import compatible
from xlanb.hlo.verifier.fault import fail
from xlanb.shape.shape import subshape

_O = HloOpcode
_ALIAS = re.compile(r"\{\s*([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{\s*([\d,\s]*)\}(?:\s*,\s*([\w\-]+))?")
_TRANSFERS = frozenset((_O.SEND, _O.SEND_DONE, _O.RECV, _O.RECV_DONE))


def verify_entry_layout(module: HloModule) -> None:
    """The layouts given for the entry computation have its parameters' and its root's shapes."""
    if module.entry_layout is None:
        return
    entry = module.entry_computation
    parameters, result = module.entry_layout
    if not compatible(entry.root.shape, result):
        fail(entry.root, f"expected the result shape of entry_computation_layout, {result}, not {entry.root.shape}")
    if len(parameters) != len(entry.parameters):
        raise HloVerifierError(f"entry_computation_layout has {len(parameters)} parameters, {entry.name} {len(entry.parameters)}")
    for p, shape in zip(entry.parameters, parameters, strict=True):
        if not compatible(p.shape, shape):
            fail(p, f"expected the shape that entry_computation_layout gives, {shape}, not {p.shape}")


def verify_schedule(module: HloModule) -> None:
    """An order names each instruction once, after its operands."""
    for computation, order in module.schedule.items():
        if computation.module is not module:
            raise HloVerifierError(f"the schedule orders {computation.name}, which is not in module {module.name}")
        done: set[HloInstruction] = set()
        for i in order:
            if i in done or i not in computation:
                fail(i, f"the schedule of {computation.name} names it {'twice' if i in done else 'though it is not in it'}")
            for o in (*i.operands, *i.control_predecessors):
                if o not in done:
                    fail(i, f"the schedule of {computation.name} puts it before {o.name}, which it needs")
            done.add(i)
        if len(done) != len(computation):
            missing = next(i for i in computation if i not in done)
            fail(missing, f"the schedule of {computation.name} leaves it out")


def verify_fusions(module: HloModule, fusions: list[HloInstruction]) -> None:
    """A fused computation has one fusion, and is not the entry."""
    owners: dict[HloComputation, HloInstruction] = {}
    for f in fusions:
        fused: HloComputation = f.attributes["calls"]
        if fused in owners:
            fail(f, f"the fused computation {fused.name} is {owners[fused].name}'s, too")
        owners[fused] = f


def verify_channels(channels: list[HloInstruction]) -> None:
    """A channel is used by transfers or by collectives of one kind, not by both."""
    first: dict[int, HloInstruction] = {}
    for i in channels:
        other = first.setdefault(i.attributes["channel_id"], i)
        if (other.opcode in _TRANSFERS) != (i.opcode in _TRANSFERS):
            fail(i, f"channel {i.attributes['channel_id']} is used by {other.name} ({other.opcode}), too, which is of another kind")


def verify_aliases(module: HloModule) -> None:
    """Results that may share a parameter's buffer name a part of either, no part twice; those that must are of the same shape."""
    text = module.header.get("input_output_alias")
    if not text:
        return
    entry = module.entry_computation
    outputs, taken = set(), set()
    for output, number, inner, kind in _ALIAS.findall(text):
        where, which = _index(output), (int(number), _index(inner))
        if which[0] >= len(entry.parameters):
            raise HloVerifierError(f"input_output_alias names parameter {number}, but {entry.name} has {len(entry.parameters)}: {text}")
        try:
            result = subshape(entry.root.shape, where)
            parameter = subshape(entry.parameters[which[0]].shape, which[1])
        except ShapeError as error:
            raise HloVerifierError(f"input_output_alias: {error}: {text}") from None
        if where in outputs or which in taken:
            raise HloVerifierError(f"input_output_alias names a part twice: {text}")
        if kind != "may-alias" and kind and not compatible(result, parameter):
            raise HloVerifierError(f"input_output_alias: result {where} is {result}, but parameter {number} there {parameter}: {text}")
        outputs.add(where)
        taken.add(which)


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.replace(" ", "").split(",") if n)
