"""Name the mesh axes that a collective communicates along, from its groups or pairs of devices.

mesh ["data"=4, "model"=2], groups {0,1},{2,3},{4,5},{6,7}    =>    {"model"}
mesh ["x"=8], groups {0,1,2,3},{4,5,6,7}                      =>    {"x":(2)4}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef


def axes_of_groups(groups: Sequence[Sequence[int]], mesh: Mesh) -> tuple[AxisRef, ...] | None:
    """Return the axes or sub-axes along which the members of each group differ.

    Returns None if the groups do not form a grid over whole axes or sub-axes.
    """
    varying = _varying(groups, mesh)
    if varying is None or any(len(g) != math.prod(d.size(mesh) for d in varying) for g in groups):
        return None
    return _joined(varying, mesh)


def axes_of_pairs(pairs: Sequence[Sequence[int]], mesh: Mesh) -> tuple[AxisRef, ...] | None:
    """Return the axes along which data moves from sources to targets.

    Returns None if a pair names a device outside the mesh.
    """
    varying = _varying(pairs, mesh)
    if varying is None:
        return None
    names = {d.name for d in varying}
    return tuple(AxisRef(name) for name, _ in mesh.axes if name in names)


def axes_text(axes: Sequence[AxisRef]) -> str:
    """Format axes in braces, as Shardy prints them."""
    return "{" + ", ".join(map(str, axes)) + "}"


def _varying(groups: Sequence[Sequence[int]], mesh: Mesh) -> list[AxisRef] | None:
    """Return the smallest sub-axes along which the members of a group differ.

    Returns None if a member is not a device of the mesh.
    """
    places = {int(device): place for place, device in np.ndenumerate(mesh.devices)}
    if any(device not in places for group in groups for device in group):
        return None

    def coordinate(device: int, part: AxisRef) -> int:
        size = part.size(mesh)
        return int(places[device][mesh.index(part.name)]) // (mesh.size(part.name) // (part.pre_size * size)) % size

    return [part for part in _parts(mesh) if any(len({coordinate(d, part) for d in group}) > 1 for group in groups)]


def _parts(mesh: Mesh) -> Iterator[AxisRef]:
    """Split each axis into its prime factors, slowest first."""
    for name, size in mesh.axes:
        before = 1
        for prime in prime_factors(size):
            yield AxisRef(name, before, prime)
            before *= prime


def prime_factors(size: int) -> Iterator[int]:
    """Yield the prime factors of a number, smallest first."""
    prime = 2
    while size > 1:
        if size % prime:
            prime += 1
        else:
            yield prime
            size //= prime


def _joined(parts: Sequence[AxisRef], mesh: Mesh) -> tuple[AxisRef, ...]:
    """Join adjacent sub-axes of an axis; name a whole axis by its name alone."""
    out: list[AxisRef] = []
    for part in parts:
        last = out[-1] if out else None
        if last is not None and last.name == part.name and last.next_pre_size(mesh) == part.pre_size:
            out[-1] = AxisRef(part.name, last.pre_size, last.sub_size * part.sub_size)
        else:
            out.append(part)
    return tuple(AxisRef(a.name) if a.sub_size == mesh.size(a.name) else a for a in out)
