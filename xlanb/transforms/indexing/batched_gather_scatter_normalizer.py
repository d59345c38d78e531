"""Replace batching dimensions of gathers and scatters by indices.

gather(x, i), operand_batching_dims={0}, start_indices_batching_dims={0}, start_index_map={1}
  =>  gather(x, concatenate(iota, i)), collapsed_slice_dims={0}, start_index_map={0,1}

Source: xla/service/batched_gather_scatter_normalizer.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class BatchedGatherScatterNormalizer(HloPass):
    """Rewrites gathers and scatters that have batching dimensions."""

    name = "batched_gather_scatter_normalizer"
    triggers = frozenset((O.GATHER, O.SCATTER))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.GATHER and i.ints("operand_batching_dims"):
                    _normalize(
                        i,
                        1,
                        "operand_batching_dims",
                        "start_indices_batching_dims",
                        "collapsed_slice_dims",
                        "start_index_map",
                    )
                elif i.opcode is O.SCATTER and i.ints("input_batching_dims"):
                    places = (
                        "input_batching_dims",
                        "scatter_indices_batching_dims",
                        "inserted_window_dims",
                        "scatter_dims_to_operand_dims",
                    )
                    _normalize(i, len(i.operands) // 2, *places)


def _normalize(i: HloInstruction, position: int, batching: str, of_indices: str, collapsed: str, mapped: str) -> None:
    """Replace the batching dimensions of a gather or scatter.

    Args:
        i: the gather or scatter.
        position: the index of the operand that holds the indices.
        batching: the attribute of the operand's batching dimensions.
        of_indices: the attribute of the indices' batching dimensions.
        collapsed: the attribute of collapsed or inserted dimensions.
        mapped: the attribute that maps index components to dimensions.
    """
    b = Builder(i)
    vector_dim: int = i.get("index_vector_dim")
    indices = _wide_enough(b, i.operands[position], i.ints(of_indices))
    s = indices.array_shape
    if vector_dim == s.rank:
        indices = b.reshape(indices, (*s.dimensions, 1))
        s = indices.array_shape
    single = array(s.element_type, [1 if d == vector_dim else n for d, n in enumerate(s.dimensions)])
    counters = [b.add(O.IOTA, (), single, iota_dimension=d) for d in i.ints(of_indices)]
    joined = b.add(O.CONCATENATE, (*counters, indices), dimensions=(vector_dim,))
    attributes = {
        **i.attributes,
        batching: None,
        of_indices: None,
        collapsed: tuple(sorted((*i.ints(collapsed), *i.ints(batching)))),
        mapped: (*i.ints(batching), *i.ints(mapped)),
        "indices_are_sorted": None,
    }
    operands = [joined if n == position else o for n, o in enumerate(i.operands)]
    i.parent.replace(i, b.add(i.opcode, operands, i.shape, **attributes))


def _wide_enough(b: Builder, indices: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    """Indices in a type that can hold the batch sizes."""
    t = indices.shape.element_type
    largest = max(indices.array_shape.dimensions[d] for d in dims) - 1
    return indices if largest < 1 << (t.bits - t.is_signed) else b.convert(indices, PrimitiveType.S64)
