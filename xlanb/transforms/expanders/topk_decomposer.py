"""Expand top-k into a sort (the pass topk-decomposer).

topk(x), k=5, largest=true
  =>  tuple(slice(sort(x)), slice(sorted positions)), descending, stable

On a target without a kernel for it, the library calls that topk-rewriter creates are expanded too.
Source: topk_rewriter.h in xla/hlo/transforms/expanders.
"""

from __future__ import annotations

from xlanb.hlo import regions
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class TopkDecomposer(HloPass):
    """Expands every topk; with `decomposes_calls` the custom calls "TopK" too."""

    name = "topk-decomposer"
    decomposes_calls: bool = False

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in module.post_order():
            for i in c.post_order():
                if not isinstance(i.shape, TupleShape):
                    continue
                if i.opcode is O.TOPK or (self.decomposes_calls and _is_call(i)):
                    c.replace(i, _sorted(i, i.shape, cache))


def _is_call(i: HloInstruction) -> bool:
    """Whether it is the library call with its own comparator."""
    return (
        i.opcode is O.CUSTOM_CALL
        and i.attributes.get("custom_call_target") == "TopK"
        and len(i.operands) == 1
        and len(i.called_computations) == 1
    )


def _sorted(i: HloInstruction, shape: TupleShape, cache: regions.Cache) -> HloInstruction:
    b, x = Builder(i), i.operands[0]
    last = x.array_shape.rank - 1
    positions = b.add(O.IOTA, (), x.array_shape.with_type(shape.shapes[1].element_type), iota_dimension=last)
    types = (x.shape.element_type, positions.shape.element_type)
    largest = i.attributes.get("largest")
    if i.opcode is O.TOPK:
        compare = regions.comparator(i.parent.module, cache, "LT" if largest is False else "GT", types)
    else:
        compare = i.called_computations[0]
    attributes = {"dimensions": (last,), "is_stable": True, "to_apply": compare}
    ordered = b.add(O.SORT, (x, positions), tuple_of((x.shape, positions.shape)), **attributes)
    limits = shape.shapes[0].as_array().dimensions
    return b.tuple(b.slice(b.element(ordered, n), (0,) * len(limits), limits) for n in range(2))
