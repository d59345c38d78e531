"""One propagation step on an operation's factors: Shardy's two strategies.

basic        split each factor in every array as far as all arrays agree, unless another factor, a
             closed dimension or a replicated axis prevents it (basic_factor_propagation.cc)
aggressive   resolve conflicts between factors per array: the factor whose source is the largest
             array wins (aggressive_factor_propagation.cc)

    add([a, ?], [b, ?])                            basic: nothing
    dot([{"a"}, {}], [{}, {"a"}]) -> [{?}, {?}]    basic: nothing; aggressive: [{"a"}, {}]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef
from xlanb.spmd.shardy.axes import (
    Axes,
    contains,
    is_list_prefix,
    is_prefix,
    is_strict_list_prefix,
    overlaps,
    prefix_without_overlaps,
    total_size,
)
from xlanb.spmd.shardy.projection import FactorSharding, ShardingProjection, TensorFactorShardings


class Direction(Enum):
    """Where shardings may propagate: to results, to operands, both, or nowhere.

    Union and intersection are bitwise.
    """

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    BOTH = 3

    def __or__(self, other: Direction) -> Direction:
        return Direction(self.value | other.value)

    def __and__(self, other: Direction) -> Direction:
        return Direction(self.value & other.value)


DirectionOf = Callable[[int], Direction]
"""The direction of a factor."""


class Strategy(Enum):
    """Which of the two strategies."""

    BASIC = "basic"
    AGGRESSIVE = "aggressive"


@dataclass(slots=True)
class Conflict:
    """A factor of one array wanted axes and got fewer.

    `tensor` is the array's position among operands, then results; `winner` is the factor that has
    the axes.
    """

    tensor: int
    factor: int
    wanted: Axes
    got: Axes
    winner: int


@dataclass(slots=True)
class Setting:
    """What a step works on.

    It changes the projection, and records conflicts if `conflicts` is a list.
    """

    projection: ShardingProjection
    sizes: Sequence[int]
    mesh: Mesh
    direction: DirectionOf
    is_elementwise: bool = False
    conflicts: list[Conflict] | None = None


def propagate_factors(setting: Setting, strategy: Strategy) -> None:
    """Split factors further as the strategy allows."""
    if strategy is Strategy.BASIC:
        _propagate_basic(setting)
    else:
        _propagate_aggressive(setting)


# -- agreement between arrays ----------------------------------------------------------------------


def _joined(old: Axes, new: Axes, *, expand: bool) -> tuple[Axes, bool]:
    """Return the leading axes on which two lists agree, and whether a third may still extend them.

    `new` extends `old` only if `expand`.
    """
    result: list[AxisRef] = []
    for number, (one, other) in enumerate(zip(old, new, strict=False)):
        last_old, last_new = number == len(old) - 1, number == len(new) - 1
        if one == other:
            result.append(one)
        elif is_prefix(other, one):
            if not last_new:
                return (*result, other), False
            result.append(one)
        elif is_prefix(one, other):
            if not expand or not last_old:
                return (*result, one), False
            result.append(other)
        else:
            return tuple(result), False
    common = min(len(old), len(new))
    result += old[common:]
    if expand:
        result += new[common:]
    return tuple(result), expand


def _agreed_axes(projection: ShardingProjection, factor: int, direction: Direction) -> Axes:
    """Return a factor's axes that all its arrays agree on, regardless of other factors.

    Only arrays on the source side of the direction may add axes.
    """
    if direction is Direction.NONE:
        return ()
    first, second = projection.operands, projection.results
    if direction is Direction.BACKWARD:
        first, second = second, first
    axes: Axes = ()
    expand = True
    for side in (first, second):
        for tensor in side:
            at = tensor.factors.get(factor)
            if at is not None:
                axes, expand = _joined(axes, at.axes, expand=expand)
        if direction is not Direction.BOTH:
            expand = False
    return axes


# -- limits of an axis -----------------------------------------------------------------------------


def _free_of_other_factors(axis: AxisRef, tensor: TensorFactorShardings, factor: int) -> AxisRef | None:
    """Return the prefix that splits no other factor of the array."""
    result: AxisRef | None = axis
    for other, at in tensor.factors.items():
        if other != factor and (at.axes or at.overflow):
            result = result and prefix_without_overlaps(result, at.overflow)
            result = result and prefix_without_overlaps(result, at.axes)
            if result is None:
                return None
    return result


def _fits_factor(
    axis: AxisRef, tensor: TensorFactorShardings, at: FactorSharding, before: int, size: int, mesh: Mesh
) -> AxisRef | None:
    """Return the prefix that fits the factor, after `before` parts of slower axes."""
    result = prefix_without_overlaps(axis, (*tensor.replicated, *tensor.unreduced))
    if result is None:
        return None
    if any(contains(mine, result) for mine in at.axes):
        return result
    if not at.is_closed and not at.overflow:
        if at.is_minor_most:
            return result
        if size % before == 0:
            axis_size = result.size(mesh)
            common = math.gcd(size // before, axis_size)
            if common == axis_size:
                return result
            if common != 1:
                return AxisRef(result.name, result.pre_size, common)
    if at.axes and is_prefix(at.axes[-1], result):
        return at.axes[-1]
    return None


def _cut_at_conflict(axes: Axes, mesh: Mesh, allowed: Callable[[AxisRef, int], AxisRef | None]) -> Axes:
    """Return the axes up to the first that is not allowed in full, and its allowed prefix.

    `allowed` gets an axis and the number of parts before it.
    """
    before = 1
    for number, axis in enumerate(axes):
        kept = allowed(axis, before)
        if kept is None:
            return axes[:number]
        if kept != axis:
            return (*axes[:number], kept)
        before *= axis.size(mesh)
    return axes


# -- basic -----------------------------------------------------------------------------------------


def _propagate_basic(setting: Setting) -> None:
    projection, mesh = setting.projection, setting.mesh
    tensors = projection.tensors
    for factor, size in enumerate(setting.sizes):
        axes = _agreed_axes(projection, factor, setting.direction(factor))
        if not axes:
            continue

        def allowed(axis: AxisRef, before: int, factor: int = factor, size: int = size) -> AxisRef | None:
            for tensor in tensors:
                kept = _free_of_other_factors(axis, tensor, factor)
                at = tensor.factors.get(factor)
                if kept is not None and at is not None:
                    kept = _fits_factor(kept, tensor, at, before, size, mesh)
                if kept is None:
                    return None
                axis = kept
            return axis

        axes = _cut_at_conflict(axes, mesh, allowed)
        for tensor in tensors:
            tensor.expand(factor, axes)


# -- aggressive ------------------------------------------------------------------------------------


def _sources(setting: Setting, wanted: list[Axes]) -> list[tuple[int, int]]:
    """Return the size and position of the largest array that each factor's axes may come from."""
    best = [(-1, -1)] * len(wanted)
    for place, tensor in enumerate(setting.projection.tensors):
        size = math.prod(setting.sizes[f] for f in tensor.factors)
        for factor, at in tensor.factors.items():
            axes = wanted[factor]
            if axes and is_list_prefix(axes, at.axes) and size > best[factor][0]:
                best[factor] = (size, place)
    return best


