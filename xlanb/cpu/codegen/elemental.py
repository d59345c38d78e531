"""What emitters of text work with: a function, the arrays that its instructions are bound to, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from xlanb.codegen.elemental import Leaf, array_of
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.hlo.instruction import HloInstruction


@dataclass(frozen=True)
class Elemental:
    """A function that is being written, the memory of its operands, and of a constant."""

    f: Function
    bindings: Mapping[HloInstruction, Mapping[Leaf, object]]
    constants: Callable[[HloInstruction], IrArray]

    @contextmanager
    def loop(self, count: Ix) -> Iterator[Ix]:
        """A loop that carries nothing; gives its counter."""
        with self.f.loop(count) as index:
            yield index


__all__ = ["Elemental", "Leaf", "array_of"]
