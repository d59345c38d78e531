"""Propagate the dimensions of a dot through the instructions around it.

Follows xla/service/gpu/triton_tiling_propagation.cc. A gemm fusion reads its inputs in tiles of the
dot's dimensions. Through reshapes, transposes and slices, a dimension of the dot becomes fragments
of an instruction's memory. The emitter can follow it as long as its fragments are strided in order:

    dot(f32[6,8] b, ...)    b = bitcast(f32[2,3,8] x)
        x has 8 elements of dimension 1, then 3 and 2 of dimension 0
    dot(f32[6,8] t, ...)    t = transpose(f32[8,6] x)
        x has 6 elements of dimension 0, then 8 of dimension 1

`propagate` returns the fragments on the other side of an instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.errors import XlanbError
from xlanb.gpu.triton import support_legacy
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.transforms.bitcasts import is_bitcast

NO_DIMENSION: Final = -1
WHOLE: Final = 1
"""The size of the major part of a dimension that is not split in two."""

_CONCATENATED_TILE: Final = 64
_UNEVEN: Final = "its dimensions do not align with those of the dot"
_OF_OTHER_SIZE: Final = "its operand and result differ in size"


class TilingDirection(Enum):
    """Which side of an instruction is known: its result or an operand."""

    TO_OPERANDS = auto()
    TO_RESULT = auto()


class Fragment(NamedTuple):
    """Consecutive elements of a dot's dimension.

    It has `size` elements, `used` of which are read from `start` on. `start` is negative for a part
    of a concatenation that begins that far before it.
    """

    label: int
    size: int
    start: int
    used: int

    @property
    def is_sliced(self) -> bool:
        """Whether elements are skipped."""
        return self.size != self.used


def _whole(label: int, count: int) -> Fragment:
    return Fragment(label, count, 0, count)


class Stride(NamedTuple):
    """A run of elements of one dimension.

    It has `size` elements, `stride` apart, `used` of which are read from `start`. `parts` are the
    HLO dimensions that it consists of.
    """

    stride: int
    size: int
    start: int
    used: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class DimensionOrder:
    """The fragments of an instruction's memory, fastest first.

    `places` are the positions of each dimension's fragments, minor part first.
    """

    fragments: tuple[Fragment, ...]
    places: Mapping[int, tuple[int, ...]]

    @staticmethod
    def of(shape: ArrayShape) -> DimensionOrder:
        """Return the order of the dot's operand or result: a fragment per dimension, by number."""
        fragments = tuple(_whole(d, shape.dimensions[d]) for d in shape.minor_to_major)
        return DimensionOrder(fragments, {f.label: (n,) for n, f in enumerate(fragments)})

    def strides(self) -> tuple[tuple[int, tuple[Stride, ...]], ...]:
        """Return the runs of each dimension, sorted by label.

        Adjacent fragments are merged; those of size 1 count only if there are no others.
        """
        found: dict[int, list[Stride]] = {}
        stride, last = 1, NO_DIMENSION
        for f in self.fragments:
            runs = found.setdefault(f.label, [])
            if f.label == last and runs:
                runs[-1] = _joined(runs[-1], f)
            else:
                runs.append(Stride(stride, f.size, f.start, f.used, (f.used,)))
            stride *= f.size
            last = f.label
        kept = {label: [r for r in runs if r.size != 1] if len(runs) > 1 else runs for label, runs in found.items()}
        return tuple((label, tuple(runs)) for label, runs in sorted(kept.items()) if runs)

    def is_physically_equal(self, other: DimensionOrder) -> bool:
        """Whether both read the same memory in the same way, however HLO dimensions divide it."""
        return _physical(self) == _physical(other)


def _joined(run: Stride, f: Fragment) -> Stride:
    """Return a run extended by its dimension's next fragment."""
    parts = run.parts[:-1] if run.parts and run.parts[-1] == 1 else run.parts
    if f.size == 1:
        return run._replace(parts=parts)
    return Stride(run.stride, run.size * f.size, f.start * run.size, f.used * run.size, (*parts, f.used))


def _physical(order: DimensionOrder) -> list[tuple[int, tuple[tuple[int, ...], ...]]]:
    return [
        (label, tuple(r[:4] for r in runs))
        for label, runs in order.strides()
        if not (len(runs) == 1 and runs[0].size == 1)
    ]


