"""Replace scatters of one update by dynamic updates (kEliminateSimpleScatters, as in XLA:CPU).

scatter(f32[10,4] x, s32[1] i, f32[4] u), to_apply=add
  =>  old = dynamic-slice(x, i, 0), {1,4}
      new = map(old, reshape(f32[1,4], u)), to_apply=add
      dynamic-update-slice(x, select(0 <= i and i <= 9, new, old), i, 0)

Source: xla/service/scatter_expander.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.indexing.gather_expander import index_count, start_scalars


class ScatterExpander(HloPass):
    """Expands scatters of one update into one array.

    An update that is out of bounds is skipped as a whole, as in scatter.
    """

    name = "scatter_expander"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SCATTER and len(i.operands) == 3 and _is_simple(i):
                    c.replace(i, _expanded(i) if i.operands[2].array_shape.element_count else i.operands[0])


def _is_simple(i: HloInstruction) -> bool:
    if i.ints("input_batching_dims") or not i.operands[0].array_shape.rank or involves_dynamic(i):
        return False
    return index_count(i.operands[1], i.get("index_vector_dim")) == 1


def _expanded(scatter: HloInstruction) -> HloInstruction:
    b, (x, indices, update) = Builder(scatter), scatter.operands
    mapped, rank = scatter.ints("scatter_dims_to_operand_dims"), x.array_shape.rank
    # A narrow type may not represent the bounds.
    if indices.shape.element_type.bits < 32:
        indices = b.convert(indices, PrimitiveType.S32)
    sizes = _window_sizes(scatter)
    starts = start_scalars(b, indices, mapped, rank)
    old = b.add(O.DYNAMIC_SLICE, (x, *starts), dynamic_slice_sizes=sizes)
    window = b.reshape(_in_window_order(b, scatter, update), sizes)
    made = b.add(O.MAP, (old, window), old.shape, dimensions=tuple(range(rank)), to_apply=scatter.to_apply)
    if mapped:
        fits = _fits(b, [starts[d] for d in mapped], [x.array_shape.dimensions[d] - sizes[d] for d in mapped])
        made = b.select(b.broadcast(fits, (), made.array_shape), made, old)
    return b.add(O.DYNAMIC_UPDATE_SLICE, (x, made, *starts), scatter.shape)


def _in_window_order(b: Builder, scatter: HloInstruction, update: HloInstruction) -> HloInstruction:
    """The update with its window dimensions in the order of the operand's dimensions."""
    window = scatter.ints("update_window_dims")
    order = (*(d for d in range(update.array_shape.rank) if d not in window), *window)
    return update if list(window) == sorted(window) else b.transpose(update, order)


def _window_sizes(scatter: HloInstruction) -> tuple[int, ...]:
    """The update's size along every dimension of the operand."""
    inserted, update = scatter.ints("inserted_window_dims"), scatter.operands[2].array_shape
    given = iter(scatter.ints("update_window_dims"))
    return tuple(
        1 if d in inserted else update.dimensions[next(given)] for d in range(scatter.operands[0].array_shape.rank)
    )


def _fits(b: Builder, starts: Sequence[HloInstruction], highest: Sequence[int]) -> HloInstruction:
    """Whether no start is below 0 or above its bound."""
    tests: list[HloInstruction] = []
    for s, bound in zip(starts, highest, strict=True):
        tests.append(b.compare(b.full(0, s.array_shape), "LE", s))
        tests.append(b.compare(s, "LE", b.full(bound, s.array_shape)))
    all_hold = tests[0]
    for t in tests[1:]:
        all_hold = b.binary(O.AND, all_hold, t)
    return all_hold
