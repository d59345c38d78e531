"""Which instructions, and so which modules, need more than one device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from xlanb.errors import UnimplementedError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.verifier.collectives import GROUPED, device_count, group_size

_O = HloOpcode
_IN_GROUPS: Final = frozenset((*GROUPED, _O.COLLECTIVE_BROADCAST, _O.COLLECTIVE_REDUCE))
_PERMUTES: Final = frozenset((_O.COLLECTIVE_PERMUTE, _O.COLLECTIVE_PERMUTE_START))
_COUNTED: Final = {_O.REPLICA_ID: "replica_count", _O.PARTITION_ID: "num_partitions"}


def why_several(i: HloInstruction) -> str:
    """Why an instruction needs several devices; "" if it needs one.

    Raises:
        HloVerifierError: its groups are malformed.
    """
    if i.opcode in _IN_GROUPS:
        size = group_size(i)
        return f"its groups have {size} participants" if size > 1 else ""
    if i.opcode in _PERMUTES:
        pairs: Sequence[Sequence[int]] = i.attributes.get("source_target_pairs") or ()
        others = sorted({n for n in chain.from_iterable(pairs) if n != 0})
        if others:
            return f"it sends between participants 0 and {', '.join(map(str, others))}"
        count = device_count(i)
        return f"the module runs on {count} devices" if count > 1 else ""
    header = _COUNTED.get(i.opcode)
    if header is not None and int(i.parent.module.header.get(header) or 1) > 1:
        return f"the module has {header}={i.parent.module.header[header]}"
    return ""


PAIRS: Final = "_xla_send_recv_source_target_pairs"
"""The frontend attribute of a send or recv that says which devices take part."""


def names_partners(i: HloInstruction) -> bool:
    """Whether a send or recv has source-target pairs."""
    return not i.get("is_host_transfer") and PAIRS in dict(i.frontend_attributes)


_TO_LOCAL: Final = frozenset(("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"))


def is_per_device(module: HloModule) -> bool:
    """Whether a module is the program of each device, not a whole program still to be partitioned.

    Partitioning marks the entry's name. Without that mark, true if an instruction needs several
    devices, unless the whole program contains manually partitioned parts.
    """
    if module.entry_computation.name.endswith("_spmd"):
        return device_count_of(module) > 1
    found = False
    for i in module.instructions():
        if i.opcode is _O.CUSTOM_CALL and i.attributes.get("custom_call_target") in _TO_LOCAL:
            return False
        found = found or bool(why_several(i))
    return found


def device_count_of(module: HloModule) -> int:
    """The number of devices in a module's header."""
    return int(module.header.get("replica_count") or 1) * int(module.header.get("num_partitions") or 1)


def check_one_device(i: HloInstruction) -> None:
    """Raise UnimplementedError if an instruction needs several devices."""
    why = why_several(i)
    if why:
        raise UnimplementedError(f"{i.opcode} needs several devices ({why}), but the program runs on one:\n  {i}")


def check_devices(module: HloModule) -> None:
    """Raise UnimplementedError if an instruction of a module needs several devices."""
    for i in module.instructions():
        check_one_device(i)
