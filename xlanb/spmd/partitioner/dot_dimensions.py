"""DotDimensions: the batch, contracting, free and spatial dimensions of a dot.

A convolution is treated as a dot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import WindowDimension
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.partitioner.utilities import shard_count_at_dim

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding


class DotOperand(Enum):
    """One of the three arrays of a dot."""

    LHS = "lhs"
    RHS = "rhs"
    OUTPUT = "output"


@dataclass(frozen=True)
class DimNums:
    """One dimension of a dot: its number in each operand, the output and the window, or -1."""

    lhs: int = -1
    rhs: int = -1
    output: int = -1
    spatial_dim: int = -1

    def on(self, side: DotOperand) -> int:
        """Return its number in one of the arrays."""
        return int(getattr(self, side.value))


@dataclass(frozen=True)
class DotDimensions:
    """XLA's DotConvolutionDimsInfo."""

    batch: tuple[DimNums, ...] = ()
    contracting: tuple[DimNums, ...] = ()
    lhs_non_contracting: tuple[DimNums, ...] = ()
    rhs_non_contracting: tuple[DimNums, ...] = ()
    conv_spatial: tuple[DimNums, ...] = ()
    lhs_rank: int = 0
    rhs_rank: int = 0
    output_rank: int = 0

    @property
    def all(self) -> tuple[DimNums, ...]:
        """Return every dimension, by kind."""
        return self.batch + self.contracting + self.lhs_non_contracting + self.rhs_non_contracting + self.conv_spatial

    def non_contracting(self, side: DotOperand) -> tuple[DimNums, ...]:
        """Return the free dimensions of one operand."""
        return self.lhs_non_contracting if side is DotOperand.LHS else self.rhs_non_contracting

    def rank(self, side: DotOperand) -> int:
        """Return the rank of one of the arrays."""
        return {DotOperand.LHS: self.lhs_rank, DotOperand.RHS: self.rhs_rank, DotOperand.OUTPUT: self.output_rank}[side]

    def index_map(self, source: DotOperand, target: DotOperand) -> tuple[int, ...]:
        """Map every dimension of `source` to its number in `target`, or -1."""
        numbers = [-1] * self.rank(source)
        for dim in self.all:
            if dim.on(source) >= 0:
                numbers[dim.on(source)] = dim.on(target)
        return tuple(numbers)


def partitions_of(sharding: HloSharding, dims: Sequence[DimNums], side: DotOperand) -> int:
    """Return into how many shards a sharding splits these dimensions together."""
    count = 1
    for dim in dims:
        count *= shard_count_at_dim(sharding, dim.on(side))
    return count


@dataclass(frozen=True)
class PartitionCounts:
    """The shards of each array by kind of dimension; they decide how a dot is partitioned."""

    lhs_batch: int
    rhs_batch: int
    output_batch: int
    lhs_contracting: int
    rhs_contracting: int
    lhs_non_contracting: int
    rhs_non_contracting: int
    output_lhs_non_contracting: int
    output_rhs_non_contracting: int

    @staticmethod
    def of(lhs: HloSharding, rhs: HloSharding, output: HloSharding, dims: DotDimensions) -> PartitionCounts:
        """Count the shards."""
        return PartitionCounts(
            lhs_batch=partitions_of(lhs, dims.batch, DotOperand.LHS),
            rhs_batch=partitions_of(rhs, dims.batch, DotOperand.RHS),
            output_batch=partitions_of(output, dims.batch, DotOperand.OUTPUT),
            lhs_contracting=partitions_of(lhs, dims.contracting, DotOperand.LHS),
            rhs_contracting=partitions_of(rhs, dims.contracting, DotOperand.RHS),
            lhs_non_contracting=partitions_of(lhs, dims.lhs_non_contracting, DotOperand.LHS),
            rhs_non_contracting=partitions_of(rhs, dims.rhs_non_contracting, DotOperand.RHS),
            output_lhs_non_contracting=partitions_of(output, dims.lhs_non_contracting, DotOperand.OUTPUT),
            output_rhs_non_contracting=partitions_of(output, dims.rhs_non_contracting, DotOperand.OUTPUT),
        )


# -- from instructions -----------------------------------------------------------------------------


def dot_dimensions(dot: HloInstruction) -> DotDimensions:
    """Return the dimensions of a dot.

    In the output, batch dimensions come first, then the lhs's free ones, then the rhs's.
    """
    lhs_batch, rhs_batch = tuple(dot.ints("lhs_batch_dims")), tuple(dot.ints("rhs_batch_dims"))
    lhs_contracting, rhs_contracting = tuple(dot.ints("lhs_contracting_dims")), tuple(dot.ints("rhs_contracting_dims"))
    lhs_rank, rhs_rank = (len(o.array_shape.dimensions) for o in dot.operands[:2])
    lhs_free = [d for d in range(lhs_rank) if d not in lhs_contracting + lhs_batch]
    rhs_free = [d for d in range(rhs_rank) if d not in rhs_contracting + rhs_batch]
    first = len(lhs_batch)
    return DotDimensions(
        batch=tuple(DimNums(a, b, i) for i, (a, b) in enumerate(zip(lhs_batch, rhs_batch, strict=True))),
        contracting=tuple(DimNums(a, b) for a, b in zip(lhs_contracting, rhs_contracting, strict=True)),
        lhs_non_contracting=tuple(DimNums(lhs=d, output=first + i) for i, d in enumerate(lhs_free)),
        rhs_non_contracting=tuple(DimNums(rhs=d, output=first + len(lhs_free) + i) for i, d in enumerate(rhs_free)),
        lhs_rank=lhs_rank,
        rhs_rank=rhs_rank,
        output_rank=len(dot.array_shape.dimensions),
    )


