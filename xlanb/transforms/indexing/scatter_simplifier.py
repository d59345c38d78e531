"""Bring scatters into canonical form: indices [n, k], updates [n, window...], none inserted.

scatter(f32[10,4] x, s32[3,5,1] i, f32[3,5,4] u), inserted_window_dims={0}, ...
  =>  scatter(x, reshape(s32[15,1], i), reshape(f32[15,1,4], u)), update_window_dims={1,2},
      inserted_window_dims={}, index_vector_dim=1
scatter(x, i, f32[15,4,1] u), update_window_dims={2,1}, ...
  =>  scatter(x, i, transpose(u), dimensions={0,2,1}), update_window_dims={1,2}, ...

Windows have the rank of the operand. Source: xla/service/scatter_simplifier.h.
"""

from __future__ import annotations

import math

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class ScatterSimplifier(HloPass):
    """Rewrites every scatter that is not in canonical form."""

    name = "scatter_simplifier"
    triggers = frozenset((HloOpcode.SCATTER,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is HloOpcode.SCATTER and not is_simplified(i) and not _is_left(i):
                    i.parent.replace(i, _simplified(i))


def _is_left(scatter: HloInstruction) -> bool:
    return bool(scatter.ints("input_batching_dims")) or involves_dynamic(scatter)


def _parts(scatter: HloInstruction) -> tuple[tuple[HloInstruction, ...], HloInstruction, tuple[HloInstruction, ...]]:
    n = len(scatter.operands) // 2
    return scatter.operands[:n], scatter.operands[n], scatter.operands[n + 1 :]


def is_simplified(scatter: HloInstruction) -> bool:
    """Whether it is in canonical form; indices may be for any dimensions of the operand."""
    rank = _parts(scatter)[0][0].array_shape.rank
    return _has_whole_windows(scatter) and scatter.ints("update_window_dims") == tuple(range(1, rank + 1))


def _has_whole_windows(scatter: HloInstruction) -> bool:
    """Whether it is in canonical form except for the order of the window dimensions."""
    operands, indices, updates = _parts(scatter)
    if indices.array_shape.rank != 2 or scatter.get("index_vector_dim") != 1 or scatter.ints("inserted_window_dims"):
        return False
    rank = operands[0].array_shape.rank
    return 0 not in scatter.ints("update_window_dims") and all(u.array_shape.rank == rank + 1 for u in updates)


def _with_sorted_windows(scatter: HloInstruction) -> HloInstruction:
    """The scatter with updates transposed so that window dimensions are in the operand's order."""
    b = Builder(scatter)
    operands, indices, updates = _parts(scatter)
    order = (0, *scatter.ints("update_window_dims"))
    sorted_updates = [b.transpose(u, order) for u in updates]
    attributes = {**scatter.attributes, "update_window_dims": tuple(range(1, len(order)))}
    return b.add(HloOpcode.SCATTER, (*operands, indices, *sorted_updates), scatter.shape, **attributes)


def _simplified(scatter: HloInstruction) -> HloInstruction:
    if _has_whole_windows(scatter):
        return _with_sorted_windows(scatter)
    b = Builder(scatter)
    operands, indices, updates = _parts(scatter)
    rank = operands[0].array_shape.rank
    new_indices = _index_rows(b, indices, scatter.get("index_vector_dim"))
    new_updates = [_windows(b, u, scatter, rank) for u in updates]
    return b.add(
        HloOpcode.SCATTER,
        (*operands, new_indices, *new_updates),
        scatter.shape,
        **{
            **scatter.attributes,
            "update_window_dims": tuple(range(1, rank + 1)),
            "inserted_window_dims": (),
            "index_vector_dim": 1,
        },
    )


def _index_rows(b: Builder, indices: HloInstruction, vector_dim: int) -> HloInstruction:
    """Indices as [number of updates, size of an index vector]."""
    s = indices.array_shape
    if vector_dim == s.rank:
        return b.reshape(indices, (s.element_count, 1))
    if vector_dim != s.rank - 1:
        indices = b.transpose(indices, [*(d for d in range(s.rank) if d != vector_dim), vector_dim])
    length = s.dimensions[vector_dim]
    return b.reshape(indices, (math.prod(d for n, d in enumerate(s.dimensions) if n != vector_dim), length))


def _windows(b: Builder, update: HloInstruction, scatter: HloInstruction, rank: int) -> HloInstruction:
    """Updates as [number of updates, one window dimension for each operand dimension]."""
    window, inserted = scatter.ints("update_window_dims"), scatter.ints("inserted_window_dims")
    outer = [d for d in range(update.array_shape.rank) if d not in window]
    # operand dimensions in the window, in the window's order
    kept = [d for d in range(rank) if d not in inserted]
    wanted = [*outer, *window]
    if wanted != list(range(len(wanted))):
        update = b.transpose(update, wanted)
    dims = update.array_shape.dimensions
    sizes = dict(zip(kept, dims[len(outer) :], strict=True))
    update = b.reshape(update, (math.prod(dims[: len(outer)]), *dims[len(outer) :]))
    return b.reshape(update, (update.array_shape.dimensions[0], *(sizes.get(d, 1) for d in range(rank))))
