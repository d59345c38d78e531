"""Verify collectives beyond their shapes: groups, group sizes, sources and targets.

The module's header gives the number of replicas and partitions; 1 is the default and means unknown,
as in XLA. Source: ShapeVerifier in hlo_verifier.cc, GetCollectiveOpGroupMode in
collective_op_group_mode.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.verifier.fault import fail
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Layout, Shape, TupleShape

_O = HloOpcode
_REDUCTIONS = frozenset((_O.ALL_REDUCE, _O.ALL_REDUCE_START))
_EXCHANGES = frozenset((_O.ALL_TO_ALL, _O.RAGGED_ALL_TO_ALL))
_WITHOUT_GLOBAL_IDS = _EXCHANGES | {_O.COLLECTIVE_PERMUTE, _O.COLLECTIVE_PERMUTE_START, _O.COLLECTIVE_BROADCAST}
_GROUP = pattern(r"\{([\d,\s]*)\}")
_IOTA = pattern(r"\[(\d+),(\d+)\]<=")
_AXIS = pattern(r"'((?:[^'\\]|\\.)*)'(?:=(\d+)|:\(\d+\)(\d+))?")
_MODES = {
    "kCrossReplica": "cross_replica", "kCrossPartition": "cross_partition", "kFlattenedID": "flattened_id",
    "kCrossReplicaAndPartition": "cross_replica_and_partition",
}  # fmt: skip

GROUPED = (
    _O.ALL_GATHER, _O.ALL_GATHER_START, _O.ALL_REDUCE, _O.ALL_REDUCE_START, _O.ALL_TO_ALL,
    _O.RAGGED_ALL_TO_ALL, _O.REDUCE_SCATTER
)  # fmt: skip
"""Collectives whose replica groups XLA checks."""


def verify_groups(i: HloInstruction) -> None:
    """Check that groups are not empty and name each participant once, and match the shapes.

    Participants are numbered from 0.
    """
    sizes = _group_sizes(i)
    if sizes is None:
        return  # groups by the axes of a mesh
    mode = group_mode(i)
    participants = _participants(i, mode)
    if sizes:
        total = sum(size * count for size, count in sizes.items())
        if participants not in (1, total):
            fail(i, f"expected replica_groups of {participants} participants ({mode}), not of {total}")
        if i.opcode not in _REDUCTIONS and len(sizes) > 1:
            fail(i, f"expected replica_groups of equal size, not {i.attributes['replica_groups']}")
    elif mode == "flattened_id":
        fail(i, "expected replica_groups where use_global_device_ids=true")
    _verify_size(i, _group_size(i, mode, sizes))


def _group_sizes(i: HloInstruction) -> dict[int, int] | None:
    """The number of groups of each size.

    Empty for one group of all; None if the text does not have sizes. The groups themselves may not
    fit into memory.
    """
    text: str = i.attributes.get("replica_groups") or "{}"
    if text == "{}":
        return {}
    iota = _IOTA.match(text)
    if iota:
        return {int(iota[2]): int(iota[1])} if int(iota[1]) else {}
    if not text.startswith("{"):
        return None
    groups = [[int(n) for n in group.split(",") if n.strip()] for group in _GROUP.findall(text[1:-1])]
    count = sum(map(len, groups))
    seen: set[int] = set()
    for group in groups:
        if not group:
            fail(i, f"replica_groups has an empty group: {text}")
        for n in group:
            if n in seen:
                fail(i, f"replica_groups names replica {n} twice: {text}")
            seen.add(n)
    missing = set(range(count)) - seen
    if missing:
        fail(i, f"replica_groups does not name replica {min(missing)}: {text}")
    return Counter(map(len, groups))


def group_mode(i: HloInstruction) -> str:
    """The meaning of the numbers in a collective's groups or pairs.

    `cross_replica`, `cross_partition`, `cross_replica_and_partition` or `flattened_id`.
    """
    said = str(i.attributes.get("mode") or "")
    if said:
        return _MODES.get(said, said)
    channel = i.attributes.get("channel_id") is not None
    if i.opcode in _WITHOUT_GLOBAL_IDS:
        return "cross_partition" if channel else "cross_replica"
    if i.attributes.get("use_global_device_ids"):
        if not channel:
            fail(i, "expected a channel_id where use_global_device_ids=true")
        return "flattened_id"
    return "cross_replica_and_partition" if channel else "cross_replica"


def _count(i: HloInstruction, name: str) -> int:
    return int(i.parent.module.header.get(name) or 1)


def _participants(i: HloInstruction, mode: str) -> int:
    replicas, partitions = _count(i, "replica_count"), _count(i, "num_partitions")
    if mode == "flattened_id":
        return replicas * partitions
    return partitions if mode == "cross_partition" else replicas


def _group_size(i: HloInstruction, mode: str, sizes: Iterable[int]) -> int:
    first = next(iter(sizes), None)
    first = _participants(i, mode) if first is None else first
    return first * _count(i, "num_partitions") if mode == "cross_replica_and_partition" else first


def group_size(i: HloInstruction) -> int:
    """The number of participants in the largest group of a collective."""
    sizes = _group_sizes(i)
    if sizes is None:
        sizes = {_size_along_axes(i.attributes["replica_groups"]): 1}
    return _group_size(i, group_mode(i), [max(sizes)] if sizes else [])


def _size_along_axes(text: str) -> int:
    """The size of a group along mesh axes: 2 * 2 for `mesh['x'=2,'y'=4] {'x','y':(1)2}`."""
    sizes: dict[str, int] = {}
    size = 1
    for name, of_mesh, of_part in _AXIS.findall(text):
        if of_mesh:
            sizes[name] = int(of_mesh)
        else:
            size *= int(of_part) if of_part else sizes[name]
    return size


def device_count(i: HloInstruction) -> int:
    """The number of devices of an instruction's module, by its header."""
    return _count(i, "replica_count") * _count(i, "num_partitions")


