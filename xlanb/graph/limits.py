"""How large things may become that a graph asks for in a few bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphValueError

LARGEST_TENSOR: Final = 1 << 33
"""Bytes of one tensor: a file with more is damaged or malicious."""
LARGEST_FILE: Final = 1 << 31
"""Bytes of a file: a protocol buffer cannot be larger, and a text of that size is not a vocabulary."""
LARGEST_EXPANSION: Final = 1 << 28
"""Bytes of a value that is computed, or filled up, while a graph is read, folded or lowered."""


def check_bytes(what: str, dims: Sequence[int], itemsize: int, limit: int = LARGEST_TENSOR) -> None:
    """Raise GraphValueError where an array would be larger than a limit; `what` says which, and begins the message.

    An empty array, too, has strides: its other dimensions together must be addressable.
    """
    size = math.prod(dims) * itemsize
    if size > limit:
        raise GraphValueError(f"{what} of shape {list(dims)} takes {size:,} bytes, more than the limit of {limit:,}")
    if math.prod(d for d in dims if d) * itemsize >= 1 << 63:
        raise GraphValueError(f"{what} of shape {list(dims)} has no elements, but dimensions that overflow 64 bits")


def stored(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What of an array lies in memory: the array, or one element of a splat, of as many dimensions."""
    return value[(slice(1),) * value.ndim] if is_splat(value) else value


def is_splat(value: Any) -> bool:
    """Whether an array is one value in memory, repeated: what `numpy.broadcast_to` makes of a scalar."""
    return isinstance(value, np.ndarray) and value.size > 1 and not any(value.strides)
