"""Partition reductions: each device reduces its tile, then partial results are combined."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import TupleShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import resized, set_sharding, unique_device
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    group_sharding_on_dims,
    partially_replicate_tiled_sharding_on_dims,
    remove_shape_dimensions,
)

_O = HloOpcode


@handles("reduce")
def handle_reduce(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Reduce with padding set to the initial value, then combine partial results.

    One array is combined by all-reduces; several are gathered and reduced again.
    """
    if v.sharding(hlo).has_unique_device:
        _on_one_device(v, hlo)
        return
    count = len(hlo.operands) // 2
    dims = hlo.attributes["dimensions"]
    inputs, inits = _inputs(v, hlo, count, dims)
    hlos = [p.hlo for p in inputs]
    computation = hlo.attributes["to_apply"]
    local = v.b.add(_O.REDUCE, (*hlos, *inits), dimensions=dims, to_apply=computation)
    source = inputs[0].sharding
    reduced = local
    if not source.is_tile_maximal and any(source.dimension(d) > 1 for d in dims):
        reason = "each device has reduced only its own tile along the dimensions " + ", ".join(map(str, dims))
        with v.state.because(hlo, None, source, v.sharding(hlo), reason, kind=CauseKind.PARTIAL_REDUCTION):
            if isinstance(local.shape, TupleShape):
                reduced = _gather_and_reduce(v, hlo, local, inputs, inits)
            else:
                reduced = v.state.all_reduce_along_sharding_dims(local, source, dims, computation)
    given = remove_shape_dimensions(partially_replicate_tiled_sharding_on_dims(source, dims), dims)
    if isinstance(reduced.shape, TupleShape):
        given = HloSharding.tuple_of([given] * count)
    v.set_partitioned(hlo, v.arrived(hlo, reduced, given, hlo.shape).hlo)


def _on_one_device(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    sharding = v.sharding(hlo)
    there = HloSharding.assign_device(unique_device(sharding))
    operands = [v.resharded(hlo, n, there).hlo for n in range(len(hlo.operands))]
    clone = v.b.clone(hlo, operands)
    v.set_partitioned(hlo, v.arrived(hlo, clone, sharding, hlo.shape))


def _inputs(
    v: SpmdPartitioningVisitor, hlo: HloInstruction, count: int, dims: Sequence[int]
) -> tuple[list[PartitionedHlo], list[HloInstruction]]:
    """Return the inputs in the first one's sharding, with init values as padding, and the inits."""
    inputs: list[PartitionedHlo] = []
    inits: list[HloInstruction] = []
    kept = [d for d in range(hlo.operands[0].shape.as_array().rank) if d not in dims]
    for n in range(count):
        inits.append(v.replicated(hlo, n + count).hlo)
        p = v.partitioned(hlo.operands[n])
        if n:
            p = v.resharded(hlo, n, inputs[0].sharding, "all arrays of a reduction have the sharding of the first")
        first = inputs[0] if inputs else p
        if not first.sharding.is_tile_maximal:
            p = p.pad_with_value(inits[n], (), kept)
        inputs.append(p)
    return inputs, inits


def _gather_and_reduce(
    v: SpmdPartitioningVisitor,
    hlo: HloInstruction,
    local: HloInstruction,
    inputs: Sequence[PartitionedHlo],
    inits: Sequence[HloInstruction],
) -> HloInstruction:
    """Gather several arrays' partial results along the reduced dimensions, and reduce again."""
    b, dims, source = v.b, hlo.attributes["dimensions"], inputs[0].sharding
    kept = [d for d in range(inputs[0].base_shape.as_array().rank) if d not in dims]
    if source.replicate_on_last_tile_dim:
        kept.append(inputs[0].base_shape.as_array().rank)
    grouped = group_sharding_on_dims(source, kept)
    state = inputs[0].state.per_group(grouped.device_groups)
    gathered = []
    for n, p in enumerate(inputs):
        shape = p.hlo.shape.as_array()
        ones = [1 if d in dims else size for d, size in enumerate(shape.dimensions)]
        all_ = [source.dimension(d) if d in dims else size for d, size in enumerate(shape.dimensions)]
        part = b.add(_O.RESHAPE, (b.get_tuple_element(local, n),), resized(shape, ones))
        set_sharding(part, grouped.sharding)
        gathered.append(PartitionedHlo(part, resized(shape, all_), state).replicate().hlo)
    return b.add(_O.REDUCE, (*gathered, *inits), local.shape, dimensions=dims, to_apply=hlo.attributes["to_apply"])
