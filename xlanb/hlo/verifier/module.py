"""Check the module as a whole: entry layout, schedule, channels, fusions.

Source: HloVerifier::Run in hlo_verifier.cc.
"""

from __future__ import annotations

from xlanb.errors import HloVerifierError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import compatible
from xlanb.hlo.verifier.fault import fail

_O = HloOpcode
_TRANSFERS = frozenset((_O.SEND, _O.RECV))


_MAX_DEVICES = 2**31 - 1
"""Device numbers are 32-bit integers in replica groups and device assignments."""


def verify_device_counts(module: HloModule) -> None:
    """Check that the header's number of devices is at least one and within the limit."""
    product = 1
    for name in ("replica_count", "num_partitions"):
        text = module.header.get(name, "1")
        product *= int(text)
        if not 1 <= int(text) <= _MAX_DEVICES or product > _MAX_DEVICES:
            raise HloVerifierError(f"{module.name}: {name}={text}: expected 1 to {_MAX_DEVICES:,} devices in total")


def verify_entry_layout(module: HloModule) -> None:
    """Check that the entry computation layout has the shapes of the parameters and the root."""
    if module.entry_layout is None:
        return
    entry = module.entry_computation
    parameters, result = module.entry_layout
    if not compatible(entry.root.shape, result):
        fail(entry.root, f"expected the result shape of entry_computation_layout, {result}, not {entry.root.shape}")
    if len(parameters) != len(entry.parameters):
        raise HloVerifierError(
            f"entry_computation_layout has {len(parameters)} parameters, {entry.name} {len(entry.parameters)}"
        )
    for p, shape in zip(entry.parameters, parameters, strict=True):
        if not compatible(p.shape, shape):
            fail(p, f"expected the shape that entry_computation_layout gives, {shape}, not {p.shape}")


def verify_schedule(module: HloModule) -> None:
    """Check that a schedule has each instruction once, after its operands."""
    for computation, order in module.schedule.items():
        if computation.module is not module:
            raise HloVerifierError(
                f"the schedule contains computation {computation.name}, which is not in module {module.name}"
            )
        done: set[HloInstruction] = set()
        for i in order:
            if i in done or i not in computation:
                fail(
                    i,
                    f"the schedule of {computation.name} names it "
                    f"{'twice' if i in done else 'although it is not in the computation'}",
                )
            for o in (*i.operands, *i.control_predecessors):
                if o not in done:
                    fail(i, f"the schedule of {computation.name} puts it before {o.name}, on which it depends")
            done.add(i)
        if len(done) != len(computation):
            missing = next(i for i in computation if i not in done)
            fail(missing, f"the schedule of {computation.name} leaves it out")


def verify_fusions(module: HloModule, fusions: list[HloInstruction]) -> None:
    """Check that a fused computation has one fusion, and is not the entry."""
    owners: dict[HloComputation, HloInstruction] = {}
    for f in fusions:
        fused: HloComputation = f.attributes["calls"]
        if fused in owners:
            fail(f, f"the fused computation {fused.name} is also used by {owners[fused].name}")
        owners[fused] = f


def verify_channels(channels: list[HloInstruction]) -> None:
    """Check that host transfers over one channel are equal except for their operands."""
    first: dict[int, HloInstruction] = {}
    for i in channels:
        if i.opcode not in _TRANSFERS or not i.attributes.get("is_host_transfer"):
            continue
        other = first.setdefault(i.attributes["channel_id"], i)
        if (_transfer(other), other.sharding) != (_transfer(i), i.sharding):
            fail(i, f"channel {i.attributes['channel_id']} is also used by {other.name}, which differs from it")


def _transfer(i: HloInstruction) -> tuple[object, ...]:
    return i.opcode, i.shape, i.attributes, [o.shape for o in i.operands], i.frontend_attributes


def verify_constrained_layouts(reductions: list[HloInstruction]) -> None:
    """Check that either every all-reduce constrains layouts or none does."""
    for i in reductions:
        if bool(i.get("constrain_layout")) != bool(reductions[0].get("constrain_layout")):
            fail(i, f"expected constrain_layout of all all-reduces or none, not as {reductions[0].name}")