def _verify_size(i: HloInstruction, size: int) -> None:
    """Check that a gather multiplies, and a scatter divides, the dimension by the group size."""
    if i.opcode is _O.ALL_TO_ALL:
        _verify_exchange(i, size)
        return
    if i.opcode not in (_O.ALL_GATHER, _O.ALL_GATHER_START, _O.REDUCE_SCATTER) or size == 1:
        return
    result = i.shape
    if isinstance(result, TupleShape) and i.opcode is _O.ALL_GATHER_START:
        result = result.shapes[1]
    if isinstance(result, TupleShape):
        result = result.shapes[0]
    operand, dims = i.operands[0].shape, i.ints("dimensions")
    if not isinstance(operand, ArrayShape) or not isinstance(result, ArrayShape) or len(dims) != 1:
        return
    small, large = operand.dimensions[dims[0]], result.dimensions[dims[0]]
    if i.opcode is _O.REDUCE_SCATTER:
        small, large = large, small
    if small > 0 and -(-large // small) != size:
        fail(
            i,
            f"expected {size} parts in dimension {dims[0]}, one for each participant of a group, "
            f"not {-(-large // small)}",
        )


def _verify_exchange(i: HloInstruction, size: int) -> None:
    dims = i.ints("dimensions")
    operands: Sequence[Shape] = [o.shape for o in i.operands]
    if dims:
        first = operands[0]
        if isinstance(first, ArrayShape) and first.dimensions[dims[0]] % size:
            fail(i, f"expected dimension {dims[0]} to be split into {size} parts, one for each participant of a group")
        return
    if len(operands) != size:
        fail(i, f"expected {size} operands, one for each participant of a group, not {len(operands)}")
    for shape in operands[1:]:
        if shape != operands[0]:
            fail(i, f"expected operands of one shape, not {operands[0]} and {shape}")


def verify_ragged(i: HloInstruction) -> None:
    """Check that offsets and sizes are vectors or matrices of one shape."""
    verify_groups(i)
    first = i.operands[2].shape
    for o in i.operands[2:]:
        if not isinstance(o.shape, ArrayShape) or o.shape.rank not in (1, 2):
            fail(i, f"expected offsets and sizes of rank 1 or 2, not {o.shape}")
        if o.shape.without_layout() != first.without_layout() or _order(o.shape) != _order(first):
            fail(i, f"expected offsets and sizes of one shape, not {first} and {o.shape}")


def _order(shape: Shape) -> Sequence[int]:
    layout: Layout | None = getattr(shape, "layout", None)
    return layout.minor_to_major if layout else ()


def verify_pairs(i: HloInstruction) -> None:
    """Check that no source and no target occurs twice.

    If slices are written to another buffer, they may occur as often as there are slices.
    """
    often = 1
    if len(i.operands) == 4:
        slices = i.operands[2].shape
        if isinstance(slices, TupleShape) and isinstance(i.operands[0].shape, TupleShape):
            slices = slices.shapes[0]
        often = len(slices.shapes) if isinstance(slices, TupleShape) else 1
    limit = _participants(i, group_mode(i))
    for side, name in enumerate(("source", "target")):
        seen: dict[int, int] = {}
        for pair in i.attributes["source_target_pairs"]:
            n = pair[side]
            if n < 0 or (limit > 1 and n >= limit):
                fail(i, f"source_target_pairs has {name} {n}, which is not one of the {limit} participants")
            seen[n] = seen.get(n, 0) + 1
            if seen[n] > often:
                fail(i, f"source_target_pairs has {name} {n} {'twice' if often == 1 else f'more than {often} times'}")
