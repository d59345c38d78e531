"""Asynchronous instructions in HLO text, in both spellings: `async-start(..), calls=..` and `add-start(..)` (hlo_parser.cc, hlo_instructions.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import Shape, TupleShape

if TYPE_CHECKING:
    from xlanb.hlo.parse_instruction import InstructionParser, Scope

ASYNC_BY_SUFFIX = {"-start": HloOpcode.ASYNC_START, "-update": HloOpcode.ASYNC_UPDATE, "-done": HloOpcode.ASYNC_DONE}
ASYNC_OPCODES = frozenset(ASYNC_BY_SUFFIX.values())
_NOT_WRAPPED = ("sharding", "control-predecessors")


class Async:
    """Reads what stands behind the operands of one asynchronous instruction; `attributes` and `common` are filled in.

    `wrapped` is the opcode in `add-start`, None in `async-start`.
    """

    def __init__(
        self,
        parser: InstructionParser,
        scope: Scope,
        shape: Shape,
        opcode: HloOpcode,
        wrapped: HloOpcode | None,
        operands: list[HloInstruction],
        attributes: dict[str, Any],
        common: dict[str, Any],
        *,
        nested: bool,
    ) -> None:
        self.parser = parser
        self.cursor = parser.cursor
        self.scope = scope
        self.shape = shape
        self.opcode = opcode
        self.wrapped = wrapped
        self.operands = operands
        self.attributes = attributes
        self.common = common
        self.nested = nested

    def read(self) -> None:
        """Read the attributes and check the chain.

        Raises:
            HloParseError: the instruction does not continue a chain, or does not agree with its beginning.
        """
        if self.opcode is HloOpcode.ASYNC_START:
            self._read_start()
            calls: HloComputation = self.attributes["calls"]
        else:
            calls = self._read_rest().attributes["calls"]
        # XLA gives them to the instruction that runs aside, too.
        self.parser.set_common(calls.root, {k: v for k, v in self.common.items() if k not in _NOT_WRAPPED})

    def _read_start(self) -> None:
        shape, attributes, cursor = self.shape, self.attributes, self.cursor
        if not isinstance(shape, TupleShape) or len(shape.shapes) < 2 or not shape.shapes[0].is_tuple:
            cursor.fail(
                "AsyncStart expects the op shape to be in the form of ((async-operands), async-outputs, state)."
            )
        if self.wrapped is not None:
            attributes["calls"] = self._wrap(self.wrapped, shape.shapes[1])
        elif not self.nested:
            self.parser.read_attributes(self.scope, self.opcode, self.opcode.attribute, attributes, self.common)
        if "calls" not in attributes:
            cursor.fail("attribute calls is expected but not seen")
        _set_thread(attributes["calls"], attributes.get("async_execution_thread", ""))

    def _read_rest(self) -> HloInstruction:
        """async-update and async-done: what they name must be what their async-start names; they do not keep it."""
        cursor, operands, attributes = self.cursor, self.operands, self.attributes
        if len(operands) != 1 or operands[0].opcode not in (HloOpcode.ASYNC_START, HloOpcode.ASYNC_UPDATE):
            cursor.fail("AsyncUpdate and AsyncDone expect a single async op as their operand.")
        if self.opcode is HloOpcode.ASYNC_UPDATE and operands[0].shape != self.shape:
            cursor.fail("AsyncUpdate expects the op shape to be the same as the operand shape.")
        start = async_start(operands[0])
        expected: HloComputation = start.attributes["calls"]
        if self.wrapped is not None and expected.root.opcode is not self.wrapped:
            cursor.fail(f"Expect async wrapped opcode to be {expected.root.opcode}, but got {self.wrapped}")
        names = ("async_execution_thread",) if self.wrapped is not None else ("async_execution_thread", "calls")
        if not self.nested:
            rows = {n: self.opcode.attribute[n] for n in names}
            self.parser.read_attributes(self.scope, self.opcode, rows, attributes, self.common)
        thread, calls = attributes.pop("async_execution_thread", None), attributes.pop("calls", expected)
        if thread is not None and thread != start.attributes.get("async_execution_thread", "main"):
            cursor.fail(f"Expect async_execution_thread to be that of {start.name}, but got {thread}")
        if calls is not expected:
            cursor.fail(f"Expect async_wrapped_computation to be {expected.name}, but got {calls.name}")
        return start

    def _wrap(self, wrapped: HloOpcode, shape: Shape) -> HloComputation:
        """The computation that `add-start(..)` stands for: parameters and one instruction, which takes the attributes."""
        from xlanb.hlo.parse_instruction import Scope

        parser, attributes = self.parser, self.attributes
        outer = self.opcode.attribute["async_execution_thread"], self.opcode.attribute["output_to_operand_aliasing"]
        if not self.nested:
            parser.read_attributes(
                self.scope, wrapped, {a.name: a for a in outer} | wrapped.attribute, attributes, self.common
            )
        inner = {k: attributes.pop(k) for k in list(attributes) if k in wrapped.attribute}
        parser.require(wrapped, inner)
        inside = Scope(HloComputation("async_wrapped", parser.module))
        parameters: list[HloInstruction] = []
        for i, o in enumerate(self.operands):
            name = f"async_param.{i}" if i else "async_param"
            parameters.append(
                parser.insert(inside, name, 0, HloOpcode.PARAMETER, o.shape, (), {"parameter_number": i}, {})
            )
        shape = parser.refined(wrapped, shape, parameters, inner, self.cursor.pos)
        parser.insert(inside, wrapped.text, 0, wrapped, shape, parameters, inner, {})
        computation = inside.close(self.cursor)
        parser.finished.append(computation)
        return computation


def async_start(instruction: HloInstruction) -> HloInstruction:
    """The async-start at the beginning of a chain of async-updates."""
    while instruction.opcode is not HloOpcode.ASYNC_START and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def _set_thread(computation: HloComputation, thread: str) -> None:
    """What an async-start calls, and all that this calls, runs on its thread."""
    stack, seen = [computation], {computation}
    while stack:
        c = stack.pop()
        c.execution_thread = thread
        for i in c._instructions:
            if i.opcode is HloOpcode.ASYNC_START:
                if thread:
                    i.attributes["async_execution_thread"] = thread
                else:
                    i.attributes.pop("async_execution_thread", None)
            stack.extend(d for d in i.called_computations if d not in seen)
            seen.update(i.called_computations)
