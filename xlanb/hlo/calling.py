"""Calling conventions: map the arguments of the function that a module was created from to the
module's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from xlanb.shape import ArrayShape, Shape


class CallingConvention(Protocol):
    """How a function that a module was made of is called: its arguments to the module's arrays, the module's arrays to its results."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the function calls each parameter of the module, as in `params['w']`."""

    @property
    def is_plain(self) -> bool:
        """Whether the function takes and gives the module's arrays as they are."""

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """One array for each parameter; raises ArgumentError where the arguments do not fit."""

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """What the function returns for these arguments, of the arrays that the module gave."""


def flat_arguments(calling: CallingConvention | None, shapes: Sequence[Shape], given: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays that a module with parameters of these shapes takes, of what its function is called with; arrays that fit the parameters as they are stay so.

    Raises:
        ArgumentError: they have another structure than the function's arguments.
    """
    if calling is None or _fit(given, shapes):
        return tuple(given)
    return tuple(calling.flatten(tuple(given), {}))


def _fit(given: Sequence[Any], shapes: Sequence[Shape]) -> bool:
    """Whether these are NumPy arrays of the dtypes and dimensions of these shapes."""
    return len(given) == len(shapes) and all(
        isinstance(v, np.ndarray) and isinstance(s, ArrayShape) and (v.dtype, v.shape) == (s.dtype, s.dimensions)
        for v, s in zip(given, shapes, strict=True)
    )
