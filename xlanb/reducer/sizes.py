"""Change all dimensions of one size in a module, with its attributes and constants.

Which dimensions belong together is not computed: all of a size change (with `multiples` also its
multiples, which reshapes create), and the verifier decides whether the result is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xlanb.errors import ShapeError
from xlanb.hlo import shape_inference
from xlanb.hlo.attributes import SliceDimension, Window
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.reducer.cutting import released
from xlanb.shape import ArrayShape, Literal, Shape, TupleShape
from xlanb.shape.shape import array

Resize = Callable[[int], int]
_FREE = {
    O.PARAMETER,
    O.CONSTANT,
    O.IOTA,
    O.BROADCAST,
    O.RESHAPE,
    O.BITCAST,
    O.CUSTOM_CALL,
    O.RNG,
    O.CALL,
    O.FUSION,
    O.WHILE,
    O.CONDITIONAL,
}
"""Opcodes whose operands do not determine the size of their result."""
_SIZES = ("dynamic_slice_sizes", "slice_sizes", "fft_length")


def sizes_of(module: HloModule) -> list[int]:
    """The sizes of dimensions, those with the most elements first."""
    weight: dict[int, int] = {}
    for i in module.instructions():
        for _, s in i.shape.leaves():
            if isinstance(s, ArrayShape) and s.is_array:
                for d in s.dimensions:
                    if d > 1:
                        weight[d] = weight.get(d, 0) + s.element_count
    return sorted(weight, key=lambda d: -weight[d])


def resizing(old: int, new: int, *, multiples: bool) -> Resize:
    """A function from old to new sizes that replaces `old` by `new`."""

    def resize(size: int) -> int:
        if size == old:
            return new
        return size // old * new if multiples and size % old == 0 else size

    return resize


def resized(module: HloModule, resize: Resize) -> HloModule:
    """A copy with other sizes, which may be invalid.

    Raises:
        ShapeError: a constant or an attribute cannot be resized.
    """
    copy = released(module)
    for c in reversed(copy.post_order()):
        for i in c.post_order():
            attributes = _attributes(i, resize)
            shape = _shape(i, attributes, resize)
            if shape != i.shape or attributes:
                c.update(i, attributes=attributes, shape=shape)
    return copy


def resized_value(value: Any, shape: Shape) -> Any:
    """The first elements of an array along each dimension, or of the arrays of a tuple.

    Raises:
        ShapeError: there are too few.
    """
    if isinstance(shape, TupleShape):
        return tuple(resized_value(v, s) for v, s in zip(value, shape.shapes, strict=True))
    wanted = shape.as_array().dimensions
    if any(w > d for w, d in zip(wanted, value.shape, strict=True)):
        raise ShapeError(f"{shape} does not fit into an array of dimensions {value.shape}")
    return value[tuple(slice(0, w) for w in wanted)]


def _shape(i: HloInstruction, attributes: dict[str, Any], resize: Resize) -> Shape:
    wanted = _mapped(i.shape, resize)
    if i.opcode in _FREE or not isinstance(wanted, ArrayShape):
        return wanted
    try:
        inferred = shape_inference.infer(i.opcode, [o.shape for o in i.operands], {**i.attributes, **attributes})
    except ShapeError:
        return wanted
    return array(wanted.element_type, inferred.dimensions) if isinstance(inferred, ArrayShape) else wanted


def _mapped(shape: Shape, resize: Resize) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_mapped(s, resize) for s in shape.shapes))
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        return shape
    return replace(shape, dimensions=tuple(map(resize, shape.dimensions)))


def _attributes(i: HloInstruction, resize: Resize) -> dict[str, Any]:
    """The attributes that contain sizes, resized."""
    changed: dict[str, Any] = {}
    for name, value in i.attributes.items():
        new = value
        if name in _SIZES:
            new = type(value)(map(resize, value))
        elif isinstance(value, Window):
            new = Window(tuple(replace(d, size=resize(d.size)) for d in value.dimensions))
        elif isinstance(value, tuple) and value and isinstance(value[0], SliceDimension):
            new = tuple(_sliced(d, resize) for d in value)
        elif isinstance(value, Literal):
            new = _literal(value, resize)
        if new != value:
            changed[name] = new
    return changed


def _sliced(d: SliceDimension, resize: Resize) -> SliceDimension:
    limit = resize(d.limit)
    return SliceDimension(min(resize(d.start) if d.start > 1 else d.start, max(limit - 1, 0)), limit, d.stride)


def _literal(literal: Literal, resize: Resize) -> Literal:
    shape = _mapped(literal.shape, resize)
    if shape == literal.shape:
        return literal
    if literal.is_elided or not isinstance(shape, ArrayShape):
        raise ShapeError(f"a constant of {literal.shape} cannot be resized")
    return Literal(shape, resized_value(literal.array, shape))