def _is_batch(lhs_size: int, wd: WindowDimension) -> bool:
    """Whether a spatial dimension acts as a batch dimension, in either of XLA's two forms."""
    step = max(1, lhs_size - 1)
    unpadded = (
        lhs_size == wd.size == wd.base_dilation
        and ((wd.stride, wd.window_dilation) == (step, 1) or (wd.stride, wd.window_dilation) == (1, step))
        and wd.padding_low == wd.padding_high == 0
        and not wd.reversal
    )
    padded = (
        lhs_size == wd.size == wd.stride
        and wd.padding_low == wd.padding_high == lhs_size - 1 == wd.base_dilation
        and wd.reversal
        and wd.window_dilation == 1
    )
    return unpadded or padded


def _is_contracting(lhs_size: int, wd: WindowDimension) -> bool:
    plain = wd.base_dilation == 1 and wd.window_dilation == 1 and not wd.reversal
    return plain and lhs_size == wd.size and wd.padding_low == wd.padding_high == 0


def _is_lhs_free(rhs_size: int, wd: WindowDimension) -> bool:
    undilated = wd.stride == 1 and wd.window_dilation == 1 and wd.base_dilation == 1
    return undilated and rhs_size == wd.size == 1 and wd.padding_low == wd.padding_high == 0 and not wd.reversal


def _is_rhs_free(lhs_size: int, rhs_size: int, wd: WindowDimension) -> bool:
    undilated = wd.stride == 1 and wd.window_dilation == 1 and wd.base_dilation == 1
    full = wd.size == rhs_size and wd.padding_low == wd.padding_high == rhs_size - 1
    return undilated and lhs_size == 1 and full and wd.reversal


def convolution_dimensions(conv: HloInstruction) -> DotDimensions:
    """Return the dimensions of a convolution.

    A spatial dimension counts as batch, contracting or free if its window makes it one.
    """
    n = conv.get("dim_labels")
    kinds: dict[str, list[DimNums]] = {
        "batch": [],
        "contracting": [DimNums(n.input_feature, n.kernel_input_feature)],
        "lhs_non_contracting": [DimNums(lhs=n.input_batch, output=n.output_batch)],
        "rhs_non_contracting": [DimNums(rhs=n.kernel_output_feature, output=n.output_feature)],
        "conv_spatial": [],
    }
    lhs_shape, rhs_shape = conv.operands[0].array_shape, conv.operands[1].array_shape
    for i, wd in enumerate(conv.window.dimensions):
        dim = DimNums(n.input_spatial[i], n.kernel_spatial[i], n.output_spatial[i], i)
        lhs_size, rhs_size = lhs_shape.dimensions[dim.lhs], rhs_shape.dimensions[dim.rhs]
        if _is_batch(lhs_size, wd):
            kind = "batch"
        elif _is_contracting(lhs_size, wd):
            kind = "contracting"
        elif _is_lhs_free(rhs_size, wd):
            kind = "lhs_non_contracting"
        elif _is_rhs_free(lhs_size, rhs_size, wd):
            kind = "rhs_non_contracting"
        else:
            kind = "conv_spatial"
        kinds[kind].append(dim)
    return DotDimensions(
        **{kind: tuple(dims) for kind, dims in kinds.items()},
        lhs_rank=len(lhs_shape.dimensions),
        rhs_rank=len(rhs_shape.dimensions),
        output_rank=len(conv.array_shape.dimensions),
    )


def with_feature_groups_as_batch(dims: DotDimensions, conv: HloInstruction) -> DotDimensions:
    """Treat a depthwise convolution's feature groups as a batch dimension; the rest are free."""
    n = conv.get("dim_labels")
    return replace(
        dims,
        batch=(*dims.batch, DimNums(n.input_feature, n.kernel_output_feature, n.output_feature)),
        contracting=(),
        lhs_non_contracting=(DimNums(lhs=n.input_batch),),
        rhs_non_contracting=(DimNums(rhs=n.kernel_input_feature),),
    )


def with_batch_groups_as_batch(dims: DotDimensions, conv: HloInstruction) -> DotDimensions:
    """Treat a convolution's batch groups as a batch dimension."""
    n = conv.get("dim_labels")
    return replace(
        dims,
        batch=(*dims.batch, DimNums(n.input_batch, n.kernel_output_feature, n.output_feature)),
        lhs_non_contracting=(),
        rhs_non_contracting=(),
    )
