"""Limits on the sizes that a few bytes of a graph can request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphValueError

LARGEST_TENSOR: Final = 1 << 33
"""Bytes of one tensor: a file with more is damaged or malicious."""
LARGEST_FILE: Final = 1 << 31
"""The largest file in bytes: the limit of protocol buffers."""
LARGEST_EXPANSION: Final = 1 << 28
"""Bytes of a value that is computed, or filled up, while a graph is read, folded or lowered."""


def check_bytes(what: str, dims: Sequence[int], itemsize: int, limit: int = LARGEST_TENSOR) -> None:
    """Raise GraphValueError if an array exceeds the limit in bytes; `what` begins the message.

    The strides of an empty array, too, must be addressable: its other dimensions' product must fit
    64 bits.
    """
    size = math.prod(dims) * itemsize
    if size > limit:
        raise GraphValueError(f"{what} of shape {list(dims)} takes {size:,} bytes, more than the limit of {limit:,}")
    if math.prod(d for d in dims if d) * itemsize >= 1 << 63:
        raise GraphValueError(f"{what} of shape {list(dims)} has no elements, but dimensions that overflow 64 bits")


def stored(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the stored part of an array: all, or one element of a splat, with the same rank."""
    return value[(slice(1),) * value.ndim] if is_splat(value) else value


def is_splat(value: Any) -> bool:
    """Whether an array is one stored value, repeated, as `numpy.broadcast_to` makes of a scalar."""
    return isinstance(value, np.ndarray) and value.size > 1 and not any(value.strides)
