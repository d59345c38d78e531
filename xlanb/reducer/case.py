"""Case: a module and the arrays that it is tested with.

Removed instructions become parameters, with the values that they computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlanb.analysis.cost import elements_of
from xlanb.evaluator import evaluate
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.reducer.cutting import released
from xlanb.shape import ArrayShape, Shape

_MOST_ELEMENTS = 2**28
"""Values of a module with more elements in total are not computed."""


@dataclass(frozen=True)
class Case:
    """A module and one array per parameter in `arrays`; None if the test makes its own."""

    module: HloModule
    arrays: tuple[Any, ...] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The measure of a case, smaller is better: instructions, then elements."""
        return self.module.instruction_count, sum(elements_of(i.shape) for i in self.module.instructions())

    def values(self) -> dict[str, Any]:
        """The interpreter's value of each instruction of the entry, by name.

        Empty if the case has no arrays.

        Raises:
            XlanbError: an instruction has no value.
        """
        mine = self.module.entry_computation.instructions
        if self.arrays is None or sum(elements_of(i.shape) for i in mine) > _MOST_ELEMENTS:
            return {}
        copy = released(self.module)
        entry = copy.entry_computation
        wanted = [i for i in entry.post_order() if _is_data(i.shape)]
        entry.set_root(entry.add(HloOpcode.TUPLE, wanted))
        given = evaluate(copy, *self.arrays)
        return {i.name: value for i, value in zip(wanted, given, strict=True)}

    def with_values(self, module: HloModule, values: Mapping[str, Any]) -> Case | None:
        """Another module, with arrays by the names of its parameters; None if one is unknown."""
        if self.arrays is None:
            return Case(module)
        names = [p.name for p in module.entry_computation.parameters]
        if any(n not in values for n in names):
            return None
        return Case(module, tuple(values[n] for n in names))


def _is_data(shape: Shape) -> bool:
    """Whether it is an array, or a tuple of arrays."""
    return all(isinstance(s, ArrayShape) and s.is_array for _, s in shape.leaves())


def named_arrays(module: HloModule, arrays: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a module by the names of its parameters."""
    return {p.name: a for p, a in zip(module.entry_computation.parameters, arrays, strict=True)}
