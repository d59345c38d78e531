"""Parse HLO text: `parse` accepts and rejects the same texts as XLA's parser.

This file reads modules and computations; parse_instruction.py reads instructions, the other
parse_*.py their parts. Source: hlo_parser.cc, 2026.
"""

from __future__ import annotations

from xlanb.boundary import boundary
from xlanb.errors import HloParseError, LiteralError, ShapeError
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.module import HloModule, parse_text
from xlanb.hlo.stack_frames import GivenFrames
from xlanb.hlo.text.lexer import Cursor, check_characters
from xlanb.hlo.text.parse_header import parse_header, parse_tables
from xlanb.hlo.text.parse_instruction import InstructionParser
from xlanb.hlo.text.parse_scope import ParseScope
from xlanb.hlo.text.parse_shape import at_shape, compatible, parse_shape


@boundary("parse HLO text")
def parse(text: str) -> HloModule:
    """The module of an HLO text.

    Accepts whole modules, computations without the `HloModule` line (the one marked ENTRY, else the
    last, is the entry), and a single instruction, whose operands become parameters.

    Raises:
        HloParseError: the text is malformed; the message shows line, column and a caret.
    """
    if not isinstance(text, str):
        raise HloParseError(f"expected HLO text as a str, got {type(text).__name__}")
    check_characters(text)
    cursor = Cursor(text)
    try:
        with raised_gc_thresholds():  # all allocated objects stay alive
            return ModuleParser(cursor).read()
    except (ShapeError, LiteralError) as error:
        raise HloParseError(str(error), text, cursor.pos) from error


parse_text.implement(parse)


class ModuleParser:
    """Reads one text; the computations read so far are in `instructions.finished`."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.module = HloModule("_")
        self.instructions = InstructionParser(cursor, self.module)
        self.entry: HloComputation | None = None

    def read(self) -> HloModule:
        cursor = self.cursor
        if cursor.accept_word("HloModule"):
            self._module(header=True)
        elif cursor.peek_word() == "ENTRY" or self._at_computation():
            self._module(header=False)
        else:
            self._single_instruction()
        return self.module

    def _at_computation(self) -> bool:
        """Whether `name {` is next."""
        cursor = self.cursor
        start = cursor.pos
        found = bool(cursor.try_name()) and cursor.at("{")
        cursor.pos = start
        return found

    # -- modules -----------------------------------------------------------------------------------

    def _module(self, *, header: bool) -> None:
        cursor, module = self.cursor, self.module
        layout = None
        if header:
            module.name = cursor.name()
            layout = parse_header(cursor, module, self.instructions.shapes)
        given = self.tables()
        while True:
            self.computation()
            if cursor.at_end:
                break
        entry = self.entry or self.instructions.finished[-1]
        self._finish(self.instructions.finished, entry)
        self.settle_frames(given)
        if not header:
            module.name = f"module_{entry.name}"
        module.entry_layout = layout
        if module.header.get("is_scheduled") == "true":
            self._schedule()
        else:
            module.header.pop("is_scheduled", None)

    def tables(self) -> GivenFrames:
        """Read the tables of stack frames; empty if there are none."""
        return parse_tables(self.cursor) or GivenFrames([], [], [], [])

    def settle_frames(self, given: GivenFrames) -> None:
        """Resolve the stack frames of instructions, and set the tables that the module needs."""
        instructions = (i for c in self.instructions.finished for i in c._instructions)
        self.module.tables = given.intern(instructions).text()

    def computation(self) -> None:
        """Read a computation, with ENTRY before its name if it is the entry."""
        cursor = self.cursor
        start = cursor.pos
        is_entry = cursor.accept_word("ENTRY")
        at = cursor.pos
        name = cursor.name()
        result = result_at = None
        if cursor.at("("):
            self._parameter_list()
            cursor.expect("->")
            result_at = cursor.pos
            result = parse_shape(cursor, self.instructions.shapes)
        computation = self.instructions.computation(name)
        if result is not None and not compatible(result, computation.root.shape):
            cursor.fail(
                f"Shape of computation {name}, {result}, is not compatible with that of its root instruction "
                f"{computation.root.name}, {computation.root.shape}",
                result_at,
            )
        computation.execution_thread = self._execution_thread()
        if is_entry:
            if self.entry is not None:
                cursor.fail("expects only one ENTRY", start)
            self.entry = computation
        if name in self.instructions.pool:
            cursor.fail(f"computation already exists: {name}", at)
        self.instructions.pool[name] = computation

    def _parameter_list(self) -> None:
        """Read `(p0: f32[2], p1: s32[])`, which XLA ignores."""
        cursor = self.cursor
        cursor.expect("(")
        if not cursor.at(")"):
            while True:
                cursor.name()
                parse_shape(cursor, self.instructions.shapes)
                if not cursor.accept(","):
                    break
        cursor.expect(")", "at the end of param list")

    def _execution_thread(self) -> str:
        cursor, thread = self.cursor, None
        while cursor.accept(","):
            at = cursor.pos
            name = cursor.attribute_name()
            if name != "execution_thread" or thread is not None:
                cursor.fail(f'unexpected attribute "{name}". Allowed attributes: execution_thread', at)
            thread = cursor.string()
        return "" if thread in (None, "main") else thread or ""

    # -- a single instruction ----------------------------------------------------------------------

    def _single_instruction(self) -> None:
        """Read one instruction, with or without its name.

        Undefined operands become parameters of their declared shapes.
        """
        cursor, parser = self.cursor, self.instructions
        scope = ParseScope(HloComputation("_", self.module), creates_parameters=True)
        if at_shape(cursor):
            parser.unnamed_instruction(scope, "_")
        else:
            parser.instruction(scope)
        if not cursor.at_end:
            cursor.fail(
                "Expected eof after parsing single instruction. Did you mean to write an HLO "
                'module and forget the "HloModule" header?'
            )
        entry = scope.close(cursor)
        self._finish([entry, *parser.finished], entry)
        self.module.header["is_scheduled"] = "true"
        self._schedule()

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self, computations: list[HloComputation], entry: HloComputation) -> None:
        """Make all names unique, in XLA's order, and add the computations to the module."""
        module = self.module
        for c in computations:
            module.adopt_computation(c)
        module.set_entry(entry)

    def _schedule(self) -> None:
        module = self.module
        fused = {c for i in module.instructions() if i.opcode.text == "fusion" for c in i.called_computations}
        for c in module.computations:
            if c not in fused:
                module.set_schedule(c, c.instructions)
