"""Rotate a split dimension by collective-permutes.

The partitioner itself makes the custom call `_SPMDInternalOp_RotateRight` of two slices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from xlanb.errors import PassError
from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.utilities import create_r0, make_partition_offsets, sharding_of

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor

ROTATE_RIGHT = "_SPMDInternalOp_RotateRight"

_O = HloOpcode
_ATTRIBUTE = re.compile(r"(\w+)=(-?\d+)")


def find_rotate_right_pattern(concatenate: HloInstruction) -> int | None:
    """Return by how much a concatenation of an array's two parts, back first, rotates it.

    Returns None if it is not one (FindRotateRightPattern).
    """
    if len(concatenate.operands) != 2:
        return None
    back, front = (skip_copies(o) for o in concatenate.operands)
    if back is None or front is None or not back.opcode is front.opcode is _O.SLICE:
        return None
    source = back.operands[0]
    if source is not front.operands[0] or source.array_shape.dimensions != concatenate.array_shape.dimensions:
        return None
    if source.array_shape.element_type is not concatenate.array_shape.element_type:
        return None
    if sharding_of(concatenate) != sharding_of(source):
        return None
    dim = concatenate.dimensions[0]
    first, second = back.attributes["slice"][dim], front.attributes["slice"][dim]
    if first.stride != 1 or second.stride != 1 or first.start != second.limit:
        return None
    return back.array_shape.dimensions[dim]


def skip_copies(hlo: HloInstruction, *, check_single_use: bool = True) -> HloInstruction | None:
    """Return the source of single-use copies; None if it has several uses."""
    while hlo.user_count == 1 and hlo.opcode is _O.COPY:
        hlo = hlo.operands[0]
    return None if check_single_use and hlo.user_count != 1 else hlo


def rotate_right_opaque(dim: int, amount: int) -> str:
    """Return the opaque text of the custom call."""
    return f"dimension={dim},amount={amount}"


def handle_rotate_right(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Send each shard's elements to their rotated position.

    Raises:
        PassError: the opaque text does not name a dimension and an amount of 0 or more.
    """
    given = {name: int(value) for name, value in _ATTRIBUTE.findall(hlo.attributes.get("opaque") or "")}
    if "dimension" not in given or given.get("amount", -1) < 0:
        raise PassError(f'expected opaque="dimension=N,amount=N" with an amount of 0 or more:\n  {hlo}')
    sharding = sharding_of(hlo)
    operand = v.resharded(hlo, 0, sharding)
    dim = given["dimension"]
    full = hlo.array_shape.dimensions[dim]
    amount = given["amount"] % full
    if amount == 0:
        v.set_partitioned(hlo, operand)
        return
    rotation = _Rotation(v, hlo, operand.hlo, sharding, dim)
    padding = rotation.shards * rotation.shard_size - full
    result = rotation.by(amount)
    if padding:
        # Elements that wrap around must skip the padding at the end.
        wrapped = rotation.by((amount + padding) % (rotation.shard_size * rotation.shards))
        result = _wrapped_below(v, hlo, sharding, dim, amount, wrapped, result)
    v.set_partitioned(hlo, result)


@dataclass(frozen=True)
class _Rotation:
    """A rotation of the shards of one dimension, with their padding.

    Shards that consist of padding take no part.
    """

    v: SpmdPartitioningVisitor
    hlo: HloInstruction
    shard: HloInstruction
    sharding: HloSharding
    dim: int

    @property
    def shard_size(self) -> int:
        return self.shard.array_shape.dimensions[self.dim]

    @property
    def shards(self) -> int:
        return -(-self.hlo.array_shape.dimensions[self.dim] // self.shard_size)

    def by(self, amount: int) -> HloInstruction:
        """Return the result's shard: pieces of one or two shards."""
        pieces: list[HloInstruction] = []
        done, size = 0, self.shard_size
        while done < size:
            distance = -((done - amount) // size)
            offset = distance * size - amount + done
            count = min(size - offset, size - done)
            done += count
            pieces.append(self._piece(offset, count, distance))
        if len(pieces) == 1:
            return pieces[0]
        return self.v.b.add(_O.CONCATENATE, pieces, self.shard.shape, dimensions=(self.dim,))

    def _piece(self, offset: int, count: int, distance: int) -> HloInstruction:
        piece = self.shard
        if count != self.shard_size:
            box = [SliceDimension(0, d) for d in piece.array_shape.dimensions]
            box[self.dim] = SliceDimension(offset, offset + count)
            piece = self.v.b.add(_O.SLICE, (piece,), slice=tuple(box))
        if distance == 0:
            return piece
        pairs = []
        devices = self.sharding.tile_assignment
        for index, device in np.ndenumerate(devices):
            if index[self.dim] < self.shards:
                to = list(index)
                to[self.dim] = (to[self.dim] + distance) % self.shards
                pairs.append((int(device), int(devices[tuple(to)])))
        reason = "the rotation moves each shard's elements to another device"
        with self.v.state.because(self.hlo, 0, self.sharding, self.sharding, reason, kind=CauseKind.HALO):
            return self.v.state.collectives.collective_permute(piece, pairs)


def _wrapped_below(
    v: SpmdPartitioningVisitor,
    hlo: HloInstruction,
    sharding: HloSharding,
    dim: int,
    amount: int,
    wrapped: HloInstruction,
    plain: HloInstruction,
) -> HloInstruction:
    """Select `wrapped` in the first `amount` elements of the whole, and `plain` after them."""
    b = v.b
    start = make_partition_offsets(hlo.array_shape, sharding, v.state.partition_id, b, (dim,))[dim]
    place = b.add(_O.IOTA, (), plain.array_shape.with_type(PrimitiveType.S32), iota_dimension=dim)
    left = b.add(_O.SUBTRACT, (create_r0(PrimitiveType.S32, amount, b), start), ArrayShape(PrimitiveType.S32, ()))
    boundary = b.add(_O.BROADCAST, (left,), place.shape, dimensions=())
    before = b.add(_O.COMPARE, (place, boundary), place.array_shape.with_type(PrimitiveType.PRED), direction="LT")
    return b.add(_O.SELECT, (before, wrapped, plain), plain.shape)
