"""Parse and print literals in HLO text: `{ { 1, 2 }, { 3, 4 } }`, `(1, -inf)`, `{...}`.

Source: ParseDenseLiteral, literal.cc.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.hlo.text.lexer import Cursor
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Literal, PrimitiveType, Shape, TupleShape

LARGE_CONSTANT = 10
"""Constants with more elements are printed as `{...}`."""

MAX_MISSING = 1 << 26
"""The most elements that the literals of one text may omit in total (they are 0)."""

_TOKEN = pattern(
    r"[ \t\n\r,]*(?:(?P<open>\{)|(?P<close>\})"
    r"|(?P<number>-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<word>true|false|-?inf|-?nan(?:\(0x[0-9a-fA-F]+\))?)(?![A-Za-z0-9_.\-:=(])"
    r"|(?P<complex>\()|(?P<dots>\.\.\.))"
)
_ELIDED = pattern(r"\{[ \t\n\r]*\.\.\.[ \t\n\r]*\}")
_MANY = 32
"""Literals with at least this many elements are first read in one go, if they are plain."""
_PLAIN_INTEGER = pattern(rb"-?[0-9]{1,18}+(?![0-9])")
_PLAIN_FLOAT = pattern(rb"-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![0-9.eE])")
_HEX_PAYLOAD = pattern(r"\(0x([0-9a-fA-F]+)\)")
_F64_PAYLOAD = (1 << 52) - 1

_PAYLOAD_BITS = {
    PrimitiveType.F64: 52,
    PrimitiveType.F32: 23,
    PrimitiveType.C64: 23,
    PrimitiveType.C128: 52,
    PrimitiveType.F16: 10,
    PrimitiveType.BF16: 7,
    PrimitiveType.F8E5M2: 2,
    PrimitiveType.F8E4M3: 3,
    PrimitiveType.F8E3M4: 4,
}
_DIGITS = {
    PrimitiveType.BF16: 4,
    PrimitiveType.F16: 5,
    PrimitiveType.F8E5M2: 2,
    PrimitiveType.F8E5M2FNUZ: 2,
    PrimitiveType.F8E4M3: 3,
    PrimitiveType.F8E4M3FN: 3,
    PrimitiveType.F8E4M3FNUZ: 3,
    PrimitiveType.F8E4M3B11FNUZ: 3,
    PrimitiveType.F8E3M4: 3,
    PrimitiveType.F8E8M0FNU: 2,
    PrimitiveType.F4E2M1FN: 2,
}
"""Significant digits that distinguish all values of a type (numeric_limits::max_digits10)."""

_E8M0_HALFWAY = 1.5 * 2.0**-127
"""Halfway between the two smallest values of f8e8m0fnu.

