"""The short forms of Shardy's operations, as JAX prints them around sharded programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xlanb.frontends.stablehlo.ir import Opaque, StablehloOperation, StablehloValue

if TYPE_CHECKING:
    from xlanb.frontends.stablehlo.parser import Parser

_PIECE = re.compile(r"[^<>\[\]{}()\"]*")
_CLOSING = {"<": ">", "[": "]", "{": "}", "(": ")"}


def mesh(parser: Parser, name: str, at: int) -> StablehloOperation:
    """`@mesh = <["x"=2, "y"=4]> {...}`."""
    c = parser.cursor
    attributes: dict[str, Any] = {"sym_name": c.suffix("@")}
    c.expect("=", "after the name of a mesh")
    attributes["mesh"] = _verbatim(parser)
    if c.at("{"):
        attributes |= parser.attributes.dictionary()
    return parser.made(name, at, [], attributes, ())


def constraint(parser: Parser, name: str, at: int) -> StablehloOperation:
    """`%x <@mesh, [{"x"}, {}]> : type`."""
    c = parser.cursor
    operand = parser.operand()
    attributes: dict[str, Any] = {"sharding": _verbatim(parser)}
    if c.at("{"):
        attributes |= parser.attributes.dictionary()
    c.expect(":", "and the type of the operation")
    start = c.pos
    type_ = parser.types.type()
    parser.check_operands([operand], [type_], start)
    return parser.made(name, at, [operand], attributes, (type_,))


def manual_computation(parser: Parser, name: str, at: int) -> StablehloOperation:
    """Parse a manual_computation.

    `(%x) in_shardings=[...] out_shardings=[...] manual_axes={...} (%a: type) { ... } : types`.
    """
    c = parser.cursor
    operands = parser.operands_in_parentheses()
    attributes: dict[str, Any] = {}
    for word in ("in_shardings", "out_shardings", "manual_axes"):
        c.expect_bare(word)
        c.expect("=", f"behind '{word}'")
        attributes[word] = _verbatim(parser)
    c.expect("(", "before the arguments of the region")
    arguments: list[tuple[str, int, StablehloValue]] = []
    while not c.at(")"):
        arguments.append(parser.typed_argument())
        if not c.accept(","):
            break
    c.expect(")")
    region = parser.region(arguments)
    if c.at("{"):
        attributes |= parser.attributes.dictionary()
    return parser.made(name, at, operands, attributes, parser.function_type(operands).results, [region])


def _verbatim(parser: Parser) -> Opaque:
    """Parse anything in brackets, and return it with them."""
    c = parser.cursor
    start = c.pos
    if c.text[c.pos : c.pos + 1] not in _CLOSING:
        c.fail("expects '<', '[' or '{'")
    open_: list[str] = []
    while True:
        found = _PIECE.match(c.text, c.pos)
        c.pos = found.end() if found else c.pos
        if c.at_end:
            c.fail(f"expects '{open_[-1]}' that closes this", start)
        char = c.text[c.pos]
        if char == '"':
            c.quoted()
            continue
        if char in _CLOSING:
            open_.append(_CLOSING[char])
        elif char != open_.pop():
            c.fail("brackets that do not match")
        c.pos += 1
        if not open_:
            break
    text = c.text[start : c.pos]
    c.skip()
    return Opaque(text)


WHOLE = {
    "sdy.mesh": mesh,
    "sdy.sharding_constraint": constraint,
    "sdy.reshard": constraint,
    "sdy.manual_computation": manual_computation,
}
"""Parsers of operations, by name."""
