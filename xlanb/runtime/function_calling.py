"""Calling convention of functions compiled over `xlanb.tf`: arrays in, results as in Python out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError
from xlanb.graph.builders import nest
from xlanb.lazy_dataclass import dataclass
from xlanb.wording import counted


@dataclass(frozen=True)
class FunctionCalling:
    """The calling convention of a function (see `xlanb.hlo.calling.CallingConvention`).

    Attributes:
        name: The function's name, for messages.
        names: The name of each parameter of the module: one per argument.
        structure: The function's result, with the number of a result of the module in place of
            each tensor.
    """

    name: str
    names: tuple[str, ...]
    structure: Any = field(hash=False)

    @property
    def is_plain(self) -> bool:
        """Whether the function returns a tuple of tensors, as the module does."""
        return type(self.structure) is tuple and self.structure == tuple(range(len(self.structure)))

    @property
    def is_flat(self) -> bool:
        """Whether the function returns a tensor, or a tuple or list of tensors."""
        numbers = self.structure if type(self.structure) in (tuple, list) else (self.structure,)
        return all(isinstance(n, int) for n in numbers)

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The arguments as arrays.

        Raises:
            ArgumentError: Their number differs, or some are named.
        """
        if named:
            raise ArgumentError(f"{self.name} was compiled for arguments by position, not {', '.join(named)}=")
        if len(args) != len(self.names):
            raise ArgumentError(f"{self.name} takes {counted(len(self.names), 'argument')}, {len(args)} given")
        return [np.asarray(a) for a in args]

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The results in the structure that the function returned."""
        del args, named
        return results[0] if self.structure == 0 else nest.pack_like(self.structure, list(results))


def calling_of(name: str, names: Sequence[str], result: Any) -> FunctionCalling:
    """The calling convention of a function that returned `result` when it was traced."""
    numbers = iter(range(len(nest.flatten(result))))
    return FunctionCalling(name, tuple(names), nest.map_structure(lambda _: next(numbers), result))
