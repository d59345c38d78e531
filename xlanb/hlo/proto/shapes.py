"""Convert shapes, layouts and literals to and from their messages.

Source: shape.cc, layout.cc, literal.cc: ToProto, CreateFromProto.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xlanb.errors import LiteralError, ShapeError
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.protos import Message, extend_floats, floats_of
from xlanb.shape import EXTENT_LIMIT, ArrayShape, BufferShape, Layout, Literal, PrimitiveType, Shape, TupleShape
from xlanb.shape.primitive_type import BY_NUMBER, BY_TEXT

UNBOUNDED = -(2**63)
"""The size of an unbounded dynamic dimension in a message; -1 in an ArrayShape."""

MESSAGE_LIMIT = 2**31 - 1
"""Protobuf's limit on the bytes of a binary message."""

_MAX_LITERAL_RANK = 64
_POINTER_TYPES = re.compile(r"([#*])\((\w+)\)")
_SPLIT = re.compile(r"\((-?\d+):([-\d,]*)\)")
_PREFIX = re.compile(r"M\((-?\d+)\)")


# -- shapes ----------------------------------------------------------------------------------------


def shape_to_proto(shape: Shape) -> Message:
    """The ShapeProto of a shape."""
    proto = SCHEMA.ShapeProto(element_type=shape.element_type.number)
    if isinstance(shape, TupleShape):
        proto.tuple_shapes.extend(map(shape_to_proto, shape.shapes))
    elif isinstance(shape, BufferShape):
        proto.tuple_shapes.append(shape_to_proto(shape.array))
    elif isinstance(shape, ArrayShape) and shape.is_array:
        proto.dimensions.extend(UNBOUNDED if d < 0 else d for d in shape.dimensions)
        proto.is_dynamic_dimension.extend(shape.is_dynamic_dimension(i) for i in range(shape.rank))
        if shape.layout is not None:
            _layout_to_proto(shape.layout, proto.layout)
    return proto


def _layout_to_proto(layout: Layout, proto: Message) -> None:
    proto.SetInParent()
    proto.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        proto.tiles.add(dimensions=[UNBOUNDED if d is None else d for d in tile])
    proto.tail_padding_alignment_in_elements = layout.tail_padding_alignment
    proto.element_size_in_bits = layout.element_size_in_bits
    proto.memory_space = layout.memory_space
    if not layout.extra:
        return
    for mark, kind in _POINTER_TYPES.findall(layout.extra):
        setattr(
            proto,
            "index_primitive_type" if mark == "#" else "pointer_primitive_type",
            BY_TEXT[kind].number,
        )
    for dimension, indices in _SPLIT.findall(layout.extra):
        proto.split_configs.add(dimension=int(dimension), split_indices=[int(i) for i in indices.split(",") if i])
    if prefix := _PREFIX.search(layout.extra):
        proto.dynamic_shape_metadata_prefix_bytes = int(prefix[1])


def shape_from_proto(proto: Message) -> Shape:
    """The shape of a ShapeProto.

    Raises:
        ShapeError: the element type is unknown, a dimension is negative, the array has 2**63
            elements or more, or the layout does not match.
    """
    kind = BY_NUMBER.get(proto.element_type)
    if kind is None:
        raise ShapeError(f"unknown element type {proto.element_type} in a ShapeProto")
    if kind is PrimitiveType.TUPLE:
        return TupleShape(tuple(shape_from_proto(p) for p in proto.tuple_shapes))
    if kind is PrimitiveType.BUFFER:
        inner = shape_from_proto(proto.tuple_shapes[0]) if len(proto.tuple_shapes) == 1 else None
        if not isinstance(inner, ArrayShape) or not inner.is_array:
            raise ShapeError("the ShapeProto of a buffer must hold one array")
        return BufferShape(inner)
    if not kind.is_array:
        return ArrayShape(kind)
    return _array_from_proto(kind, proto)


def _array_from_proto(kind: PrimitiveType, proto: Message) -> ArrayShape:
    dynamic = tuple(proto.is_dynamic_dimension)
    dimensions = tuple(proto.dimensions)
    if dynamic and len(dynamic) != len(dimensions):
        raise ShapeError(f"a ShapeProto has {len(dynamic)} dynamic flags for {len(dimensions)} dimensions")
    extent = 1
    for i, size in enumerate(dimensions):
        if size < 0 and (size != UNBOUNDED or not dynamic or not dynamic[i]):
            raise ShapeError(f"dimension {size} in a ShapeProto")
        extent *= max(1, size)
        if extent >= EXTENT_LIMIT:
            raise ShapeError(f"{kind}[{','.join(map(str, dimensions[:20]))}] in a ShapeProto is too large")
    layout = _layout_from_proto(proto.layout) if proto.HasField("layout") else None
    return ArrayShape(kind, tuple(-1 if d < 0 else d for d in dimensions), layout, dynamic if any(dynamic) else ())


