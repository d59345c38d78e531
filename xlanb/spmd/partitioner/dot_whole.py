"""Partition a dot whose devices need no grouping: all of them split one kind of dimension."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.errors import UnimplementedError
from xlanb.spmd.partitioner.all_to_all import get_reshard_all_to_all_source_target_dims
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.dot_case import DotCase, numbers, sum_along_sharding_dims
from xlanb.spmd.partitioner.dot_dimensions import DotOperand
from xlanb.spmd.partitioner.permute import can_reshard_with_collective_permute

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding


def partition_before_grouping(c: DotCase) -> HloInstruction | None:
    """Try the cases in which matching shardings stay, and at most one operand moves.

    Returns None if none applies.
    """
    if c.output_sharding.replicate_on_last_tile_dim:
        return None
    n, counts = c.num_partitions, c.counts
    if counts.lhs_batch == counts.rhs_batch == n and c.transposed(DotOperand.LHS, DotOperand.RHS) == c.rhs.sharding:
        have = c.transposed(DotOperand.LHS, DotOperand.OUTPUT)
        return c.finished(c.sharded(c.lhs, c.rhs), have, "both operands are split along batch dimensions only")
    dot = _with_one_operand_moved_to_batch(c, may_gather=False)
    if dot is not None:
        return dot
    _check_windowed_einsum(c)
    dot = _with_one_operand_moved_to_batch(c, may_gather=True)
    if dot is not None:
        return dot
    whole = c.output_sharding.replicate()
    if (
        counts.lhs_non_contracting == counts.output_lhs_non_contracting == n
        and c.transposed(DotOperand.LHS, DotOperand.OUTPUT) == c.output_sharding
    ):
        reason = "output and lhs are split along the same non-contracting dimensions: every device needs the whole rhs"
        return c.sharded(c.lhs, c.reshard(DotOperand.RHS, whole, reason))
    if (
        counts.rhs_non_contracting == counts.output_rhs_non_contracting == n
        and c.transposed(DotOperand.RHS, DotOperand.OUTPUT) == c.output_sharding
    ):
        reason = "output and rhs are split along the same non-contracting dimensions: every device needs the whole lhs"
        return c.sharded(c.reshard(DotOperand.LHS, whole, reason), c.rhs)
    return None


def _with_one_operand_moved_to_batch(c: DotCase, *, may_gather: bool) -> HloInstruction | None:
    """Reshard an operand to the batch split that the other operand and the output share."""
    n, counts = c.num_partitions, c.counts
    for side, other in ((DotOperand.LHS, DotOperand.RHS), (DotOperand.RHS, DotOperand.LHS)):
        batch = counts.lhs_batch if side is DotOperand.LHS else counts.rhs_batch
        if not (batch == counts.output_batch == n and c.transposed(side, DotOperand.OUTPUT) == c.output_sharding):
            continue
        target = c.transposed(side, other)
        if not may_gather and not _moves_without_gathering(c.sharding(other), target):
            return None
        reason = f"the output and the {side.value} are split along batch dimensions: the {other.value} must be, too"
        moved = c.reshard(other, target, reason)
        return c.sharded(c.lhs, moved) if side is DotOperand.LHS else c.sharded(moved, c.rhs)
    return None


def _moves_without_gathering(source: HloSharding, target: HloSharding | None) -> bool:
    if target is None:
        return False
    if can_reshard_with_collective_permute(source, target):
        return True
    return bool(get_reshard_all_to_all_source_target_dims(source, target))


def _check_windowed_einsum(c: DotCase) -> None:
    """Raise if XLA would write a windowed einsum, a loop of partial dots.

    It does so for arrays so large that gathering must overlap with computing.

    Raises:
        UnimplementedError: this dot has such a size.
    """
    n, counts = c.num_partitions, c.counts
    threshold = c.options.threshold_for_windowed_einsum_mib * 1024 * 1024
    if n > c.options.max_windowed_einsum_iteration:
        return
    lhs_stays = (
        counts.output_lhs_non_contracting == n
        and c.transposed(DotOperand.OUTPUT, DotOperand.LHS) == c.lhs.sharding
        and n in (counts.rhs_contracting, counts.rhs_non_contracting, counts.rhs_batch)
        and c.rhs.base_shape.byte_size >= threshold
    )
    rhs_stays = (
        counts.output_rhs_non_contracting == n
        and c.transposed(DotOperand.OUTPUT, DotOperand.RHS) == c.rhs.sharding
        and n in (counts.lhs_contracting, counts.lhs_non_contracting, counts.lhs_batch)
        and c.lhs.base_shape.byte_size >= threshold
    )
    scatters = (
        counts.lhs_contracting == counts.rhs_contracting == n
        and n in (counts.output_lhs_non_contracting, counts.output_rhs_non_contracting)
        and c.output_shape.byte_size >= threshold
    )
    if lhs_stays or rhs_stays or scatters:
        raise UnimplementedError(
            f"{c.hlo.name}: windowed einsum (for arrays of {threshold // 2**20} MiB or more) is not implemented"
        )


def partition_after_grouping(c: DotCase) -> HloInstruction | None:
    """Try the cases in which operands are resharded to match the output; None if none applies."""
    if c.output_sharding.replicate_on_last_tile_dim:
        return None
    n, counts = c.num_partitions, c.counts
    whole = c.output_sharding.replicate()
    to_lhs, to_rhs = c.transposed(DotOperand.OUTPUT, DotOperand.LHS), c.transposed(DotOperand.OUTPUT, DotOperand.RHS)
    for split, lhs_target, rhs_target, kind in (
        (counts.output_batch, to_lhs, to_rhs, "batch"),
        (counts.output_lhs_non_contracting, to_lhs, whole, "the lhs's non-contracting"),
        (counts.output_rhs_non_contracting, whole, to_rhs, "the rhs's non-contracting"),
    ):
        if split == n:
            reason = f"the output is split along {kind} dimensions"
            return c.sharded(
                c.reshard(DotOperand.LHS, lhs_target, reason), c.reshard(DotOperand.RHS, rhs_target, reason)
            )
    if not c.output_sharding.is_replicated:
        return None
    return _reduced_to_everyone(c)


def _reduced_to_everyone(c: DotCase) -> HloInstruction | None:
    """Split both operands along contracting dimensions, then sum.

    Applies if one is split so already, and is larger than the output.
    """
    n, counts, output = c.num_partitions, c.counts, math.prod(c.output_shape.dimensions)
    lhs, rhs = c.lhs, c.rhs
    reason = "reducing partial sums of {} elements is cheaper than gathering {} elements"
    if counts.rhs_contracting == n and lhs.sharding.is_replicated and rhs.array_shape.element_count > output:
        split, moved = DotOperand.RHS, DotOperand.LHS
    elif counts.lhs_contracting == n and rhs.sharding.is_replicated and lhs.array_shape.element_count > output:
        split, moved = DotOperand.LHS, DotOperand.RHS
    else:
        return None
    gathered = (lhs if split is DotOperand.LHS else rhs).array_shape
    text = reason.format(output, gathered.element_count)
    costs = (("reduce the output", c.output_shape.byte_size), (f"gather the {split.value}", gathered.byte_size))
    c = replace(c, estimates=costs)
    resharded = c.reshard(moved, c.transposed(split, moved), text)
    lhs, rhs = (lhs, resharded) if moved is DotOperand.RHS else (resharded, rhs)
    lhs, rhs = lhs.pad_with_zero(), rhs.pad_with_zero()
    dot = c.sharded(lhs, rhs)
    with c.because(DotOperand.OUTPUT, lhs.sharding, c.output_sharding, text, CauseKind.PARTIAL_REDUCTION):
        return sum_along_sharding_dims(lhs.state, dot, lhs.sharding, numbers(c.dims.contracting, DotOperand.LHS))
