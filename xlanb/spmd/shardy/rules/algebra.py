"""Rules of linear algebra: dot, convolution, Cholesky, triangular solve, FFT, batch norm."""

from __future__ import annotations

from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp
from xlanb.spmd.shardy.rule import NO_DIM, FactorType, OpShardingRule, RuleBuilder
from xlanb.spmd.shardy.rules.registry import builder, rule_of

_O = HloOpcode
_NEED = FactorType.NEED_REPLICATION
_REDUCE = FactorType.REDUCTION


@rule_of(_O.DOT)
def dot(op: ShardyOp) -> OpShardingRule:
    """Add batch dimensions, then each side's free ones, then those that are summed."""
    left, right = op.operands[0].dimensions, op.operands[1].dimensions
    batch = list(zip(op.hlo.ints("lhs_batch_dims"), op.hlo.ints("rhs_batch_dims"), strict=True))
    summed = list(zip(op.hlo.ints("lhs_contracting_dims"), op.hlo.ints("rhs_contracting_dims"), strict=True))
    bound_left = {pair[0] for pair in (*batch, *summed)}
    bound_right = {pair[1] for pair in (*batch, *summed)}
    made = builder(op)
    pairs = [
        *batch,
        *((dim, NO_DIM) for dim in range(len(left)) if dim not in bound_left),
        *((NO_DIM, dim) for dim in range(len(right)) if dim not in bound_right),
    ]
    for out, (lhs, rhs) in enumerate(pairs):
        made.add_factor([lhs, rhs], [out], left[lhs] if lhs != NO_DIM else right[rhs])
    for lhs, rhs in summed:
        made.add_factor([lhs, rhs], [NO_DIM], left[lhs], _REDUCE)
    return made.build()


@rule_of(_O.RAGGED_DOT)
def ragged_dot(op: ShardyOp) -> OpShardingRule:
    """Return the rule of a ragged dot.

    As for dot, but the ragged dimension stays whole, and group sizes share the dimensions before
    it.
    """
    left, right, groups = (v.dimensions for v in op.operands)
    batch = list(zip(op.hlo.ints("lhs_batch_dims"), op.hlo.ints("rhs_batch_dims"), strict=True))
    summed = list(zip(op.hlo.ints("lhs_contracting_dims"), op.hlo.ints("rhs_contracting_dims"), strict=True))
    (ragged,) = op.hlo.ints("lhs_ragged_dims")
    grouped = op.hlo.ints("rhs_group_dims")
    in_batch, in_sum = ragged in [b[0] for b in batch], ragged in [s[0] for s in summed]
    made = builder(op)
    out, group = int(in_sum), 0

    def group_dim(*, shared: bool) -> int:
        nonlocal group
        group += shared
        return group - 1 if shared else NO_DIM

    for lhs, rhs in batch:
        made.add_factor([lhs, rhs, group_dim(shared=not in_batch)], [out], left[lhs])
        out += 1
    before = not in_batch and not in_sum
    for lhs in range(len(left)):
        if lhs not in [p[0] for p in (*batch, *summed)]:
            before = before and lhs != ragged
            kind = _NEED if lhs == ragged else FactorType.PASS_THROUGH
            made.add_factor([lhs, NO_DIM, group_dim(shared=before)], [out], left[lhs], kind)
            out += 1
    for rhs in range(len(right)):
        if rhs not in [*(p[1] for p in (*batch, *summed)), *grouped]:
            made.add_factor([NO_DIM, rhs, NO_DIM], [out], right[rhs])
            out += 1
    before = in_sum
    for lhs, rhs in summed:
        before = before and lhs != ragged
        kind = _NEED if lhs == ragged else _REDUCE
        made.add_factor([lhs, rhs, group_dim(shared=before)], [NO_DIM], left[lhs], kind)
    if in_sum:
        made.add_factor([NO_DIM, NO_DIM, group], [0], groups[group], _NEED)
    elif not in_batch:
        made.add_factor([NO_DIM, grouped[0], group], [NO_DIM], right[grouped[0]], _NEED)
    return made.build()


