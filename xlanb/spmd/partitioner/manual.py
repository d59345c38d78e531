"""Instructions in manual regions (all devices), or with manual subgroups (some of the devices).

While a manual instruction is visited, it and its operands count as on device 0, so that no handler
changes them. With manual subgroups, they have the sharding of one group, and handlers make
instructions for the devices of a group (SpmdPartitioningVisitor::Preprocess, Postprocess).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.errors import UnimplementedError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import Shape, TupleShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.grouping import align_groups_with_if_compatible
from xlanb.spmd.partitioner.utilities import set_sharding, sharding_of
from xlanb.spmd.sharding_util import GroupedSharding, get_manual_subgroup_sharding

if TYPE_CHECKING:
    from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor

_O = HloOpcode
_AS_THEY_ARE = frozenset(
    (_O.ALL_REDUCE, _O.CALL, _O.CONDITIONAL, _O.INFEED, _O.OUTFEED, _O.PARAMETER, _O.RNG, _O.TUPLE, _O.WHILE)
)
"""Opcodes whose handlers handle manual shardings themselves."""
_FULL_TO_SHARD, _SHARD_TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"


@contextmanager
def visiting(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> Iterator[None]:
    """Set the shardings that handlers see while `hlo` is visited."""
    sharding = sharding_of(hlo)
    target = hlo.attributes.get("custom_call_target") if hlo.opcode is _O.CUSTOM_CALL else None
    if hlo.opcode in _AS_THEY_ARE or target == _FULL_TO_SHARD:
        yield
    elif sharding.is_manual:
        with _on_one_device(v, hlo, sharding):
            yield
    elif sharding.is_manual_subgroup and target != _SHARD_TO_FULL and hlo.opcode is not _O.GET_TUPLE_ELEMENT:
        with _within_groups(v, hlo, sharding):
            yield
    else:
        yield


def _unique_operands(hlo: HloInstruction) -> list[HloInstruction]:
    return list(dict.fromkeys(hlo.operands))


def _one_device(opcode: HloOpcode, sharding: HloSharding) -> HloSharding:
    if opcode is _O.CUSTOM_CALL:
        return sharding
    if sharding.is_tuple:
        return HloSharding.tuple_of(_one_device(opcode, e) for e in sharding.tuple_elements)
    return HloSharding.assign_device(0) if sharding.is_manual and opcode is not _O.PARTITION_ID else sharding


@contextmanager
def _on_one_device(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> Iterator[None]:
    operands = _unique_operands(hlo)
    had = [sharding_of(o) for o in operands]
    set_sharding(hlo, _one_device(hlo.opcode, sharding))
    for o, s in zip(operands, had, strict=True):
        set_sharding(o, _one_device(hlo.opcode, s))
        set_sharding(v.partitioned(o).hlo, sharding_of(o))
    yield
    set_sharding(hlo, sharding)
    set_sharding(v.partitioned(hlo).hlo, sharding)
    for o, s in zip(operands, had, strict=True):
        set_sharding(o, s)
        set_sharding(v.partitioned(o).hlo, s)


@contextmanager
def _within_groups(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> Iterator[None]:
    grouped = _grouped(hlo, sharding, hlo.shape, None)
    operands = _unique_operands(hlo)
    had = [sharding_of(o) for o in operands]
    states = [v.partitioned(o).state for o in operands]
    whole = v.state
    set_sharding(hlo, grouped.sharding)
    v.state = whole.per_group(grouped.device_groups)
    for o, s, state in zip(operands, had, states, strict=True):
        if o.opcode is _O.CONSTANT and o.shape.is_array and o.shape.as_array().is_scalar and not s.is_manual_subgroup:
            continue
        inner = _grouped(hlo, s, o.shape, grouped)
        set_sharding(o, inner.sharding)
        p = v.partitioned(o)
        set_sharding(p.hlo, inner.sharding)
        v.replace_partitioned(o, p.with_state(state.per_group(inner.device_groups)))
    yield
    v.state = whole
    set_sharding(hlo, sharding)
    made = v.partitioned(hlo)
    set_sharding(made.hlo, sharding)
    v.replace_partitioned(hlo, made.with_state(whole))
    for o, s, state in zip(operands, had, states, strict=True):
        set_sharding(o, s)
        p = v.partitioned(o)
        set_sharding(p.hlo, s)
        v.replace_partitioned(o, p.with_state(state))


def _grouped(
    hlo: HloInstruction, sharding: HloSharding, shape: Shape, reference: GroupedSharding | None
) -> GroupedSharding:
    """Return the groups of a manual subgroup, for all leaves of a tuple, aligned to a reference."""
    leaves = []
    for leaf in sharding.leaves:
        if not leaf.is_manual_subgroup:
            raise UnimplementedError(f"{hlo.name}: {leaf} has no manual subgroups, other results of the instruction do")
        grouped: GroupedSharding | None = get_manual_subgroup_sharding(leaf)
        if reference is not None and grouped is not None:
            grouped = align_groups_with_if_compatible(grouped, reference)
        if grouped is None:
            raise UnimplementedError(f"{hlo.name} has values with different manual subgroups: {sharding}")
        reference = grouped
        leaves.append(grouped.sharding)
    if reference is None:
        raise UnimplementedError(f"{hlo.name} has empty manual subgroups")
    if isinstance(shape, TupleShape) and sharding.is_tuple:
        return replace(reference, sharding=HloSharding.tuple_of(leaves))
    return reference
