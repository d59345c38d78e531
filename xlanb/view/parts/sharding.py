"""Shardings as plain data: in words, by the axes of the mesh, and which device holds which part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from xlanb.errors import XlanbError
from xlanb.hlo.records import ComputationRecord, ModuleRecord
from xlanb.spmd.device_axes import prime_factors
from xlanb.spmd.hlo_sharding import HloSharding, ShardingType
from xlanb.spmd.mesh import Mesh, parse_meshes
from xlanb.spmd.sdy import AxisRef, DimensionSharding

Data = dict[str, Any]

PARTITIONED: Final = "_spmd"
"""The suffix of computations that the partitioner made: their shapes are those of one device."""
_MOST_PARTS: Final = 256
_MOST_DEVICES: Final = 4096
_BARE: Final = {
    ShardingType.REPLICATED: "the whole array on every device",
    ShardingType.MANUAL: "the program decides what each device holds (manual)",
    ShardingType.UNREDUCED: "each device holds a partial sum (unreduced)",
    ShardingType.UNKNOWN: "not yet known",
}


def mesh_of(module: ModuleRecord) -> Mesh | None:
    """Return the largest mesh that a module names in Shardy's text, or None."""
    for key, value in module.header:
        if key == "frontend_attributes" and "#sdy.mesh" in value:
            return max(parse_meshes("{" + value + "}").values(), key=lambda m: m.num_devices, default=None)
    return None


def guessed_mesh(shardings: Iterable[HloSharding]) -> Mesh | None:
    """Return the coarsest mesh whose axes split all of these, with XLA's names (axis_0), or
    None.
    """
    tiled = [s for whole in shardings for s in whole.leaves if s.is_tiled]
    if not tiled or len({s.num_devices for s in tiled}) > 1 or tiled[0].num_devices > _MOST_DEVICES:
        return None
    primes = list(prime_factors(tiled[0].num_devices))
    return _coarsest(tiled, primes) or _coarsest(tiled, primes[::-1])


def _coarsest(tiled: Sequence[HloSharding], factors: Sequence[int]) -> Mesh | None:
    """The mesh of these factors with those merged that every sharding uses, or leaves, together."""
    fine = Mesh("", tuple((f"axis_{n}", p) for n, p in enumerate(factors)))
    cuts = {0, len(factors)}
    for sharding in tiled:
        dims = dimension_axes(sharding, fine)
        if dims is None:
            return None
        owner = {a.name: (d, k) for d, axes in enumerate(dims) for k, a in enumerate(axes)}
        places = [owner.get(name) for name, _ in fine.axes]
        for n, (a, b) in enumerate(pairwise(places), 1):
            if not (a is None and b is None) and not (a and b and (a[0], a[1] + 1) == b):
                cuts.add(n)
    sizes = [math.prod(factors[a:b]) for a, b in pairwise(sorted(cuts))]
    return Mesh("mesh", tuple((f"axis_{n}", size) for n, size in enumerate(sizes)))


def dimension_axes(sharding: HloSharding, mesh: Mesh) -> list[tuple[AxisRef, ...]] | None:
    """Return the mesh axes, or parts of them, that split each dimension, the slowest first.

    None if no axes match the tiled sharding.
    """
    if not sharding.is_tiled or sharding.num_devices != mesh.num_devices:
        return None
    parts = [
        AxisRef(name, math.prod(primes[:n]), p)
        for name, size in mesh.axes
        for primes in (list(prime_factors(size)),)
        for n, p in enumerate(primes)
    ]
    tiles = sharding.tile_indices
    if set(mesh.devices.flat) != set(tiles):
        return None
    index = np.array([tiles[int(d)] for d in mesh.devices.flat], np.int64)
    places = np.indices([p.sub_size for p in parts]).reshape(len(parts), -1)
    firsts = [int(np.flatnonzero((places[k] == 1) & (places.sum(0) == 1))[0]) for k in range(len(parts))]
    found: list[tuple[AxisRef, ...]] = []
    for d in range(sharding.tiled_data_rank):
        strides = [int(index[at, d]) for at in firsts]
        if not np.array_equal(index[:, d], np.array(strides, np.int64) @ places):
            return None
        used = sorted((k for k, stride in enumerate(strides) if stride), key=lambda k: -strides[k])
        found.append(_merged([parts[k] for k in used], mesh))
    return found


