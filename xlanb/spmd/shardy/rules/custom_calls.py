"""Sharding rules of custom calls, by target."""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp
from xlanb.spmd.shardy.rule import NO_DIM, FactorType, OpShardingRule
from xlanb.spmd.shardy.rules.pointwise import pointwise
from xlanb.spmd.shardy.rules.reductions import topk
from xlanb.spmd.shardy.rules.registry import builder, rule_of

_NEED = FactorType.NEED_REPLICATION

_POINTWISE = (
    "annotate_device_placement",
    "Cholesky",
    "CompactWyHelper",
    "InspectSharding",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LayoutConstraint",
    "mhlo.erf",
    "MoveToDevice",
    "MoveToHost",
    "X64SplitHigh",
    "X64SplitLow",
    "xla.megascale.provide_metadata",
    "_SPMDInternalOp_MultiPad",
    "_SPMDInternalOp_RotateRight",
    "_SPMDInternalOp_MultiRotate",
    "_SPMDInternalOp_MultiSlice",
    "_SPMDInternalOp_Wrap",
)


def _eigh(op: ShardyOp) -> OpShardingRule:
    """Return the rule for eigenvectors of matrices, and eigenvalues along the last dimension."""
    shape = op.operands[0].dimensions
    row, column = len(shape) - 2, len(shape) - 1
    return (
        builder(op)
        .add_pointwise(shape[:-2])
        .add_factor([row], [row, NO_DIM], shape[row])
        .add_factor([column], [column, row], shape[column])
        .build()
    )


def _qr(op: ShardyOp) -> OpShardingRule:
    shape, taus = op.operands[0].dimensions, op.results[1].dimensions
    row, column = len(shape) - 2, len(shape) - 1
    return (
        builder(op)
        .add_pointwise(shape[:-2])
        .add_factor([row], [row, NO_DIM], shape[row], _NEED)
        .add_factor([column], [column, NO_DIM], shape[column], _NEED)
        .add_factor([NO_DIM], [NO_DIM, row], taus[row], _NEED)
        .build()
    )


def _householder_product(op: ShardyOp) -> OpShardingRule:
    shape, taus = op.operands[0].dimensions, op.operands[1].dimensions
    row, column = len(shape) - 2, len(shape) - 1
    return (
        builder(op)
        .add_pointwise(shape[:-2])
        .add_factor([row, NO_DIM], [row], shape[row], _NEED)
        .add_factor([column, NO_DIM], [column], shape[column], _NEED)
        .add_factor([NO_DIM, row], [NO_DIM], taus[row], _NEED)
        .build()
    )


def _approximate_topk(op: ShardyOp) -> OpShardingRule:
    """Return the rule for values and indices with initial scalars.

    Only the operands share the dimension that shrinks.
    """
    made = builder(op)
    sizes = zip(op.operands[0].dimensions, op.results[0].dimensions, strict=True)
    for dim, (size, cut) in enumerate(sizes):
        if size == cut:
            made.add_common_factor(dim, size)
        else:
            made.add_factor([dim, dim, NO_DIM, NO_DIM], [NO_DIM, NO_DIM], size)
            made.add_factor([NO_DIM] * 4, [dim, dim], cut, _NEED, blocked=True)
    return made.build()


def _x64_combine(op: ShardyOp) -> OpShardingRule | None:
    """Combine two halves; block a random number generator's state."""
    result = op.results[0]
    if any(user.opcode is HloOpcode.RNG_BIT_GENERATOR for user, _ in result.uses):
        return builder(op).add_common_factor(0, result.dimensions[0], _NEED, blocked=True).build()
    return pointwise(op)


_TARGETS: dict[str, Callable[[ShardyOp], OpShardingRule | None]] = {
    **dict.fromkeys(_POINTWISE, pointwise),
    "Eigh": _eigh,
    "Qr": _qr,
    "QrDecompositionBlock": _qr,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "mhlo.topk": topk,
    "ApproxTopK": _approximate_topk,
    "PartialReduce": _approximate_topk,
    "X64Combine": _x64_combine,
}


@rule_of(HloOpcode.CUSTOM_CALL)
def custom_call(op: ShardyOp) -> OpShardingRule | None:
    """Return the rule of its target, or None for an unknown one."""
    make = _TARGETS.get(op.hlo.get("custom_call_target"))
    return make(op) if make else None
