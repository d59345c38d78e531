"""The attributes of MLIR text, as Python values.

An integer is an int, a string or a bare word (a case of an enumeration) a str, an array a tuple, a
dictionary a dict; `dense` gives Elements, `@name` a Symbol, a type a Type. An attribute of
StableHLO with fields, `#stablehlo.dot<...>`, is a dict of them.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NoReturn

import numpy as np

from xlanb.errors import UnimplementedError
from xlanb.frontends.stablehlo import elements
from xlanb.frontends.stablehlo.ir import Opaque, ScalarType, StablehloType, Symbol, TensorType
from xlanb.frontends.stablehlo.lexer import MlirCursor
from xlanb.frontends.stablehlo.locations import LocationParser
from xlanb.frontends.stablehlo.source import placed
from xlanb.frontends.stablehlo.types import SCALARS, TypeParser
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.shape import PrimitiveType

_INTEGER_TYPE = re.compile(r"(?:[su]?i[0-9]+|f[0-9]\w*|bf16|tensor|tuple|complex|index|none|vector|memref)(?![\w$.])")
_PLAIN_BODY = re.compile(r"[^<>\"{}()\[\]]*")
_DIMENSIONS = re.compile(
    r"\[([^\[\]]{0,400})\][ \t\n\r]*x[ \t\n\r]*\[([^\[\]]{0,400})\][ \t\n\r]*->[ \t\n\r]*\[([^\[\]]{0,400})\][ \t\n\r]*"
)
_CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">"}


class AttributeParser:
    """Reads attributes, types and locations from one cursor."""

    def __init__(self, cursor: MlirCursor) -> None:
        self.cursor = cursor
        self.types = TypeParser(cursor, self.attribute)
        self.locations = LocationParser(cursor, self.attribute)
        self.aliases: dict[str, Any] = {}
        self.resources: dict[str, bytes] = {}

    def attribute(self) -> Any:
        """Parse any attribute.

        Raises:
            HloParseError: there is none here.
        """
        c = self.cursor
        c.enter()
        try:
            return self._attribute()
        finally:
            c.depth -= 1

    def _attribute(self) -> Any:
        c = self.cursor
        mark = c.text[c.pos : c.pos + 1]
        if mark == '"':
            value = c.quoted()
            if c.accept(":"):
                self.types.type()
            return value
        if mark == "[":
            return self.array()
        if mark == "{":
            return self.dictionary()
        if mark == "#":
            return self._dialect_attribute()
        if mark == "@":
            return self.symbol()
        if mark in "(!":
            return self.types.type()
        if mark == "?":
            c.expect("?")
            return None
        if mark == "-" or mark.isdigit():
            return self._number()
        return self._word()

    def _number(self) -> Any:
        c = self.cursor
        start = c.pos
        value = c.number()
        is_bits = c.text.startswith(("0x", "-0x"), start)
        if not c.accept(":"):
            return value
        type_ = self.types.type()
        if is_bits and isinstance(value, int) and isinstance(type_, ScalarType) and type_.element in _FLOAT_FORMATS:
            return _from_bits(value, type_.element)
        return float(value) if isinstance(type_, ScalarType) and _is_float(type_) else value

    def _word(self) -> Any:
        c = self.cursor
        start = c.pos
        word = c.peek_bare()
        if word in _TYPE_WORDS or _INTEGER_TYPE.match(c.text, c.pos):
            return self.types.type()
        word = c.bare("an attribute")
        if word in {"true", "false"}:
            return word == "true"
        if word == "unit":
            return True
        if word == "loc":
            c.pos = start
            return self.locations.specifier()
        if word == "dense":
            return self._dense(start)
        if word == "array":
            return self._dense_array()
        if word == "dense_resource":
            return self._resource(start)
        if c.at("<"):
            return Opaque(f"{word}{self._balanced()}")
        return word

    # -- elements ----------------------------------------------------------------------------------

    def _dense(self, start: int) -> elements.Elements:
        raw = elements.parse_raw(self.cursor)
        return self._typed(raw, self._tensor_type(start))

    def _tensor_type(self, start: int) -> TensorType:
        self.cursor.expect(":", "and the type of the elements")
        type_ = self.types.type()
        if not isinstance(type_, TensorType):
            self._fail_type(type_, start)
        return type_

    def _typed(self, raw: elements.RawElements, type_: TensorType) -> elements.Elements:
        return elements.typed(raw, type_, self.cursor.source)

    def _fail_type(self, type_: StablehloType, start: int) -> NoReturn:
        self.cursor.fail(f"expects elements of a tensor type, not {type_}", start)

    def _resource(self, start: int) -> elements.Elements:
        c = self.cursor
        c.expect("<")
        key = c.quoted() if c.at('"') else c.bare("the name of a resource")
        c.expect(">")
        type_ = self._tensor_type(start)
        data = self.resources.get(key)
        if data is None:
            raise UnimplementedError(
                placed(
                    c.source,
                    start,
                    f"the text does not contain the resource '{key}': print it with large constants, or give bytecode",
                )
            )
        return self._typed(elements.RawElements(start, data=data), type_)

    def _dense_array(self) -> tuple[Any, ...]:
        c = self.cursor
        c.expect("<", "behind 'array'")
        c.bare("an element type")
        found: list[Any] = []
        if c.accept(":"):
            found.append(self._plain())
            while c.accept(","):
                found.append(self._plain())
        c.expect(">", "at the end of an array")
        return tuple(found)

    def _plain(self) -> Any:
        c = self.cursor
        word = c.peek_bare()
        if word in {"true", "false"}:
            c.bare()
            return word == "true"
        return c.number()

    # -- lists -------------------------------------------------------------------------------------

    def array(self) -> tuple[Any, ...]:
        """`[a, b]`."""
        c = self.cursor
        c.expect("[")
        found: list[Any] = []
        if not c.at("]"):
            found.append(self.attribute())
            while c.accept(","):
                found.append(self.attribute())
        c.expect("]", "at the end of an array")
        return tuple(found)

    def dictionary(self) -> dict[str, Any]:
        """`{name = value, flag}`."""
        c = self.cursor
        c.expect("{")
        found = self._fields("}")
        c.expect("}", "at the end of a dictionary")
        return found

    def _fields(self, stop: str) -> dict[str, Any]:
        c = self.cursor
        found: dict[str, Any] = {}
        while not c.at(stop):
            start = c.pos
            key = c.quoted() if c.at('"') else c.bare("the name of an attribute")
            if key in found:
                c.fail(f"the attribute '{key}' is given twice", start)
            found[key] = self._field(key) if c.accept("=") else True
            if not c.accept(","):
                break
        return found

    def _field(self, key: str) -> Any:
        """The value of a field; dictionaries that only a backend understands stay text."""
        c = self.cursor
        if key not in _VERBATIM or not c.at("{"):
            return self.attribute()
        start = c.pos
        self.dictionary()
        return Opaque(c.source[start : c.pos].rstrip())

    def fields_in_brackets(self) -> dict[str, Any]:
        """`<name = value>`."""
        self.cursor.expect("<")
        found = self._fields(">")
        self.cursor.expect(">")
        return found

    def symbol(self) -> Symbol:
        """`@module::@function`."""
        name = self.cursor.suffix("@")
        while self.cursor.accept("::"):
            name += f"::{self.cursor.suffix('@')}"
        return Symbol(name)

    # -- attributes of dialects --------------------------------------------------------------------

    def _dialect_attribute(self) -> Any:
        c = self.cursor
        start = c.pos
        name = c.suffix("#")
        if name in self.aliases:
            return self.aliases[name]
        if name.startswith("loc"):
            return self.locations.deferred(name)
        if not c.at("<"):
            if "." in name:
                return Opaque(f"#{name}")
            c.fail(f"unknown attribute #{name}", start)
        dialect, _, kind = name.partition(".")
        if dialect not in {"stablehlo", "mhlo", "chlo"}:
            return Opaque(f"#{name}{self._balanced()}")
        c.expect("<")
        value = self._body(kind)
        c.expect(">", f"at the end of #{name}")
        return value

    def _body(self, kind: str) -> Any:
        """Parse the content of `#stablehlo.kind<...>`; `#stablehlo<kind CASE>` is the case."""
        c = self.cursor
        if kind == "conv":
            return self.convolution_dimensions()
        if kind == "bounds":
            return {"bounds": self._plain_list()}
        if not kind:
            kind = c.bare("the kind of an attribute")
            if c.at("<"):
                c.expect("<")
                value = self._body(kind)
                c.expect(">")
                return value
        if c.at(">"):
            return {}
        word = c.peek_bare()
        end = c.pos + len(word)
        if word and c.text[end : end + 20].lstrip().startswith(">"):
            return c.bare()
        return self._fields(">")

    def _plain_list(self) -> tuple[Any, ...]:
        found: list[Any] = []
        while not self.cursor.at(">"):
            found.append(self.attribute())
            if not self.cursor.accept(","):
                break
        return tuple(found)

    def _balanced(self) -> str:
        """Text in angle brackets with all that is nested in it, verbatim."""
        c = self.cursor
        start = c.pos
        stack: list[str] = []
        while True:
            found = _PLAIN_BODY.match(c.text, c.pos)
            c.pos = found.end() if found else c.pos
            mark = c.text[c.pos : c.pos + 1]
            if not mark:
                c.fail("expects the bracket that closes this", start)
            if mark == '"':
                c.quoted()
                continue
            if mark in _CLOSERS:
                stack.append(_CLOSERS[mark])
            elif not (mark == ">" and c.text[c.pos - 1] == "-") and stack.pop() != mark:
                c.fail(f"unexpected '{mark}'")
            c.pos += 1
            if not stack:
                break
        text = c.source[start : c.pos]
        c.skip()
        return text

    def convolution_dimensions(self) -> ConvolutionDimensionNumbers | dict[str, Any]:
        """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or its fields behind `raw`."""
        c = self.cursor
        if c.accept_bare("raw"):
            return self._fields(">")
        found = _DIMENSIONS.match(c.text, c.pos)
        if found is None:
            c.fail("expects the dimensions of a convolution such as [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]")
        start = c.pos
        parts = [self._labels(found[n], letters, start) for n, letters in ((1, "bf"), (2, "io"), (3, "bf"))]
        c.pos = found.end()
        (i0, i1, i2), (k0, k1, k2), (o0, o1, o2) = parts
        if not len(i2) == len(k2) == len(o2):
            c.fail("expects the same number of spatial dimensions in input, kernel and output", start)
        return ConvolutionDimensionNumbers(i0, i1, i2, k0, k1, k2, o0, o1, o2)

    def _labels(self, text: str, letters: str, at: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the positions of the two letters and of the spatial dimensions 0, 1, ..."""
        labels = [x.strip() for x in text.split(",")]
        spatial = sorted(int(x) for x in labels if x.isdigit() and len(x) < 4)
        known = [*letters, *map(str, spatial)]
        others = [x for x in labels if x != "?"]
        if spatial != list(range(len(spatial))) or sorted(others) != sorted(known):
            self.cursor.fail(f"expects '{letters[0]}', '{letters[1]}' and the numbers 0, 1, ... once each", at)
        where = {x: i for i, x in enumerate(labels)}
        return where[letters[0]], where[letters[1]], tuple(where[str(n)] for n in spatial)


_FLOAT_FORMATS = {PrimitiveType.F16: "e", PrimitiveType.F32: "f", PrimitiveType.F64: "d"}
_VERBATIM = frozenset({"backend_config", "mhlo.backend_config", "composite_attributes"})
_TYPE_WORDS = frozenset(SCALARS)


def _is_float(type_: ScalarType) -> bool:
    return type_.element is not None and type_.element.is_floating


def _from_bits(bits: int, element: PrimitiveType) -> float:
    size = element.byte_size
    raw = np.array([bits & (2 ** (8 * size) - 1)], f"<u{size}").tobytes()
    value: float = struct.unpack(f"<{_FLOAT_FORMATS[element]}", raw)[0]
    return value