class DotSide(NamedTuple):
    """The followed side of a dot.

    `free` is the number of that operand's free dimension, `splittable` that of the dimension that
    may be in two parts.
    """

    free: int = NO_DIMENSION
    splittable: int = NO_DIMENSION


@dataclass(frozen=True)
class Propagated:
    """The orders on the other side of an instruction.

    `major_part` is the size of the major part of the splittable dimension.
    """

    orders: Mapping[HloInstruction, DimensionOrder] = field(default_factory=dict)
    major_part: int = WHOLE


class PropagationError(XlanbError):
    """The emitter cannot follow a dot's dimensions; the message says why."""


def side_of_operand(dot: HloInstruction, number: int) -> DotSide:
    """Return the side of a dot's operand, with one free dimension per side.

    Without batch dimensions, the left one's may be in two parts.
    """
    free = free_dimensions(dot, ("lhs", "rhs")[number])[0]
    may_split = number == 0 and not dot.ints("lhs_batch_dims")
    return DotSide(free, free if may_split else NO_DIMENSION)


def side_of_result(major_part: int) -> DotSide:
    """Return the result's side; the left dimension may be in two parts if it is at the operand."""
    return DotSide(NO_DIMENSION, 0 if major_part > WHOLE else NO_DIMENSION)


def combined(a: int, b: int) -> int | None:
    """Return the major part's size that both require, or None if they differ."""
    if b in (a, WHOLE):
        return a
    return b if a == WHOLE else None


def propagate(i: HloInstruction, order: DimensionOrder, direction: TilingDirection, side: DotSide) -> Propagated | str:
    """Return the orders on the other side of `i`, or why the emitter cannot follow.

    Args:
        i: the instruction.
        order: that of the result, or of the first operand if `direction` is to the result.
        direction: from which side to propagate.
        side: the followed side of the dot.
    """
    try:
        orders = _across(i, order, direction, side)
        major_part = WHOLE
        for o in orders.values():
            both = combined(major_part, _major_part(o, side))
            if both is None:
                return "it needs a different split of the dimension that may be split"
            major_part = both
    except PropagationError as refused:
        return str(refused)
    return Propagated(orders, major_part)


# -- orders that the emitter supports --------------------------------------------------------------


def _major_part(order: DimensionOrder, side: DotSide) -> int:
    """Return the major part's size of the splittable dimension in an order.

    Raises:
        PropagationError: the emitter has no such order.
    """
    major_part = WHOLE
    for label, places in order.places.items():
        if any(order.fragments[p].is_sliced for p in places[:-1]):
            raise PropagationError("it splits a part of a dimension that is not its most major one")
        groups = [g for g in _neighbours(places) if _size(order, g) > 1]
        if any(b[-1] < a[-1] for a, b in pairwise(groups)):
            raise PropagationError("it transposes parts of one dimension")
        if len(groups) < 2:
            continue
        if label != side.splittable:
            raise PropagationError("other dimensions would be placed inside one that cannot be split")
        if len(groups) > 2:
            raise PropagationError("other dimensions would split one twice")
        major_part = _size(order, groups[1])
    return major_part


def _neighbours(places: Sequence[int]) -> list[list[int]]:
    """Return the positions of a dimension, grouped into contiguous runs."""
    groups: list[list[int]] = []
    for p in places:
        if groups and groups[-1][-1] == p - 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    return groups


def _size(order: DimensionOrder, places: Sequence[int]) -> int:
    size = 1
    for p in places:
        size *= order.fragments[p].size
    return size


# -- across an instruction -------------------------------------------------------------------------

_Orders = dict[HloInstruction, DimensionOrder]


def _across(i: HloInstruction, order: DimensionOrder, direction: TilingDirection, side: DotSide) -> _Orders:
    to_operands = direction is TilingDirection.TO_OPERANDS
    if (
        to_operands
        and i.opcode is not O.PARAMETER
        and any(u.opcode in (O.CONCATENATE, O.DYNAMIC_SLICE) for u in i.users)
    ):
        raise PropagationError("it is used by a concatenation or dynamic slice")
    if i.opcode is O.PARAMETER or (i.opcode is O.CONSTANT and i.array_shape.is_scalar):
        return {}
    if i.opcode in (O.TRANSPOSE, O.COPY):
        return _move_dimensions(i, order, direction)
    if i.operands and support_legacy.is_elementwise_opcode(i.opcode, i.operands[0].shape.element_type):
        return dict.fromkeys(i.operands, order) if to_operands else {i: order}
    if i.opcode is O.BITCAST:
        return _reshaped(i, order, direction)
    if i.opcode is O.RESHAPE:
        if not is_bitcast(i.operands[0].array_shape, i.array_shape):
            raise PropagationError("it moves elements")
        return _reshaped(i, order, direction)
    if i.opcode in (O.BROADCAST, O.SLICE, O.CONCATENATE, O.DYNAMIC_SLICE):
        if not to_operands:
            raise PropagationError(f"{i.opcode} is not fused as an output")
        if i.opcode is O.CONCATENATE:
            _check_concatenation(i, order, side)
        return _move_dimensions(i, order, direction)
    raise PropagationError(f"the emitter cannot follow {i.opcode}")