@rule_of(_O.CONVOLUTION)
def convolution(op: ShardyOp) -> OpShardingRule:
    """Add batch, spatial and feature dimensions, each with its groups."""
    numbers: ConvolutionDimensionNumbers = op.hlo.get("dim_labels")
    kernel, out = op.operands[1].dimensions, op.results[0].dimensions
    batch_groups, feature_groups = op.hlo.get("batch_group_count") or 1, op.hlo.get("feature_group_count") or 1
    made = builder(op)
    if batch_groups > 1:
        made.add_factor([numbers.input_batch, numbers.kernel_output_feature], [numbers.output_feature], batch_groups)
    made.add_factor([numbers.input_batch, NO_DIM], [numbers.output_batch], out[numbers.output_batch])
    for dims in zip(numbers.input_spatial, numbers.kernel_spatial, numbers.output_spatial, strict=True):
        _add_spatial(made, op, *dims)
    if feature_groups > 1:
        made.add_factor(
            [numbers.input_feature, numbers.kernel_output_feature], [numbers.output_feature], feature_groups
        )
    made.add_factor(
        [numbers.input_feature, numbers.kernel_input_feature],
        [NO_DIM],
        kernel[numbers.kernel_input_feature],
        _REDUCE,
    )
    features = out[numbers.output_feature] // (batch_groups * feature_groups)
    if features > 1:
        made.add_factor([NO_DIM, numbers.kernel_output_feature], [numbers.output_feature], features)
    return made.build()


def _add_spatial(made: RuleBuilder, op: ShardyOp, lhs: int, rhs: int, out: int) -> None:
    """Split an input's spatial dimension by windows (as the output) or within one (as the kernel).

    The larger of the two comes first.
    """
    windows, window = op.results[0].dimensions[out], op.operands[1].dimensions[rhs]
    left = op.operands[0].dimensions[lhs]
    by_window = (min, windows, [lhs, NO_DIM], [out], FactorType.PERMUTATION)
    within = (min, window, [lhs, rhs], [NO_DIM], _REDUCE)
    for least, size, operand_dims, result_dims, kind in (
        (by_window, within) if windows >= window else (within, by_window)
    ):
        factor = least(left, size)
        if factor > 1:
            made.add_factor(operand_dims, result_dims, factor, kind)
            left //= factor


@rule_of(_O.CHOLESKY)
def cholesky(op: ShardyOp) -> OpShardingRule:
    """Keep matrices whole; batch dimensions are free."""
    shape = op.operands[0].dimensions
    return builder(op).add_pointwise(shape, lambda d: FactorType.PASS_THROUGH if d < len(shape) - 2 else _NEED).build()


@rule_of(_O.TRIANGULAR_SOLVE)
def triangular_solve(op: ShardyOp) -> OpShardingRule:
    """Return the rule of a x = b or x a = b: matrices are replicated, batch dimensions are free."""
    a, b = op.operands[0].dimensions, op.operands[1].dimensions
    row, column = len(a) - 2, len(a) - 1
    transposed = op.hlo.get("transpose_a") in ("TRANSPOSE", "ADJOINT")
    made = builder(op).add_pointwise(a[:-2])
    if op.hlo.get("left_side"):
        free, summed = (column, row) if transposed else (row, column)
        made.add_factor([free, row], [NO_DIM], a[free], _NEED)
        made.add_factor([NO_DIM, column], [column], b[column], _NEED)
        made.add_factor([summed, NO_DIM], [row], a[summed], _NEED)
    else:
        free, summed = (row, column) if transposed else (column, row)
        made.add_factor([NO_DIM, row], [row], b[row], _NEED)
        made.add_factor([free, column], [NO_DIM], a[free], _NEED)
        made.add_factor([summed, NO_DIM], [column], a[summed], _NEED)
    return made.build()


@rule_of(_O.FFT)
def fft(op: ShardyOp) -> OpShardingRule:
    """Replicate transformed dimensions; the last is not shared if its size changes."""
    before, after = op.operands[0].dimensions, op.results[0].dimensions
    first = len(before) - len(op.hlo.ints("fft_length"))
    made = builder(op)
    for dim, size in enumerate(before):
        kind = FactorType.PASS_THROUGH if dim < first else _NEED
        blocked = dim >= first and dim == len(before) - 1 and before[-1] != after[-1]
        made.add_common_factor(dim, size, kind, blocked=blocked)
    return made.build()


@rule_of(_O.BATCH_NORM_INFERENCE)
def batch_norm_inference(op: ShardyOp) -> OpShardingRule:
    """Share the feature dimension, the only one of the other operands."""
    feature = op.hlo.get("feature_index")
    made = builder(op)
    for dim, size in enumerate(op.operands[0].dimensions):
        others = [0 if dim == feature else NO_DIM] * (len(op.operands) - 1)
        made.add_factor([dim, *others], [dim], size)
    return made.build()
