"""Read successive HLO texts, as a compiler dumps them between passes; parse equal parts once.

A computation is reused whole, with its record, if its text equals that in the previous module and
it calls the same computations. In any other computation an instruction is reused if its line, its
operands' shapes and its called computations are the same. Stack frames keep the numbers that the
texts give them: no pass changes them, and neither does reading.
"""

from __future__ import annotations

import re
from dataclasses import field

from xlanb.boundary import boundary
from xlanb.errors import HloParseError, LiteralError, ShapeError
from xlanb.hlo.async_chain import ASYNC_OPCODES
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, ModuleRecord
from xlanb.hlo.stack_frames import GivenFrames
from xlanb.hlo.text.lexer import Cursor, check_characters
from xlanb.hlo.text.parse_instruction import InstructionParser
from xlanb.hlo.text.parse_scope import ParseScope
from xlanb.hlo.text.parser import ModuleParser
from xlanb.lazy_dataclass import dataclass

_BLOCK = re.compile(r"[^\n]*\{\n(?:[^}\n][^\n]*\n)*\}[^\n]*(?=\s*(?:\Z|%|ENTRY\b))")
"""A computation as XLA prints it, up to the line of its closing brace."""


@dataclass
class _ComputationText:
    """A computation that was read: its text, the result, and its instructions by their lines.

    `names` are its own and those of its instructions as in the text. `is_whole` says that the text
    alone, with the called computations, determines the result.
    """

    text: str
    computation: HloComputation
    is_entry: bool
    names: list[str]
    is_whole: bool
    lines: dict[str, HloInstruction]
    called: frozenset[HloComputation]
    record: ComputationRecord | None = None

    @property
    def is_asynchronous(self) -> bool:
        """Whether it may contain asynchronous instructions."""
        return not self.is_whole and any(i.opcode in ASYNC_OPCODES for i in self.computation._instructions)

    def keeps_names(self) -> bool:
        """Whether nothing in it was renamed."""
        return _names(self.computation) == self.names


def _names(computation: HloComputation) -> list[str]:
    return [computation.name, *(i.name for i in computation._instructions)]


@dataclass(frozen=True)
class _Head:
    """The part of a module before its computations that determines how they are read."""

    tables: str = ""
    frames: GivenFrames = field(default_factory=lambda: GivenFrames([], [], [], []))
    is_scheduled: bool = False


class ModuleSeries:
    """Reads one text after another, and keeps the computations of the last one."""

    def __init__(self) -> None:
        self._blocks: dict[str, _ComputationText] = {}
        self._head = _Head()

    @boundary("parse HLO text")
    def read(self, text: str) -> ModuleRecord:
        """The module of a text, as `parse` reads it, except that stack frames keep their numbers.

        Raises:
            HloParseError: the text is malformed; the message shows line, column and a caret.
        """
        check_characters(text)
        cursor = Cursor(text)
        known, self._blocks = self._blocks, {}
        try:
            return self._read(cursor, known)
        except (ShapeError, LiteralError) as error:
            raise HloParseError(str(error), text, cursor.pos) from error

    def _read(self, cursor: Cursor, known: dict[str, _ComputationText]) -> ModuleRecord:
        parser = _SeriesParser(cursor, known, self._head)
        module = parser.read()
        if not parser.keeps_names():  # a shared instruction was renamed: read all again
            parser = _SeriesParser(Cursor(cursor.source), {}, self._head)
            module = parser.read()
        parser.take_records()
        record = module.record()
        self._head = parser.head
        self._blocks = parser.blocks() if parser.keeps_names() else {}
        return record