XLA prints 2^-127 as 5.9e-39, which is larger, and reads that as 2^-126.
"""


# -- reading ---------------------------------------------------------------------------------------


def parse_literal(cursor: Cursor, shape: Shape) -> Literal:
    """Read a literal of a known shape.

    Raises:
        HloParseError: braces, counts or values do not match the shape.
    """
    if isinstance(shape, TupleShape):
        return _parse_tuple(cursor, shape)
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        cursor.fail(f"a literal of shape {shape} cannot be written")
    return _Dense(cursor, _held(shape)).read()


def _held(shape: ArrayShape) -> ArrayShape:
    """The shape of the literal of a constant.

    As in XLA it has the bounds of dynamic dimensions, since a constant is never dynamic.
    """
    layout = shape.layout
    if layout is not None and layout.element_size_in_bits and shape.element_type.bits < 8:
        # A literal stores an element per byte, so its layout has no packing.
        layout = replace(layout, element_size_in_bits=0)
    if shape.dynamic or layout is not shape.layout:
        return ArrayShape(shape.element_type, shape.dimensions, layout)
    return shape


def _parse_tuple(cursor: Cursor, shape: TupleShape) -> Literal:
    if _ELIDED.match(cursor.text, cursor.pos):
        # XLA prints tuple constants like this, but does not read them; dumps need it.
        cursor.expect("{")
        cursor.expect("...")
        cursor.expect("}")
        return _elided(cursor, shape)
    cursor.enter()
    cursor.expect("(", "in front of tuple elements")
    elements: list[Literal] = []
    for i, part in enumerate(shape.shapes):
        if i:
            cursor.expect(",", "to separate tuple elements")
        elements.append(parse_literal(cursor, part))
    cursor.expect(")", f"at the end of the tuple with {len(shape.shapes)} elements")
    cursor.depth -= 1
    return Literal(TupleShape(tuple(e.shape for e in elements)), elements=tuple(elements))


def _elided(cursor: Cursor, shape: Shape) -> Literal:
    """Zeros for elided elements; an array without elements is complete."""
    if isinstance(shape, TupleShape):
        elements = tuple(_elided(cursor, s) for s in shape.shapes)
        return Literal(TupleShape(tuple(e.shape for e in elements)), elements=elements, is_elided=True)
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        return Literal(shape, is_elided=True)
    shape = _held(shape)
    if min(shape.dimensions, default=0) < 0:
        cursor.fail(f"a constant of shape {str(shape).replace('-1', '?')} has a dimension of unknown size")
    if shape.element_count * shape.dtype.itemsize > sys.maxsize:
        cursor.fail(f"a constant of shape {shape} is too large")
    zeros = np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions)
    return Literal(shape, zeros, is_elided=shape.element_count > 0)


class _Dense:
    """Reads one array literal.

    Checks the braces against the dimensions, and the values against the element type.
    """

    def __init__(self, cursor: Cursor, shape: ArrayShape) -> None:
        self.cursor = cursor
        self.shape = shape
        self.type = shape.element_type
        self.values: list[Any] = []
        self.nans: list[tuple[int, int, bool, int]] = []
        self.elided = False
        self.value_of: Callable[[str], Any] = self._float
        if self.type is PrimitiveType.PRED:
            self.value_of = self._pred
        elif self.type.is_integral:
            self.value_of = self._integer

    def read(self) -> Literal:
        if self.shape.element_count >= _MANY and not self.type.is_complex and self._read_plain():
            self.cursor.skip()
            return self._finish()
        cursor, dimensions, rank = self.cursor, self.shape.dimensions, self.shape.rank
        seen = [0] * (rank + 1)
        level = 0
        while True:
            token = _TOKEN.match(cursor.text, cursor.pos)
            if token is None:
                cursor.skip()
                cursor.fail("unexpected token in a literal")
            kind = token.lastgroup
            cursor.pos = token.end()
            if kind in ("number", "word"):
                # XLA accepts a value at any level and counts it only at the innermost one: `f32[2]
                # constant(1)` is {1, 0}.
                seen[level] += level == rank
                self._add(token)
            elif kind == "open":
                seen[level] += 1
                level += 1
                if level > rank:
                    self._fail(token, f"expects nested array in rank {rank}, but sees larger")
                seen[level] = 0
            elif kind == "close":
                if level == 0 or seen[level] != dimensions[level - 1]:
                    wanted = dimensions[level - 1] if level else 0
                    self._fail(token, f"expects {wanted} elements here, but sees {seen[level]}")
                level -= 1
            elif kind == "complex":
                if not self.type.is_complex or level != rank:
                    self._fail(token, "unexpected '(' in a literal")
                seen[level] += 1
                self._complex(token)
            else:
                if level != 1 or seen[1]:
                    self._fail(token, f"expects `...` at nest level 1, but sees it at nest level {level}")
                seen[1] = dimensions[0]
                self.elided = True
            if level and level == rank and seen[level] > dimensions[level - 1]:
                self._fail(token, f"expects {dimensions[level - 1]} elements here, but sees more")
            if level == 0:
                break
        cursor.skip()
        return self._finish()

    def _read_plain(self) -> bool:
        """Read all elements at once if they are plain numbers with all braces and commas.

        Otherwise read nothing. The literal ends with the first run of as many closing braces as
        dimensions.
        """
        cursor, shape = self.cursor, self.shape
        end = re.compile(r"\}" + r"[ \t\n\r]*\}" * (shape.rank - 1)).search(cursor.text, cursor.pos)
        if end is None:
            return False
        text = cursor.text[cursor.pos : end.end()]
        if not text.isascii():
            return False
        found = text.encode().translate(None, b" \t\n\r")
        if len(found) < _skeleton_size(shape.dimensions):
            return False
        skeleton = _skeleton(shape.dimensions)
        if len(found) == len(skeleton):
            values: Any = _single_digits(found, skeleton)
        else:
            values = _numbers(found, skeleton, self.type)
        if values is None or not _all_fit(values, self.type):
            return False
        self.values = values
        cursor.pos = end.end()
        return True

    def _fail(self, token: re.Match[str], message: str) -> None:
        blank = len(token[0]) - len(token[0].lstrip(" \t\n\r,"))
        self.cursor.fail(message, token.start() + blank)

    def _add(self, token: re.Match[str]) -> None:
        if self.type.is_complex:
            self._fail(token, f"unsupported value for primitive type {self.type}")
        try:
            self.values.append(self.value_of(token[token.lastgroup or 0]))
        except ValueError as error:
            self._fail(token, str(error))

    def _pred(self, text: str) -> bool:
        if text in ("true", "false"):
            return text == "true"
        return _int64(text, self.type) != 0

    def _integer(self, text: str) -> int:
        value = _int64(text, self.type)
        bits = self.type.bits
        if self.type.is_unsigned:
            value &= 2**64 - 1
            low, high = 0, 2**bits - 1
        else:
            low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if not low <= value <= high:
            raise ValueError(
                f"value {text} is out of range for literal's primitive type {self.type} namely [{low}, {high}]."
            )
        return value

    def _float(self, text: str) -> float:
        if text in ("true", "false"):
            raise ValueError(f"expects floating point value for primitive type {self.type}")
        if "nan" in text:
            self._nan(text, len(self.values), 0)
            return math.nan
        value = float(text)  # also "-0": XLA prints -0.0 like this, though it reads 0
        if math.isinf(value) and "inf" not in text:
            raise ValueError("Constant is out of range for double")
        return value

    def _nan(self, text: str, index: int, part: int) -> None:
        payload = _HEX_PAYLOAD.search(text)
        wanted = int(payload[1], 16) if payload else 0
        bits = _PAYLOAD_BITS.get(self.type, 0)
        if payload and not 0 < wanted <= _F64_PAYLOAD:
            raise ValueError("NaN payload out of range")
        if payload and wanted == 1 << 51:
            wanted = 0  # a double's quiet bit alone means plain nan
        if wanted >= 1 << bits and wanted:
            raise ValueError(
                f"tries to set NaN payload {wanted:#x} to a literal of {self.type}, but it is out of range"
            )
        self.nans.append((index, part, text[0] == "-", wanted))

    def _complex(self, token: re.Match[str]) -> None:
        cursor = self.cursor
        cursor.skip()
        parts: list[float] = []
        for i, mark in enumerate(",)"):
            part = _TOKEN.match(cursor.text, cursor.pos)
            if part is None or part.lastgroup not in ("number", "word"):
                cursor.fail("expects floating-point value for a part of a complex number")
            cursor.pos = part.end()
            try:
                text = part[part.lastgroup]
                if "nan" in text:
                    self._nan(text, len(self.values), i)
                    parts.append(math.nan)
                else:
                    parts.append(self._float(text))
            except ValueError as error:
                self._fail(part, str(error))
            cursor.skip()
            if i == 0:
                cursor.expect(mark, "after real part of complex literal")
            elif not cursor.text.startswith(")", cursor.pos):
                cursor.fail("expects ')' after complex number")
            else:
                cursor.pos += 1
        if math.isnan(parts[0]):
            # XLA gives the imaginary part the NaN of the real part, whatever the text.
            real = next(n for n in reversed(self.nans) if n[1] == 0)
            if self.nans[-1][1] == 1:
                self.nans.pop()
            self.nans.append((real[0], 1, *real[2:]))
            parts[1] = math.nan
        limit = float(np.finfo(np.float32 if self.type is PrimitiveType.C64 else np.float64).max)
        if any(math.isfinite(p) and abs(p) > limit for p in parts):
            self._fail(token, f"a part is out of range for literal's primitive type {self.type}")
        self.values.append(complex(*parts))

    def _finish(self) -> Literal:
        shape = self.shape
        if self.elided:
            return _elided(self.cursor, shape)
        missing = shape.element_count - len(self.values)
        if missing < 0:
            self.cursor.fail(
                f"expects {shape.element_count} elements in a literal {shape}, but sees {len(self.values)}"
            )
        self.cursor.filled += missing
        if self.cursor.filled > MAX_MISSING:
            self.cursor.fail(f"a literal {shape} with only {len(self.values)} values is too large")
        if self.type.is_integral or self.type is PrimitiveType.PRED:
            wide: Any = np.uint64 if self.type is PrimitiveType.U64 else np.int64
            array = np.array(self.values, wide).astype(shape.dtype)
        else:
            array = self._floats()
        if missing:
            full = np.zeros(shape.element_count, shape.dtype)
            full[: len(array)] = array
            array = full
        return Literal(shape, array.reshape(shape.dimensions))

    def _floats(self) -> np.ndarray[Any, Any]:
        dtype = self.shape.dtype
        with np.errstate(all="ignore"):
            if self.type.is_complex:
                array = np.array(self.values, np.complex128).astype(dtype)
            else:
                wide = np.array(self.values, np.float64)
                # XLA converts to its small types through float, so rounding happens twice.
                array = wide if self.type is PrimitiveType.F64 else wide.astype(np.float32).astype(dtype)
                if self.type is PrimitiveType.F8E8M0FNU:
                    # the bits of 2^-127
                    array.view(np.uint8)[(wide > 0) & (wide < _E8M0_HALFWAY)] = 0
                self._check_range(wide, array)
        for index, part, negative, payload in self.nans:
            _set_nan(array, self.type, index, part, negative, payload)
        return array

    def _check_range(self, wide: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> None:
        bad = np.isfinite(wide) & ~np.isfinite(array.astype(np.float64))
        if bad.any():
            value = wide[int(np.argmax(bad))]
            self.cursor.fail(f"value {value} is out of range for literal's primitive type {self.type}")


def _skeleton_size(dimensions: Sequence[int]) -> int:
    size = 1
    for count in reversed(dimensions):
        size = count * (size + 1) + 1
    return size


def _skeleton(dimensions: Sequence[int]) -> bytes:
    """The text of an array of zeros, without blanks."""
    text = b"0"
    for size in reversed(dimensions):
        text = b"{" + b",".join([text] * size) + b"}"
    return text


def _single_digits(found: bytes, skeleton: bytes) -> np.ndarray[Any, Any] | None:
    """The digits in place of the zeros; None if anything else differs."""
    text, zeros = np.frombuffer(found, np.uint8), np.frombuffer(skeleton, np.uint8)
    is_value = zeros == ord("0")
    values = text[is_value] - ord("0")  # as unsigned, values below "0" are large
    return values.astype(np.int64) if (values < 10).all() and (text == zeros)[~is_value].all() else None


def _numbers(found: bytes, skeleton: bytes, kind: PrimitiveType) -> np.ndarray[Any, Any] | None:
    """The numbers in place of the zeros; None if anything else differs."""
    pattern, dtype = (_PLAIN_FLOAT, np.float64) if kind.is_floating else (_PLAIN_INTEGER, np.int64)
    if pattern.sub(b"0", found) != skeleton:
        return None
    return np.fromstring(found.translate(None, b"{}").decode(), dtype, sep=",")


def _all_fit(values: np.ndarray[Any, Any], kind: PrimitiveType) -> bool:
    """Whether all values are in their type's range (floats: finite as double).

    If not, the values are read one by one, for a message that names the element.
    """
    if kind.is_floating:
        return bool(np.isfinite(values).all())
    if kind is PrimitiveType.PRED:
        return True
    limits = 0 if kind.is_unsigned else -(2 ** (kind.bits - 1)), 2 ** (kind.bits - kind.is_signed) - 1
    return limits[0] <= int(values.min()) and int(values.max()) <= limits[1]


def _int64(text: str, kind: PrimitiveType) -> int:
    if not text.lstrip("-").isdigit():
        raise ValueError(f"expects integer for primitive type: {kind}")
    if len(text) > 24 or not -(2**63) <= int(text) < 2**64:
        raise ValueError(f"value {text[:24]} is out of range for 64 bits")
    value = int(text)
    return value - 2**64 if value >= 2**63 else value


def _set_nan(
    array: np.ndarray[Any, Any], kind: PrimitiveType, index: int, part: int, negative: bool, payload: int
) -> None:
    """Write a NaN of a given sign and payload (0: the quiet NaN) by its bits."""
    bits = _PAYLOAD_BITS.get(kind)
    if kind.is_complex:
        half = array.view(np.float32 if kind is PrimitiveType.C64 else np.float64)
        index, array = 2 * index + part, half
    size = array.dtype.itemsize
    raw = array.view(f"u{size}")
    sign = int(negative) << (8 * size - 1)
    if bits is not None:
        exponent = ((1 << (8 * size - 1)) - 1) >> bits << bits
        raw[index] = sign | exponent | (payload or 1 << (bits - 1))
    elif kind is PrimitiveType.F8E4M3FN:
        raw[index] = sign | 0x7F


# -- writing ---------------------------------------------------------------------------------------


_EMPTY_ROWS = 1000
"""The most pairs of braces printed for an empty array.

