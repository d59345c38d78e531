"""ShardingProjection: map the shardings of an operation's arrays to its factors, and back.

Follows Shardy's sharding_projection.cc.

    reshape ([ij])->([i, j]) {i=2, j=4}, the operand's dimension split by {"a"=2, "b"=2}
    =>  operand: i by "a", j by "b"        result: i, j not split yet

An axis larger than the rest of a factor is split in two. If it is coprime to that rest, it and all
later axes overflow: no later factor can be split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef, DimensionSharding, TensorSharding
from xlanb.spmd.shardy.axes import Axes, is_strict_list_prefix, merged, total_size
from xlanb.spmd.shardy.rule import OpShardingRule, TensorMapping


@dataclass(slots=True)
class FactorSharding:
    """How one array is split along a factor; `overflow` are axes that do not fit its size."""

    axes: Axes = ()
    is_closed: bool = False
    is_minor_most: bool = False
    overflow: Axes = ()


@dataclass(slots=True)
class TensorFactorShardings:
    """The factors of one array, and the axes that may not split them.

    `grew` is set once a factor is split further.
    """

    factors: dict[int, FactorSharding]
    replicated: Axes = ()
    unreduced: Axes = ()
    grew: bool = False

    def expand(self, factor: int, axes: Axes) -> bool:
        """Split a factor further; return False if absent, or if `axes` do not extend its axes."""
        at = self.factors.get(factor)
        if at is None or not is_strict_list_prefix(at.axes, axes):
            return False
        at.axes = axes
        self.grew = True
        return True

    def sharding(self, mapping: TensorMapping, sizes: Sequence[int], mesh: Mesh) -> TensorSharding:
        """Return the array's sharding.

        Drops axes after a factor that is not fully split, because they would need strides.
        """
        dims = []
        for dim in mapping:
            axes: list[AxisRef] = []
            closed = False
            for factor in dim:
                at = self.factors[factor]
                closed = closed or at.is_closed
                axes += at.axes
                if at.overflow:
                    axes += at.overflow
                    break
                if total_size(at.axes, mesh) < sizes[factor]:
                    break
            dims.append(DimensionSharding(merged(axes, mesh), closed))
        return TensorSharding(mesh.name, tuple(dims), self.replicated, self.unreduced)


@dataclass(slots=True)
class ShardingProjection:
    """The factors of the operands and results."""

    operands: list[TensorFactorShardings]
    results: list[TensorFactorShardings]

    @property
    def tensors(self) -> list[TensorFactorShardings]:
        """Operands, then results."""
        return self.operands + self.results

    @staticmethod
    def of(
        operands: Sequence[TensorSharding | None],
        results: Sequence[TensorSharding | None],
        rule: OpShardingRule,
        mesh: Mesh,
    ) -> ShardingProjection:
        """Return the projection of these shardings; None counts as open and empty."""
        sizes = rule.factor_sizes
        return ShardingProjection(
            [_projected(m, s, sizes, mesh) for m, s in zip(rule.operands, operands, strict=True)],
            [_projected(m, s, sizes, mesh) for m, s in zip(rule.results, results, strict=True)],
        )


def _projected(
    mapping: TensorMapping, sharding: TensorSharding | None, sizes: Sequence[int], mesh: Mesh
) -> TensorFactorShardings:
    factors: dict[int, FactorSharding] = {}
    for number, dim in enumerate(mapping):
        given = sharding.dims[number] if sharding is not None else _OPEN
        if len(dim) == 1:
            factors[dim[0]] = FactorSharding(given.axes, given.is_closed, True)
        else:
            _split_dimension(factors, dim, given, sizes, mesh)
    if sharding is None:
        return TensorFactorShardings(factors)
    return TensorFactorShardings(factors, sharding.replicated, sharding.unreduced)


_OPEN = DimensionSharding((), is_closed=False)


def _split_dimension(
    factors: dict[int, FactorSharding],
    dim: tuple[int, ...],
    given: DimensionSharding,
    sizes: Sequence[int],
    mesh: Mesh,
) -> None:
    """Give each factor of a dimension the axes that fill it, slowest first; the last all others."""
    rest = list(given.axes)
    overflows = False
    for factor in dim:
        at = factors.setdefault(factor, FactorSharding())
        at.is_minor_most = factor == dim[-1]
        at.is_closed = given.is_closed or overflows
        if overflows:
            return  # later factors are not projected
        if at.is_minor_most:
            at.axes = merged((*at.axes, *rest), mesh)
            return
        left = sizes[factor]
        while rest:
            size = rest[0].size(mesh)
            common = math.gcd(left, size)
            if size != 1 and common == 1:
                break
            if size > common:
                head, rest[0] = _cut(rest[0], common, mesh)
                left //= common
            else:
                head = rest.pop(0)
                left //= size
            at.axes = (*at.axes, head)
        if left > 1 and rest:
            overflows = True
            at.overflow = merged((*at.overflow, *rest), mesh)


def _cut(axis: AxisRef, size: int, mesh: Mesh) -> tuple[AxisRef, AxisRef]:
    """Split an axis into a first part of this size and the rest."""
    rest = axis.size(mesh) // size
    return AxisRef(axis.name, axis.pre_size, size), AxisRef(axis.name, axis.pre_size * size, rest)