def _check_concatenation(i: HloInstruction, order: DimensionOrder, side: DotSide) -> None:
    """Check that a concatenation is along the operand's free dimension, in whole tiles.

    Raises:
        PropagationError: it is not.
    """
    if len(order.places.get(side.free, ())) > 1:
        raise PropagationError("it concatenates along a split dimension")
    (along,) = i.dimensions
    if _dimension_labelled(i.array_shape, order, side.free) != along:
        raise PropagationError("it does not concatenate along the non-contracting dimension")
    if any(o.array_shape.dimensions[along] % _CONCATENATED_TILE for o in i.operands):
        raise PropagationError(f"the length of a concatenated operand is not a multiple of {_CONCATENATED_TILE}")


def _dimension_labelled(shape: ArrayShape, order: DimensionOrder, label: int) -> int | None:
    """Return the dimension of a shape that contains the first fragment with a label."""
    rest = iter(order.fragments)
    for d in shape.minor_to_major:
        size = 1
        while size < shape.dimensions[d]:
            f = next(rest)
            size *= f.size
            if f.label == label:
                return d
    return None


def _reshaped(i: HloInstruction, order: DimensionOrder, direction: TilingDirection) -> _Orders:
    target = i.operands[0] if direction is TilingDirection.TO_OPERANDS else i
    return {target: reshaped(order, target.array_shape)}


def reshaped(order: DimensionOrder, shape: ArrayShape) -> DimensionOrder:
    """Split the fragments at the dimensions of a shape with the same bytes.

    Raises:
        PropagationError: a dimension would hold a fraction of a fragment, or several.
    """
    if not shape.element_count:
        raise PropagationError("it has no elements")
    sizes = [shape.dimensions[d] for d in shape.minor_to_major]
    made: list[Fragment] = []
    pieces: list[list[int]] = [[] for _ in order.fragments]
    left, at = 1, 0
    """The rest of the current dimension, and the next one."""
    for n, f in enumerate(order.fragments):
        rest = f.size
        if left >= rest:
            if left % rest:
                raise PropagationError(_UNEVEN)
            pieces[n].append(len(made))
            made.append(f)
            left //= rest
            continue
        if f.is_sliced:
            raise PropagationError("it splits a sliced dimension")
        if left > 1:
            if rest % left:
                raise PropagationError(_UNEVEN)
            pieces[n].append(len(made))
            made.append(_whole(f.label, left))
            rest, left = rest // left, 1
        while rest > 1:
            if at == len(sizes):
                raise PropagationError(_OF_OTHER_SIZE)
            size = sizes[at]
            at += 1
            taken = min(size, rest)
            if max(size, rest) % taken:
                raise PropagationError(_UNEVEN)
            left = size // rest if size > rest else 1
            pieces[n].append(len(made))
            made.append(_whole(f.label, taken))
            rest //= taken
    if left != 1 or any(size != 1 for size in sizes[at:]):
        raise PropagationError(_OF_OTHER_SIZE)
    for _ in sizes[at:] if made else ():
        pieces[-1].append(len(made))
        made.append(_whole(made[-1].label, 1))
    places = {label: tuple(p for n in old for p in pieces[n]) for label, old in order.places.items()}
    return DimensionOrder(tuple(made), places)


