"""The elements of `dense<...>`: a nested list, one value for all elements, or bytes in
hexadecimal.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from xlanb.errors import LiteralError, XlanbError
from xlanb.frontends.stablehlo.ir import TensorType
from xlanb.frontends.stablehlo.lexer import MlirCursor
from xlanb.frontends.stablehlo.source import placed
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

Array = np.ndarray[Any, Any]

_BODY = re.compile(r"[^<>\"]*")
_PLAIN = re.compile(r"[\[\], \t\r\n0-9.eE+\-truefalse]*")
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<mark>[\[\](),])|(?P<word>true|false)"
    r"|(?P<number>-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?)))[ \t\r\n]*"
)
_MAX_DEPTH = 64
"""Nesting of lists that is still read."""


@dataclass(frozen=True, slots=True)
class RawElements:
    """The content of `dense<...>`, before its type is known.

    `text` is a list; `data` are bytes, little endian.
    """

    offset: int
    text: str = ""
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a tensor type; `array` is a scalar if all of them are equal."""

    type: TensorType
    array: Array
    is_splat: bool

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes, which a `dense` always has."""
        return tuple(d for d in self.type.dimensions if d is not None)

    def full(self) -> Array:
        """All the elements; a splat is a view that takes no memory."""
        return np.broadcast_to(self.array, self.dimensions)


def parse_raw(cursor: MlirCursor) -> RawElements:
    """Parse the `<...>` after `dense`."""
    cursor.expect("<", "behind 'dense'")
    start = cursor.pos
    if cursor.at('"'):
        text = cursor.quoted()
        cursor.expect(">", "at the end of the elements")
        try:
            data = bytes.fromhex(text.removeprefix("0x")) if text.startswith("0x") else None
        except ValueError:
            data = None
        if data is None:
            cursor.fail("expects the elements as a string of hexadecimal digits that begins with 0x", start)
        return RawElements(start, data=data)
    found = _BODY.match(cursor.text, start)
    end = found.end() if found else start
    if end >= cursor.end or cursor.text[end] != ">":
        cursor.fail("expects '>' at the end of the elements", end)
    cursor.pos = end
    cursor.expect(">")
    return RawElements(start, text=cursor.text[start:end])


def typed(raw: RawElements, type_: TensorType, source: str) -> Elements:
    """The elements under a type.

    Raises:
        LiteralError: they do not fit it.
    """
    try:
        return _of_bytes(raw.data, type_) if raw.data is not None else _of_text(raw, type_)
    except (LiteralError, ValueError, OverflowError, TypeError) as error:
        if isinstance(error, XlanbError) and not isinstance(error, LiteralError):
            raise
        raise LiteralError(placed(source, raw.offset, f"the elements do not fit {type_}: {error}")) from None


def _checked(type_: TensorType) -> tuple[PrimitiveType, tuple[int, ...], int]:
    if type_.element is None or not type_.is_static:
        raise LiteralError("expected a static tensor of numbers")
    dims = tuple(d for d in type_.dimensions if d is not None)
    count = 1
    for d in dims:
        count *= d
    return type_.element, dims, count


def _of_bytes(data: bytes, type_: TensorType) -> Elements:
    element, dims, count = _checked(type_)
    if element is PrimitiveType.PRED:
        array = _predicates(data, count)
    else:
        size = element.byte_size
        if len(data) not in (size, size * count):
            raise LiteralError(f"got {len(data)} bytes, expected {size * count}, or {size} for equal elements")
        array = _from_memory(data, element)
    is_splat = array.size == 1 and count != 1
    return Elements(type_, array.reshape(() if is_splat else dims), is_splat)


def _from_memory(data: bytes, element: PrimitiveType) -> Array:
    if element.bits < 8:
        narrow: Array = np.frombuffer(data, np.int8).astype(element.dtype)
        return narrow
    found: Array = np.frombuffer(data, element.dtype)
    return found


def _predicates(data: bytes, count: int) -> Array:
    """Decode predicates: a byte each, or bits, the lowest first.

    One byte of all ones or zeros is a splat.
    """
    raw = np.frombuffer(data, np.uint8)
    if len(data) == count:
        return np.not_equal(raw, 0)
    if len(data) == 1 and data[0] in (0, 255):
        return np.not_equal(raw, 0)
    if len(data) == (count + 7) // 8:
        return np.unpackbits(raw, count=count, bitorder="little").astype(np.bool_)
    raise LiteralError(f"{len(data)} bytes do not match {count} predicates")


def _of_text(raw: RawElements, type_: TensorType) -> Elements:
    element, dims, count = _checked(type_)
    text = raw.text.strip()
    if not text:
        if count:
            raise LiteralError(f"got no elements, expected {count}")
        return Elements(type_, np.zeros(dims, element.dtype), is_splat=False)
    nested = _nested(text)
    if not isinstance(nested, list):
        return Elements(type_, _converted([nested], element).reshape(()), is_splat=True)
    flat, sizes = _flattened(nested)
    if sizes != dims and not (0 in dims and not flat):
        raise LiteralError(f"the list has the sizes {list(sizes)}")
    return Elements(type_, _converted(flat, element).reshape(dims), is_splat=False)


def _nested(text: str) -> Any:
    """The nested lists; a complex number is a tuple of two numbers, a hexadecimal one a str."""
    if _PLAIN.fullmatch(text):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # not valid JSON: `1.`, and errors, which are distinguished below
    return _walked(text)


def _walked(text: str) -> Any:
    stack: list[list[Any]] = [[]]
    closers: list[str] = []
    pos, wants_value = 0, True
    while pos < len(text):
        found = _TOKEN.match(text, pos)
        if found is None:
            raise LiteralError(f"unexpected {text[pos : pos + 20]!r}")
        pos = found.end()
        mark = found["mark"]
        if mark is None:
            if not wants_value:
                raise LiteralError(f"expected ',' before {found[0].strip()}")
            stack[-1].append(found["word"] == "true" if found["word"] else _number(found["number"]))
            wants_value = False
        elif mark in "[(":
            if not wants_value or len(stack) > _MAX_DEPTH:
                raise LiteralError(f"unexpected {mark!r}")
            closers.append("]" if mark == "[" else ")")
            stack.append([])
        elif mark == ",":
            if wants_value or not closers:
                raise LiteralError("unexpected ','")
            wants_value = True
        else:
            if not closers or closers.pop() != mark or (wants_value and stack[-1]):
                raise LiteralError(f"unexpected {mark!r}")
            inner = stack.pop()
            stack[-1].append(tuple(inner) if mark == ")" else inner)
            wants_value = False
    if closers or len(stack[0]) != 1:
        raise LiteralError("unclosed brackets" if closers else "expected one value or list")
    return stack[0][0]


def _number(text: str) -> int | float | str:
    if "x" in text:
        return text
    return float(text) if "." in text else int(text)


def _flattened(nested: list[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Return all leaves in order, and the sizes of the lists.

    Raises:
        LiteralError: lists at one level differ in length.
    """
    sizes = [len(nested)]
    level: list[Any] = nested
    while level and isinstance(level[0], list):
        width = len(level[0])
        if any(not isinstance(x, list) or len(x) != width for x in level):
            raise LiteralError("lists of different lengths")
        level = [x for inner in level for x in inner]
        sizes.append(width)
    return level, tuple(sizes)


