"""Convert shardings by mesh axes to HLO shardings and back.

Follows xla/service/spmd/shardy/stablehlo_round_trip/export_shardings.cc. With the mesh
["data"=4, "model"=2]:

<@mesh, [{"model"}, {}]>    <=>    {devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from xlanb.errors import XlanbError
from xlanb.spmd.hlo_sharding import HloSharding, ShardingType
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef, DimensionSharding, TensorSharding


def to_hlo_sharding(sharding: TensorSharding, mesh: Mesh, manual_axes: Sequence[str] = ()) -> HloSharding:
    """Return the HLO sharding that gives each device the same part.

    Args:
        sharding: the sharding by mesh axes.
        mesh: the mesh that it refers to.
        manual_axes: axes along which the devices form a manual subgroup.

    Raises:
        XlanbError: it is unreduced and there are manual axes, or it names an axis that the mesh
            lacks.
    """
    return _to_hlo_sharding(sharding, mesh, tuple(manual_axes))


@lru_cache(maxsize=4096)  # most instructions of a program share a few shardings
def _to_hlo_sharding(sharding: TensorSharding, mesh: Mesh, manual_axes: tuple[str, ...]) -> HloSharding:
    if not mesh.axes:
        return HloSharding.assign_device(mesh.device_ids[0]) if mesh.device_ids else HloSharding.replicate()
    if len(mesh.axes) == len(manual_axes):
        return HloSharding.manual()
    if sharding.unreduced and manual_axes:
        raise XlanbError(f"the sharding {sharding} is unreduced along manual axes {', '.join(manual_axes)}")
    tiles = [d.size(mesh) for d in sharding.dims]
    order = [axis for d in sharding.dims for axis in d.axes]
    types: list[ShardingType] = []
    for axes, kind in (
        (tuple(AxisRef(a) for a in manual_axes), ShardingType.MANUAL),
        (sharding.unreduced, ShardingType.UNREDUCED),
    ):
        if axes:
            types.append(kind)
            tiles.append(math.prod(a.size(mesh) for a in axes))
            order += axes
    parts = _split_axes(order, mesh)
    replicated = [p for p in parts if p not in order]
    copies = math.prod(p.size(mesh) for p in replicated)
    if copies > 1:
        tiles.append(copies)
        types.append(ShardingType.REPLICATED)
    perm = [parts.index(axis) for axis in (*order, *replicated)]
    devices = mesh.devices.reshape([p.size(mesh) for p in parts]).transpose(perm).reshape(tiles)
    return HloSharding.subgroup(devices, types)


def _split_axes(used: Sequence[AxisRef], mesh: Mesh) -> list[AxisRef]:
    """Return the mesh's axes in order, split into sub-axes where only parts of an axis are used."""
    out: list[AxisRef] = []
    for name, size in mesh.axes:
        cuts = {1, size}
        for axis in used:
            if axis.name == name and axis.is_sub_axis:
                cuts |= {axis.pre_size, axis.pre_size * axis.sub_size}
        edges = sorted(cuts)
        if len(edges) <= 2:
            out.append(AxisRef(name))
            continue
        out += [AxisRef(name, a, b // a) for a, b in pairwise(edges)]
    return out


def from_hlo_sharding(sharding: HloSharding, mesh: Mesh, rank: int) -> TensorSharding | None:
    """Return the equivalent sharding by the axes of `mesh`, or None if they cannot express it."""
    if sharding.is_replicated:
        return TensorSharding.fully_closed(mesh.name, rank)
    if not sharding.is_tiled or sharding.num_devices != mesh.num_devices or sharding.tiled_data_rank != rank:
        return None
    left = [AxisRef(name) for name, _ in mesh.axes]
    dims: list[DimensionSharding] = []
    for d in range(rank):
        axes = _axes_of_dimension(sharding, d, left, mesh)
        if axes is None:
            return None
        dims.append(DimensionSharding(axes))
        left = [a for a in left if a not in axes]
    made = TensorSharding(mesh.name, tuple(dims))
    return made if to_hlo_sharding(made, mesh) == sharding else None


def _axes_of_dimension(
    sharding: HloSharding, dimension: int, left: Sequence[AxisRef], mesh: Mesh
) -> tuple[AxisRef, ...] | None:
    """Return the axes along which a dimension's tiles change, slowest first."""
    index = np.zeros(mesh.num_devices, np.int64)
    for device, tile in sharding.tile_indices.items():
        index[device] = tile[dimension]
    grid = index[mesh.devices.reshape(-1)].reshape(mesh.devices.shape)
    strides: list[tuple[int, AxisRef]] = []
    for axis in left:
        place = mesh.index(axis.name)
        step = int(grid.take(1, place).flat[0]) if mesh.size(axis.name) > 1 else 0
        if step:
            strides.append((step, axis))
    axes = tuple(a for _, a in sorted(strides, key=lambda s: -s[0]))
    return axes if math.prod(a.size(mesh) for a in axes) == sharding.dimension(dimension) else None


def evenly_sharded(sharding: TensorSharding, dimensions: Sequence[int], mesh: Mesh) -> TensorSharding:
    """Return the sharding a program's input or output gets if its axes do not divide a dimension.

    Keeps the leading axes that divide the dimension, and possibly a sub-axis of the last one. A
    sub-axis is kept only in a closed dimension, which the user specified.
    """
    dims = []
    for dim, size in zip(sharding.dims, dimensions, strict=True):
        axes = dim.axes if size % dim.size(mesh) == 0 else _dividing(dim.axes, size, mesh)
        if not dim.is_closed:
            whole = next((n for n, a in enumerate(axes) if a.is_sub_axis), len(axes))
            axes = axes[:whole]
        dims.append(DimensionSharding(axes, dim.is_closed))
    return TensorSharding(sharding.mesh, tuple(dims), sharding.replicated, sharding.unreduced)


def _dividing(axes: Sequence[AxisRef], size: int, mesh: Mesh) -> tuple[AxisRef, ...]:
    kept: list[AxisRef] = []
    for axis in axes:
        common = math.gcd(axis.size(mesh), size)
        if common == 1:
            break
        if common != axis.size(mesh):
            kept.append(AxisRef(axis.name, axis.pre_size, common))
            break
        kept.append(axis)
        size //= common
    return tuple(kept)
