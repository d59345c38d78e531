"""Move bitcasts out of gemm fusions (xla/backends/gpu/transforms/hoist_fused_bitcasts.cc).

    fusion(x), calls={b = bitcast(p0), ROOT dot(negate(b), ...)}
    =>  b = bitcast(x), fusion(b), calls={ROOT dot(negate(p0), ...)}
    fusion(x), calls={d = dot(...), ROOT bitcast(d)}
    =>  bitcast(fusion(x)), calls={ROOT dot(...)}

A bitcast within a fusion prevents tiling; one outside costs nothing. It moves up past elementwise
instructions, and past broadcasts and transposes whose dimensions it does not mix. A bitcast after
the dot is undone by one at the root, which moves up instead; the callers get its inverse.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu import backend_config
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Layout
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_RESHAPES: Final = frozenset((O.BITCAST, O.RESHAPE))
_DOTS: Final = (O.DOT, O.SCALED_DOT)
_CUDNN: Final = "__cudnn$fusion"


class HoistFusedBitcasts(HloPass):
    """Moves bitcasts and no-op reshapes from fusions with a dot to their callers."""

    name = "hoist-fused-bitcasts"
    triggers = frozenset((O.FUSION,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.FUSION and backend_config.fusion_config(i).get("kind") != _CUDNN:
                    dot = _dot_of(i)
                    if dot is not None:
                        _hoist_all(dot, module.callers(i.fused_computation))


def _dot_of(fusion: HloInstruction) -> HloInstruction | None:
    """Return a fusion's first dot, or its first scaled dot."""
    order = fusion.fused_computation.post_order()
    return next((i for opcode in _DOTS for i in order if i.opcode is opcode), None)


class _StuckError(Exception):
    """A bitcast cannot move; the message says why."""


def _hoist_all(dot: HloInstruction, callers: Sequence[HloInstruction]) -> None:
    try:
        _undo_at_root(dot, callers)
    except _StuckError as stuck:
        _tell(dot.parent.root, str(stuck))
    for i in reversed(dot.parent.post_order()):
        if i.opcode not in _RESHAPES:
            continue
        try:
            plan = _planned(i)
        except _StuckError as stuck:
            _tell(i, str(stuck))
            continue
        _tell(i)
        _hoist(i, plan, callers)


def _tell(bitcast: HloInstruction, stuck: str = "") -> None:
    if is_observed():
        met = Predicate("it can move past all instructions between it and the dot", not stuck, stuck)
        emit(Decision(current_cause(), "hoist", (bitcast.name,), not stuck, (met,)))


# -- a bitcast at the root -------------------------------------------------------------------------


@reason("fusion => bitcast(fusion), with the dot's shape as root")
def _undo_at_root(dot: HloInstruction, callers: Sequence[HloInstruction]) -> None:
    """Give the fusion the result shape without the bitcasts after the dot."""
    c = dot.parent
    root, shape = c.root, _root_shape(dot)
    if root.shape == shape:
        return
    c.set_root(c.add(O.BITCAST, (root,), shape, like=root))
    for caller in callers:
        parent = caller.parent
        parent.replace_uses(caller, parent.add(O.BITCAST, (caller,), caller.shape, like=caller))
        parent.update(caller, shape=shape)


def _root_shape(dot: HloInstruction) -> ArrayShape:
    """Return the root's shape without the bitcasts between it and the dot."""
    if dot.is_root:
        return dot.array_shape
    operand_shapes: dict[HloInstruction, ArrayShape] = {}
    _assign(operand_shapes, dot.users, dot.array_shape, of_operand=True)
    for i in _consumers(dot):
        given = operand_shapes.get(i)
        if given is None:
            continue
        shape = _shape_after(i, given)
        if i.is_root:
            return _typed(shape, i.array_shape)
        _assign(operand_shapes, i.users, shape, of_operand=True)
    raise _StuckError("the root does not depend on the dot")