class _SeriesParser(ModuleParser):
    """Reads one text of a series.

    `known` are the computations of the previous text, by their text before the parameters; `head`
    is what they depended on.
    """

    def __init__(self, cursor: Cursor, known: dict[str, _ComputationText], head: _Head) -> None:
        super().__init__(cursor)
        self.known = known
        self.head = head
        self.found: dict[str, _ComputationText] = {}
        self.reader = self.instructions = _RememberingParser(cursor, self.module)

    def tables(self) -> GivenFrames:
        """The tables of stack frames; the last module's if they are the same.

        If the text before the computations differs, nothing of the last module is reused.
        """
        cursor, last = self.cursor, self.head
        is_scheduled = self.module.header.get("is_scheduled") == "true"
        at = cursor.pos
        if last.tables and cursor.source.startswith(last.tables, at):
            cursor.pos = at + len(last.tables)
            cursor.skip()
            if not cursor.is_int():
                self.head = _Head(last.tables, last.frames, is_scheduled)
        if cursor.pos == at or cursor.is_int():
            cursor.pos = at
            frames = super().tables()
            self.head = _Head(cursor.source[at : cursor.pos].rstrip(), frames, is_scheduled)
        if (self.head.tables, is_scheduled) != (last.tables, last.is_scheduled):
            self.known = {}
        return self.head.frames

    def settle_frames(self, given: GivenFrames) -> None:
        """Resolve the frames of new instructions; the numbers stay."""
        every = (i for c in self.instructions.finished for i in c._instructions)
        given.resolve(i for i in every if i.metadata.frame is None)
        self.module.tables = f"{self.head.tables}\n" if self.head.tables else ""

    def computation(self) -> None:
        """Reuse the computation that is next, or read it."""
        cursor, finished = self.cursor, self.instructions.finished
        start = cursor.pos
        block = _BLOCK.match(cursor.source, start)
        if block is None:
            super().computation()
            return
        text = block[0].rstrip()
        key = text.partition("(")[0]
        old = self.known.get(key)
        if old is not None and old.text == text and self._take(old):
            self.found[key] = old
            cursor.pos = block.end()
            cursor.skip()
            return
        self.reader.remember(old.lines if old is not None else {})
        count = len(finished)
        super().computation()
        new = finished[-1]
        if cursor.source[start : cursor.pos].rstrip() == text:
            name = next(reversed(self.instructions.pool))
            is_whole = len(finished) == count + 1 and not self.reader.is_special and name == new.name
            called = frozenset(c for i in new._instructions if i.opcode.may_call for c in i.called_computations)
            self.found[key] = _ComputationText(
                text, new, self.entry is new, _names(new), is_whole, self.reader.lines, called
            )

    def _take(self, old: _ComputationText) -> bool:
        pool, computation = self.instructions.pool, old.computation
        if not old.is_whole or computation.name in pool or (old.is_entry and self.entry is not None):
            return False
        if any(pool.get(c.name) is not c for c in old.called):
            return False
        if old.is_entry:
            self.entry = computation
        pool[computation.name] = computation
        computation.module = self.module
        self.instructions.finished.append(computation)
        return True

    def keeps_names(self) -> bool:
        """Whether everything that the next text may reuse has the names in the text."""
        return all(b.keeps_names() for b in self.found.values())

    def take_records(self) -> None:
        """Give reused computations their previous records."""
        for block in self.found.values():
            if block.record is not None:
                block.computation._record = block.record

    def blocks(self) -> dict[str, _ComputationText]:
        """The blocks that the next text may reuse.

        Computations that asynchronous instructions run are excluded, since reading those changes
        them.
        """
        changed = _reachable({c for b in self.found.values() if b.is_asynchronous for c in b.called})
        for block in self.found.values():
            block.record = block.computation._record
            if block.computation in changed:
                block.is_whole, block.lines = False, {}
        return self.found


def _reachable(computations: set[HloComputation]) -> set[HloComputation]:
    """These computations and all that they call, directly or not."""
    found: set[HloComputation] = set()
    left = list(computations)
    while left:
        computation = left.pop()
        if computation not in found:
            found.add(computation)
            left += [c for i in computation._instructions if i.opcode.may_call for c in i.called_computations]
    return found


class _RememberingParser(InstructionParser):
    """Reads instructions, and reuses those whose lines are known.

    `lines` are those of the computation that is being read. `is_special` says that it contains
    instructions that later reading changes, or whose names depend on other instructions.
    """

    def __init__(self, cursor: Cursor, module: HloModule) -> None:
        super().__init__(cursor, module)
        self.remember({})

    def remember(self, known: dict[str, HloInstruction]) -> None:
        """Set the known lines of the computation that is read next."""
        self._known = known
        self.lines: dict[str, HloInstruction] = {}
        self.is_special = False

    def instruction(self, scope: ParseScope) -> None:
        """Read an instruction, or reuse the one with the same line."""
        cursor = self.cursor
        start = cursor.pos
        end = cursor.source.find("\n", start)
        line = cursor.source[start:end]
        old = self._known.get(line)
        if old is not None and end > start and self._repeat(scope, old, line):
            cursor.pos = end
            cursor.skip()
            self.lines[line] = scope.last  # type: ignore[assignment]
            return
        count = len(scope.computation._instructions)
        super().instruction(scope)
        new = scope.last
        if new is None or new.opcode in ASYNC_OPCODES or self.anonymous:
            self.is_special = True
        elif (
            len(scope.computation._instructions) == count + 1
            and not new.control_predecessors
            and end > start
            and not cursor.source[end : cursor.pos].strip()
        ):
            self.lines[line] = new

    def _repeat(self, scope: ParseScope, old: HloInstruction, line: str) -> bool:
        """Insert an instruction whose line was read before.

        False if its operands differ from those it had then.
        """
        operands = []
        for before in old.operands:
            now = scope.by_name.get(before.name)
            if now is None or now.shape != before.shape or now.opcode is not before.opcode:
                return False
            operands.append(now)
        if old.name in scope.by_name or any(self.pool.get(c.name) is not c for c in old.called_computations):
            return False
        is_root = line.startswith("ROOT")
        if (is_root and scope.root is not None) or _depends_on_more(old):
            return False
        new = self.insert(scope, old.name, self.cursor.pos, old.opcode, old.shape, operands, old.attributes, {})
        new.metadata, new.sharding, new.frontend_attributes = old.metadata, old.sharding, old.frontend_attributes
        new.backend_config, new.statistics, new.origin = old.backend_config, old.statistics, old.origin
        new._record = old._record
        if is_root:
            scope.root = new
        return True


def _depends_on_more(instruction: HloInstruction) -> bool:
    """Whether an instruction depends on more than its line.

    A tuple element takes its origin from the tuple's operand.
    """
    return instruction.opcode is HloOpcode.GET_TUPLE_ELEMENT and instruction.operands[0].opcode is HloOpcode.TUPLE
