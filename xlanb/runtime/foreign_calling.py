"""Calling convention of compiled TensorFlow programs.

Variables are read before a call and assigned after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlanb.graph.binding import Binding
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.lazy_dataclass import dataclass
from xlanb.tf2xla.compiler import CompilationResult


@dataclass(frozen=True)
class ForeignCalling:
    """The calling convention of a TensorFlow function (see `xlanb.hlo.calling.CallingConvention`).

    Attributes:
        binding: The function's arguments, results and variables.
        parameters: For each parameter of the module the number of the input, or the name of the
            variable.
        updates: The variables whose new values the module returns after the results.
        names: The name of each parameter of the module.
    """

    binding: Binding
    parameters: tuple[int | str, ...]
    updates: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """False: results have the function's structure."""
        return False

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The module's arguments: the flattened arguments, and the variables' current values.

        Raises:
            ArgumentError: The arguments do not fit.
        """
        given = self.binding.flatten(args, named)
        return [given[p] if isinstance(p, int) else self.binding.read(p) for p in self.parameters]

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The function's result; the new values are assigned to the variables first."""
        count = len(results) - len(self.updates)
        self.binding.write(dict(zip(self.updates, results[count:], strict=True)))
        return self.binding.assemble(results[:count], args, named)


def calling_of(graph: Graph, feeds: Sequence[Tensor], result: CompilationResult) -> ForeignCalling | None:
    """The calling convention of the module of a function's graph.

    None if the Python objects behind the graph are unknown.
    """
    binding = graph.binding
    if binding is None:
        return None
    numbers = {t: i for i, t in enumerate(graph.inputs)}
    taken = [feeds[p] for p in result.parameters]
    parameters = tuple(numbers.get(t, t.op.name) for t in taken)
    return ForeignCalling(
        binding, parameters, tuple(feeds[u].op.name for u in result.updates), tuple(t.op.name for t in taken)
    )