def _converted(values: list[Any], element: PrimitiveType) -> Array:
    if element is PrimitiveType.PRED:
        return _as_predicates(values)
    if element.is_complex:
        return _as_complex(values, element)
    if any(isinstance(v, bool | list | tuple) for v in values):
        raise LiteralError(f"expected numbers of type {element}")
    if element.is_integral:
        return _as_integers(values, element)
    return _as_floats(values, element)


def _as_predicates(values: list[Any]) -> Array:
    if any(v not in (True, False, -1) for v in values):
        raise LiteralError("expected true or false")
    return np.array([bool(v) for v in values], np.bool_)


def _as_integers(values: list[Any], element: PrimitiveType) -> Array:
    whole = [int(v, 16) if isinstance(v, str) else v for v in values]
    low, high = (-(2 ** (element.bits - 1)), 2**element.bits)
    if any(isinstance(v, float) or not low <= v < high for v in whole):
        raise LiteralError(f"expected integers of {element.bits} bits")
    if element.is_unsigned:
        wide = np.array([v % high for v in whole], np.uint64)
    else:
        half = high // 2
        wide = np.array([v - high if v >= half else v for v in whole], np.int64)
    return wide.astype(element.dtype)


def _as_floats(values: list[Any], element: PrimitiveType) -> Array:
    if not any(isinstance(v, str) for v in values):
        return _rounded(values, element)
    unsigned = np.dtype(f"u{element.byte_size}")
    numbers = _rounded([0.0 if isinstance(v, str) else v for v in values], element)
    for i, v in enumerate(values):
        if isinstance(v, str):
            negative = v.startswith("-")
            bits = int(v.removeprefix("-"), 16)
            if bits >= 2**element.bits or negative:
                raise LiteralError(f"{v} has more than {element.bits} bits")
            numbers[i : i + 1] = np.array([bits], unsigned).view(element.dtype)
    return numbers


def _rounded(values: list[Any], element: PrimitiveType) -> Array:
    """Numbers as floats of a type; beyond its range infinite, as MLIR reads them."""
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(element.dtype)


def _as_complex(values: list[Any], element: PrimitiveType) -> Array:
    if any(not isinstance(v, tuple) or len(v) != 2 for v in values):
        raise LiteralError("expected complex numbers such as (1.0, 2.0)")
    part = PrimitiveType.F32 if element is PrimitiveType.C64 else PrimitiveType.F64
    parts = _as_floats([x for v in values for x in v], part)
    return np.ascontiguousarray(parts).view(element.dtype)
