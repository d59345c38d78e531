"""Bring gathers into canonical form: indices [n, k], result [n, slice...], none collapsed.

gather(f32[10,4] x, s32[3,5] i), offset_dims={2}, collapsed_slice_dims={0}, index_vector_dim=2,
    slice_sizes={1,4}
  =>  g = f32[15,1,4] gather(x, reshape(s32[15,1], i)), offset_dims={1,2},
          collapsed_slice_dims={}, index_vector_dim=1, slice_sizes={1,4}
      reshape(f32[3,5,4], reshape(f32[15,4], g))

Source: xla/hlo/transforms/simplifiers/gather_simplifier.h.
"""

from __future__ import annotations

import math

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class GatherSimplifier(HloPass):
    """Rewrites every gather that is not in canonical form.

    Those with batching dimensions are left to batched_gather_scatter_normalizer.py.
    """

    name = "gather_simplifier"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.GATHER and not is_simplified(i) and not _is_left(i):
                    c.replace(i, _simplified(i))


def _is_left(gather: HloInstruction) -> bool:
    return bool(gather.ints("operand_batching_dims")) or involves_dynamic(gather)


def is_simplified(gather: HloInstruction) -> bool:
    """Whether it is in canonical form."""
    offset = gather.ints("offset_dims")
    if (
        not offset
        or gather.operands[1].array_shape.rank != 2
        or gather.get("index_vector_dim") != 1
        or gather.ints("collapsed_slice_dims")
    ):
        return False
    return offset == tuple(range(1, len(offset) + 1))


def index_rows(b: Builder, indices: HloInstruction, vector_dim: int) -> HloInstruction:
    """Start indices as [number of slices, size of an index vector]."""
    dims = list(indices.array_shape.dimensions)
    if vector_dim == len(dims):
        dims.append(1)
        indices = b.reshape(indices, dims)
    elif vector_dim < len(dims) - 1:
        indices = b.transpose(indices, [*(d for d in range(len(dims)) if d != vector_dim), vector_dim])
        dims = list(indices.array_shape.dimensions)
    return b.reshape(indices, (math.prod(dims[:-1]), dims[-1]))


def _simplified(gather: HloInstruction) -> HloInstruction:
    b, (x, indices) = Builder(gather), gather.operands
    sizes = gather.ints("slice_sizes")
    if 0 in sizes:
        return b.full(0, gather.array_shape)
    if x.array_shape.rank == 0:
        return b.broadcast(x, (), gather.array_shape)
    vector_dim: int = gather.get("index_vector_dim")
    rows = index_rows(b, indices, vector_dim)
    n = rows.array_shape.dimensions[0]
    attributes = {
        **gather.attributes,
        "offset_dims": tuple(range(1, len(sizes) + 1)),
        "collapsed_slice_dims": (),
        "index_vector_dim": 1,
    }
    result = b.add(O.GATHER, (x, rows), array(x.shape.element_type, (n, *sizes)), **attributes)
    collapsed = gather.ints("collapsed_slice_dims")
    kept = [s for d, s in enumerate(sizes) if d not in collapsed]
    result = b.reshape(result, (n, *kept))
    outer = [s for d, s in enumerate(indices.array_shape.dimensions) if d != vector_dim]
    return _in_place(b, b.reshape(result, (*outer, *kept)), gather.ints("offset_dims"), len(outer))


def _in_place(b: Builder, result: HloInstruction, offset: tuple[int, ...], outer: int) -> HloInstruction:
    """Transpose the slice dimensions, which come last, to where the gather has them."""
    slices, batches = iter(range(outer, outer + len(offset))), iter(range(outer))
    order = [next(slices) if d in offset else next(batches) for d in range(outer + len(offset))]
    return result if order == sorted(order) else b.transpose(result, order)
