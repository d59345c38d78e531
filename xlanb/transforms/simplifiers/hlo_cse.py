"""Common subexpression elimination (xla/service/hlo_cse.h).

    a = add(x, y);  b = add(x, y);  multiply(a, b)    =>    a = add(x, y);  multiply(a, a)

Two instructions are one where opcode, operands, attributes and shape agree; called computations count by what they do, not by name. Equal constants become one too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass, has_layouts
from xlanb.transforms.reason import reason

_UNIQUE = frozenset(
    (HloOpcode.PARAMETER, HloOpcode.RNG, HloOpcode.RNG_GET_AND_UPDATE_STATE, HloOpcode.AFTER_ALL, HloOpcode.OPT_BARRIER)
)


@dataclass(frozen=True)
class HloCse(HloPass):
    """Merges instructions that compute the same.

    `is_layout_sensitive`: shapes must agree in layout too, as after layout-assignment they must; None: where the module has fusions or bitcasts.
    `only_scalars`: merge nothing but scalars. `only_fusion_computations`: within bodies of fusions only.
    """

    name = "cse"
    is_layout_sensitive: bool | None = None
    only_scalars: bool = False
    only_fusion_computations: bool = False

    def apply(self, module: HloModule) -> None:
        sensitive = self.is_layout_sensitive
        keys = _Keys(has_layouts(module) if sensitive is None else sensitive)
        for c in self._computations(module):
            self._merge_constants(c, keys)
            self._merge(c, keys)

    def _computations(self, module: HloModule) -> Iterable[HloComputation]:
        if not self.only_fusion_computations:
            return module.post_order()
        return list(dict.fromkeys(i.fused_computation for i in module.instructions() if i.opcode is HloOpcode.FUSION))

    def _merge_constants(self, computation: HloComputation, keys: _Keys) -> None:
        first: dict[Hashable, HloInstruction] = {}
        for i in computation:
            if i.opcode is HloOpcode.CONSTANT and self._concerns(i):
                _merge_into(first.setdefault(keys.of(i), i), i)

    def _merge(self, computation: HloComputation, keys: _Keys) -> None:
        first: dict[Hashable, HloInstruction] = {}
        same_operands: dict[Hashable, HloInstruction] = {}
        for i in computation.post_order():
            if i not in computation or i.opcode in _UNIQUE or not self._concerns(i):
                continue
            if not i.operands and i.opcode not in (HloOpcode.PARTITION_ID, HloOpcode.REPLICA_ID):
                continue
            if i.has_side_effect or i.control_predecessors or i.control_successors:
                continue
            merged = _merge_into(first.setdefault(keys.of(i), i), i)
            if is_observed() and not merged:
                _explain_near_miss(same_operands, i, keys)

    def _concerns(self, i: HloInstruction) -> bool:
        return not self.only_scalars or (i.shape.is_array and not i.array_shape.dimensions)


@reason("identical")
def _merge_into(kept: HloInstruction, copy: HloInstruction) -> bool:
    if kept is copy:
        return False
    if is_observed():
        emit(Decision(current_cause(), "cse", (kept.name, copy.name), True, (Predicate("identical", True, str(copy)),)))
    copy.parent.replace(copy, kept)
    return True


def _explain_near_miss(seen: dict[Hashable, HloInstruction], i: HloInstruction, keys: _Keys) -> None:
    """Say of two instructions that agree in opcode and operands what keeps them apart."""
    other = seen.setdefault((i.opcode, tuple(o.uid for o in i.operands)), i)
    if other is i:
        return
    conditions = (
        ("same shape", keys.shape(other) == keys.shape(i), f"{other.shape} and {i.shape}"),
        ("same attributes", keys.attributes(other) == keys.attributes(i), ""),
        ("same sharding", other.sharding == i.sharding, f"{other.sharding} and {i.sharding}"),
        ("same backend config", other.backend_config == i.backend_config, ""),
    )
    failed = next((n for n, (_, holds, _) in enumerate(conditions) if not holds), None)
    if failed is not None:
        predicates = tuple(Predicate(*c) for c in conditions[: failed + 1])
        emit(Decision(current_cause(), "cse", (other.name, i.name), False, predicates))


@dataclass
class _Keys:
    """What two instructions must share to be one."""

    is_layout_sensitive: bool
    _computations: dict[HloComputation, Hashable] = field(default_factory=dict)

    def of(self, i: HloInstruction) -> Hashable:
        operands: tuple[Hashable, ...] = tuple(
            [o.uid if o.opcode is not HloOpcode.IOTA else self._iota(o) for o in i.operands]
        )
        if i.opcode.is_commutative and hash(operands[0]) > hash(operands[1]):
            operands = operands[::-1]
        return (i.opcode, operands, self.shape(i), self.attributes(i), i.sharding, i.backend_config)

    def _iota(self, i: HloInstruction) -> Hashable:
        # As in XLA two equal iotas stay two, for each is cheap to fuse; what is made of them counts as made of one.
        return (i.get("iota_dimension"), self.shape(i))

    def shape(self, i: HloInstruction) -> Hashable:
        return i.shape if self.is_layout_sensitive else i.shape.without_layout()

    def attributes(self, i: HloInstruction) -> Hashable:
        if i.opcode is HloOpcode.CONSTANT:
            # Of a literal in another layout only the values count.
            literal = i.literal
            return (
                (literal,)
                if self.is_layout_sensitive or not i.shape.is_array or literal.is_elided
                else literal.array.tobytes()
            )
        given = i.attributes
        if not given:
            return ()
        return tuple([(k, self._value(given[k])) for k in (sorted(given) if len(given) > 1 else given)])

    def _value(self, value: Any) -> Any:
        if isinstance(value, HloComputation):
            return self._computation(value)
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return tuple(self._computation(v) for v in value)
        return value

    def _computation(self, c: HloComputation) -> Hashable:
        """The whole computation as nested tuples, instructions by their place in post order."""
        found = self._computations.get(c)
        if found is None:
            place: dict[HloInstruction, int] = {}
            rows: list[Hashable] = []
            for i in c.post_order():
                rows.append((i.opcode, tuple(place[o] for o in i.operands), self.shape(i), self.attributes(i)))
                if i.opcode in _UNIQUE and i.opcode is not HloOpcode.PARAMETER:
                    rows.append((i.uid,))
                place[i] = len(place)
            found = self._computations[c] = (tuple(rows), place[c.root])
        return found
