"""Algebra of mesh axes and sub-axes: prefixes, overlaps, and lists of them.

Follows AxisRefAttr of shardy/dialect/sdy/ir/dialect.cc. `"a":(2)2` of an axis of size 8 is the part
after the first 2: it overlaps `"a":(1)4`, and no prefix of it avoids the overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef

Axes = tuple[AxisRef, ...]


def contains(one: AxisRef, other: AxisRef) -> bool:
    """Whether `other` is a part of `one`."""
    if one.name != other.name:
        return False
    if not one.sub_size:
        return True
    if not other.sub_size:
        return False
    return one.pre_size <= other.pre_size and one.pre_size * one.sub_size >= other.pre_size * other.sub_size


def is_prefix(one: AxisRef, other: AxisRef) -> bool:
    """Whether `one` is a leading part of `other`, or equal to it."""
    return contains(other, one) and one.pre_size == other.pre_size


def overlaps(one: AxisRef, other: AxisRef) -> bool:
    """Whether they have a part in common."""
    if one.name != other.name:
        return False
    if not one.sub_size or not other.sub_size:
        return True
    return one.pre_size < other.pre_size * other.sub_size and other.pre_size < one.pre_size * one.sub_size


def can_coexist(one: AxisRef, other: AxisRef) -> bool:
    """Whether an axis can be split so that both consist of the pieces."""
    if one.name != other.name or not one.sub_size or not other.sub_size:
        return True
    low, high = sorted((one.pre_size, other.pre_size))
    next_low, next_high = sorted((one.pre_size * one.sub_size, other.pre_size * other.sub_size))
    if next_low > high:
        return next_low % high == 0 and high % low == 0 and next_high % next_low == 0
    return high % next_low == 0


def prefix_without_overlap(one: AxisRef, other: AxisRef) -> AxisRef | None:
    """Return the longest prefix of `one` that does not overlap `other`, or None."""
    if one.name != other.name:
        return one
    if not can_coexist(one, other):
        return None
    if not overlaps(one, other):
        return one
    if one.pre_size >= other.pre_size:
        return None
    return AxisRef(one.name, one.pre_size, other.pre_size // one.pre_size)


def prefix_without_overlaps(axis: AxisRef, others: Iterable[AxisRef]) -> AxisRef | None:
    """Return the longest prefix of `axis` that overlaps none of `others`, or None."""
    result: AxisRef | None = axis
    for other in others:
        if result is None:
            return None
        result = prefix_without_overlap(result, other)
    return result


def merged(axes: Iterable[AxisRef], mesh: Mesh) -> Axes:
    """Return the list with consecutive sub-axes joined."""
    out: list[AxisRef] = []
    for axis in axes:
        last = out[-1] if out else None
        if (
            last is not None
            and last.name == axis.name
            and last.sub_size
            and axis.sub_size
            and last.pre_size * last.sub_size == axis.pre_size
        ):
            size = last.sub_size * axis.sub_size
            whole = size == mesh.size(axis.name)
            out[-1] = AxisRef(axis.name) if whole else AxisRef(axis.name, last.pre_size, size)
        else:
            out.append(axis)
    return tuple(out)


def total_size(axes: Iterable[AxisRef], mesh: Mesh) -> int:
    """Return the number of devices along all axes."""
    return math.prod(a.size(mesh) for a in axes)


def is_list_prefix(first: Axes, second: Axes) -> bool:
    """Whether `second` splits a dimension as `first` does, or further."""
    if not first:
        return True
    if len(first) > len(second) or first[:-1] != second[: len(first) - 1]:
        return False
    return first[-1] == second[len(first) - 1] or is_prefix(first[-1], second[len(first) - 1])


def is_strict_list_prefix(first: Axes, second: Axes) -> bool:
    """Whether `second` splits a dimension as `first` does, and further."""
    return first != second and is_list_prefix(first, second)


def in_mesh_order(axes: Iterable[AxisRef], mesh: Mesh) -> Axes:
    """Return the axes in mesh order, sub-axes slowest first."""
    return tuple(sorted(axes, key=lambda a: (mesh.index(a.name), a.pre_size, a.size(mesh))))
