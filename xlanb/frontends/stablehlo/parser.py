"""Parse MLIR text: generic operations, functions, modules and aliases.

"stablehlo.add"(%0, %1) <{properties}> ({regions}) {attributes} : (types) -> types loc(...)

The short forms of StableHLO are in pretty.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlanb.frontends.stablehlo import pretty
from xlanb.frontends.stablehlo.attributes import AttributeParser
from xlanb.frontends.stablehlo.ir import Block, FunctionType, StablehloOperation, StablehloType, StablehloValue, Symbol
from xlanb.frontends.stablehlo.lexer import MlirCursor

_RESOURCE = re.compile(r'([\w.$\-]+|"[^"\n]*")[ \t\n\r]*:[ \t\n\r]*"0x([0-9a-fA-F]*)"')
_RESOURCE_HEADER = 4  # bytes: the alignment of the values behind them
_MAX_RESULTS = 100_000
_DEFAULT_DIALECT = {
    "module": "builtin.module",
    "func": "func.func",
    "call": "func.call",
    "return": "func.return",
    "constant": "arith.constant",
}


def parse(text: str) -> StablehloOperation:
    """Parse a text to its module; functions without a module get one.

    Raises:
        HloParseError: it is malformed; the message has the line and the column.
        LiteralError: elements do not fit their type.
        UnimplementedError: a quantized type, or elided values.
    """
    return Parser(text).program()


class Parser:
    """Reads operations; the scopes of values are here."""

    def __init__(self, text: str) -> None:
        self.cursor = MlirCursor(text)
        self.attributes = AttributeParser(self.cursor)
        self.types = self.attributes.types
        self.locations = self.attributes.locations
        self.source = text
        self._values: dict[str, list[StablehloValue]] = {}
        self._scopes: list[list[str]] = [[]]
        self.attributes.resources = _resources(text)

    # -- the whole ---------------------------------------------------------------------------------

    def program(self) -> StablehloOperation:
        """All of the text."""
        c = self.cursor
        top = Block()
        while not c.at_end:
            if c.at("#"):
                self._attribute_alias()
            elif c.at("!"):
                self._type_alias()
            elif c.at("{-#"):
                self._skip_resources()
            else:
                top.operations.append(self.operation())
        if len(top.operations) == 1 and top.operations[0].name == "builtin.module":
            return top.operations[0]
        return StablehloOperation("builtin.module", [], {}, [top], [], 0)

    def _attribute_alias(self) -> None:
        c = self.cursor
        start = c.pos
        name = c.suffix("#")
        c.expect("=", "in the definition of an alias")
        if c.peek_bare() == "loc":
            self.locations.aliases[name] = self.locations.specifier()
            return
        if name in self.attributes.aliases:
            c.fail(f"#{name} is defined twice", start)
        self.attributes.aliases[name] = self.attributes.attribute()

    def _type_alias(self) -> None:
        c = self.cursor
        start = c.pos
        name = c.suffix("!")
        c.expect("=", "in the definition of an alias")
        if name in self.types.aliases:
            c.fail(f"!{name} is defined twice", start)
        self.types.aliases[name] = self.types.type()

    def _skip_resources(self) -> None:
        c = self.cursor
        end = c.text.find("#-}", c.pos)
        if end < 0:
            c.fail("expects '#-}' at the end of the resources")
        c.pos = end + 3
        c.skip()

    # -- values ------------------------------------------------------------------------------------

    def operand(self) -> StablehloValue:
        """A use of a value."""
        c = self.cursor
        start = c.pos
        name, number = c.value_name()
        found = self._values.get(name)
        if found is None:
            c.fail(f"%{name} is not defined here", start)
        number = number or 0
        if number >= len(found):
            c.fail(f"%{name} has {len(found)} values, no number {number}", start)
        return found[number]

    def operands(self) -> list[StablehloValue]:
        """Parse comma-separated uses of values, possibly none; a trailing comma is consumed."""
        found: list[StablehloValue] = []
        while self.cursor.at("%"):
            found.append(self.operand())
            if not self.cursor.accept(","):
                break
        return found

    def operands_in_parentheses(self) -> list[StablehloValue]:
        """`(%0, %1)`."""
        self.cursor.expect("(", "before the operands")
        found = self.operands()
        self.cursor.expect(")", "after the operands")
        return found

    def define(self, name: str, values: list[StablehloValue], at: int) -> None:
        """Bind a name to values for the rest of the scope."""
        if name in self._values:
            self.cursor.fail(f"%{name} is defined twice", at)
        self._values[name] = values
        self._scopes[-1].append(name)

    def argument_name(self) -> tuple[str, int]:
        """Return the name of a block argument, and its position."""
        start = self.cursor.pos
        name, number = self.cursor.value_name()
        if number is not None:
            self.cursor.fail("expects the name of an argument, without a number", start)
        return name, start

    # -- regions -----------------------------------------------------------------------------------

    def region(self, arguments: Sequence[tuple[str, int, StablehloValue]] = (), *, isolated: bool = False) -> Block:
        """Parse `{ ... }`: one block; its arguments may be given."""
        c = self.cursor
        c.expect("{", "at the start of a region")
        c.enter()
        outside = self._values
        if isolated:
            self._values = {}
        self._scopes.append([])
        block = Block([v for _, _, v in arguments])
        for name, at, value in arguments:
            self.define(name, [value], at)
        if c.at("^"):
            self._block_label(block)
        while not c.at("}"):
            if c.at("^"):
                c.fail("a region of several blocks: control flow must be while, if or case")
            if c.at_end:
                c.fail("expects '}' at the end of a region")
            block.operations.append(self.operation())
        for name in self._scopes.pop():
            del self._values[name]
        self._values = outside
        c.depth -= 1
        c.expect("}")
        return block

    def _block_label(self, block: Block) -> None:
        c = self.cursor
        c.suffix("^")
        if c.accept("("):
            if not c.at(")"):
                block.arguments.append(self._argument())
                while c.accept(","):
                    block.arguments.append(self._argument())
            c.expect(")", "after the arguments of a block")
        c.expect(":", "after the label of a block")

    def _argument(self) -> StablehloValue:
        name, at, value = self.typed_argument()
        self.define(name, [value], at)
        return value

    def typed_argument(self) -> tuple[str, int, StablehloValue]:
        """`%arg0: tensor<f32> loc(...)`, not yet defined."""
        name, at = self.argument_name()
        self.cursor.expect(":", "and the type of an argument")
        type_ = self.types.type()
        return name, at, StablehloValue(name, type_, location=self.locations.optional())

    # -- operations --------------------------------------------------------------------------------

    def operation(self) -> StablehloOperation:
        """One operation with the names of its results."""
        c = self.cursor
        start = c.pos
        names = self._result_names()
        at = c.pos
        op = self._generic(at) if c.at('"') else self._pretty(at)
        if op.location is None:
            op.location = self.locations.optional()
        self._define_results(op, names, start)
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        c = self.cursor
        names: list[tuple[str, int, int]] = []
        while c.at("%"):
            name, at = self.argument_name()
            count = 1
            if c.accept(":"):
                count = c.whole_number()
                if not 0 < count <= _MAX_RESULTS:
                    c.fail("number of results out of range", at)
            names.append((name, count, at))
            if not c.accept(","):
                break
        if names:
            c.expect("=", "after the names of results")
        return names

    def _define_results(self, op: StablehloOperation, names: list[tuple[str, int, int]], at: int) -> None:
        wanted = sum(count for _, count, _ in names)
        if names and wanted != len(op.results):
            self.cursor.fail(f"{op.name} gives {len(op.results)} results, not {wanted}", at)
        first = 0
        for name, count, place in names:
            values = op.results[first : first + count]
            for i, value in enumerate(values):
                value.name = name if count == 1 else f"{name}#{i}"
            self.define(name, values, place)
            first += count

    def made(
        self,
        name: str,
        at: int,
        operands: list[StablehloValue],
        attributes: dict[str, Any],
        types: Sequence[StablehloType],
        regions: list[Block] | None = None,
    ) -> StablehloOperation:
        """An operation with new results."""
        op = StablehloOperation(name, operands, attributes, regions or [], [], at)
        op.results = [StablehloValue("", t, op) for t in types]
        return op

    def _generic(self, at: int) -> StablehloOperation:
        c = self.cursor
        name = c.quoted()
        operands = self.operands_in_parentheses()
        if c.at("["):
            c.fail(f"{name} has successors: control flow must be while, if or case")
        attributes: dict[str, Any] = {}
        if c.accept("<"):
            attributes = self.attributes.dictionary()
            c.expect(">", "at the end of the properties")
        regions = self._regions(name)
        if c.at("{"):
            attributes |= self.attributes.dictionary()
        type_ = self.function_type(operands)
        return self.made(name, at, operands, attributes, type_.results, regions)

    def _regions(self, name: str) -> list[Block]:
        c = self.cursor
        regions: list[Block] = []
        if not c.accept("("):
            return regions
        isolated = name in {"func.func", "builtin.module"}
        regions.append(self.region(isolated=isolated))
        while c.accept(","):
            regions.append(self.region(isolated=isolated))
        c.expect(")", "after the regions")
        return regions

    def function_type(self, operands: list[StablehloValue]) -> FunctionType:
        """`: (types) -> types`, which must be those of the operands."""
        c = self.cursor
        c.expect(":", "and the types of the operation")
        start = c.pos
        type_ = self.types.type()
        if not isinstance(type_, FunctionType):
            c.fail("expects types such as (tensor<f32>) -> tensor<f32>", start)
        self.check_operands(operands, type_.inputs, start)
        return type_

    def check_operands(self, operands: list[StablehloValue], types: Sequence[StablehloType], at: int) -> None:
        """Fail if operands do not have the text's types."""
        if len(types) != len(operands):
            self.cursor.fail(f"{len(operands)} operands but {len(types)} types", at)
        for value, type_ in zip(operands, types, strict=True):
            if value.type != type_:
                self.cursor.fail(f"{value} is of type {value.type}, not {type_}", at)

    def _pretty(self, at: int) -> StablehloOperation:
        c = self.cursor
        name = c.bare("an operation")
        name = _DEFAULT_DIALECT.get(name, name)
        if name == "builtin.module":
            return self._module(at)
        if name == "func.func":
            return self._function(at)
        return pretty.parse(self, name, at)

    def _module(self, at: int) -> StablehloOperation:
        c = self.cursor
        attributes: dict[str, Any] = {}
        if c.at("@"):
            attributes["sym_name"] = c.suffix("@")
        if c.accept_bare("attributes"):
            attributes |= self.attributes.dictionary()
        return self.made("builtin.module", at, [], attributes, (), [self.region(isolated=True)])

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, at: int) -> StablehloOperation:
        c = self.cursor
        attributes: dict[str, Any] = {}
        word = c.peek_bare()
        if word in {"public", "private", "nested"}:
            attributes["sym_visibility"] = c.bare()
        attributes["sym_name"] = c.suffix("@")
        arguments, types, argument_attributes = self._parameters()
        results: tuple[StablehloType, ...] = ()
        result_attributes: tuple[dict[str, Any], ...] = ()
        if c.accept("->"):
            results, result_attributes = self._result_types()
        if c.accept_bare("attributes"):
            attributes |= self.attributes.dictionary()
        attributes["function_type"] = FunctionType(types, results)
        attributes["arg_attrs"], attributes["res_attrs"] = argument_attributes, result_attributes
        regions = [self.region(arguments, isolated=True)] if c.at("{") else []
        return self.made("func.func", at, [], attributes, (), regions)

    def _parameters(
        self,
    ) -> tuple[list[tuple[str, int, StablehloValue]], tuple[StablehloType, ...], tuple[dict[str, Any], ...]]:
        c = self.cursor
        c.expect("(", "before the arguments of a function")
        arguments, types, attributes = [], [], []
        while not c.at(")"):
            if c.at("%"):
                name, at = self.argument_name()
                c.expect(":", "and the type of an argument")
                value = StablehloValue(name, self.types.type())
                arguments.append((name, at, value))
                types.append(value.type)
            else:
                types.append(self.types.type())
            attributes.append(self.attributes.dictionary() if c.at("{") else {})
            location = self.locations.optional()
            if arguments:
                arguments[-1][2].location = location
            if not c.accept(","):
                break
        c.expect(")", "after the arguments of a function")
        return arguments, tuple(types), tuple(attributes)

    def _result_types(self) -> tuple[tuple[StablehloType, ...], tuple[dict[str, Any], ...]]:
        c = self.cursor
        if not c.accept("("):
            return (self.types.type(),), ({},)
        types, attributes = [], []
        while not c.at(")"):
            types.append(self.types.type())
            attributes.append(self.attributes.dictionary() if c.at("{") else {})
            if not c.accept(","):
                break
        c.expect(")", "after the results of a function")
        return tuple(types), tuple(attributes)

    def callee(self) -> Symbol:
        """`@name`."""
        return self.attributes.symbol()


def _resources(text: str) -> dict[str, bytes]:
    """Return the values of `dense_resource`s, from the end of the text."""
    start = text.rfind("{-#")
    if start < 0:
        return {}
    found: dict[str, bytes] = {}
    for match in _RESOURCE.finditer(text, start):
        digits = match[2]
        if len(digits) % 2 == 0 and len(digits) >= 2 * _RESOURCE_HEADER:
            found[match[1].strip('"')] = bytes.fromhex(digits)[_RESOURCE_HEADER:]
    return found
