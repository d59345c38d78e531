"""Indices of a scatter and the positions of its windows, for all emitters of updates."""

from __future__ import annotations

from xlanb.codegen import arithmetic
from xlanb.codegen.elemental import Elemental, Leaf, array_of
from xlanb.codegen.elements import real
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType


class Scatter:
    """A scatter's properties.

    `source` and `update` are the shapes of an operand and of its updates. The updates' dimensions
    are
    `scatter_dims`, with a window per index, and `update_dim`, by the operand dimension that they
    run along, with their `sizes`.
    """

    def __init__(self, i: HloInstruction) -> None:
        self.instruction = i
        count = (len(i.operands) - 1) // 2
        self.operands, self.indices, self.updates = i.operands[:count], i.operands[count], i.operands[count + 1 :]
        self.leaves: list[Leaf] = [(n,) for n in range(count)] if i.shape.is_tuple else [()]
        self.types = [array_of(o).element_type for o in self.operands]
        self.source, self.update = array_of(self.operands[0]), array_of(self.updates[0])
        window_dims, inserted = i.ints("update_window_dims"), i.ints("inserted_window_dims")
        self.batching = i.ints("input_batching_dims")
        self.scatter_dims = [d for d in range(self.update.rank) if d not in window_dims]
        windowed = [d for d in range(self.source.rank) if d not in inserted and d not in self.batching]
        self.update_dim = dict(zip(windowed, window_dims, strict=True))
        self.sizes = {d: self.update.dimensions[w] for d, w in self.update_dim.items()}

    def begin(self, e: Elemental, batch: list[Ix]) -> tuple[dict[int, Ix], Value]:
        """(start indices of a window, whether it fits) at an index of `scatter_dims`.

        The start indices are by operand dimension.
        """
        i, f, table = self.instruction, e.f, array_of(self.indices)
        vector_dim = i.get("index_vector_dim")
        where: dict[int, Ix] = {}
        inside = f.const(I1, True)
        for n, d in enumerate(i.ints("scatter_dims_to_operand_dims")):
            spot: list[Ix] = list(batch)
            if vector_dim < table.rank:
                spot.insert(vector_dim, n)
            value = e.element(self.indices, Index(table, spot))
            wide = real(arithmetic.convert(f, table.element_type, PrimitiveType.S64, value))
            where[d] = wide
            inside = f.both(inside, f.within(wide, 0, self.source.dimensions[d] - self.sizes.get(d, 1) + 1))
        for d, t in zip(self.batching, i.ints("scatter_indices_batching_dims"), strict=True):
            where[d] = batch[t - (1 if t > vector_dim else 0)]
        return where, inside


__all__ = ["Scatter"]