def _move_dimensions(i: HloInstruction, order: DimensionOrder, direction: TilingDirection) -> _Orders:
    """Move whole dimensions' fragments as the instruction does.

    Handles transpose, copy, broadcast, slice and concatenate.
    """
    if i.opcode is O.SLICE and i.array_shape.element_count == 1:
        raise PropagationError("a slice of one element is not followed")
    known = i if direction is TilingDirection.TO_OPERANDS else i.operands[0]
    dimensions = _grouped(known.array_shape, order)
    orders: _Orders = {}
    begun = 0
    for n, target in enumerate(i.operands if direction is TilingDirection.TO_OPERANDS else (i,)):
        if i.opcode is O.DYNAMIC_SLICE and n > 0:
            continue
        moved = _dimensions_of(i, target, dimensions, order, direction, begun)
        if i.opcode is O.CONCATENATE:
            begun += target.array_shape.dimensions[i.dimensions[0]]
        orders[target] = _assembled(i, target.array_shape, moved, order)
    return orders


_Numbered = list[tuple[int, Fragment]]
"""Fragments of one dimension, each with its source position (NO_DIMENSION: new)."""


def _grouped(shape: ArrayShape, order: DimensionOrder) -> list[_Numbered]:
    """Return the fragments of each dimension of a shape, minor part first."""
    if len(order.fragments) < shape.rank:
        raise PropagationError("it is not followed beyond an array of one element")
    groups: list[_Numbered] = [[] for _ in range(shape.rank)]
    at = 0
    for d in shape.minor_to_major:
        size = 1
        while True:
            if at == len(order.fragments):
                raise PropagationError(_UNEVEN)
            size *= order.fragments[at].size
            groups[d].append((at, order.fragments[at]))
            at += 1
            if size >= shape.dimensions[d]:
                break
        if size != shape.dimensions[d]:
            raise PropagationError(_UNEVEN)
    return groups


def _dimensions_of(
    i: HloInstruction,
    target: HloInstruction,
    known: list[_Numbered],
    order: DimensionOrder,
    direction: TilingDirection,
    begun: int,
) -> list[_Numbered]:
    """Return the fragments of each dimension on the other side."""
    if i.opcode is O.TRANSPOSE:
        if direction is TilingDirection.TO_RESULT:
            return [known[d] for d in i.dimensions]
        moved: list[_Numbered] = [[] for _ in known]
        for n, d in enumerate(i.dimensions):
            moved[d] = known[n]
        return moved
    if i.opcode is O.BROADCAST:
        return [known[d] for d in i.dimensions]
    if i.opcode is O.CONCATENATE:
        (along,) = i.dimensions
        if len(known[along]) != 1 or known[along][0][1].is_sliced:
            raise PropagationError("it concatenates along a split dimension")
        size, part = target.array_shape.dimensions[along], list(known)
        # The part replaces the whole dimension, also in the order of its fragments.
        part[along] = [(NO_DIMENSION, Fragment(known[along][0][1].label, size, -begun, size))]
        return part
    if i.opcode in (O.SLICE, O.DYNAMIC_SLICE):
        return [_cut(i, d, group, target.array_shape.dimensions[d]) for d, group in enumerate(known)]
    return known


def _cut(i: HloInstruction, d: int, group: _Numbered, size: int) -> _Numbered:
    """Return a dimension's fragments of a slice's input, whose length there is `size`."""
    if i.opcode is O.SLICE:
        box = i.attributes["slice"][d]
        length, start = box.limit - box.start, box.start
    else:
        length, start = i.ints("dynamic_slice_sizes")[d], 0
    if length == size:
        return group
    if len(group) > 1:
        raise PropagationError("it slices a split dimension")
    n, f = group[0]
    used = f.used if i.opcode is O.SLICE else size
    return [(n, Fragment(f.label, size, f.start + start, used))]


def _assembled(
    i: HloInstruction, shape: ArrayShape, dimensions: list[_Numbered], order: DimensionOrder
) -> DimensionOrder:
    """Return the order of a shape with these fragments per dimension."""
    if len(dimensions) != shape.rank:
        raise PropagationError("its operand and result have different ranks")
    made: list[Fragment] = []
    place: dict[int, int] = {}
    for d in shape.minor_to_major:
        for n, f in dimensions[d]:
            place[n] = len(made)
            made.append(f)
    present = {f.label for f in made if f.size > 1}
    places: dict[int, tuple[int, ...]] = {}
    for label, old in order.places.items():
        kept = [n for n in old if n in place]
        lost = [n for n in old if n not in place and order.fragments[n].size > 1]
        if i.opcode is O.BROADCAST and lost and label in present:
            raise PropagationError("it repeats part of a dimension")
        if kept:
            places[label] = tuple(place[n] for n in kept)
    return DimensionOrder(tuple(made), places)
