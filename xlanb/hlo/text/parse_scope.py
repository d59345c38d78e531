"""Scope: one computation of HLO text while it is parsed."""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.text.lexer import Cursor


class ParseScope:
    """One computation while it is parsed: its instructions by the names in the text."""

    __slots__ = ("by_name", "computation", "creates_parameters", "elements", "last", "root")

    def __init__(self, computation: HloComputation, *, creates_parameters: bool = False) -> None:
        self.computation = computation
        self.by_name: dict[str, HloInstruction] = {}
        self.elements: dict[tuple[HloInstruction, int], HloInstruction] = {}
        self.root: HloInstruction | None = None
        self.last: HloInstruction | None = None
        self.creates_parameters = creates_parameters

    def close(self, cursor: Cursor) -> HloComputation:
        """The finished computation; without ROOT, the last instruction is the root."""
        computation = self.computation
        numbers = sorted(p.parameter_number for p in computation._parameters)
        if numbers != list(range(len(numbers))):
            cursor.fail(f"computation {computation.name}: parameter numbers are {numbers}, not 0 to {len(numbers) - 1}")
        computation._root = self.root or self.last
        if self.elements:
            self._name_elements()
        return computation

    def _name_elements(self) -> None:
        """Name the instruction of `p#0` in the text p_0, or p_0.1, ... if that name is used."""
        made = set(self.elements.values())
        taken = {i.name for i in self.computation._instructions if i not in made}
        for (operand, index), element in self.elements.items():
            root = name = f"{operand.name}_{index}"
            count = 0
            while name in taken:
                count += 1
                name = f"{root}.{count}"
            taken.add(name)
            element.name = name
