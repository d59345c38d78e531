"""The types of MLIR text: `tensor<2x?xf32, #stablehlo.bounds<?, 3>>`, `tuple<...>`,
`!stablehlo.token`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.frontends.stablehlo.ir import (
    FunctionType,
    FutureType,
    OpaqueType,
    ScalarType,
    StablehloType,
    TensorType,
    TokenType,
    TupleType,
)
from xlanb.frontends.stablehlo.lexer import MlirCursor
from xlanb.frontends.stablehlo.source import placed
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import BY_TEXT

_BLANK = r"[ \t\n\r]*"
_DIMENSION = re.compile(rf"([0-9]+|\?){_BLANK}x{_BLANK}")
_WORD = re.compile(rf"([A-Za-z_][A-Za-z0-9_]*){_BLANK}")
_INTEGER = re.compile(r"(s|u)?i([0-9]{1,8})$")
_FLOATS = {
    t.text.removeprefix("f").upper(): t for t in PrimitiveType if t.is_floating and t.text.startswith(("f4", "f8"))
}
_OTHER_NUMBER = re.compile(r"[su]?i[0-9]{1,8}|tf32|f(?:80|128|[0-9]+E[0-9]+M[0-9]+[A-Z0-9]*)")
"""Element types of MLIR that HLO has none for."""
_MAX_SIZE = 2**62
_MAX_LEAVES = 10_000


def _scalars() -> dict[str, PrimitiveType]:
    found = {"i1": PrimitiveType.PRED, "bf16": PrimitiveType.BF16, "index": PrimitiveType.S64}
    found |= {f"f{n}": BY_TEXT[f"f{n}"] for n in (16, 32, 64)}
    found |= {f"f{name}": t for name, t in _FLOATS.items()}
    for bits in (2, 4, 8, 16, 32, 64):
        found[f"i{bits}"] = found[f"si{bits}"] = BY_TEXT[f"s{bits}"]
        found[f"ui{bits}"] = BY_TEXT[f"u{bits}"]
    return found


SCALARS = _scalars()
"""Element types by MLIR's name. `index` is 64 bits wide, as in XLA's reference interpreter."""


class TypeParser:
    """Parse types; `attribute` parses an attribute, `alias` resolves `!name`."""

    def __init__(self, cursor: MlirCursor, attribute: Callable[[], Any]) -> None:
        self.cursor = cursor
        self.aliases: dict[str, StablehloType] = {}
        self._attribute = attribute

    def type(self) -> StablehloType:
        """Parse any type.

        Raises:
            HloParseError: there is none here.
            UnimplementedError: a quantized type.
        """
        c = self.cursor
        c.enter()
        try:
            if c.at("("):
                return self._function()
            if c.at("!"):
                return self._dialect_type()
            start = c.pos
            word = c.bare("a type")
            if word == "tensor":
                return self._tensor(start)
            if word == "tuple":
                return self._tuple()
            if word == "complex":
                return self._complex()
            if word in {"vector", "memref"}:
                self._balanced()
                return OpaqueType(c.source[start : c.pos].strip())
            element = SCALARS.get(word)
            if element is None and word != "none" and _INTEGER.match(word) is None:
                c.fail(f"expects a type, not '{word}'", start)
            return ScalarType(word, element)
        finally:
            c.depth -= 1

    def types(self) -> tuple[StablehloType, ...]:
        """One type, or several in parentheses."""
        return self._list("(", ")") if self.cursor.at("(") else (self.type(),)

    def _list(self, start: str, stop: str) -> tuple[StablehloType, ...]:
        c = self.cursor
        c.expect(start)
        found = []
        if not c.at(stop):
            found.append(self.type())
            while c.accept(","):
                found.append(self.type())
        c.expect(stop, "at the end of a list of types")
        return tuple(found)

    def _function(self) -> FunctionType:
        inputs = self._list("(", ")")
        self.cursor.expect("->", "between the types of a function")
        return FunctionType(inputs, self.types())

    def _dialect_type(self) -> StablehloType:
        c = self.cursor
        start = c.pos
        name = c.suffix("!")
        if name in self.aliases:
            return self.aliases[name]
        if name in {"stablehlo.token", "mhlo.token"}:
            return TokenType()
        if name == "stablehlo.future":
            return FutureType(self._list("<", ">"))
        if "." not in name and not c.at("<"):
            c.fail(f"unknown type !{name}", start)
        if c.at("<"):
            self._balanced()
        if name.startswith("quant."):
            self._refuse_quantized(start)
        return OpaqueType(c.source[start : c.pos].strip())

    def _balanced(self) -> None:
        """Consume an expression in angle brackets."""
        c = self.cursor
        start = c.pos
        c.expect("<")
        depth = 1
        while depth:
            found = re.compile(r"[^<>\"]*").match(c.text, c.pos)
            c.pos = found.end() if found else c.pos
            if c.at_end:
                c.fail("expects '>' that closes this", start)
            if c.at('"'):
                c.quoted()
                continue
            is_arrow = c.text.startswith("->", c.pos - 1)
            depth += 1 if c.at("<") else 0 if is_arrow else -1
            c.pos += 1
        c.skip()

    def _tensor(self, start: int) -> TensorType:
        c = self.cursor
        c.expect("<", "behind 'tensor'")
        if c.at("*"):
            c.fail("expects a ranked tensor: the number of its dimensions must be known")
        sizes = []
        while (found := _DIMENSION.match(c.text, c.pos)) is not None:
            if found[1] != "?" and (len(found[1]) > 19 or int(found[1]) > _MAX_SIZE):
                c.fail("dimension out of range")
            sizes.append(None if found[1] == "?" else int(found[1]))
            c.pos = found.end()
        element_start = c.pos
        element = self._element()
        text = c.source[element_start : c.pos].strip()
        bounds: tuple[int | None, ...] = ()
        if c.accept(","):
            encoding = self._attribute()
            bounds = encoding["bounds"] if isinstance(encoding, dict) and "bounds" in encoding else ()
            if not isinstance(bounds, tuple):
                c.fail("expects a list of bounds", start)
            if bounds and len(bounds) != len(sizes):
                c.fail(f"expects {len(sizes)} bounds, not {len(bounds)}", start)
        c.expect(">", "at the end of a tensor type")
        return TensorType(tuple(sizes), element, text, bounds)

    def _element(self) -> PrimitiveType | None:
        c = self.cursor
        if c.at("!"):
            self._dialect_type()
            return None
        start = c.pos
        found = _WORD.match(c.text, c.pos)
        if found is None:
            c.fail("expects an element type")
        c.pos = found.end()
        if found[1] == "complex":
            return BY_TEXT["c64" if self._complex().name == "complex<f32>" else "c128"]
        element = SCALARS.get(found[1])
        if element is None and _OTHER_NUMBER.fullmatch(found[1]) is None:
            c.fail(f"unknown element type '{found[1]}'", start)
        return element

    def _complex(self) -> ScalarType:
        c = self.cursor
        c.expect("<", "behind 'complex'")
        start = c.pos
        part = c.bare("f32 or f64")
        if part not in {"f32", "f64"}:
            c.fail(f"expects f32 or f64 as the part of a complex number, not {part}", start)
        c.expect(">")
        return ScalarType(f"complex<{part}>", BY_TEXT["c64" if part == "f32" else "c128"])

    def _tuple(self) -> TupleType:
        start = self.cursor.pos
        found = TupleType(self._list("<", ">"))
        if found.leaf_count > _MAX_LEAVES:
            self.cursor.fail(f"a tuple of more than {_MAX_LEAVES} values", start)
        return found

    def _refuse_quantized(self, start: int) -> None:
        raise UnimplementedError(
            placed(self.cursor.source, start, "quantized types are not supported: dequantize first")
        )
