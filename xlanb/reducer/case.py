"""Case.

A module and the arrays that it is tried with; what is cut off becomes parameters, with the values that were computed
there.
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
"""With more elements in all values of a module, they are not computed."""


@dataclass(frozen=True)
class Case:
    """A module; `arrays`, one for each parameter, or None where the test makes its own."""

    module: HloModule
    arrays: tuple[Any, ...] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """What a smaller case has less of: instructions, then elements."""
        return self.module.instruction_count, sum(elements_of(i.shape) for i in self.module.instructions())

    def values(self) -> dict[str, Any]:
        """The value of each instruction of the entry by its name, as the interpreter computes it; empty where the
        case has no arrays.

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
        """Another module with arrays by the names of its parameters; None where one is not known."""
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
