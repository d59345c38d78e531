"""The k largest by sorting (xla/hlo/transforms/expanders/... topk_rewriter.h, the pass topk-decomposer).

topk(x), k=5, largest=true    =>    tuple(slice(sort(x)), slice(positions that were sorted along)), descending, stable
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo import regions
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class TopkDecomposer(HloPass):
    """Expands every topk."""

    name = "topk-decomposer"

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.TOPK and isinstance(i.shape, TupleShape):
                    c.replace(i, _sorted(i, i.shape, cache))


def _sorted(i: HloInstruction, shape: TupleShape, cache: regions.Cache) -> HloInstruction:
    b, x = Builder(i), i.operands[0]
    last = x.array_shape.rank - 1
    positions = b.add(O.IOTA, (), x.array_shape.with_type(shape.shapes[1].element_type), iota_dimension=last)
    types = (x.shape.element_type, positions.shape.element_type)
    largest = i.attributes.get("largest")
    compare = regions.comparator(i.parent.module, cache, "LT" if largest is False else "GT", types)
    attributes = {"dimensions": (last,), "is_stable": True, "to_apply": compare}
    ordered = b.add(O.SORT, (x, positions), tuple_of((x.shape, positions.shape)), **attributes)
    limits = (*x.array_shape.dimensions[:-1], i.get("k"))
    return b.tuple(b.slice(b.element(ordered, n), (0,) * len(limits), limits) for n in range(2))
