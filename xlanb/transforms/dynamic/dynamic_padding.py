"""Padded form of dynamic arrays, and the rule of each opcode for it.

A dynamic array is stored at its bound, and the sizes of its dynamic dimensions as s32 scalars;
elements beyond a size are undefined. A rule returns the result of an instruction in this form, or
None if it needs contiguous elements.
Source: xla/service/dynamic_dimension_inference.h, dynamic_padder.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TypeAlias

from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.reshaping import reshape_runs
from xlanb.shape.shape import tuple_of
from xlanb.transforms.builder import Builder

SIZE = PrimitiveType.S32
Sizes = dict[int, HloInstruction]


@dataclass(frozen=True)
class PaddedValue:
    """An array at its bound, and the sizes of its dynamic dimensions."""

    array: HloInstruction
    sizes: Sizes = field(default_factory=dict)


Value: TypeAlias = "PaddedValue | list[Value]"
Rule = Callable[[Builder, HloInstruction, list[PaddedValue]], "Value | None"]


def static(shape: Shape) -> Shape:
    """The shape with every dynamic dimension at its bound."""
    if isinstance(shape, TupleShape):
        return tuple_of(static(s) for s in shape.shapes)
    if isinstance(shape, ArrayShape) and shape.is_dynamic:
        return ArrayShape(shape.element_type, shape.dimensions, shape.layout)
    return shape


def filled(b: Builder, x: PaddedValue, dimensions: Iterable[int], value: HloInstruction) -> HloInstruction:
    """The array with the scalar `value` in the padding of those `dimensions` that are dynamic."""
    made, shape = x.array, x.array.array_shape
    for d in dimensions:
        if d in x.sizes:
            index = b.add(O.IOTA, (), shape.with_type(SIZE), iota_dimension=d)
            is_real = b.compare(index, "LT", b.broadcast(x.sizes[d], (), index.array_shape))
            made = b.select(is_real, made, b.broadcast(value, (), shape))
    return made


def apply(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """The result of an instruction over padded operands; None if it needs contiguous elements."""
    rule = _RULES.get(i.opcode, _elementwise if i.opcode.is_elementwise else None)
    return rule(b, i, operands) if rule is not None else None


def _clone(i: HloInstruction, operands: Iterable[HloInstruction]) -> HloInstruction:
    return i.parent.clone_instruction(i, tuple(operands), static(i.shape))


def _results(b: Builder, made: HloInstruction, sizes: Sizes) -> Value:
    """One array, or several of equal sizes."""
    if isinstance(made.shape, TupleShape):
        return [PaddedValue(b.element(made, n), sizes) for n in range(len(made.shape.shapes))]
    return PaddedValue(made, sizes)


def _elementwise(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    full = [o for o in operands if o.array.array_shape.rank == i.array_shape.rank]
    sizes = _common_sizes(b, [o.sizes for o in full], implicit_broadcast=True)
    return PaddedValue(_clone(i, (_repeat(b, o, sizes) if o in full else o.array for o in operands)), sizes)


def _common_sizes(b: Builder, given: Iterable[Sizes], *, implicit_broadcast: bool = False) -> Sizes:
    """The sizes of arrays that are read together: the smaller one if two differ.

    With `implicit_broadcast` a size of 1 is replaced by the other, as in XLA.
    """
    sizes: Sizes = {}
    for some in given:
        for d, n in some.items():
            sizes[d] = _meet(b, sizes.get(d, n), n, implicit_broadcast=implicit_broadcast)
    return sizes


def _meet(b: Builder, n: HloInstruction, m: HloInstruction, *, implicit_broadcast: bool) -> HloInstruction:
    if n is m:
        return n
    met = b.binary(O.MINIMUM, n, m)
    if not implicit_broadcast:
        return met
    one = b.scalar(1, SIZE)
    return b.select(b.compare(n, "EQ", one), m, b.select(b.compare(m, "EQ", one), n, met))


def _repeat(b: Builder, x: PaddedValue, sizes: Sizes) -> HloInstruction:
    """Repeat the only element along each dimension of dynamic size 1.

    Only where the result's size may differ.
    """
    made, shape = x.array, x.array.array_shape
    for d, n in x.sizes.items():
        if sizes[d] is n:
            continue
        limits = [1 if k == d else size for k, size in enumerate(shape.dimensions)]
        kept = [k for k in range(shape.rank) if k != d]
        first = b.reshape(b.slice(made, [0] * shape.rank, limits), [shape.dimensions[k] for k in kept])
        is_one = b.compare(n, "EQ", b.scalar(1, SIZE))
        everywhere = b.broadcast(is_one, (), shape.with_type(PrimitiveType.PRED))
        made = b.select(everywhere, b.broadcast(first, kept, shape), made)
    return made


def _broadcast(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    return PaddedValue(_clone(i, (operands[0].array,)), {i.dimensions[d]: n for d, n in operands[0].sizes.items()})


def _transpose(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    sizes = operands[0].sizes
    return PaddedValue(_clone(i, (operands[0].array,)), {n: sizes[d] for n, d in enumerate(i.dimensions) if d in sizes})


def _set_size(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    d = i.dimensions[0]
    sizes = {k: n for k, n in operands[0].sizes.items() if k != d}
    return PaddedValue(
        operands[0].array, sizes | {d: operands[1].array} if i.array_shape.is_dynamic_dimension(d) else sizes
    )


def _get_size(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    x, d = operands[0], i.dimensions[0]
    return PaddedValue(x.sizes[d] if d in x.sizes else b.scalar(x.array.array_shape.dimensions[d], SIZE))


def _reduce(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    count = len(operands) // 2
    starts = [o.array for o in operands[count:]]
    arrays = [filled(b, x, i.dimensions, s) for x, s in zip(operands[:count], starts, strict=True)]
    kept = [d for d in range(arrays[0].array_shape.rank) if d not in i.dimensions]
    sizes = _common_sizes(b, ({n: x.sizes[d] for n, d in enumerate(kept) if d in x.sizes} for x in operands[:count]))
    return _results(b, _clone(i, (*arrays, *starts)), sizes)


def _dot(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    zero = b.scalar(0, operands[0].array.array_shape.element_type)
    arrays, given = [], []
    batch = len(i.ints("lhs_batch_dims"))
    place = batch
    for side, x in zip(("lhs", "rhs"), operands, strict=True):
        contracting, shared = i.ints(f"{side}_contracting_dims"), i.ints(f"{side}_batch_dims")
        start = zero if side == "lhs" else b.scalar(0, x.array.array_shape.element_type)
        arrays.append(filled(b, x, contracting, start))
        free = [d for d in range(x.array.array_shape.rank) if d not in contracting and d not in shared]
        given.append({n: x.sizes[d] for n, d in enumerate(shared) if d in x.sizes})
        given.append({place + n: x.sizes[d] for n, d in enumerate(free) if d in x.sizes})
        place += len(free)
    return PaddedValue(_clone(i, arrays), _common_sizes(b, given))


def _concatenate(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    d = i.dimensions[0]
    sizes = _common_sizes(b, ({k: n for k, n in o.sizes.items() if k != d} for o in operands))
    if all(d not in o.sizes for o in operands):
        return PaddedValue(_clone(i, (o.array for o in operands)), sizes)
    shape = static(i.shape).as_array()
    first = operands[0].array.array_shape
    edges = [PaddingDimension()] * shape.rank
    edges[d] = PaddingDimension(0, shape.dimensions[d] - first.dimensions[d])
    made = b.add(O.PAD, (operands[0].array, b.scalar(0, shape.element_type)), shape, padding=tuple(edges))
    end = b.scalar(0, SIZE)
    for n, o in enumerate(operands):
        if n:
            starts = [end if k == d else b.scalar(0, SIZE) for k in range(shape.rank)]
            made = b.add(O.DYNAMIC_UPDATE_SLICE, (made, o.array, *starts), shape)
        end = b.binary(O.ADD, end, o.sizes.get(d) or b.scalar(o.array.array_shape.dimensions[d], SIZE))
    return PaddedValue(made, sizes | {d: end})


def _pad(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """Overwrite the elements beyond each size with the pad value, then pad."""
    x, value = operands
    sizes: Sizes = {}
    for d, n in x.sizes.items():
        edge = i.attributes["padding"][d]
        if edge.low < 0 or edge.high < 0:
            return None
        size = n
        if edge.interior:
            one = b.scalar(1, SIZE)
            gaps = b.binary(O.MAXIMUM, b.binary(O.SUBTRACT, n, one), b.scalar(0, SIZE))
            size = b.binary(O.ADD, n, b.binary(O.MULTIPLY, gaps, b.scalar(edge.interior, SIZE)))
        sizes[d] = b.binary(O.ADD, size, b.scalar(edge.low + edge.high, SIZE))
    return PaddedValue(_clone(i, (filled(b, x, x.sizes, value.array), value.array)), sizes)


def _whole(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """A slice that keeps dynamic dimensions whole."""
    x = operands[0]
    dims = x.array.array_shape.dimensions
    if any(i.array_shape.dimensions[d] != dims[d] for d in x.sizes):
        return None
    return PaddedValue(_clone(i, (o.array for o in operands)), x.sizes)


def _off(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """An instruction along `dimensions` that are not dynamic."""
    if any(d in o.sizes for o in operands for d in i.dimensions):
        return None
    sizes = _common_sizes(b, (o.sizes for o in operands))
    return _results(b, _clone(i, (o.array for o in operands)), sizes)


def _reduce_window(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    count = len(operands) // 2
    sizes = _common_sizes(b, (x.sizes for x in operands[:count]))
    plain = [
        w.size == 1 and w.stride == 1 and not w.padding_low and not w.padding_high and w.base_dilation == 1
        for w in i.window.dimensions
    ]
    if not all(plain[d] for d in sizes):
        return None
    return _results(b, _clone(i, (o.array for o in operands)), sizes)


def _reshape(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """A reshape whose dynamic dimensions are the most major ones of each split or merge."""
    x = operands[0]
    source, target = x.array.array_shape.dimensions, i.array_shape.dimensions
    runs = reshape_runs(source, target)
    if runs is None:
        return None
    sizes: Sizes = {}
    for ins, outs in runs:
        moving = [d for d in ins if d in x.sizes]
        if not moving:
            continue
        major_in = next((d for d in ins if source[d] != 1), ins[0])
        major_out = next((d for d in outs if target[d] != 1), outs[0] if outs else None)
        dynamic_out = [d for d in outs if i.array_shape.is_dynamic_dimension(d)]
        if moving != [major_in] or dynamic_out != [major_out] or major_out is None:
            return None
        old, new = source[major_in], target[major_out]
        size = x.sizes[major_in]
        if new == old:  # both may be 0
            sizes[major_out] = size
        elif new % old == 0:
            sizes[major_out] = b.binary(O.MULTIPLY, size, b.scalar(new // old, SIZE))
        elif old % new == 0:
            sizes[major_out] = b.binary(O.DIVIDE, size, b.scalar(old // new, SIZE))
        else:
            return None
    return PaddedValue(b.add(O.RESHAPE, (x.array,), static(i.shape)), sizes)


def _gather(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """Indices beyond a size are clamped; slices must cover dynamic dimensions of `x`."""
    x, indices = operands
    offsets = i.ints("offset_dims")
    gone = {*i.ints("collapsed_slice_dims"), *i.ints("operand_batching_dims")}
    slices, dims = i.ints("slice_sizes"), x.array.array_shape.dimensions
    windows = [d for d in range(len(dims)) if d not in gone]
    if i.attributes["index_vector_dim"] in indices.sizes:
        return None
    if any(d not in windows or slices[d] != dims[d] for d in x.sizes):
        return None
    starts = [d for d in range(i.array_shape.rank) if d not in offsets]
    sizes = {offsets[windows.index(d)]: n for d, n in x.sizes.items()}
    sizes |= _index_sizes(i, indices, starts)
    return PaddedValue(_clone(i, (x.array, indices.array)), sizes)


def _index_sizes(i: HloInstruction, indices: PaddedValue, places: list[int]) -> Sizes:
    """Sizes of the index dimensions, by the dimensions of the result or updates."""
    vector = i.attributes["index_vector_dim"]
    outer = [d for d in range(indices.array.array_shape.rank) if d != vector]
    return {places[outer.index(d)]: n for d, n in indices.sizes.items()}


def _scatter(b: Builder, i: HloInstruction, operands: list[PaddedValue]) -> Value | None:
    """Indices beyond a size are set out of bounds, where scatter writes nothing."""
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    vector = i.attributes["index_vector_dim"]
    rank = indices.array.array_shape.rank
    if vector in indices.sizes or any(x.sizes for x in arrays):
        return None
    windows = i.ints("update_window_dims")
    outer = [d for d in range(rank) if d != vector]
    places = [d for d in range(updates[0].array.array_shape.rank) if d not in windows]
    if any(d in windows for u in updates for d in u.sizes):
        return None
    sizes = dict(indices.sizes)
    for u in updates:
        moved = {outer[places.index(d)]: n for d, n in u.sizes.items()}
        sizes = _common_sizes(b, [sizes, moved])
    kind = indices.array.array_shape.element_type
    if not kind.is_signed:
        return None
    kept = filled(b, PaddedValue(indices.array, sizes), outer, b.scalar(-1, kind))
    made = _clone(i, (*(x.array for x in arrays), kept, *(u.array for u in updates)))
    return _results(b, made, {})


_RULES: dict[O, Rule] = {
    O.BROADCAST: _broadcast,
    O.CONCATENATE: _concatenate,
    O.COPY: _elementwise,
    O.DOT: _dot,
    O.DYNAMIC_SLICE: _whole,
    O.GATHER: _gather,
    O.GET_DIMENSION_SIZE: _get_size,
    O.MAP: _elementwise,
    O.PAD: _pad,
    O.REDUCE: _reduce,
    O.REDUCE_WINDOW: _reduce_window,
    O.RESHAPE: _reshape,
    O.REVERSE: _off,
    O.SCATTER: _scatter,
    O.SET_DIMENSION_SIZE: _set_size,
    O.SLICE: _whole,
    O.SORT: _off,
    O.TRANSPOSE: _transpose,
}
