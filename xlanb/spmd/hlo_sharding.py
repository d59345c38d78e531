"""HloSharding: how one value is sharded over the devices, in HLO's form.

Follows xla/hlo/ir/hlo_sharding.h.

    {devices=[4,1,2]<=[8] last_tile_dim_replicate}    dimension 0 in four parts, each on two devices

A sharding is a value: frozen, hashable, and equal to any other that puts the same data on the same
devices, however it is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_sharding import canonical_iota, parse_sharding, sharding_elements, tuple_sharding
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Shape, TupleShape

Devices = npt.NDArray[np.int64]


class ShardingType(Enum):
    """What the devices of a sharding, or of a subgroup, do with the data.

    The order is the one in which XLA sorts subgroups.
    """

    MAXIMAL = "maximal"
    TUPLE = "tuple"
    TILED = "tiled"
    MANUAL = "manual"
    UNREDUCED = "unreduced"
    REPLICATED = "replicated"
    UNKNOWN = "unknown"


_T = ShardingType
_WHOLE = frozenset((_T.REPLICATED, _T.MAXIMAL))
_ORDER = {t: n for n, t in enumerate(ShardingType)}


@dataclass(frozen=True, eq=False, repr=False)
class HloSharding(Displayable):
    """One sharding, or a tuple of them.

    Attributes:
        tile_assignment: the device of each tile. One dimension for each data dimension, then one
            for each subgroup (`subgroup_types`) or, with `replicate_on_last_tile_dim`, one for the
            devices that hold the same tile. Read-only; empty if there are no tiles, `[device]` if
            one device holds everything.
        group: the shard group in XLA's text (`shard_as 1`).
        metadata: the text of its metadata.
        listed: whether the text lists every device.
    """

    type: ShardingType
    tile_assignment: Devices = field(default_factory=lambda: _NO_DEVICES)
    replicate_on_last_tile_dim: bool = False
    subgroup_types: tuple[ShardingType, ...] = ()
    tuple_elements: tuple[HloSharding, ...] = ()
    group: str = ""
    metadata: str = ""
    listed: bool = False

    # -- construction ------------------------------------------------------------------------------

    @staticmethod
    def replicate() -> HloSharding:
        """Every device holds the whole."""
        return _REPLICATED

    @staticmethod
    def manual() -> HloSharding:
        """Each device holds what the program says; the partitioner does not change it."""
        return _MANUAL

    @staticmethod
    def unknown() -> HloSharding:
        """A placeholder."""
        return _UNKNOWN

    @staticmethod
    def unreduced() -> HloSharding:
        """Each device holds one term of the sum."""
        return _UNREDUCED

    @staticmethod
    def assign_device(device: int) -> HloSharding:
        """One device holds the whole."""
        return HloSharding(_T.MAXIMAL, _devices(np.array([device])))

    @staticmethod
    def tile(assignment: npt.ArrayLike) -> HloSharding:
        """One tile per device; the dimensions of `assignment` are the data's."""
        return HloSharding(_T.TILED, _devices(assignment))

    @staticmethod
    def iota_tile(
        tile_dims: Sequence[int], reshape_dims: Sequence[int] = (), transpose_perm: Sequence[int] = ()
    ) -> HloSharding:
        """`tile` with devices numbered in order.

        The devices are arange reshaped to `reshape_dims`, transposed by `transpose_perm`, then
        reshaped to
        `tile_dims`.
        """
        return HloSharding.tile(iota_assignment(tile_dims, reshape_dims, transpose_perm))

    @staticmethod
    def partial_tile(assignment: npt.ArrayLike) -> HloSharding:
        """Tiles whose last dimension lists the devices that hold the same tile.

        Returns a simpler form if one is equivalent (HloSharding::PartialTile).
        """
        array = np.asarray(assignment, np.int64)
        if array.ndim == 1 or array.shape[-1] == array.size:
            return _REPLICATED
        if array.shape[-1] == 1:
            return HloSharding.tile(array[..., 0])
        return HloSharding(_T.TILED, _devices(np.sort(array, axis=-1)), replicate_on_last_tile_dim=True)

    @staticmethod
    def subgroup(assignment: npt.ArrayLike, types: Sequence[ShardingType]) -> HloSharding:
        """Tiles whose last dimensions are subgroups of these types (HloSharding::Subgroup).

        Merges subgroups of one type, drops those of size 1, and puts the replicated one last.
        """
        array = np.asarray(assignment, np.int64)
        if not types:
            return HloSharding.tile(array)
        rank = array.ndim - len(types)
        if len(set(types)) == 1 and math.prod(array.shape[:rank]) == 1 and types[0] in _BARE:
            return _BARE[types[0]]
        sizes: dict[ShardingType, int] = {}
        order = sorted((n for n in range(len(types)) if array.shape[rank + n] != 1), key=lambda n: _ORDER[types[n]])
        for n in order:
            sizes[types[n]] = sizes.get(types[n], 1) * array.shape[rank + n]
        rest = [n for n in range(len(types)) if n not in order]
        array = array.transpose((*range(rank), *(rank + n for n in (*order, *rest))))
        array = array.reshape((*array.shape[:rank], *sizes.values()))
        kinds = tuple(sizes)
        if not kinds:
            return HloSharding.tile(array)
        if kinds == (_T.REPLICATED,):
            return HloSharding.partial_tile(array)
        if kinds == (_T.MANUAL,) and array.shape[-1] == array.size:
            return _MANUAL
        if kinds[-1] is _T.REPLICATED:
            array = np.sort(array, axis=-1)
        return HloSharding(_T.TILED, _devices(array), subgroup_types=kinds)

    @staticmethod
    def tuple_of(elements: Iterable[HloSharding]) -> HloSharding:
        """A tuple of the leaves' shardings, possibly empty."""
        return HloSharding(_T.TUPLE, tuple_elements=tuple(elements))

    @staticmethod
    def single_tuple(shape: Shape, sharding: HloSharding) -> HloSharding:
        """The same sharding for each leaf of a tuple's shape."""
        return HloSharding.tuple_of([sharding] * max(1, _leaf_count(shape)))

    @staticmethod
    def parse(text: str, shape: Shape | None = None) -> HloSharding:
        """Parse a sharding from XLA's text.

        With a tuple `shape`, a text with a single sharding applies to every leaf.

        Raises:
            HloParseError: the text is not a sharding.
        """
        return _parse(text if shape is None else tuple_sharding(text, shape))

    # -- properties --------------------------------------------------------------------------------

    @property
    def is_tuple(self) -> bool:
        """Whether it is a tuple of shardings."""
        return self.type is _T.TUPLE

    def _all(self, *types: ShardingType) -> bool:
        return all(e.type in types for e in self.tuple_elements) if self.is_tuple else self.type in types

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole."""
        return self._all(_T.REPLICATED)

    @property
    def is_tile_maximal(self) -> bool:
        """Whether a tile is as large as the data: replicated, or on one device."""
        return self._all(*_WHOLE)

    @property
    def is_manual(self) -> bool:
        """Whether the program says what each device holds."""
        return self._all(_T.MANUAL)

    @property
    def is_unknown(self) -> bool:
        """Whether it is a placeholder."""
        return self._all(_T.UNKNOWN)

    @property
    def is_unreduced(self) -> bool:
        """Whether each device holds a term of the sum."""
        return self._all(_T.UNREDUCED)

    @property
    def is_tiled(self) -> bool:
        """Whether it is tiled: not replicated, manual, unreduced, unknown or on one device."""
        return self._all(_T.TILED)

    @property
    def is_manual_subgroup(self) -> bool:
        """Whether it has a manual subgroup beside other dimensions."""
        if self.is_tuple:
            return all(e.is_manual_subgroup for e in self.tuple_elements)
        return _T.MANUAL in self.subgroup_types

    @property
    def has_partial_replication(self) -> bool:
        """Whether a tile is on several devices."""
        return self.replicate_on_last_tile_dim or _T.REPLICATED in self.subgroup_types

    @property
    def is_shard_group(self) -> bool:
        """Whether it belongs to a shard group."""
        return bool(self.group)

    @property
    def unique_device(self) -> int | None:
        """The device that holds everything, or None if there are several."""
        if self.is_tuple:
            devices = {e.unique_device for e in self.tuple_elements}
            return devices.pop() if len(devices) == 1 else None
        return int(self.tile_assignment[0]) if self.type is _T.MAXIMAL else None

    @property
    def has_unique_device(self) -> bool:
        """Whether one device holds everything."""
        return self.unique_device is not None

    # -- tiles -------------------------------------------------------------------------------------

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the tile assignment's dimensions."""
        return self.tile_assignment.shape

    def dimension(self, number: int) -> int:
        """Number of tiles along one dimension."""
        return int(self.tile_assignment.shape[number])

    @property
    def num_devices(self) -> int:
        """Number of devices of the tile assignment."""
        return self.tile_assignment.size

    @property
    def tiled_data_rank(self) -> int:
        """Number of dimensions of the data."""
        return self.tile_assignment.ndim - (1 if self.replicate_on_last_tile_dim else len(self.subgroup_types))

    @property
    def data_tile_shape(self) -> tuple[int, ...]:
        """Number of tiles along each dimension of the data."""
        return self.tile_assignment.shape[: self.tiled_data_rank]

    @property
    def total_num_tiles(self) -> int:
        """Number of tiles, including subgroup and replication dimensions."""
        return 1 if self.is_tile_maximal else self.tile_assignment.size

    def num_tiles(self, dims: Iterable[int] | None = None) -> int:
        """Number of tiles of the data, or along some of its dimensions."""
        if self.is_tile_maximal:
            return 1
        return math.prod(self.data_tile_shape if dims is None else (self.dimension(d) for d in dims))

    @property
    def subgroup_replication_dim(self) -> int:
        """The dimension of replication, or -1."""
        if _T.REPLICATED in self.subgroup_types:
            return self.subgroup_types.index(_T.REPLICATED) + self.tiled_data_rank
        return self.tile_assignment.ndim - 1 if self.replicate_on_last_tile_dim else -1

    @property
    def subgroup_manual_dim(self) -> int:
        """The dimension of the manual subgroup, or -1."""
        if _T.MANUAL in self.subgroup_types:
            return self.subgroup_types.index(_T.MANUAL) + self.tiled_data_rank
        return -1

    def tile_shape(self, shape: Shape, device: int | None = None) -> Shape:
        """The shape of the largest tile, or with `device` that device's tile without padding."""
        if isinstance(shape, TupleShape):
            return TupleShape(
                tuple(self.subsharding(shape, n).tile_shape(e, device) for n, e in enumerate(shape.shapes))
            )
        if self.type is not _T.TILED or not isinstance(shape, ArrayShape):
            return shape
        if device is None:
            tiles = self.data_tile_shape
            dims = tuple(-(-d // t) for d, t in zip(shape.dimensions, tiles, strict=True))
        else:
            limit, offset = self.tile_limit_for_device(shape, device), self.tile_offset_for_device(shape, device)
            dims = tuple(b - a for a, b in zip(offset, limit, strict=True))
        return shape if dims == shape.dimensions else _resized(shape, dims)

    def tile_index_for_device(self, device: int) -> tuple[int, ...]:
        """The tile that a device holds, as an index per data dimension."""
        return self.tile_indices[device]

    @cached_property
    def tile_indices(self) -> dict[int, tuple[int, ...]]:
        """The tile that each device holds, as an index per data dimension."""
        rank = self.tiled_data_rank
        return {int(d): index[:rank] for index, d in np.ndenumerate(self.tile_assignment)}

    def tile_offset_for_device(self, shape: ArrayShape, device: int) -> tuple[int, ...]:
        """Where the tile of a device starts."""
        return self._edge(shape, device, 0)

    def tile_limit_for_device(self, shape: ArrayShape, device: int) -> tuple[int, ...]:
        """Where the tile of a device ends."""
        return self._edge(shape, device, 1)

    def _edge(self, shape: ArrayShape, device: int, next_tile: int) -> tuple[int, ...]:
        if self.type in _WHOLE:
            return shape.dimensions if next_tile else (0,) * shape.rank
        index, tiles = self.tile_index_for_device(device), self.data_tile_shape
        return tuple(
            min((i + next_tile) * -(-d // t), d) for i, d, t in zip(index, shape.dimensions, tiles, strict=True)
        )

    # -- tuples ------------------------------------------------------------------------------------

    def subsharding(self, shape: Shape, *index: int) -> HloSharding:
        """Return the sharding of a tuple's element.

        A sharding that is not a tuple applies to each element.
        """
        if not self.is_tuple:
            return self
        start = 0
        for number in index:
            if not isinstance(shape, TupleShape):
                raise XlanbError(f"the sharding {self} has no element {list(index)}")
            start += sum(_leaf_count(e) for e in shape.shapes[:number])
            shape = shape.shapes[number]
        if isinstance(shape, TupleShape):
            return HloSharding.tuple_of(self.tuple_elements[start : start + _leaf_count(shape)])
        return self.tuple_elements[start]

    def normalize_tuple(self, shape: Shape) -> HloSharding:
        """Return a tuple of this sharding per leaf if the shape is a tuple and this is not."""
        return self if self.is_tuple or not isinstance(shape, TupleShape) else HloSharding.single_tuple(shape, self)

    @property
    def leaves(self) -> Iterator[HloSharding]:
        """Return the shardings of a tuple's leaves, or itself."""
        return iter(self.tuple_elements if self.is_tuple else (self,))

    # -- text and equality -------------------------------------------------------------------------

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        if self.is_tuple:
            return (self.type, self.tuple_elements)
        array = self.tile_assignment
        return (
            self.type,
            array.shape,
            array.tobytes(),
            self.replicate_on_last_tile_dim,
            self.subgroup_types,
            self.group,
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, HloSharding) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _text(self) -> str:
        if self.is_tuple:
            return "{" + ", ".join(map(str, self.tuple_elements)) + "}"
        tail = (f" {self.group}" if self.group else "") + (f" metadata={self.metadata}" if self.metadata else "")
        if self.type is _T.MAXIMAL:
            return f"{{maximal device={self.unique_device}{tail}}}"
        if self.type is not _T.TILED:
            return f"{{{self.type.value}{tail}}}"
        iota = None if self.listed else _as_iota(self.tile_assignment)
        devices = f"<={iota}" if iota else ",".join(map(str, self.tile_assignment.reshape(-1).tolist()))
        last = " last_tile_dim_replicate" if self.replicate_on_last_tile_dim else ""
        if self.subgroup_types:
            last = " last_tile_dims={" + ", ".join(t.value for t in self.subgroup_types) + "}"
        tiles = ",".join(map(str, self.dimensions))
        return f"{{devices=[{tiles}]{devices}{last}{tail}}}"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<HloSharding {self}>"


def iota_assignment(
    tile_dims: Sequence[int], reshape_dims: Sequence[int] = (), transpose_perm: Sequence[int] = ()
) -> Devices:
    """Return the devices of `[tile_dims]<=[reshape_dims]T(transpose_perm)`."""
    array: Devices = np.arange(math.prod(tile_dims), dtype=np.int64)
    if reshape_dims:
        array = array.reshape(tuple(reshape_dims)).transpose(tuple(transpose_perm or range(len(reshape_dims))))
    return array.reshape(tuple(tile_dims))


def as_listed(sharding: HloSharding) -> HloSharding:
    """Return the same sharding with a text that lists the devices.

    XLA keeps an explicit device array even if an iota would express it.
    """
    if sharding.type is not _T.TILED or sharding.listed:
        return sharding
    return replace(sharding, listed=True)


def _devices(array: npt.ArrayLike) -> Devices:
    """Return a read-only copy as an array of device numbers."""
    made = np.array(array, np.int64, order="C")
    made.flags.writeable = False
    return made


def _resized(shape: ArrayShape, dims: tuple[int, ...]) -> ArrayShape:
    return ArrayShape(shape.element_type, dims, shape.layout, shape.dynamic)


def _leaf_count(shape: Shape) -> int:
    return sum(1 for _ in shape.leaves())


def _as_iota(array: Devices) -> str | None:
    """Return XLA's iota text for these devices, or None if no iota gives them."""
    left = array.ravel()
    if left.size == 0 or left[0] != 0:
        return None
    runs: list[tuple[int, int]] = []  # stride and size, from the fastest dimension on
    while left.size > 1:
        stride = int(left[1])
        expected = np.arange(left.size) * stride
        wrong = np.flatnonzero(left != expected)
        size = int(wrong[0]) if wrong.size else left.size
        if stride <= 0 or left.size % size:
            return None
        runs.append((stride, size))
        left = left[::size].ravel()
    runs.reverse()
    by_stride = sorted(range(len(runs)), key=lambda n: -runs[n][0])
    dims = tuple(runs[n][1] for n in by_stride) or (1,)
    perm = tuple(by_stride.index(n) for n in range(len(runs))) or (0,)
    if not np.array_equal(np.arange(array.size).reshape(dims).transpose(perm).reshape(-1), array.reshape(-1)):
        return None
    return canonical_iota(dims, perm)


_NO_DEVICES: Devices = _devices(np.zeros(0))
_REPLICATED = HloSharding(_T.REPLICATED)
_MANUAL = HloSharding(_T.MANUAL)
_UNKNOWN = HloSharding(_T.UNKNOWN)
_UNREDUCED = HloSharding(_T.UNREDUCED)
_BARE = {_T.REPLICATED: _REPLICATED, _T.MANUAL: _MANUAL, _T.UNREDUCED: _UNREDUCED}

_GROUP = pattern(r" (shard_(?:as|like) \d+)")
_METADATA = pattern(r" metadata=(\{.*\})\}$")
_TILES = pattern(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,-]+))(?: "
    r"(last_tile_dim_replicate)| last_tile_dims=\{([^}]*)\})?"
)


named_sharding: Final[Hook[[str], HloSharding]] = Hook("spmd.named_sharding")
"""Parses a sharding by mesh and axes into tiles; set by the module that knows meshes."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> HloSharding:
    canonical = parse_sharding(Cursor(text))
    if canonical.startswith("{{") or canonical == "{}":
        return HloSharding.tuple_of(_parse(e) for e in sharding_elements(canonical))
    if canonical.startswith(("{mesh", "{maximal_mesh")):
        return named_sharding(canonical)
    metadata = _METADATA.search(canonical)
    head = canonical[: metadata.start()] if metadata else canonical
    group = _GROUP.search(head)
    made = _parse_tiles(head)
    return HloSharding(
        made.type,
        made.tile_assignment,
        made.replicate_on_last_tile_dim,
        made.subgroup_types,
        group=group[1] if group else "",
        metadata=metadata[1] if metadata else "",
        listed=made.listed,
    )


def _parse_tiles(text: str) -> HloSharding:
    """Parse a canonical sharding of one value, without its metadata and group."""
    found = _TILES.match(text)
    if not found:
        word = re.split(r"[ }]", text[1:], maxsplit=1)[0]
        if word == "maximal":
            return HloSharding.assign_device(int(text.partition("device=")[2].split("}")[0].split(" ")[0]))
        return HloSharding(ShardingType(word))
    tiles, reshape, perm, listed, replicated, types = found.groups()
    if listed:
        array = np.array(_ints(listed)).reshape(_ints(tiles))
    else:
        array = iota_assignment(_ints(tiles), _ints(reshape), _ints(perm or ""))
    kinds = tuple(ShardingType(t) for t in types.split(", ")) if types else ()
    return HloSharding(_T.TILED, _devices(array), bool(replicated), kinds, listed=bool(listed))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
