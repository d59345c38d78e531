"""Replica groups of a collective as lists of device numbers, from any of XLA's three texts.

Source: xla/hlo/ir/replica_group.h.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from xlanb.patterns import pattern

_GROUP = pattern(r"\{([\d,\s]*)\}")
_IOTA = pattern(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH_AXIS = pattern(r"'((?:[^'\\]|\\.)*)'=(\d+)")
_DEVICE_IDS = pattern(r"device_ids=\((.*)\)")
_GROUP_AXIS = pattern(r"'((?:[^'\\]|\\.)*)'(?::\((\d+)\)(\d+))?")

Devices = np.ndarray[Any, np.dtype[np.int64]]


@lru_cache(maxsize=1024)
def replica_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """The groups in any of XLA's texts, in XLA's order; none for `{}`, where all form one group.

    >>> replica_groups("{{0,1},{2,3}}")
    ((0, 1), (2, 3))
    >>> replica_groups("[2,2]<=[2,2]T(1,0)")
    ((0, 2), (1, 3))
    >>> replica_groups("mesh['x'=2,'y'=2] {'y'}")
    ((0, 1), (2, 3))
    """
    if text.startswith("{"):
        return tuple(tuple(map(int, group.split(","))) for group in _GROUP.findall(text[1:-1]) if group.strip())
    if text.startswith("["):
        shape, _, devices = text.partition("<=")
        return _rows(iota(devices).reshape(_ints(shape[1:-1])))
    return _rows(_groups_along_axes(text))


def iota(text: str) -> Devices:
    """The device numbers of `[4,2]T(1,0)`: an iota of the first shape, then transposed."""
    found = _IOTA.match(text)
    if found is None:
        raise ValueError(f"expected an iota as [4,2]T(1,0), not {text!r}")
    dims = _ints(found[1])
    devices: Devices = np.arange(math.prod(dims), dtype=np.int64).reshape(dims)
    return devices.transpose(_ints(found[2])) if found[2] else devices


def _groups_along_axes(text: str) -> Devices:
    """The devices of a mesh, with those of one group along the last dimension."""
    mesh, _, axes = text.rpartition(" {")
    sizes = {name: int(size) for name, size in _MESH_AXIS.findall(mesh)}
    pieces = _pieces(sizes, _GROUP_AXIS.findall(axes))
    shape = [size for axis in pieces.values() for size, _ in axis]
    ranks = [rank for axis in pieces.values() for _, rank in axis]
    grouped = sorted((rank, at) for at, rank in enumerate(ranks) if rank >= 0)
    order = [at for at, rank in enumerate(ranks) if rank < 0] + [at for _, at in grouped]
    devices = _mesh_devices(mesh, math.prod(sizes.values())).reshape(shape)
    return devices.transpose(order).reshape(-1, math.prod(shape[at] for _, at in grouped))


def _pieces(sizes: dict[str, int], axes: list[Any]) -> dict[str, list[tuple[int, int]]]:
    """Each axis of the mesh split at its sub-axes: (size, rank in the group or -1) per piece.

    XLA goes through the axes of the mesh in order, and through the group's axes of each in text
    order.
    """
    cut: dict[str, list[tuple[int, int]]] = {}
    for number, (name, size) in enumerate(sizes.items()):
        named = [
            (int(pre or 1), int(part or size), rank) for rank, (axis, pre, part) in enumerate(axes) if axis == name
        ]
        done, pieces = 1, []
        for pre, part, rank in sorted(named):
            if pre != done:
                pieces.append((pre // done, -1))
            pieces.append((part, number * len(axes) + rank))
            done = pre * part
        if done != size:
            pieces.append((size // done, -1))
        cut[name] = pieces or [(size, -1)]
    return cut


def _mesh_devices(mesh: str, count: int) -> Devices:
    found = _DEVICE_IDS.search(mesh)
    if found is None:
        return np.arange(count, dtype=np.int64)
    if found[1].startswith("["):
        return iota(found[1]).ravel()
    return np.array(_ints(found[1]), dtype=np.int64)


def _ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _rows(groups: Devices) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in groups.tolist())
