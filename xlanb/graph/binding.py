"""How Python calls a TensorFlow program: what `xlanb.peers` knows of the objects behind a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from xlanb.lazy_dataclass import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CallRequest:
    """The call for which a program is traced.

    Attributes:
        args: arrays, specs or structures of them.
        named: named arguments.
        batch: the size of the first dimension of a model's inputs if the model leaves it open; None
            keeps it open.
        is_compiled: trace as for `jit_compile=True`, where gradients of loops keep lists of a known
            size.
    """

    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    is_compiled: bool = False


class Binding(Protocol):
    """The function behind a graph, its variables, and the structure of its arguments and results.

    Attributes:
        freezes_weights: whether variables that are only read are constants of the program.
        targets: names of the nodes that a call runs for their effects.
    """

    freezes_weights: bool
    targets: tuple[str, ...]

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Array]:
        """Flatten a call's arguments to the arrays of `graph.inputs`.

        Raises:
            ArgumentError: they have another structure.
        """

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Assemble the function's return value from the arrays of `graph.outputs`."""

    def read(self, name: str) -> Array:
        """The value that the variable of this node has now."""

    def write(self, values: Mapping[str, Any]) -> None:
        """Assign new values to variables, by their nodes."""


def python_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a Python function; None where Python does not know it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some functions of extensions have none
        return None