def _merged(parts: Sequence[AxisRef], mesh: Mesh) -> tuple[AxisRef, ...]:
    """Merge consecutive parts of one axis; a whole axis has no bounds."""
    out: list[AxisRef] = []
    for part in parts:
        last = out[-1] if out else None
        if last is not None and last.name == part.name and last.pre_size * last.sub_size == part.pre_size:
            out[-1] = AxisRef(last.name, last.pre_size, last.sub_size * part.sub_size)
        else:
            out.append(part)
    return tuple(AxisRef(a.name) if a.sub_size == mesh.size(a.name) else a for a in out)


def sharding_data(sharding: HloSharding, mesh: Mesh | None) -> Data:
    """Return a sharding's data for drawing.

    `w` in words, `x` by axes in Shardy's text ("" if no axes match), `a` the numbers of the axes
    used, `t` the number of parts of each dimension, `d` the devices of each part in order; for a
    tuple `e`, such data for each leaf.
    """
    if sharding.is_tuple:
        leaves = [sharding_data(s, mesh) for s in sharding.tuple_elements]
        different = {leaf["w"] for leaf in leaves}
        words = f"a tuple of {len(leaves)}" + (f", each {different.pop()}" if len(different) == 1 else "")
        axes = ", ".join(leaf["x"] or "?" for leaf in leaves)
        return {"w": words, "x": f"({axes})", "a": sorted({a for leaf in leaves for a in leaf["a"]}), "e": leaves}
    if not sharding.is_tiled:
        return _bare(sharding, mesh)
    dims = dimension_axes(sharding, mesh) if mesh is not None else None
    tiles = sharding.data_tile_shape
    data: Data = {"w": _words(sharding, dims, mesh), "x": "", "a": [], "t": list(tiles)}
    if dims is not None and mesh is not None:
        data["x"] = "[" + ", ".join(str(DimensionSharding(axes)) for axes in dims) + "]"
        data["a"] = sorted({mesh.index(a.name) for axes in dims for a in axes})
    count = math.prod(tiles)
    if count <= _MOST_PARTS and sharding.num_devices <= _MOST_DEVICES:
        data["d"] = [sorted(row) for row in sharding.tile_assignment.reshape(count, -1).tolist()]
    return data


def _bare(sharding: HloSharding, mesh: Mesh | None) -> Data:
    """A sharding without tiles: on one device, on all, or as its kind says."""
    device = sharding.unique_device
    if device is not None:
        return {"w": f"the whole array on device {device}", "x": "", "a": [], "t": [], "d": [[device]]}
    data: Data = {"w": _BARE.get(sharding.type, sharding.type.value), "x": "", "a": [], "t": []}
    if sharding.is_replicated:
        data["x"] = "replicated"
        if mesh is not None and mesh.num_devices <= _MOST_DEVICES:
            data["d"] = [sorted(mesh.devices.flatten().tolist())]
    return data