def _layout_from_proto(proto: Message) -> Layout:
    extra = ""
    for mark, number in (("#", proto.index_primitive_type), ("*", proto.pointer_primitive_type)):
        # The default is a 32-bit index, which the text does not show.
        kind = BY_NUMBER.get(number)
        if number and (kind is None or not kind.is_unsigned):
            raise ShapeError(f"a LayoutProto has indices or pointers of type {kind or number}, which is not unsigned")
        if number:
            extra += f"{mark}({BY_NUMBER[number]})"
    if proto.split_configs:
        extra += "SC" + "".join(f"({s.dimension}:{','.join(map(str, s.split_indices))})" for s in proto.split_configs)
    if proto.dynamic_shape_metadata_prefix_bytes:
        extra += f"M({proto.dynamic_shape_metadata_prefix_bytes})"
    tiles = tuple(tuple(None if d == UNBOUNDED else d for d in t.dimensions) for t in proto.tiles)
    padding = proto.tail_padding_alignment_in_elements or 1
    return Layout(
        tuple(proto.minor_to_major),
        tiles,
        proto.memory_space,
        proto.element_size_in_bits,
        padding,
        extra,
    )


# -- literals --------------------------------------------------------------------------------------

_FIELDS = {kind: f"{kind.text}s" for kind in PrimitiveType if kind.is_array}
_IN_ELEMENTS = frozenset("pred s32 s64 u32 u64 f32 f64 c64 c128".split())
"""Types whose elements are in a repeated field; other types are stored as bytes in one field."""


def literal_to_proto(literal: Literal) -> Message:
    """The LiteralProto of a literal; an elided one becomes zeros.

    The caller checks that it fits into a message.
    """
    proto = SCHEMA.LiteralProto(shape=shape_to_proto(literal.shape))
    shape = literal.shape
    if isinstance(shape, TupleShape):
        proto.tuple_literals.extend(map(literal_to_proto, literal.elements))
    elif isinstance(shape, ArrayShape) and shape.is_array:
        order = tuple(reversed(shape.minor_to_major))
        _fill(
            proto,
            shape.element_type,
            np.ascontiguousarray(np.transpose(literal.array, order)).reshape(-1),
        )
    return proto


def _fill(proto: Message, kind: PrimitiveType, values: np.ndarray[Any, Any]) -> None:
    field = _FIELDS[kind]
    if kind.is_complex:
        values = values.view(np.float32 if kind is PrimitiveType.C64 else np.float64)
    if kind.text not in _IN_ELEMENTS:
        setattr(proto, field, values.tobytes())
    elif values.dtype.kind == "f":
        extend_floats(proto, field, values)
    else:
        getattr(proto, field).extend(values.tolist())


def literal_from_proto(proto: Message) -> Literal:
    """The literal of a LiteralProto.

    Raises:
        LiteralError: the number of elements is not that of the shape.
        ShapeError: the shape is malformed.
    """
    return _literal(proto, shape_from_proto(proto.shape))


def _literal(proto: Message, shape: Shape) -> Literal:
    if isinstance(shape, TupleShape):
        if len(proto.tuple_literals) != len(shape.shapes):
            raise LiteralError(f"{len(proto.tuple_literals)} elements do not match the literal's shape {shape}")
        return Literal(shape, elements=tuple(map(_literal, proto.tuple_literals, shape.shapes)))
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        return Literal(shape)
    if shape.rank > _MAX_LITERAL_RANK or shape.element_type.scalar is None:
        raise LiteralError(f"a literal cannot have the shape {shape}")
    if shape.is_dynamic:
        raise LiteralError(f"a literal cannot have dynamic dimensions, as in {shape}")
    values = _elements(proto, shape)
    order = tuple(reversed(shape.minor_to_major))
    try:
        physical = values.reshape(tuple(shape.dimensions[i] for i in order))
    except ValueError as error:  # no elements, but other dimensions are too large for NumPy
        raise LiteralError(f"a literal cannot have the shape {shape}: {error}") from error
    return Literal(shape, np.transpose(physical, np.argsort(order)))


def _elements(proto: Message, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """The elements in memory order."""
    kind, field = shape.element_type, getattr(proto, _FIELDS[shape.element_type])
    per_element = 1 if kind.text in _IN_ELEMENTS else kind.byte_size
    wanted = shape.element_count * (2 if kind.is_complex else per_element)
    if len(field) != wanted:
        unit = "bytes" if kind.text not in _IN_ELEMENTS else "numbers"
        raise LiteralError(f"got {len(field)} {unit} for a literal of shape {shape}, expected {wanted}")
    if kind.text in _IN_ELEMENTS:
        part = {PrimitiveType.C64: np.float32, PrimitiveType.C128: np.float64}.get(kind, kind.dtype)
        if np.dtype(part).kind == "f":
            return floats_of(proto, _FIELDS[kind], part).view(kind.dtype)
        return np.fromiter(field, part, wanted)
    if kind.bits < 8:
        return _low_bits(field, kind)
    return np.frombuffer(field, kind.dtype)


def _low_bits(data: bytes, kind: PrimitiveType) -> np.ndarray[Any, Any]:
    """Elements of fewer than eight bits, one per byte; the upper bits are ignored."""
    spare = 8 - kind.bits
    if not kind.is_signed:
        low = np.frombuffer(data, np.uint8) & (255 >> spare)
        return low.astype(kind.dtype) if kind.is_integral else low.view(kind.dtype)
    return (np.frombuffer(data, np.int8) << spare >> spare).astype(kind.dtype)
