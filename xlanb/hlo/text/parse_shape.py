"""Shapes and layouts in HLO text: `f32[2,<=3]{1,0:T(8,128)S(1)}`, `(f32[], token[])`, ...

Source: ParseShape of hlo_parser.cc.
"""

from __future__ import annotations

import re

from xlanb.errors import ShapeError
from xlanb.hlo.text.lexer import Cursor
from xlanb.shape import EXTENT_LIMIT, ArrayShape, BufferShape, Layout, PrimitiveType, Shape, TupleShape
from xlanb.shape.primitive_type import BY_TEXT

SIMPLE = r"[a-z][a-z0-9]*\[[0-9,]*\](?:\{[0-9:][^}\n]*\})?"
_SIMPLE = re.compile(SIMPLE)
_LAYOUT_START = re.compile(r"\{[ \t\n\r]*(?:-?[0-9]|:)")
_UNSIGNED = ("u1", "u2", "u4", "u8", "u16", "u32", "u64")

ShapeCache = dict[str, Shape]


def compatible(a: Shape, b: Shape) -> bool:
    """Whether shapes are equal except for layouts and dynamic flags (ShapeUtil::Compatible)."""
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        return a is b or (a.element_type is b.element_type and a.dimensions == b.dimensions)
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return len(a.shapes) == len(b.shapes) and all(map(compatible, a.shapes, b.shapes))
    return isinstance(a, BufferShape) and isinstance(b, BufferShape) and compatible(a.array, b.array)


def at_shape(cursor: Cursor) -> bool:
    """Whether a shape is next."""
    if cursor.at("("):
        return True
    word = cursor.peek_word()
    return (word in BY_TEXT and word not in ("tuple", "b")) or (word == "b" and _is_buffer(cursor))


def _is_buffer(cursor: Cursor) -> bool:
    return cursor.text[cursor.pos + 1 : cursor.pos + 64].lstrip(" \t\n\r").startswith("(")


def parse_shape(cursor: Cursor, cache: ShapeCache) -> Shape:
    """Read a shape; arrays without a layout get the row-major one, as in XLA's parser.

    Raises:
        HloParseError: there is no shape, or its parts do not match.
    """
    found = _SIMPLE.match(cursor.text, cursor.pos)
    if found is not None:
        known = cache.get(found[0])
        if known is not None:
            cursor.pos = found.end()
            cursor.skip()
            return known
    start = cursor.pos
    cursor.enter()
    shape = _parse_shape(cursor, cache)
    cursor.depth -= 1
    if found is not None and cursor.text[start : cursor.pos].rstrip() == found[0]:
        cache[found[0]] = shape
    return shape


def _parse_shape(cursor: Cursor, cache: ShapeCache) -> Shape:
    if cursor.accept("("):
        parts: list[Shape] = []
        if not cursor.at(")"):
            parts.append(parse_shape(cursor, cache))
            while cursor.accept(","):
                parts.append(parse_shape(cursor, cache))
        cursor.expect(")", "at the end of tuple")
        return TupleShape(tuple(parts))
    start = cursor.pos
    word = cursor.peek_word()
    if word == "b" and _is_buffer(cursor):
        cursor.word()
        cursor.expect("(")
        inner = parse_shape(cursor, cache)
        if not isinstance(inner, ArrayShape) or not inner.is_array:
            cursor.fail("a buffer holds an array", start)
        cursor.expect(")", "at the end of buffer shape")
        return BufferShape(inner)
    element_type = BY_TEXT.get(word)
    if element_type is None or element_type in (PrimitiveType.TUPLE, PrimitiveType.BUFFER):
        cursor.fail("expects a shape")
    cursor.word()
    dimensions, dynamic = _dimensions(cursor)
    layout = Layout.default(len(dimensions)) if element_type.is_array else None
    if _LAYOUT_START.match(cursor.text, cursor.pos):
        at = cursor.pos
        layout = parse_layout(cursor, cache)
        if len(layout.minor_to_major) != len(dimensions):
            cursor.fail(f"{len(dimensions)} dimensions, but the layout has {len(layout.minor_to_major)}", at)
        if not element_type.is_array:
            layout = None
    try:
        return ArrayShape(element_type, dimensions, layout, dynamic)
    except ShapeError as error:
        cursor.fail(str(error), start)