f32[1000000000000,0] has as many as rows.
"""


def literal_text(literal: Literal, *, large: bool = False) -> str:
    """The text in the parentheses of a constant.

    `{...}` for many elements or a tuple, unless `large`, and for many empty rows.
    """
    shape = literal.shape
    if isinstance(shape, TupleShape):
        return "{...}" if not large else "( " + ", ".join(typed_literal_text(e) for e in literal.elements) + " )"
    if not isinstance(shape, ArrayShape) or literal.is_elided or (shape.element_count > LARGE_CONSTANT and not large):
        return "{...}"
    if not shape.element_count and math.prod(shape.dimensions[:-1]) > _EMPTY_ROWS:
        return "{...}"
    if not shape.dimensions:
        return element_text(literal.array[()], shape.element_type, scalar=True)
    flat = literal.array.reshape(-1)
    values = [element_text(v, shape.element_type) for v in flat]
    return _nested(values, shape.dimensions)


def typed_literal_text(literal: Literal) -> str:
    """The literal with its shape in front, as in a custom-call's `literal`."""
    if isinstance(literal.shape, TupleShape):
        return "( " + ", ".join(typed_literal_text(e) for e in literal.elements) + " )"
    return f"{literal.shape} {literal_text(literal, large=True)}"


def element_text(value: Any, kind: PrimitiveType, *, scalar: bool = False) -> str:
    """One element as XLA prints it: enough digits to read the same value back."""
    if kind is PrimitiveType.PRED:
        return ("true" if value else "false") if scalar else ("1" if value else "0")
    if kind.is_integral:
        return str(int(value))
    if kind.is_complex:
        part = PrimitiveType.F32 if kind is PrimitiveType.C64 else PrimitiveType.F64
        return f"({float_text(value.real, part)}, {float_text(value.imag, part)})"
    return float_text(value, kind)


