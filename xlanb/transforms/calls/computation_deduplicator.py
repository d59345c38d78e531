"""Merge equal computations (xla/service/hlo_computation_deduplicator.h).

    reduce(x, 0), to_apply=add.1;  reduce(y, 0), to_apply=add.2, where add.2 equals add.1
      =>  both to_apply=add.1

The first in post order stays. Fusions keep their computations: with `mark_fusions` equal fusions
get the first one's name as `deduplicated_name` in their metadata, so that a profile can group them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.simplifiers.hlo_cse import computation_keys

_MANY_INSTRUCTIONS = 128
_LARGE_CONSTANTS = 1024


@dataclass(frozen=True)
class HloComputationDeduplicator(HloPass):
    """Merges equal computations; with `mark_fusions` only marks equal fusions."""

    name = "computation-deduplicator"
    mark_fusions: bool = False

    def apply(self, module: HloModule) -> None:
        first: dict[Hashable, HloComputation] = {}
        key_of = computation_keys()
        callers: dict[HloComputation, list[HloInstruction]] = {}
        for i in module.instructions():
            for c in i.called_computations:
                callers.setdefault(c, []).append(i)
        for c in module.post_order():
            if c.is_entry or c not in callers or _is_too_large(c):
                continue
            fusions = [i for i in callers[c] if i.opcode is O.FUSION]
            if bool(fusions) is not self.mark_fusions or any(i.control_predecessors for i in c):
                continue
            kept = first.setdefault((key_of(c), _annotations(c)), c)
            if kept is c:
                continue
            if self.mark_fusions:
                representative = next(i for i in callers[kept] if i.opcode is O.FUSION)
                for i in (representative, *fusions):
                    _mark(i, representative.name)
            else:
                _share(kept, c, callers[c])
                callers[kept] += callers[c]


def _annotations(c: HloComputation) -> Hashable:
    """Attributes of instructions that do not affect their results."""
    return tuple((i.backend_config, i.frontend_attributes, i.sharding) for i in c.post_order())


def _is_too_large(c: HloComputation) -> bool:
    """Whether comparing it would cost too much: many instructions, or large constants."""
    constants = sum(i.shape.byte_size for i in c if i.opcode is O.CONSTANT)
    return len(c) > _MANY_INSTRUCTIONS or constants > _LARGE_CONSTANTS


@reason("equal computations")
def _share(kept: HloComputation, copy: HloComputation, callers: list[HloInstruction]) -> None:
    """Make the callers of `copy` call `kept`, and remove `copy`."""
    for i in callers:
        called = {
            name: kept if value is copy else tuple(kept if v is copy else v for v in value)
            for name, value in i.attributes.items()
            if value is copy or (isinstance(value, tuple) and copy in value)
        }
        if called:
            i.parent.update(i, attributes=called)
    copy.module.remove_computation(copy)


@reason("fusions that compute the same")
def _mark(fusion: HloInstruction, name: str) -> None:
    """Record in a fusion's metadata which fusion it equals."""
    others = [field for field in fusion.metadata.rest if field[0] != "deduplicated_name"]
    at = sum(field == "profile_type" for field, _ in others)
    rest = (*others[:at], ("deduplicated_name", f'"{name}"'), *others[at:])
    if rest != fusion.metadata.rest:
        fusion.parent.update(fusion, metadata=replace(fusion.metadata, rest=rest))