def _propagate_aggressive(setting: Setting) -> None:
    projection = setting.projection
    wanted = [_agreed_axes(projection, f, setting.direction(f)) for f in range(len(setting.sizes))]
    if not any(wanted):
        return
    sources = _sources(setting, wanted)

    def rank(factor: int) -> tuple[int, int, int, int]:
        parts = total_size(wanted[factor], setting.mesh) if setting.is_elementwise else 0
        return -sources[factor][0], -parts, sources[factor][1], factor

    order = [f for f in sorted(range(len(wanted)), key=rank) if wanted[f]]
    operands = len(projection.operands)
    for number, tensor in enumerate(projection.results):
        for factor in order:
            axes = _settled(setting, operands + number, tensor, factor, wanted[factor])
            tensor.expand(factor, axes)
    for number, tensor in enumerate(projection.operands):
        for factor in order:
            axes = _settled(setting, number, tensor, factor, wanted[factor])
            if axes and setting.is_elementwise:
                axes = _bounded_by_results(axes, projection.results, factor)
            tensor.expand(factor, axes)


def _bounded_by_results(axes: Axes, results: Iterable[TensorFactorShardings], factor: int) -> Axes:
    """Limit the axes to those of an elementwise operation's results.

    Splitting an operand further would be useless.
    """
    for tensor in results:
        at = tensor.factors.get(factor)
        if at is not None and is_strict_list_prefix(at.axes, axes):
            axes = at.axes
    return axes


def _settled(setting: Setting, place: int, tensor: TensorFactorShardings, factor: int, wanted: Axes) -> Axes:
    """Return the wanted axes that a factor gets in one array, whose other factors keep theirs."""
    at = tensor.factors.get(factor)
    if at is None:
        return ()
    size, mesh = setting.sizes[factor], setting.mesh
    fits = _cut_at_conflict(wanted, mesh, lambda axis, before: _fits_factor(axis, tensor, at, before, size, mesh))
    if not is_strict_list_prefix(at.axes, fits):
        return ()
    free = _cut_at_conflict(fits, mesh, lambda axis, _: _free_of_other_factors(axis, tensor, factor))
    if setting.conflicts is not None and free != fits:
        refused = fits[len(free) - 1] if free and free[-1] != fits[len(free) - 1] else fits[len(free)]
        setting.conflicts.append(Conflict(place, factor, fits, free, _holder(tensor, factor, refused)))
    return free


def _holder(tensor: TensorFactorShardings, factor: int, axis: AxisRef) -> int:
    """Return the other factor of the array that the axis splits."""
    return next(
        f
        for f, at in tensor.factors.items()
        if f != factor and any(overlaps(axis, a) for a in (*at.axes, *at.overflow))
    )