def _words(sharding: HloSharding, dims: Sequence[Sequence[AxisRef]] | None, mesh: Mesh | None) -> str:
    """Describe each dimension: "dimension 0 in 4 parts along data; each part on 2 devices along
    model".
    """
    tiles = sharding.data_tile_shape
    said = []
    for d, count in enumerate(tiles):
        if count > 1:
            along = f" along {_names(dims[d])}" if dims is not None else ""
            said.append(f"dimension {d} in {count} parts{along}")
    copies = sharding.num_devices // math.prod(tiles)
    words = ", ".join(said) or "not split"
    others = [ShardingType.MANUAL, ShardingType.UNREDUCED]
    if not any(t in sharding.subgroup_types for t in others):
        rest = _unused(dims, mesh) if dims is not None and mesh is not None else ""
        return words + (f"; each part on {copies} devices{rest}" if copies > 1 else "")
    groups = dict(zip(sharding.subgroup_types, sharding.dimensions[len(tiles) :], strict=True))
    told = {
        ShardingType.MANUAL: "in {} parts chosen by the program (manual)",
        ShardingType.UNREDUCED: "as {} partial sums",
    }
    for kind in others:
        if kind in groups:
            words += "; " + told[kind].format(groups[kind])
    copies = groups.get(ShardingType.REPLICATED, 1)
    return words + (f"; each on {copies} devices" if copies > 1 else "")


def _unused(dims: Sequence[Sequence[AxisRef]], mesh: Mesh) -> str:
    """The axes along which parts are copies; "" where only a part of one is used."""
    used = [a for axes in dims for a in axes]
    if any(a.is_sub_axis for a in used):
        return ""
    names = {a.name for a in used}
    return " along " + " and ".join(n for n, size in mesh.axes if n not in names and size > 1)


def _names(axes: Sequence[AxisRef]) -> str:
    return " and ".join(f"{a.name}:({a.pre_size}){a.sub_size}" if a.is_sub_axis else a.name for a in axes)


class Shardings:
    """The shardings of the modules of a page, by mesh: {mesh: {"axes", "ids", "of": {text:
    sharding_data}}}.

    A module without a mesh of its own has that of the previous module in its trace, as passes drop
    it.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[ComputationRecord, frozenset[str]]] = {}
        self._meshes: dict[int, Mesh] = {}
        self._known: dict[str, set[str]] = {}
        self._new: dict[str, Data] = {}

    def of_module(self, trace: int, module: ModuleRecord) -> Data:
        """Return an artifact's sharding data; {} if nothing is sharded.

        `mesh` is the key of its mesh, `spmd` is set if its shapes are those of one device.
        """
        texts = frozenset[str]().union(*map(self._texts_of, module.computations))
        named = mesh_of(module)
        if named is not None:
            self._meshes[trace] = named
        if not texts:
            return {}
        parsed = {text: s for text in sorted(texts) if (s := parsed_sharding(text)) is not None}
        mesh = self._meshes.get(trace)
        if mesh is None and (mesh := guessed_mesh(parsed.values())) is not None:
            self._meshes[trace] = mesh
        key = str(mesh or "")
        known = self._known.setdefault(key, set())
        new = {text: sharding_data(s, mesh) for text, s in parsed.items() if text not in known}
        known.update(new)
        if new:
            axes = [list(axis) for axis in mesh.axes] if mesh is not None else []
            ids = mesh.devices.flatten().tolist() if mesh is not None and mesh.num_devices <= _MOST_PARTS else []
            self._new.setdefault(key, {"axes": axes, "ids": ids, "of": {}})["of"].update(new)
        return {"mesh": key} | ({"spmd": 1} if module.entry.endswith(PARTITIONED) else {})

    def _texts_of(self, computation: ComputationRecord) -> frozenset[str]:
        found = self._texts.get(id(computation))
        if found is None:
            texts = frozenset(i.sharding for i in computation.instructions if i.sharding)
            found = self._texts[id(computation)] = (computation, texts)
        return found[1]

    def take_new(self) -> dict[str, Data]:
        """Return the entries that are new since the last call."""
        new, self._new = self._new, {}
        return new


def merge_shardings(payload: Data, new: Mapping[str, Data]) -> None:
    """Add new entries to a payload, in place."""
    for key, table in new.items():
        kept = payload.setdefault("shardings", {}).setdefault(key, {**table, "of": {}})
        kept["of"].update(table["of"])


def parsed_sharding(text: str) -> HloSharding | None:
    """A sharding of its text; None of one that names a mesh of its own, which is words already."""
    try:
        return HloSharding.parse(text)
    except XlanbError:
        return None
