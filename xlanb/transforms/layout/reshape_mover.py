"""Move reshapes and transposes from operands of elementwise instructions to their results.

    add(reshape(a), reshape(b))
      =>  reshape(add(a, b))
    add(transpose(a), broadcast(c))
      =>  transpose(add(transpose'(transpose(a)), transpose'(broadcast(c))))

One of several reshapes is left, and a later one may undo it.
Source: xla/hlo/transforms/simplifiers/reshape_mover.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout
from xlanb.transforms.algebraic_simplifier.facts import unmodified_pairs
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason

_REARRANGES = frozenset((O.RESHAPE, O.TRANSPOSE))


@dataclass(frozen=True)
class ReshapeMover(HloPass):
    """Moves a reshape or transpose below its users, if all of them allow it.

    `cheap_broadcasts`: treat as free to move not only broadcast scalars, but also broadcast vectors
    and broadcasts along dimensions that the reshape keeps.
    """

    name = "reshape-mover"
    cheap_broadcasts: bool = False

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in _candidates(c, self.cheap_broadcasts):
                _sink(i)


def _candidates(computation: HloComputation, cheap: bool) -> list[HloInstruction]:
    """Elementwise instructions whose operands are all rearranged alike.

    Every user of such an operand must be a candidate too.
    """
    found = {i: None for i in computation.post_order() if _is_candidate(i, cheap)}
    removed = True
    while found and removed:
        operands = {o for i in found for o in i.operands if not _is_trivial(o, _first_rearrange(i), cheap)}
        before = len(found)
        for o in operands:
            if any(u not in found for u in o.users) or o.is_root:
                for u in o.users:
                    found.pop(u, None)
        removed = len(found) < before
    return list(found)


def _is_candidate(i: HloInstruction, cheap: bool) -> bool:
    if not any(o.opcode in _REARRANGES for o in i.operands):  # rejects most instructions
        return False
    if not is_elementwise(i) or i.opcode is O.CONSTANT or i.opcode is O.FUSION or i.has_side_effect:
        return False
    if i.control_predecessors or i.control_successors or not i.shape.is_array or i.array_shape.is_dynamic:
        return False
    if any(o.array_shape.dimensions != i.array_shape.dimensions for o in i.operands):
        return False
    first = _first_rearrange(i)
    if first is None:
        return False
    return all(_is_equivalent(o, first) or _is_trivial(o, first, cheap) for o in i.operands)


def _first_rearrange(i: HloInstruction) -> HloInstruction | None:
    return next(
        (
            o
            for o in i.operands
            if o.opcode in _REARRANGES and not o.array_shape.is_dynamic and not o.operands[0].array_shape.is_dynamic
        ),
        None,
    )


def _is_equivalent(a: HloInstruction, b: HloInstruction) -> bool:
    if a.opcode is not b.opcode:
        return False
    same = a.operands[0].array_shape.dimensions == b.operands[0].array_shape.dimensions
    return same and (a.opcode is O.RESHAPE or a.dimensions == b.dimensions)


def _is_trivial(o: HloInstruction, rearrange: HloInstruction | None, cheap: bool) -> bool:
    """Whether rearranging it costs nothing.

    True for constants, broadcast scalars and random numbers with one use; with `cheap` also for
    broadcasts that stay broadcasts.
    """
    if rearrange is not None and o.opcode in _REARRANGES and _is_equivalent(o, rearrange):
        return False
    if o.opcode is O.BROADCAST:
        return o.operands[0].array_shape.is_scalar or (
            cheap and rearrange is not None and rearrange.opcode is O.RESHAPE and _stays_broadcast(o, rearrange)
        )
    return o.opcode is O.CONSTANT or (o.opcode is O.RNG and o.user_count == 1)


def _stays_broadcast(o: HloInstruction, reshape: HloInstruction) -> bool:
    """Whether undoing the reshape of a broadcast gives a broadcast of the same array.

    True for vectors, and for broadcasts along dimensions that the reshape keeps.
    """
    if sum(n != 1 for n in o.operands[0].array_shape.dimensions) <= 1:
        return True
    pairs = unmodified_pairs(reshape.array_shape.dimensions, reshape.operands[0].array_shape.dimensions)
    return {d for d, _ in pairs} >= set(o.dimensions)


@reason("op(reshape(A), reshape(B)) => reshape(op(A, B))")
def _sink(i: HloInstruction) -> None:
    first = _first_rearrange(i)
    if first is None:
        return
    b, source = Builder(i), first.operands[0].array_shape
    operands = [_undone(b, o, first) for o in i.operands]
    shape = source.with_type(i.shape.element_type)
    inner = b.add(i.opcode, operands, shape, **i.attributes)
    i.parent.replace(i, b.add(first.opcode, (inner,), i.shape, **first.attributes))


def _undone(b: Builder, o: HloInstruction, rearrange: HloInstruction) -> HloInstruction:
    """An operand before the rearrangement."""
    if rearrange.opcode is O.RESHAPE:
        if _is_equivalent(o, rearrange):
            return o.operands[0]
        return b.add(O.RESHAPE, (o,), rearrange.operands[0].array_shape.with_type(o.shape.element_type))
    permutation = rearrange.dimensions
    inverse = tuple(permutation.index(d) for d in range(len(permutation)))
    return b.add(O.TRANSPOSE, (o,), _permuted(o.array_shape, inverse), dimensions=inverse)


def _permuted(shape: ArrayShape, permutation: tuple[int, ...]) -> ArrayShape:
    """The inferred shape of a transpose that moves no bytes."""
    places = {d: n for n, d in enumerate(permutation)}
    dims = tuple(shape.dimensions[d] for d in permutation)
    layout = None if shape.layout is None else Layout(tuple(places[d] for d in shape.minor_to_major))
    return ArrayShape(shape.element_type, dims, layout)
