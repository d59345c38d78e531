"""Write instructions into a computation, each one once, and simplify data movement while writing.

    slice(slice(x))                  => slice(x)
    slice(concatenate(a, b))         => concatenate of slices of a and b, or one of them
    concatenate(x[0:4], x[4:8])      => x[0:8]
    concatenate(x[0:2, 0], x[2:4, 0], ...) along dimension 1    => a slice of x, transposed
    concatenate(x[2:4, 0:2], x[0:4, 2:4], ...) along dimension 0
        => a slice of x with the parts of its rows stacked
    reshape, transpose of those      => reshape(transpose(reshape(x)))

Much of a partitioned program is such data movement, and much of it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Literal, PrimitiveType, Shape
from xlanb.spmd.devices.not_merged import NotMergedError

Box = tuple[SliceDimension, ...]
"""The selected elements of an array, dimension by dimension."""

_SMALL: Final = 64
"""The most elements of a constant that is sliced here; XLA's passes fold larger ones."""


@dataclass(frozen=True, slots=True)
class View:
    """A reshaped and transposed array, as factors of each dimension.

    Each factor is a size and a stride in elements of the base, outermost first.
    """

    base: HloInstruction
    factors: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def is_base(self) -> bool:
        return self.factors == _row_major(dimensions(self.base))

    def reshaped(self, dims: Sequence[int]) -> View | None:
        """Return the same elements under other dimensions.

        Returns None if a factor would have to be split at a non-divisor.
        """
        factors = None if 0 in dims else _regrouped([f for group in self.factors for f in group], dims)
        return None if factors is None else View(self.base, factors)

    def transposed(self, permutation: Sequence[int]) -> View:
        """Return the view with its dimensions permuted."""
        return View(self.base, tuple(self.factors[k] for k in permutation))

    def on(self, base: HloInstruction) -> View:
        """Return the same view of another array with the same number of elements."""
        return View(base, self.factors)


def dimensions(value: HloInstruction) -> tuple[int, ...]:
    """Return the dimension sizes of an array."""
    return value.array_shape.dimensions


def of_size(like: Shape, dims: Sequence[int]) -> ArrayShape:
    """Return a row-major shape of the same element type."""
    return ArrayShape(like.as_array().element_type, tuple(dims)).with_default_layout()


def everything(dims: Sequence[int]) -> Box:
    """Return the box of all elements of an array with these dimensions."""
    return tuple(SliceDimension(0, n, 1) for n in dims)


