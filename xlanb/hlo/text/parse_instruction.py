"""Instructions in HLO text: name, shape, opcode, operands (also nested), attributes.

One regular expression matches the common spelling of each part, and the result is cached by its
text. Anything else is read by the Cursor, token by token, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from xlanb.errors import did_you_mean
from xlanb.hlo import shape_inference
from xlanb.hlo.async_chain import ASYNC_BY_SUFFIX, ASYNC_OPCODES, DONE_OF, NOT_WRAPPED
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.names import sanitized
from xlanb.hlo.opcode import BY_TEXT, Attribute, HloOpcode
from xlanb.hlo.text.lexer import KEYWORDS, RESERVED, Cursor
from xlanb.hlo.text.literal_text import parse_literal
from xlanb.hlo.text.parse_attributes import READERS, parse_bools, parse_shapes
from xlanb.hlo.text.parse_checks import NOT_INFERRED, inferred_layout, refine
from xlanb.hlo.text.parse_metadata import (
    common_metadata,
    parse_frontend_attributes,
    parse_metadata,
    parse_origin,
    parse_statistics,
)
from xlanb.hlo.text.parse_scope import ParseScope
from xlanb.hlo.text.parse_shape import SIMPLE, ShapeCache, at_shape, compatible, parse_shape
from xlanb.patterns import pattern
from xlanb.shape import ArrayShape, Literal, Shape, TupleShape

_B = r"[ \t\n\r]*"
_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
_SHAPE = rf"{SIMPLE}|\([^()]*\)"
_HEAD = re.compile(
    rf"(ROOT[ \t\n\r]+)?(?:%({_NAME})|({_NAME})(?=[ \t\n\r])){_B}={_B}({_SHAPE})[ \t\n\r]+([a-z][a-z0-9\-]*)\({_B}"
)
_OPERAND = re.compile(rf"(?:({_SHAPE})[ \t\n\r]+)?(?:%({_NAME})|({_NAME})){_B}([,)]){_B}")
_BARE_SHAPES = pattern(rf"(?:(?:{'|'.join(sorted(RESERVED - KEYWORDS))})\[[0-9,]*\]{_B}(?:,{_B})+)+")
_ATTRIBUTE = re.compile(rf",{_B}({_NAME})={_B}(\{{[^{{}}\"']*\}}|[^\s,{{}}\"'()]+)?{_B}")
_PARAMETER = re.compile(r"([0-9]{1,9})\)[ \t\n\r]*")
_LINE = re.compile(
    rf"(ROOT )?%?({_NAME}) = ({_SHAPE}) ([a-z][a-z0-9\-]*)\(([^()\[\]{{}}\"'\n]*)\)"
    rf"((?:, {_NAME}=(?:\{{[^{{}}\"'\n]*\}}|[^\s,{{}}\"'()]+))*){_B}"
)
"""An instruction as XLA prints it: name, shape, opcode, operands, attributes, no metadata."""
_METADATA = ", metadata="
_COUNT = re.compile(r"[0-9]{1,9}")
_NAMED = re.compile(rf", ({_NAME})=")
_LONG_LITERAL = 32
"""Longer constants are not cached by their text."""

_REQUIRED = {
    o: tuple(a.name for a in o.attributes if a.required and (o.kind != "leaf" or o is HloOpcode.IOTA))
    for o in HloOpcode
}
_MISSING = object()
_ASYNC = frozenset((*ASYNC_OPCODES, *DONE_OF))
_COMMON = (
    "backend_config",
    "control-predecessors",
    "frontend_attributes",
    "metadata",
    "origin",
    "parameter_replication",
    "sharding",
    "statistics",
)


class InstructionParser:
    """Reads instructions.

    `finished` are the computations read so far in XLA's order, `pool` those that have a name.
    """

    def __init__(self, cursor: Cursor, module: HloModule) -> None:
        self.cursor = cursor
        self.module = module
        self.finished: list[HloComputation] = []
        self.pool: dict[str, HloComputation] = {}
        self.shapes: ShapeCache = {}
        self.values: dict[str, dict[str, Any]] = {kind: {} for kind in (*READERS, "computation", "metadata")}
        self.anonymous: dict[str, int] = {}
        self._plain: dict[tuple[str, str], tuple[HloOpcode, dict[str, Any]]] = {}
        self._literals: dict[tuple[str, str], Literal] = {}

    # -- computations ------------------------------------------------------------------------------

    def computation(self, name: str) -> HloComputation:
        """Read a computation's body in braces."""
        cursor = self.cursor
        cursor.enter()
        cursor.expect("{", "at the beginning of instruction list")
        scope = ParseScope(HloComputation(sanitized(name), self.module))
        while True:
            self.instruction(scope)
            if cursor.accept("}"):
                break
        cursor.depth -= 1
        computation = scope.close(cursor)
        self.finished.append(computation)
        return computation

    def _called(self) -> HloComputation:
        """Read a computation's name, or its body in place."""
        cursor = self.cursor
        if cursor.at("{"):
            return self.computation("_")
        at = cursor.pos
        name = cursor.name("computation name")
        found = self.pool.get(name)
        if found is None:
            cursor.fail(f"computation does not exist: {name}", at)
        return found

    # -- instructions ------------------------------------------------------------------------------

    def instruction(self, scope: ParseScope) -> None:
        """Read `ROOT? name = shape? opcode(operands), attributes`."""
        cursor = self.cursor
        at = cursor.pos
        line = _LINE.match(cursor.text, at)
        if line is None or not self._common_line(scope, line):
            self._instruction_by_parts(scope, line)

    def _common_line(self, scope: ParseScope, line: re.Match[str]) -> bool:
        """Read an instruction whose opcode and attributes were read before with the same text.

        Returns False, and reads nothing, for any other.
        """
        root, name, shape_text, opcode_text, operand_text, tail = line.groups()
        known, shape = self._plain.get((opcode_text, tail)), self.shapes.get(shape_text)
        by_name = scope.by_name
        if known is None or shape is None or name in by_name or name in RESERVED or name.startswith("__"):
            return False
        opcode, attributes = known
        operands: list[HloInstruction] = []
        if opcode is HloOpcode.PARAMETER:
            if not _COUNT.fullmatch(operand_text):
                return False
            attributes = {**attributes, "parameter_number": int(operand_text)}
        elif opcode is HloOpcode.CONSTANT:
            literal = self._literals.get((shape_text, operand_text))
            if literal is None:
                return False
            shape, attributes = literal.shape, {**attributes, "literal": literal}
        elif operand_text:
            for operand_name in operand_text.split(", "):
                operand = by_name.get(operand_name[1:] if operand_name[:1] == "%" else operand_name)
                if operand is None:
                    return False
                operands.append(operand)
            attributes = attributes.copy()
        arity = opcode.arity
        if (arity is not None and len(operands) != arity) or (root and scope.root is not None):
            return False
        behind = self._metadata_behind(line)
        if behind is None:
            return False
        metadata, end = behind
        at, self.cursor.pos = self.cursor.pos, end
        if opcode in refine:
            shape = self.refined(opcode, shape, operands, attributes, at)
        new = self._insert(scope, name, opcode, shape, tuple(operands), attributes)
        if metadata is not None:
            new.metadata = metadata
        _complete_origin(new)
        if root:
            scope.root = new
        return True

    def _metadata_behind(self, line: re.Match[str]) -> tuple[OpMetadata | None, int] | None:
        """The metadata after a line's attributes, and the offset after it.

        None if more attributes follow.
        """
        text, end = self.cursor.text, line.end()
        if not text.startswith(",", end):
            return None, end
        found = common_metadata(self.cursor, end + len(_METADATA)) if text.startswith(_METADATA, end) else None
        return None if found is None or text.startswith(",", found[1]) else found

    def _learn(self, line: re.Match[str], opcode: HloOpcode, attributes: dict[str, Any]) -> None:
        """Cache the meaning of a line's text, if it is the same wherever the text occurs."""
        _, _, shape_text, opcode_text, operand_text, tail = line.groups()
        rows = opcode.attribute
        if opcode_text != opcode.text or opcode in _ASYNC or self._metadata_behind(line) is None:
            return
        if opcode is HloOpcode.CONSTANT:
            literal: Literal = attributes["literal"]
            is_scalar = isinstance(literal.shape, ArrayShape) and literal.shape.is_scalar
            if not is_scalar or literal.is_elided or len(operand_text) > _LONG_LITERAL:
                return
            self._literals[shape_text, operand_text] = literal
        if all(n in rows and _says_the_same(rows[n].kind, n, tail) for n in _NAMED.findall(tail)):
            self._plain[opcode_text, tail] = opcode, attributes.copy()

    def _instruction_by_parts(self, scope: ParseScope, line: re.Match[str] | None) -> None:
        """Read an instruction part by part, and cache the text of its line."""
        cursor = self.cursor
        at = cursor.pos
        head = _HEAD.match(cursor.text, at)
        if head is None:
            return self._slow_instruction(scope)
        root, percent, bare, shape_text, opcode_text = head.groups()
        opcode = BY_TEXT.get(opcode_text)
        if opcode is None or (bare and bare in RESERVED):
            return self._slow_instruction(scope)
        shape = self.shapes.get(shape_text) or self._remembered_shape(shape_text, head.start(4))
        cursor.pos = head.end()
        if root and scope.root is not None:
            cursor.fail("one computation should have only one ROOT", at)
        instruction = self._create(scope, percent or bare, at, shape, opcode, line=line)
        if root:
            scope.root = instruction
        return None

    def _slow_instruction(self, scope: ParseScope) -> None:
        cursor = self.cursor
        start = cursor.pos
        root = cursor.accept_word("ROOT")
        at = cursor.pos
        name = cursor.name()
        cursor.expect("=", "in instruction")
        if root and scope.root is not None:
            cursor.fail("one computation should have only one ROOT", start)
        instruction = self._right_side(scope, name, at)
        if root:
            scope.root = instruction

    def unnamed_instruction(self, scope: ParseScope, name: str) -> None:
        """Read a right-hand side that is the whole text."""
        self._right_side(scope, name, self.cursor.pos)

    def _right_side(self, scope: ParseScope, name: str, at: int, *, nested: bool = False) -> HloInstruction:
        cursor = self.cursor
        cursor.enter()
        shape = parse_shape(cursor, self.shapes) if at_shape(cursor) else None
        opcode, wrapped = self._opcode(shape)
        cursor.expect("(", "at the beginning of operands")
        instruction = self._create(scope, name, at, shape, opcode, wrapped, nested=nested)
        cursor.depth -= 1
        return instruction

    def _opcode(self, shape: Shape | None) -> tuple[HloOpcode, HloOpcode | None]:
        """Read the opcode; also returns the one that `NAME-start` wraps."""
        cursor = self.cursor
        at = cursor.pos
        text = cursor.word("opcode")
        opcode, wrapped = BY_TEXT.get(text), None
        if opcode is None:
            stem, dash, suffix = text.rpartition("-")
            opcode, wrapped = ASYNC_BY_SUFFIX.get(dash + suffix), BY_TEXT.get(stem)
            if opcode is None or wrapped is None or wrapped in NOT_WRAPPED:
                cursor.fail(f"expects opcode but sees: {text}{did_you_mean(text, BY_TEXT, 1)}", at)
        if shape is None and opcode in NOT_INFERRED:
            cursor.fail(f"cannot infer shape for opcode: {text}", at)
        return opcode, wrapped

    def _remembered_shape(self, text: str, at: int) -> Shape:
        cursor = self.cursor
        cursor.pos = at
        shape = parse_shape(cursor, self.shapes)
        if cursor.text[at : cursor.pos].rstrip() == text:
            self.shapes[text] = shape
        else:
            cursor.fail("expects opcode")
        return shape

    def _create(
        self,
        scope: ParseScope,
        name: str,
        at: int,
        shape: Shape | None,
        opcode: HloOpcode,
        wrapped: HloOpcode | None = None,
        *,
        nested: bool = False,
        line: re.Match[str] | None = None,
    ) -> HloInstruction:
        """Read the rest of an instruction after the opening parenthesis.

        `line` is all of it, if it is spelled as XLA prints it.
        """
        cursor = self.cursor
        attributes: dict[str, Any] = {}
        common: dict[str, Any] = {}
        operands: list[HloInstruction] = []
        operands_at = cursor.pos
        if opcode is HloOpcode.PARAMETER and shape is not None:
            attributes["parameter_number"] = self._parameter_number(scope)
        elif opcode is HloOpcode.CONSTANT and shape is not None:
            literal = parse_literal(cursor, shape)
            cursor.expect(")", "after constant literal")
            attributes["literal"] = literal
            shape = literal.shape
        else:
            operands = self._operands(scope)
            if opcode in DONE_OF and operands and operands[0].opcode in ASYNC_OPCODES:
                opcode, wrapped = HloOpcode.ASYNC_DONE, DONE_OF[opcode]
            arity = opcode.arity
            if arity is not None and len(operands) != arity and wrapped is None and opcode.kind != "async":
                cursor.fail(f"expects {arity} operands, but has {len(operands)} operands", operands_at)
        if opcode in ASYNC_OPCODES:
            if shape is None:
                cursor.fail(f"cannot infer shape for opcode: {opcode}", at)
            from xlanb.hlo.text.parse_async import Async

            Async(self, scope, shape, opcode, wrapped, operands, attributes, common, nested=nested).read()
        else:
            if not nested:
                self.read_attributes(scope, opcode, opcode.attribute, attributes, common)
            self.require(opcode, attributes)
            if line is not None:
                self._learn(line, opcode, attributes)
            shape = self.refined(opcode, shape, operands, attributes, at)
        return self.insert(scope, name, at, opcode, shape, operands, attributes, common)

    def refined(
        self,
        opcode: HloOpcode,
        shape: Shape | None,
        operands: list[HloInstruction],
        attributes: dict[str, Any],
        at: int,
    ) -> Shape:
        """The shape after XLA's own checks and completions; inferred if not in the text."""
        check = refine.get(opcode)
        if check is not None:
            shape = check(self.cursor, at, shape, operands, attributes)
        if shape is None:
            shape = shape_inference.infer(opcode, [o.shape for o in operands], attributes)
            shape = inferred_layout(opcode, shape, operands, attributes)
        return shape

    def require(self, opcode: HloOpcode, attributes: dict[str, Any]) -> None:
        """Raise if an instruction lacks a required attribute."""
        for name in _REQUIRED[opcode]:
            if name not in attributes:
                self.cursor.fail(f"attribute {name} is expected but not seen")

    def insert(
        self,
        scope: ParseScope,
        name: str,
        at: int,
        opcode: HloOpcode,
        shape: Shape,
        operands: Iterable[HloInstruction],
        attributes: dict[str, Any],
        common: dict[str, Any],
    ) -> HloInstruction:
        """Add a new instruction to its computation."""
        if not name:
            name = self._anonymous_name(scope, opcode)
        elif name in scope.by_name:
            self.cursor.fail(f"instruction already exists: {name}", at)
        elif (allowed := sanitized(name)) != name:
            self.cursor.fail(f"illegal instruction name: {name}; suggest renaming to: {allowed}", at)
        new = self._insert(scope, name, opcode, shape, tuple(operands), attributes)
        if common:
            self.set_common(new, common)
        _complete_origin(new)
        return new

    def _insert(
        self,
        scope: ParseScope,
        name: str,
        opcode: HloOpcode,
        shape: Shape,
        operands: tuple[HloInstruction, ...],
        attributes: dict[str, Any],
    ) -> HloInstruction:
        computation = scope.computation
        new = HloInstruction(name, opcode, shape, operands, attributes, computation)
        computation._instructions[new] = None
        for o in operands:
            users = o._users
            users[new] = users.get(new, 0) + 1
        if opcode is HloOpcode.PARAMETER:
            computation._parameters.append(new)
            computation._parameters_in_order = False
        scope.by_name[name] = new
        scope.last = new
        return new

    def set_common(self, new: HloInstruction, common: dict[str, Any]) -> None:
        """Set the fields of an instruction that any opcode may have."""
        for name, value in common.items():
            if name == "control-predecessors":
                new.control_predecessors = value
                for p in value:
                    p.control_successors = (*p.control_successors, new)
            elif name == "sharding":
                from xlanb.hlo.text.parse_sharding import tuple_sharding

                new.sharding = tuple_sharding(value, new.shape)
            elif name != "parameter_replication":
                setattr(new, name, value)

    def _anonymous_name(self, scope: ParseScope, opcode: HloOpcode) -> str:
        """A name for an instruction in place of an operand: `add.anon`, `add.anon.1`, ..."""
        root = f"{opcode.text}.anon"
        while True:
            count = self.anonymous.get(root, 0)
            self.anonymous[root] = count + 1
            name = f"{root}.{count}" if count else root
            if name not in scope.by_name:
                return name

    # -- operands ----------------------------------------------------------------------------------

    def _parameter_number(self, scope: ParseScope) -> int:
        cursor = self.cursor
        found = _PARAMETER.match(cursor.text, cursor.pos)
        if found is not None:
            number = int(found[1])
            cursor.pos = found.end()
        else:
            number = cursor.integer()
            if number < 0:
                cursor.fail("parameter number must be >= 0")
            cursor.expect(")", "after parameter number")
        return number

    def _operands(self, scope: ParseScope) -> list[HloInstruction]:
        """Read operands and the closing parenthesis."""
        cursor = self.cursor
        text, by_name, shapes = cursor.text, scope.by_name, self.shapes
        operands: list[HloInstruction] = []
        if text.startswith(")", cursor.pos):
            cursor.accept(")")
            return operands
        while True:
            found = _OPERAND.match(text, cursor.pos)
            if found is not None:
                shape_text, percent, bare, mark = found.groups()
                operand = by_name.get(percent or bare)
                if operand is not None and (shape_text is None or shapes.get(shape_text) is operand.shape):
                    operands.append(operand)
                    cursor.pos = found.end()
                    if mark == ")":
                        return operands
                    continue
            operands.append(self._slow_operand(scope))
            if not cursor.accept(","):
                break
        cursor.expect(")", "at the end of operands")
        return operands

    def _slow_operand(self, scope: ParseScope) -> HloInstruction:
        """Read a name with or without shape, or an instruction in place, without attributes."""
        cursor = self.cursor
        if not scope.creates_parameters:
            self._skip_bare_shapes()
        at = cursor.pos
        shape = parse_shape(cursor, self.shapes) if at_shape(cursor) else None
        named_at = cursor.pos
        name = cursor.try_name()
        if name and cursor.at("#"):
            return self._element(scope, name, shape, named_at)
        if cursor.at(")") or (cursor.at(",") and (name or shape is not None)):
            operand = scope.by_name.get(name)
            if operand is None and scope.creates_parameters:
                return self._missing_parameter(scope, name, shape, at)
            if operand is None:
                cursor.fail(f"instruction does not exist: {name}" if name else "expects name", named_at)
            if shape is not None and not compatible(shape, operand.shape):
                cursor.fail(
                    f"The declared operand shape {shape} is not compatible with the shape of the "
                    f"operand instruction {operand.shape}.",
                    at,
                )
            return operand
        cursor.pos = at
        return self._right_side(scope, "", at, nested=True)

    def _element(self, scope: ParseScope, name: str, shape: Shape | None, at: int) -> HloInstruction:
        """Read a tuple element, `p#0` or `p#0#1`, as XLA prints them since July 2026.

        All uses of an element share one get-tuple-element.
        """
        cursor = self.cursor
        found = scope.by_name.get(name)
        if found is None:
            cursor.fail(f"instruction does not exist: {name}", at)
        while cursor.accept("#"):
            index_at = cursor.pos
            index = cursor.integer()
            parts = found.shape.shapes if isinstance(found.shape, TupleShape) else None
            if parts is None or not 0 <= index < len(parts):
                cursor.fail(f"element {index} does not exist in {found.shape}", index_at)
            found = scope.elements.get((found, index)) or self._new_element(scope, found, index)
        if shape is not None and not compatible(shape, found.shape):
            cursor.fail(
                f"the declared operand shape {shape} is not compatible with that of the element, {found.shape}", at
            )
        return found

    def _new_element(self, scope: ParseScope, operand: HloInstruction, index: int) -> HloInstruction:
        last, by_name = scope.last, scope.by_name
        scope.by_name = {}  # named once the names in the text are known
        new = self.insert(
            scope,
            f"{operand.name}_{index}",
            self.cursor.pos,
            HloOpcode.GET_TUPLE_ELEMENT,
            operand.shape.shapes[index],  # type: ignore[attr-defined]
            (operand,),
            {"index": index},
            {},
        )
        scope.last, scope.by_name = last, by_name
        scope.elements[operand, index] = new
        return new

    def _skip_bare_shapes(self) -> None:
        """Skip a shape without layout and name, as XLA does: `add(f32[] a, f32[], b)`."""
        found = _BARE_SHAPES.match(self.cursor.text, self.cursor.pos)
        if found is not None:
            self.cursor.pos = found.end()

    def _missing_parameter(self, scope: ParseScope, name: str, shape: Shape | None, at: int) -> HloInstruction:
        if shape is None:
            self.cursor.fail(
                "Operand had no shape in HLO text; cannot create parameter for single-instruction module.", at
            )
        number = len(scope.computation._parameters)
        last = scope.last
        new = self.insert(
            scope, name or f"_{number}", at, HloOpcode.PARAMETER, shape, (), {"parameter_number": number}, {}
        )
        scope.last = last
        return new

    # -- attributes --------------------------------------------------------------------------------

    def read_attributes(
        self,
        scope: ParseScope,
        opcode: HloOpcode,
        allowed: dict[str, Attribute],
        attributes: dict[str, Any],
        common: dict[str, Any],
    ) -> None:
        """Read `, name=value` repeatedly."""
        cursor, text = self.cursor, self.cursor.text
        seen: set[str] | None = None
        while text.startswith(",", cursor.pos):
            found = _ATTRIBUTE.match(text, cursor.pos)
            if found is None:
                cursor.accept(",")
                cursor.fail("expects attribute name")
            name, flat = found.groups()
            row = allowed.get(name)
            if seen is None:
                seen = {name}
            # an async-start prints its own and those of the wrapped instruction
            elif name in seen and name != "statistics":
                cursor.fail(f"attribute {name} already exists", found.start(1))
            else:
                seen.add(name)
            if row is None:
                self._common_attribute(scope, opcode, allowed, name, found, common)
                continue
            value = (
                self.values[row.kind].get(flat, _MISSING) if flat is not None and row.kind in self.values else _MISSING
            )
            if value is not _MISSING:
                cursor.pos = found.end()
            else:
                cursor.pos = found.start(2) if flat is not None else found.end()
                value = self._value(row, flat)
            if value != row.default and row.kind != "group_mode":
                attributes[name] = value

    def _value(self, row: Attribute, flat: str | None) -> Any:
        cursor = self.cursor
        start = cursor.pos
        kind = row.kind
        if kind == "computation":
            value: Any = self._called()
        elif kind == "computations":
            return self._computations()
        elif kind == "shape":
            return parse_shape(cursor, self.shapes)
        elif kind == "shapes":
            return parse_shapes(cursor, self.shapes)
        elif kind == "literal":
            return self._typed_literal()
        else:
            value = READERS[kind](cursor)
        # A computation in braces is a new one each time.
        if (
            flat is not None
            and (kind != "computation" or flat[0] != "{")
            and cursor.text[start : cursor.pos].rstrip() == flat
        ):
            self.values[kind][flat] = value
        return value

    def _computations(self) -> tuple[HloComputation, ...]:
        cursor = self.cursor
        cursor.expect("{", "at the start of a list")
        out: list[HloComputation] = []
        while not cursor.at("}") or out:
            out.append(self._called())
            if not cursor.accept(","):
                break
        cursor.expect("}", "at the end of a list")
        return tuple(out)

    def _typed_literal(self) -> Literal:
        cursor = self.cursor
        cursor.enter()
        if cursor.accept("("):
            parts: list[Literal] = []
            while not cursor.at(")"):
                parts.append(self._typed_literal())
                if not cursor.accept(","):
                    break
            cursor.expect(")", "to close a tuple literal")
            literal = Literal(TupleShape(tuple(p.shape for p in parts)), elements=tuple(parts))
        else:
            literal = parse_literal(cursor, parse_shape(cursor, self.shapes))
        cursor.depth -= 1
        return literal

    def _common_attribute(
        self,
        scope: ParseScope,
        opcode: HloOpcode,
        allowed: dict[str, Attribute],
        name: str,
        found: re.Match[str],
        common: dict[str, Any],
    ) -> None:
        cursor = self.cursor
        cursor.pos = found.start(2) if found[2] is not None else found.end()
        if name == "metadata":
            common[name] = parse_metadata(cursor)
        elif name == "backend_config":
            common[name] = cursor.json_dict() if cursor.at("{") else cursor.string()
        elif name == "sharding":
            from xlanb.hlo.text.parse_sharding import parse_sharding

            common[name] = parse_sharding(cursor)
        elif name == "frontend_attributes":
            common[name] = parse_frontend_attributes(cursor)
        elif name == "control-predecessors":
            common[name] = self._predecessors(scope)
        elif name == "statistics":
            value = parse_statistics(cursor)
            if common.setdefault(name, value) != value:
                cursor.fail("attribute statistics already exists", found.start(1))
        elif name == "origin":
            common[name] = parse_origin(cursor)
        elif name == "parameter_replication":
            common[name] = parse_bools(cursor)
        else:
            names = ", ".join(sorted({*allowed, *_COMMON} - {"parameter_number"}))
            cursor.fail(f'unexpected attribute "{name}" of {opcode}. Allowed attributes: {names}', found.start(1))

    def _predecessors(self, scope: ParseScope) -> tuple[HloInstruction, ...]:
        cursor = self.cursor
        cursor.expect("{", "at the beginning of instruction name list")
        out: dict[HloInstruction, None] = {}
        while True:
            at = cursor.pos
            name = cursor.name("a instruction name")
            instruction = scope.by_name.get(name)
            if instruction is None:
                cursor.fail(f"instruction '{name}' is not defined", at)
            out[instruction] = None
            if not cursor.accept(","):
                break
        cursor.expect("}", "at the end of instruction name list")
        return tuple(out)


def _says_the_same(kind: str, name: str, tail: str) -> bool:
    """Whether an attribute of this kind has the same value wherever its text is the same.

    A computation in braces is a new one each time, and a literal may be elided.
    """
    return kind != "literal" and (kind not in ("computation", "computations") or f"{name}={{" not in tail)


def _complete_origin(new: HloInstruction) -> None:
    """Give a tuple element that already exists the origin of the tuple's operand."""
    if new.opcode is HloOpcode.GET_TUPLE_ELEMENT and not new.origin and new.operands[0].opcode is HloOpcode.TUPLE:
        new.origin = _element_origin(new)


def _element_origin(element: HloInstruction) -> str:
    """The origin of a tuple element; the index in the text may be invalid."""
    index, elements = element.attributes["index"], element.operands[0].operands
    return elements[index].origin if 0 <= index < len(elements) else ""