def _dimensions(cursor: Cursor) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    start = cursor.pos
    cursor.expect("[", "to start the dimensions")
    sizes: list[int] = []
    dynamic: list[bool] = []
    while not cursor.at("]") or sizes:
        if cursor.accept("?"):
            sizes.append(-1)
            dynamic.append(True)
        else:
            dynamic.append(cursor.accept("<="))
            sizes.append(cursor.integer())
            if sizes[-1] < 0:
                cursor.fail("negative dimension", start)
        if not cursor.accept(","):
            break
    cursor.expect("]", "at the end of the dimensions")
    extent = 1
    for size in sizes:
        # XLA stores byte counts in 64 bits: no size may overflow, even if another dimension is 0.
        extent *= max(1, size)
        if extent >= EXTENT_LIMIT:
            cursor.fail("shape too large", start)
    return tuple(sizes), tuple(dynamic) if any(dynamic) else ()


def parse_layout(cursor: Cursor, cache: ShapeCache) -> Layout:
    """Read a layout, `{1,0:T(8,128)(2,1)L(4)E(4)S(1)}`.

    Raises:
        HloParseError: there is no layout, or it is not a permutation.
    """
    start = cursor.pos
    cursor.expect("{", "to start a layout")
    order: list[int] = []
    if cursor.is_int():
        order.append(cursor.integer())
        while cursor.accept(","):
            order.append(cursor.integer())
    fields = _LayoutFields(cursor)
    if cursor.accept(":"):
        fields.read()
    cursor.expect("}", "at the end of a layout")
    if sorted(order) != list(range(len(order))):
        cursor.fail("the layout is not a permutation of the dimensions", start)
    return Layout(tuple(order), fields.tiles, fields.memory_space, fields.element_size, fields.padding, fields.extra)


class _LayoutFields:
    """The fields after a layout's colon, in XLA's order, each at most once."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.tiles: tuple[tuple[int | None, ...], ...] = ()
        self.memory_space = 0
        self.element_size = 0
        self.padding = 1
        self.extra = ""

    def read(self) -> None:
        cursor = self.cursor
        if self._key("D"):
            self._dim_level_types()
        if self._key("T"):
            self.tiles = self._tiles()
        if self._key("L"):
            self.padding = self._int()
        for mark in "#*":
            if cursor.accept(mark):
                cursor.expect("(")
                if cursor.peek_word() not in _UNSIGNED:
                    cursor.fail("expects an unsigned integer type")
                self.extra += f"{mark}({cursor.word()})"
                cursor.expect(")")
        if self._key("E"):
            self.element_size = self._int()
        if self._key("S"):
            self.memory_space = self._int()
        if self._key("SC"):
            self._split_configs()
        if self._key("P"):
            cursor.fail("layout has physical shape, but is not for a sparse array")
        if self._key("M"):
            self.extra += f"M({self._int()})"

    def _key(self, key: str) -> bool:
        cursor = self.cursor
        after = cursor.pos + len(key)
        if not cursor.text.startswith(key, cursor.pos) or cursor.text[after : after + 1] not in ("(", " "):
            return False
        return cursor.accept(key)

    def _int(self) -> int:
        self.cursor.expect("(")
        value = self.cursor.integer()
        self.cursor.expect(")")
        return value

    def _dim_level_types(self) -> None:
        cursor = self.cursor
        cursor.expect("(")
        while True:
            if cursor.word("a DimLevelType abbreviation (D, C, S or H)") not in "DCSH":
                cursor.fail("expected a DimLevelType abbreviation (D, C, S or H)")
            cursor.accept("+")
            cursor.accept("~")
            if not cursor.accept(","):
                break
        cursor.expect(")")

    def _tiles(self) -> tuple[tuple[int | None, ...], ...]:
        cursor = self.cursor
        tiles: list[tuple[int | None, ...]] = []
        while cursor.accept("("):
            tile: list[int | None] = []
            while not cursor.at(")") or tile:
                tile.append(None if cursor.accept("*") else cursor.integer())
                if not cursor.accept(","):
                    break
            cursor.expect(")", "at the end of a tile")
            tiles.append(tuple(tile))
        if not tiles:
            cursor.fail("expects '(' to start a tile")
        return tuple(tiles)

    def _split_configs(self) -> None:
        cursor = self.cursor
        text = "SC"
        while cursor.accept("("):
            text += f"({cursor.integer()}"
            cursor.expect(":")
            indices: list[int] = []
            while not cursor.at(")"):
                indices.append(cursor.integer())
                if not cursor.accept(","):
                    break
            cursor.expect(")")
            text += ":" + ",".join(map(str, indices)) + ")"
        self.extra += text
