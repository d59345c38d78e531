"""Arrays of dynamic size in memory, as in XLA's runtime.

The elements are contiguous, in memory for the bound, followed by the sizes: an s32 per dimension.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.shape import ArrayShape

Array = NDArray[Any]


def sizes_at(shape: ArrayShape, address: int) -> Array:
    """A view of the sizes after the elements of an array."""
    where = address + shape.byte_size
    return np.ctypeslib.as_array((ctypes.c_uint8 * (4 * shape.rank)).from_address(where)).view(np.int32)


def unpacked(shape: ArrayShape, address: int) -> Array:
    """A view of the array at an address, in its actual size; sizes are clamped to the bound."""
    sizes = [int(min(max(n, 0), d)) for n, d in zip(sizes_at(shape, address), shape.dimensions, strict=True)]
    order = tuple(reversed(shape.minor_to_major))
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * max(shape.byte_size, 1)).from_address(address))
    count = int(np.prod(sizes, dtype=np.int64))
    dense: Array = memory[: count * shape.dtype.itemsize].view(shape.dtype).reshape([sizes[d] for d in order])
    return dense.transpose(np.argsort(order))


def packed(shape: ArrayShape, value: Array, address: int) -> None:
    """Write an array, no larger than the bound, with its sizes."""
    sizes_at(shape, address)[:] = value.shape
    unpacked(shape, address)[...] = value