def float_text(value: Any, kind: PrimitiveType) -> str:
    """A real number: six digits for f32 (15 for f64) if they are exact, else nine (17)."""
    wide = float(value)
    if math.isnan(wide):
        return _nan_text(value, kind)
    digits = _DIGITS.get(kind)
    if digits is not None:
        return _general(wide, digits)
    if kind is PrimitiveType.F64:
        text = _general(wide, 15)
        return text if float(text) == wide else _general(wide, 17)
    text = _general(wide, 6)
    with np.errstate(over="ignore"):
        return text if np.float32(text) == value else _general(wide, 9)


def _general(value: float, digits: int) -> str:
    """C's %.*g; Python's differs only in the spelling of infinities."""
    return f"{value:.{digits}g}"


def _nan_text(value: Any, kind: PrimitiveType) -> str:
    array = np.asarray(value)
    size = array.dtype.itemsize
    raw = int(array.reshape(1).view(f"u{size}")[0])
    # If a type has no negative NaN (fnuz, e8m0), a NaN's sign is that of its conversion to double,
    # as in XLA.
    negative = math.copysign(1.0, float(value)) < 0 if kind not in _PAYLOAD_BITS else raw >> (8 * size - 1)
    text = "-nan" if negative else "nan"
    bits = _PAYLOAD_BITS.get(kind, 0)
    payload = raw & ((1 << bits) - 1)
    return text if not bits or payload == 1 << (bits - 1) else f"{text}({payload:#x})"


def _nested(values: list[str], dimensions: tuple[int, ...]) -> str:
    """Values in row-major order in braces, in XLA's one-line form.

    From rank 4 on, indices are annotated.
    """
    rank = len(dimensions)
    if rank == 1:
        return "{" + ", ".join(values) + "}"
    position = 0

    def level(depth: int, index: int) -> str:
        nonlocal position
        size = dimensions[depth]
        if depth == rank - 1:
            pad = "" if size <= 1 else " "
            position += size
            return "{" + pad + ", ".join(values[position - size : position]) + pad + "}"
        note = f" /*i{depth - 1}={index}*/" if rank > 3 and depth else ""
        inner = ", ".join(level(depth + 1, i) for i in range(size))
        return "{" + note + " " + (inner + " " if inner or not note else "") + "}"

    return level(0, 0)
