"""Shapes, layouts, element types and literals of HLO."""

from xlanb.shape.literal import Literal
from xlanb.shape.primitive_type import PrimitiveType
from xlanb.shape.shape import EXTENT_LIMIT, MOST_DIMENSIONS, ArrayShape, BufferShape, Layout, Shape, TupleShape

__all__ = [
    "EXTENT_LIMIT",
    "MOST_DIMENSIONS",
    "ArrayShape",
    "BufferShape",
    "Layout",
    "Literal",
    "PrimitiveType",
    "Shape",
    "TupleShape",
]
