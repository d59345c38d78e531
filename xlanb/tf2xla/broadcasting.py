"""NumPy-style broadcasting between HLO values, as TensorFlow's binary ops do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.errors import GraphError, ShapeError
from xlanb.graph.limits import is_splat
from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.hlo.builder import HloBuilder


def broadcast_dimensions(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The dimensions that two shapes broadcast to.

    Raises:
        ShapeError: they do not fit each other.
    """
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b), strict=True)
    found = tuple(y if x == 1 else x for x, y in pairs if x == y or 1 in {x, y})
    if len(found) < rank:
        raise ShapeError(f"shapes {list(a)} and {list(b)} do not broadcast to each other")
    return found


def broadcast_to(b: HloBuilder, x: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    """`x` repeated to `dimensions`; dimensions of size 1 stretch, missing ones are put in front.

    Raises:
        ShapeError: a dimension of `x` is neither 1 nor the wanted size.
    """
    have, want = x.array_shape.dimensions, tuple(dimensions)
    if have == want:
        return x
    offset = len(want) - len(have)
    if offset < 0 or any(h not in (1, w) for h, w in zip(have, want[offset:], strict=True)):
        raise ShapeError(f"cannot broadcast {list(have)} to {list(want)}")
    # A dimension of size 1 that must stretch is dropped first: HLO's broadcast never stretches.
    kept = [i for i, h in enumerate(have) if h == want[offset + i]]
    if len(kept) < len(have):
        x = b.reshape(x, [have[i] for i in kept])
    return b.broadcast_in_dim(x, want, [offset + i for i in kept])


def constant(b: HloBuilder, value: NDArray[Any]) -> HloInstruction:
    """A constant; one value that is repeated (a splat) is broadcast, not written out."""
    if is_splat(value):
        return broadcast_to(b, b.constant(value[(0,) * value.ndim]), value.shape)
    return b.constant(value)


def binary(b: HloBuilder, opcode: HloOpcode, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    """`opcode` of two values, broadcast to each other."""
    x, y = broadcast_pair(b, x, y)
    return b.binary(opcode, x, y)


def broadcast_pair(b: HloBuilder, x: HloInstruction, y: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """Both values broadcast to each other's dimensions."""
    if x.array_shape.dimensions == y.array_shape.dimensions:
        return x, y
    x, y = with_one_bound(b, x, y)
    want = broadcast_dimensions(x.array_shape.dimensions, y.array_shape.dimensions)
    return broadcast_to(b, x, want), broadcast_to(b, y, want)


def with_one_bound(b: HloBuilder, x: HloInstruction, y: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """Cut dynamic dimensions that are combined to the smaller bound; their run-time sizes are
    equal.

    Returns both values.
    """
    shapes = x.array_shape, y.array_shape
    for back in range(1, min(s.rank for s in shapes) + 1):
        p, q = (s.rank - back for s in shapes)
        m, n = shapes[0].dimensions[p], shapes[1].dimensions[q]
        if m > n > 1 and shapes[0].is_dynamic_dimension(p):
            x = _cut(b, x, p, n)
        elif n > m > 1 and shapes[1].is_dynamic_dimension(q):
            y = _cut(b, y, q, m)
    return x, y


def _cut(b: HloBuilder, x: HloInstruction, dimension: int, bound: int) -> HloInstruction:
    """The array with a smaller bound of a dynamic dimension."""
    dims = x.array_shape.dimensions
    size = b.minimum(b.get_dimension_size(x, dimension), b.constant(np.int32(bound)))
    whole = b.set_dimension_size(x, b.constant(np.int32(dims[dimension])), dimension)
    limits = [bound if d == dimension else n for d, n in enumerate(dims)]
    part = b.slice(whole, [0] * len(dims), limits)
    return b.set_dimension_size(part, size, dimension)


def canonical_axes(axes: Sequence[int], rank: int, node: str) -> list[int]:
    """Axes as numbers from 0, each once, sorted.

    Raises:
        GraphError: one is out of range; names the node.
    """
    out = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise GraphError(f"node {node!r}: axis {axis} is out of range for {rank} dimensions")
        out.add(axis % rank)
    return sorted(out)


def canonical_axis(axis: int, rank: int, node: str) -> int:
    """Return an axis as a number from 0. Raises GraphError if it is out of range."""
    return canonical_axes([axis], rank, node)[0]