def size_of(d: SliceDimension) -> int:
    """Return how many elements a slice takes of a dimension."""
    return -(-(d.limit - d.start) // d.stride)


class Writer:
    """Writes into one computation.

    Args:
        target: the computation.
        most: the most instructions it may have; one more raises NotMergedError.
    """

    def __init__(self, target: HloComputation, most: int) -> None:
        self.target, self.most = target, most
        self._made: dict[tuple[Any, ...], HloInstruction] = {}
        self._views: dict[HloInstruction, View] = {}

    # -- any instruction ---------------------------------------------------------------------------

    def add(
        self, opcode: Op, operands: Iterable[HloInstruction], shape: Shape | None = None, **attributes: Any
    ) -> HloInstruction:
        """Return a new instruction, or the existing equal one."""
        operands = tuple(operands)
        key = (opcode, operands, shape, *((k, _hashed(v)) for k, v in attributes.items()))
        found = self._made.get(key)
        if found is None:
            self._check_size()
            found = self._made[key] = self.target.add(opcode, operands, shape, **attributes)
        return found

    def copy(
        self, i: HloInstruction, operands: Sequence[HloInstruction], shape: Shape | None = None, **attributes: Any
    ) -> HloInstruction:
        """Return a copy of an instruction with other operands, or the existing equal one.

        `attributes` replace its own.
        """
        key = (i, *operands, shape, *((k, _hashed(v)) for k, v in attributes.items()))
        found = self._made.get(key)
        if found is None:
            self._check_size()
            found = self._made[key] = self.target.clone_instruction(i, operands, shape)
            changed = {"attributes": {**i.attributes, **attributes}} if attributes else {}
            self.target.update(found, sharding="", frontend_attributes=(), **changed)
        return found

    def constant(self, value: Any) -> HloInstruction:
        """Write a constant from an array or a Literal."""
        literal = value if isinstance(value, Literal) else Literal.of(np.asarray(value))
        key = (Op.CONSTANT, literal.shape, literal.array.tobytes())
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.target.constant(literal)
        return found

    def zeros(self, shape: ArrayShape) -> HloInstruction:
        """Write an array of zeros."""
        zero = self.constant(np.zeros((), shape.dtype))
        return zero if not shape.rank else self.add(Op.BROADCAST, (zero,), shape.with_default_layout(), dimensions=())

    def element(self, value: HloInstruction, index: int) -> HloInstruction:
        """Return an element of a tuple; for a tuple just written, its operand."""
        if value.opcode is Op.TUPLE:
            return value.operands[index]
        return self.add(Op.GET_TUPLE_ELEMENT, (value,), index=index)

    def _check_size(self) -> None:
        if len(self.target) > self.most:
            raise NotMergedError(f"more than {self.most} instructions")

    # -- slices and concatenations -----------------------------------------------------------------

    def slice(self, value: HloInstruction, box: Sequence[SliceDimension]) -> HloInstruction:
        """Write a slice of an array."""
        box = tuple(_tight(d) for d in box)
        dims = dimensions(value)
        if box == everything(dims):
            return value
        if value.opcode is Op.SLICE:
            inner: Box = value.attributes["slice"]
            return self.slice(value.operands[0], [_within(a, b) for a, b in zip(inner, box, strict=True)])
        if value.opcode is Op.CONCATENATE and (parts := self._parts(value, box)) is not None:
            return parts
        if value.opcode is Op.BROADCAST and not dimensions(value.operands[0]):
            sizes = [size_of(d) for d in box]
            return self.add(Op.BROADCAST, value.operands, of_size(value.shape, sizes), dimensions=())
        if value.opcode is Op.CONSTANT and value.literal.array.size <= _SMALL:
            return self.constant(value.literal.array[tuple(slice(d.start, d.limit, d.stride) for d in box)])
        return self.add(Op.SLICE, (value,), slice=box)

    def _parts(self, value: HloInstruction, box: Box) -> HloInstruction | None:
        """Slice only those operands of a concatenation that the slice overlaps.

        Returns None if the slice spans the whole concatenated dimension.
        """
        (dim,) = value.ints("dimensions")
        if box[dim] == SliceDimension(0, dimensions(value)[dim], 1):
            return None
        parts, place = [], 0
        for operand in value.operands:
            size = dimensions(operand)[dim]
            local = _part(box[dim], place, size)
            if local is not None:
                parts.append((operand, (*box[:dim], local, *box[dim + 1 :])))
            place += size
        if not parts:
            return None
        return self.concatenate([self.slice(*part) for part in parts], dim)

    def concatenate(self, values: Sequence[HloInstruction], dim: int) -> HloInstruction:
        """Write a concatenation."""
        parts = self._neighbours(_flattened(values, dim), dim)
        if len(parts) == 1:
            return parts[0]
        interchanged = self._interchanged(parts, dim)
        if interchanged is not None:
            return interchanged
        lined_up = self._neighbours(self._lined_up(parts, dim), dim)
        parts = lined_up if len(lined_up) < len(parts) else parts
        return parts[0] if len(parts) == 1 else self.add(Op.CONCATENATE, parts, dimensions=(dim,))

    def _neighbours(self, values: Iterable[HloInstruction], dim: int) -> list[HloInstruction]:
        """Return the parts of a concatenation, with adjacent slices of one array joined."""
        parts: list[HloInstruction] = []
        for v in values:
            joined = self._joined(parts[-1], v, dim) if parts else None
            if joined is None:
                parts.append(v)
            else:
                parts[-1] = joined
        return parts

    def _lined_up(self, parts: Sequence[HloInstruction], dim: int) -> Sequence[HloInstruction]:
        """Rearrange an array so that slices along another dimension become slices along `dim`.

        Adjacent devices' tiles then are adjacent along `dim`.
        """
        slices = [p for p in parts if p.opcode is Op.SLICE]
        if len(slices) < 2 or any(p.operands[0] is not slices[0].operands[0] for p in slices):
            return parts
        x, boxes = slices[0].operands[0], [p.attributes["slice"] for p in slices]
        dims, first = dimensions(x), boxes[0]
        moving = [k for k in range(len(dims)) if k != dim and any(b[k] != first[k] for b in boxes)]
        if len(moving) != 1 or any(b[moving[0]].stride != 1 for b in boxes):
            return parts
        (along,) = moving
        size = size_of(first[along])
        if dims[along] % size or any(size_of(b[along]) != size or b[along].start % size for b in boxes):
            return parts
        split: list[int] = []
        place: dict[int, int] = {}
        for k, n in enumerate(dims):
            place[k] = len(split)
            split += [n // size, size] if k == along else [n]
        order = [k for k in range(len(split)) if k != place[along]]
        order.insert(order.index(place[dim]), place[along])
        count, length = dims[along] // size, dims[dim]
        result = [size if k == along else n * count if k == dim else n for k, n in enumerate(dims)]
        lined = self.rearranged(x, split, order, result)
        moved = []
        for p in parts:
            if p.opcode is not Op.SLICE:
                moved.append(p)
                continue
            box, at = list(p.attributes["slice"]), p.attributes["slice"][dim]
            first_row = box[along].start // size * length
            box[along] = SliceDimension(0, size, 1)
            box[dim] = SliceDimension(first_row + at.start, first_row + at.limit, at.stride)
            moved.append(self.slice(lined, box))
        return moved

    def _joined(self, a: HloInstruction, b: HloInstruction, dim: int) -> HloInstruction | None:
        """Return two adjacent slices of one array as one slice."""
        (x, first), (y, second) = box_of(a), box_of(b)
        if x is not y or any(p != q for k, (p, q) in enumerate(zip(first, second, strict=True)) if k != dim):
            return None
        p, q = first[dim], second[dim]
        n, m = size_of(p), size_of(q)
        stride = p.stride if n > 1 else q.stride if m > 1 else 1
        if (m > 1 and q.stride != stride) or q.start != p.start + n * stride:
            return None
        return self.slice(x, (*first[:dim], SliceDimension(p.start, q.limit, stride), *first[dim + 1 :]))

    def _interchanged(self, parts: Sequence[HloInstruction], dim: int) -> HloInstruction | None:
        """Return a reordered concatenation of slices of one array as one slice.

        It slices the reordered array. The slices have equal size, and each begins a fixed step
        after the one before, along the concatenated dimension or another one. The whole array is
        transposed once, for all such slices of it.
        """
        x, first = box_of(parts[0])
        boxes = [box_of(p) for p in parts]
        sizes, starts = [size_of(d) for d in first], [[d.start for d in box] for _, box in boxes]
        if any(y is not x or [(size_of(d), d.stride) for d in box] != [(n, 1) for n in sizes] for y, box in boxes):
            return None
        moving = [k for k in range(len(sizes)) if any(s[k] != starts[0][k] for s in starts)]
        if len(moving) != 1:
            return None
        (along,), count = moving, len(parts)
        step = starts[1][along] - starts[0][along]
        if [s[along] for s in starts] != [starts[0][along] + m * step for m in range(count)]:
            return None
        found = (
            _nearer(dimensions(x), sizes, starts[0], dim, step, count)
            if along == dim
            else _across(dimensions(x), sizes, starts[0], dim, along, step, count)
        )
        if found is None:
            return None
        split, order, result, low = found
        longer = [n * count if k == dim else n for k, n in enumerate(sizes)]
        box = [SliceDimension(s, s + n, 1) for s, n in zip(low, longer, strict=True)]
        return self.slice(self.rearranged(x, split, order, result), box)

    # -- reshapes and transposes -------------------------------------------------------------------

    def reshape(self, value: HloInstruction, dims: Sequence[int]) -> HloInstruction:
        """Write a reshape."""
        if tuple(dims) == dimensions(value):
            return value
        view = self.view(value).reshaped(dims)
        if view is None:
            return self.add(Op.RESHAPE, (value,), of_size(value.shape, dims))
        return self.of_view(view)

    def transpose(self, value: HloInstruction, permutation: Sequence[int]) -> HloInstruction:
        """Write a transpose: dimension k of the result is dimension permutation[k]."""
        return self.of_view(self.view(value).transposed(permutation))

    def rearranged(
        self, value: HloInstruction, split: Sequence[int], permutation: Sequence[int], dims: Sequence[int]
    ) -> HloInstruction:
        """Write a reshape, a transpose, and another reshape."""
        view = self.view(value).reshaped(split)
        moved = view.transposed(permutation).reshaped(dims) if view is not None else None
        if moved is not None:
            return self.of_view(moved)
        made = self.add(Op.RESHAPE, (value,), of_size(value.shape, split))
        made = self.add(Op.TRANSPOSE, (made,), dimensions=tuple(permutation))
        return self.add(Op.RESHAPE, (made,), of_size(value.shape, dims))

    def local(self, value: HloInstruction) -> HloInstruction:
        """Return a slice of a transpose as the transpose of a slice, which dots can absorb."""
        if value.opcode is not Op.SLICE or value.operands[0].opcode is not Op.TRANSPOSE:
            return value
        whole, box = value.operands[0], value.attributes["slice"]
        order = whole.ints("dimensions")
        inner = self.slice(whole.operands[0], [box[order.index(k)] for k in range(len(order))])
        return self.add(Op.TRANSPOSE, (inner,), value.shape, dimensions=order)

    def view(self, value: HloInstruction) -> View:
        """Return the base array and factors that reshapes and transposes made an array of."""
        return self._views.get(value) or View(value, _row_major(dimensions(value)))

    def of_view(self, view: View) -> HloInstruction:
        """Write the array that a view describes."""
        base = view.base
        if view.is_base:
            return base
        dims = [math.prod(size for size, _ in group) for group in view.factors]
        atoms = _merged_factors([f for group in view.factors for f in group])
        order = sorted(range(len(atoms)), key=lambda k: -atoms[k][1])
        made = base
        if order != list(range(len(atoms))):
            made = self._plain_reshape(made, [atoms[k][0] for k in order])
            inverse = sorted(range(len(order)), key=order.__getitem__)
            shape = of_size(base.shape, [size for size, _ in atoms])
            made = self.add(Op.TRANSPOSE, (made,), shape, dimensions=tuple(inverse))
        made = self._plain_reshape(made, dims)
        if made is not base:
            self._views[made] = view
        return made

    def _plain_reshape(self, value: HloInstruction, dims: Sequence[int]) -> HloInstruction:
        return value if tuple(dims) == dimensions(value) else self.add(Op.RESHAPE, (value,), of_size(value.shape, dims))


_Moves = tuple[list[int], list[int], list[int], list[int]]
"""Dimensions of a reshape, a permutation, dimensions of a reshape, and the first slice's start."""


def _across(
    dims: Sequence[int], sizes: Sequence[int], start: Sequence[int], dim: int, along: int, step: int, count: int
) -> _Moves | None:
    """Return the moves that join slices along `dim` that lie along another dimension."""
    size, piece, span = sizes[dim], sizes[along], step * count
    if step <= 0 or step % piece or dims[along] % span or start[along] % piece or start[along] % span >= step:
        return None
    if dims[dim] % size or start[dim] % size:
        return None
    split: list[int] = []
    place: dict[int, int] = {}
    for k, n in enumerate(dims):
        place[k] = len(split)
        split += [n // span, count, step] if k == along else [n // size, size] if k == dim else [n]
    order = list(range(len(split)))
    order.remove(place[along] + 1)
    order.insert(order.index(place[dim]) + 1, place[along] + 1)
    result = [n // count if k == along else n * count if k == dim else n for k, n in enumerate(dims)]
    low = [s * count if k == dim else s for k, s in enumerate(start)]
    low[along] = start[along] // span * step + start[along] % span
    return split, order, result, low


def _nearer(
    dims: Sequence[int], sizes: Sequence[int], start: Sequence[int], dim: int, step: int, count: int
) -> _Moves | None:
    """Return the moves that concatenate evenly spaced slices along the dimension they slice."""
    size, span = sizes[dim], step * count
    if step <= 0 or step % size or dims[dim] % span or start[dim] % size or start[dim] % span >= step:
        return None
    split = [*dims[:dim], dims[dim] // span, count, step // size, size, *dims[dim + 1 :]]
    order = list(range(len(split)))
    order[dim + 1], order[dim + 2] = dim + 2, dim + 1
    low = list(start)
    low[dim] = start[dim] // span * span + start[dim] % span * count
    return split, order, list(dims), low


def box_of(value: HloInstruction) -> tuple[HloInstruction, Box]:
    """Return the array that a value slices, and the selected elements.

    A value that is no slice is its own array, with all elements selected.
    """
    if value.opcode is Op.SLICE:
        return value.operands[0], value.attributes["slice"]
    return value, everything(dimensions(value))


def splat(value: HloInstruction) -> Any:
    """Return the value that fills an array, or None if it is not known to be uniform."""
    if value.opcode is Op.BROADCAST:
        return splat(value.operands[0])
    if value.opcode is not Op.CONSTANT or value.shape.as_array().element_type is PrimitiveType.TOKEN:
        return None
    array = value.literal.array
    return array.reshape(-1)[0] if array.size and (array == array.reshape(-1)[0]).all() else None


def _hashed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tight(d: SliceDimension) -> SliceDimension:
    """Return the same elements with the tightest limit, and stride 1 for a single element."""
    n = size_of(d)
    stride = d.stride if n > 1 else 1
    return SliceDimension(d.start, d.start + (n - 1) * stride + 1 if n else d.start, stride)


def _within(outer: SliceDimension, d: SliceDimension) -> SliceDimension:
    """Return the slice of a slice as one slice."""
    n = size_of(d)
    start, stride = outer.start + d.start * outer.stride, d.stride * outer.stride
    return SliceDimension(start, start + max(n - 1, 0) * stride + min(n, 1), stride)


def _part(d: SliceDimension, place: int, size: int) -> SliceDimension | None:
    """Return the part of a slice in [place, place + size), counted from `place`.

    Returns None if the part is empty.
    """
    skipped = max(0, -(-(place - d.start) // d.stride))
    start = d.start + skipped * d.stride
    limit = min(d.limit, place + size)
    return SliceDimension(start - place, limit - place, d.stride) if start < limit else None


def _flattened(values: Iterable[HloInstruction], dim: int) -> Iterable[HloInstruction]:
    for v in values:
        if v.opcode is Op.CONCATENATE and v.ints("dimensions") == (dim,):
            yield from v.operands
        else:
            yield v


def _row_major(dims: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    strides = [math.prod(dims[k + 1 :]) for k in range(len(dims))]
    return tuple(((n, s),) if n != 1 else () for n, s in zip(dims, strides, strict=True))


def _regrouped(factors: list[tuple[int, int]], dims: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Regroup factors, in the same order, for other dimensions.

    Returns None if a factor would have to be split at a non-divisor.
    """
    rest = list(reversed(factors))
    groups = []
    for n in dims:
        group: list[tuple[int, int]] = []
        while n > 1:
            size, stride = rest.pop()
            if n % size == 0:
                group.append((size, stride))
                n //= size
            elif size % n == 0:
                group.append((n, stride * (size // n)))
                rest.append((size // n, stride))
                n = 1
            else:
                return None
        groups.append(tuple(group))
    return tuple(groups)


def _merged_factors(factors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join adjacent factors that form one contiguous run of elements."""
    merged: list[tuple[int, int]] = []
    for size, stride in factors:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged
