"""Calling conventions: how arguments of a module's source function map to its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from xlanb.shape import ArrayShape, Shape


class CallingConvention(Protocol):
    """How the function that a module was created from is called.

    Maps its arguments to the module's arrays, and the module's results to its results.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The function's name of each parameter of the module, as in `params['w']`."""

    @property
    def is_plain(self) -> bool:
        """Whether the function's arguments and results are the module's arrays unchanged."""

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """One array per parameter; raises ArgumentError if the arguments do not match."""

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The function's return value for these arguments, from the module's results."""


def flat_arguments(calling: CallingConvention | None, shapes: Sequence[Shape], given: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays for a module's parameters, from the arguments of its source function.

    Arrays that match the parameters' shapes are returned unchanged.

    Raises:
        ArgumentError: the structure differs from that of the function's arguments.
    """
    if calling is None or _fit(given, shapes):
        return tuple(given)
    return tuple(calling.flatten(tuple(given), {}))


def _fit(given: Sequence[Any], shapes: Sequence[Shape]) -> bool:
    """Whether these are NumPy arrays with the dtypes and dimensions of these shapes."""
    return len(given) == len(shapes) and all(
        isinstance(v, np.ndarray) and isinstance(s, ArrayShape) and (v.dtype, v.shape) == (s.dtype, s.dimensions)
        for v, s in zip(given, shapes, strict=True)
    )