def _consumers(dot: HloInstruction) -> Iterable[HloInstruction]:
    """Yield what depends on the dot, nearest first."""
    found: dict[HloInstruction, None] = {}
    queue = deque(dot.users)
    while queue:
        i = queue.popleft()
        if i not in found:
            found[i] = None
            queue.extend(i.users)
    return found


def _shape_after(i: HloInstruction, given: ArrayShape) -> ArrayShape:
    """Return an instruction's shape for an operand shape with the same bytes."""
    if i.opcode in _RESHAPES:
        return given
    try:
        if i.opcode is O.BROADCAST:
            return _after_broadcast(i, given)
        if i.opcode is O.TRANSPOSE:
            inverse = _inverse(i.dimensions)
            _same_layouts(i)
            return _through_transpose(i, given, i.operands[0].array_shape, i.array_shape, inverse)[0]
    except _StuckError:
        return i.array_shape
    if is_elementwise(i):
        return given
    raise _StuckError(f"it cannot move past {i.name}")


# -- one bitcast -----------------------------------------------------------------------------------

_Plan = list[tuple[HloInstruction, ArrayShape, tuple[int, ...] | None]]
"""Instructions from the bitcast upwards, with new shapes, and new dimensions if any."""


def _planned(bitcast: HloInstruction) -> _Plan:
    """Plan the changes for moving a bitcast up to the parameters.

    Raises:
        _StuckError: it cannot move.
    """
    source = bitcast.operands[0]
    if bitcast.shape.element_type is not source.shape.element_type:
        raise _StuckError("it changes the element type")
    producers = _producers(bitcast)
    for i in producers:
        outside = [u for u in i.users if u is not bitcast and u not in producers]
        if outside or i.is_root:
            raise _StuckError(f"{i.name} is also used by {outside[0].name if outside else 'the caller'}")
    shapes: dict[HloInstruction, ArrayShape] = {}
    _assign(shapes, [source], bitcast.array_shape, of_operand=False)
    plan: _Plan = []
    for i in reversed(bitcast.parent.post_order()):
        shape = shapes.get(i)
        if shape is None or i.shape == shape:
            continue
        operand_shape, dimensions = _before(i, shape)
        plan.append((i, shape, dimensions))
        if operand_shape is not None:
            operands = [
                o for o in i.operands if o.array_shape.rank or not i.array_shape.rank or i.opcode is O.BROADCAST
            ]
            _assign(shapes, operands, operand_shape, of_operand=False)
    return plan


def _producers(bitcast: HloInstruction) -> set[HloInstruction]:
    found: set[HloInstruction] = set()
    stack = list(bitcast.operands)
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack.extend(i.operands)
    return found


def _before(i: HloInstruction, shape: ArrayShape) -> tuple[ArrayShape | None, tuple[int, ...] | None]:
    """Return operand shape and dimensions with which an instruction has another result shape.

    The result has the same bytes. None means that they do not change.

    Raises:
        _StuckError: there are none.
    """
    if i.opcode is O.PARAMETER or i.opcode in _RESHAPES:
        return None, None
    if i.opcode is O.BROADCAST:
        return _before_broadcast(i, shape)
    if i.opcode is O.TRANSPOSE:
        _same_layouts(i)
        return _before_transpose(i, shape)
    if i.operands and is_elementwise(i):
        return shape, None
    raise _StuckError(f"it cannot move past {i.name}")


@reason("f(bitcast(A)) => f(A), with the bitcast moved before the fusion")
def _hoist(bitcast: HloInstruction, plan: _Plan, callers: Sequence[HloInstruction]) -> None:
    c = bitcast.parent
    for i, shape, dimensions in plan:
        if i.opcode is O.PARAMETER:
            n = i.parameter_number
            for caller in callers:
                moved = caller.parent.add(O.BITCAST, (caller.operands[n],), shape, like=caller)
                caller.parent.replace_operand(caller, n, moved)
        c.update(i, shape=shape, attributes={} if dimensions is None else {"dimensions": dimensions})
    c.replace_uses(bitcast, bitcast.operands[0])
    c.remove(bitcast)


