"""XLA's implicit broadcasting, as in XlaBuilder.

Broadcasts scalars, dimensions of size 1, and ranks matched by broadcast_dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.errors import ShapeError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Layout

if TYPE_CHECKING:
    from xlanb.hlo.builder import HloBuilder


def broadcast_in_dim(
    b: HloBuilder, x: HloInstruction, sizes: tuple[int, ...], dimensions: tuple[int, ...]
) -> HloInstruction:
    """Broadcast `x` to `sizes`; its dimension i becomes dimensions[i].

    Dimensions of size 1 are removed by a reshape first, since HLO's broadcast never expands a
    dimension.

    Raises:
        ShapeError: a dimension of `x` is neither 1 nor the required size, or its rank is not the
            length of `dimensions`.
    """
    have = x.array_shape.dimensions
    fits = len(have) == len(dimensions) and all(
        0 <= d < len(sizes) and h in (1, sizes[d]) for h, d in zip(have, dimensions, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"cannot broadcast {x.name} of shape {x.shape} to {list(sizes)} with dimensions {list(dimensions)}"
        )
    if have == sizes and dimensions == tuple(range(len(sizes))):
        return x
    kept = [i for i, d in enumerate(dimensions) if have[i] == sizes[d]]
    if len(kept) < len(have):
        x = b.reshape(x, [have[i] for i in kept])
    places = tuple(dimensions[i] for i in kept)
    dynamic: tuple[bool, ...] = ()
    if x.array_shape.is_dynamic:
        moving = {p for p, flag in zip(places, x.array_shape.dynamic, strict=True) if flag}
        dynamic = tuple(d in moving for d in range(len(sizes)))
    shape = ArrayShape(x.array_shape.element_type, sizes, Layout.default(len(sizes)), dynamic)
    return b.instruction(HloOpcode.BROADCAST, (x,), shape, dimensions=places)


def broadcast_pair(
    b: HloBuilder, opcode: HloOpcode, x: HloInstruction, y: HloInstruction, dimensions: Sequence[int] | None
) -> tuple[HloInstruction, HloInstruction]:
    """Both operands of a binary opcode with the dimensions of the result (XlaBuilder::BinaryOp).

    Raises:
        ShapeError: the ranks differ, neither is a scalar, and no `broadcast_dimensions` are given;
            or the sizes are incompatible.
    """
    left, right = x.array_shape, y.array_shape
    if left.dimensions == right.dimensions:
        return x, y
    if not left.dimensions or not right.dimensions:
        wide = right.dimensions or left.dimensions
        return broadcast_in_dim(b, x, wide, tuple(range(left.rank))), broadcast_in_dim(
            b, y, wide, tuple(range(right.rank))
        )
    if left.rank != right.rank and dimensions is None:
        raise ShapeError(
            f"{opcode}({left}, {right}): expected operands of the same rank, a scalar, or broadcast_dimensions"
        )
    rank = max(left.rank, right.rank)
    identity = tuple(range(rank))
    places = [identity if s.rank == rank else tuple(dimensions or ()) for s in (left, right)]
    sizes = [1] * rank
    for shape, place in zip((left, right), places, strict=True):
        if len(place) != shape.rank or any(not 0 <= d < rank for d in place):
            raise ShapeError(f"{opcode}({left}, {right}): the broadcast_dimensions do not match: {list(place)}")
        for size, d in zip(shape.dimensions, place, strict=True):
            if sizes[d] not in (1, size) and size != 1:
                raise ShapeError(f"{opcode}({left}, {right}): dimension {d} has the sizes {sizes[d]} and {size}")
            sizes[d] = size if sizes[d] == 1 else sizes[d]
    return broadcast_in_dim(b, x, tuple(sizes), places[0]), broadcast_in_dim(b, y, tuple(sizes), places[1])


def broadcast_scalars(b: HloBuilder, xs: Sequence[HloInstruction]) -> tuple[HloInstruction, ...]:
    """The operands, with scalars broadcast to the dimensions of the first non-scalar operand."""
    wide = next((x.array_shape.dimensions for x in xs if x.array_shape.dimensions), ())
    return tuple(broadcast_in_dim(b, x, wide, ()) if wide and not x.array_shape.dimensions else x for x in xs)