def _assign(
    shapes: dict[HloInstruction, ArrayShape], users: Iterable[HloInstruction], shape: ArrayShape, *, of_operand: bool
) -> None:
    """Record the shape of instructions or of their operands, each with its own element type.

    Raises:
        _StuckError: one already has another shape.
    """
    for i in users:
        own = i.operands[0].array_shape if of_operand else i.array_shape
        typed = _typed(shape, own)
        if own.element_count != typed.element_count:
            raise _StuckError(f"{i.name} has a different size")
        if shapes.setdefault(i, typed) != typed:
            raise _StuckError(f"{i.name} would need two shapes")


def _typed(shape: ArrayShape, own: ArrayShape) -> ArrayShape:
    """Return a shape with another's element type and element size in bits."""
    bits = own.layout.element_size_in_bits if own.layout else 0
    layout = replace(_layout(shape), element_size_in_bits=bits)
    return ArrayShape(own.element_type, shape.dimensions, layout)


# -- past broadcasts and transposes ----------------------------------------------------------------


def _sizes(shape: ArrayShape) -> list[int]:
    """Return the dimension sizes in memory order, fastest first."""
    return [shape.dimensions[d] for d in shape.minor_to_major]


def _cuts(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return the finest cuts of both lists into runs with equal products.

    Sizes of 1 are runs of their own.
    """
    cuts, i, j, left, right = [(0, 0)], 0, 0, 1, 1
    while i < len(a) or j < len(b):
        take_a = left < right or (left == right and i < len(a) and (j == len(b) or a[i] <= b[j]))
        take_b = right < left or (left == right and j < len(b) and (i == len(a) or b[j] <= a[i]))
        if (take_a and i == len(a)) or (take_b and j == len(b)):
            raise _StuckError("the sizes differ")
        if take_a:
            left *= a[i]
            i += 1
        if take_b:
            right *= b[j]
            j += 1
        if left == right:
            cuts.append((i, j))
    return cuts


def _before_broadcast(i: HloInstruction, shape: ArrayShape) -> tuple[ArrayShape, tuple[int, ...]]:
    """Return operand shape and dimensions of a broadcast with result `shape`.

    Raises:
        _StuckError: a dimension mixes operand elements and repetitions.
    """
    old = i.array_shape
    sizes, kept = _sizes(old), []
    cuts = _cuts(_sizes(shape), sizes)
    for (a0, b0), (a1, b1) in pairwise(cuts):
        from_operand = {old.minor_to_major[n] in i.dimensions for n in range(b0, b1) if sizes[n] != 1}
        if from_operand == {True, False}:
            raise _StuckError(f"{i.name} repeats part of a dimension")
        if True in from_operand:
            kept += [shape.minor_to_major[n] for n in range(a0, a1)]
    dimensions = tuple(sorted(kept))
    layout = tuple(dimensions.index(d) for d in shape.minor_to_major if d in dimensions)
    return _of(shape, [shape.dimensions[d] for d in dimensions], layout), dimensions


def _after_broadcast(i: HloInstruction, given: ArrayShape) -> ArrayShape:
    """Return a broadcast's result for another operand shape with the same bytes.

    Raises:
        _StuckError: merged dimensions are not adjacent in the result.
    """
    operand, result = i.operands[0].array_shape, i.array_shape
    place = _inverse(result.minor_to_major)
    taken: dict[int, range] = {}
    cuts = _cuts(_sizes(operand), _sizes(given))
    for (a0, b0), (a1, b1) in pairwise(cuts):
        dims = [i.dimensions[operand.minor_to_major[n]] for n in range(a0, a1)]
        places = [place[d] for d in dims]
        if not places or places != list(range(places[0], places[0] + len(places))):
            raise _StuckError(f"{i.name} places other dimensions between those that are merged")
        # The fastest of the dimensions represents all of them.
        taken |= {d: range(b0, b1) if n == 0 else range(b1, b1) for n, d in enumerate(dims)}
    sizes, layout = list(given.dimensions), []
    for d in result.minor_to_major:
        if d in taken:
            layout += [given.minor_to_major[n] for n in taken[d]]
        else:
            layout.append(len(sizes))
            sizes.append(result.dimensions[d])
    return _of(given, sizes, tuple(layout))


def _same_layouts(i: HloInstruction) -> None:
    if i.array_shape.minor_to_major != i.operands[0].array_shape.minor_to_major:
        raise _StuckError(f"{i.name} changes the layout")


def _before_transpose(i: HloInstruction, shape: ArrayShape) -> tuple[ArrayShape, tuple[int, ...]]:
    """Return operand shape and dimensions of a transpose with result `shape`."""
    operand_shape, from_operand = _through_transpose(i, shape, i.array_shape, i.operands[0].array_shape, i.dimensions)
    return operand_shape, _inverse(from_operand)


def _through_transpose(
    i: HloInstruction, shape: ArrayShape, old: ArrayShape, other: ArrayShape, permutation: Sequence[int]
) -> tuple[ArrayShape, tuple[int, ...]]:
    """Return the other side's shape of a transpose whose one side `old` becomes `shape`.

    `permutation[d]` is the dimension of `other` for dimension d of `old`.

    Returns:
        The new shape, and for each of its dimensions the dimension of `shape`.

    Raises:
        _StuckError: merged dimensions are not adjacent on the other side.
    """
    place = _inverse(other.minor_to_major)
    moved = [range(0)] * other.rank
    for (a0, b0), (a1, b1) in _runs_without_ones(_cuts(_sizes(shape), _sizes(old))):
        places = []
        taken = range(a0, a1)
        for n in range(b0, b1):
            d = old.minor_to_major[n]
            if old.dimensions[d] == 1:
                continue
            moved[place[permutation[d]]] = taken
            places.append(place[permutation[d]])
            taken = range(a1, a1)
        if places and (places[-1] - places[0] >= len(places) or places != sorted(places)):
            raise _StuckError(f"{i.name} separates dimensions that are merged")
    order = [n for run in moved for n in run]
    if len(order) != shape.rank:
        raise _StuckError(f"{i.name} has dimensions of size 1 in between")
    sizes, from_other = [0] * shape.rank, [0] * shape.rank
    for n, old_place in enumerate(order):
        d, source = shape.minor_to_major[n], shape.minor_to_major[old_place]
        sizes[d], from_other[d] = shape.dimensions[source], source
    return _of(shape, sizes, shape.minor_to_major), tuple(from_other)


def _runs_without_ones(cuts: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the runs between cuts, without runs that are empty on one side.

    Those join the next run, or the last one the run before.
    """
    kept = list(cuts)
    n = 0
    while n + 1 < len(kept) and len(kept) > 2:
        (a0, b0), (a1, b1) = kept[n], kept[n + 1]
        if a0 != a1 and b0 != b1:
            n += 1
        else:
            del kept[n if n + 2 == len(kept) else n + 1]
    return list(pairwise(kept))


def _of(shape: ArrayShape, sizes: Sequence[int], minor_to_major: Sequence[int]) -> ArrayShape:
    """Return dimensions in another order for the same elements."""
    layout = replace(_layout(shape), minor_to_major=tuple(minor_to_major))
    return ArrayShape(shape.element_type, tuple(sizes), layout)


def _layout(shape: ArrayShape) -> Layout:
    return shape.layout or Layout.default(shape.rank)


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(permutation)
    for n, d in enumerate(permutation):
        inverse[d] = n
    return tuple(inverse)
