"""Asynchronous instructions in HLO text: `async-start(..), calls=..` and `add-start(..)`.

Source: hlo_parser.cc, hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlanb.hlo.async_chain import async_start, producer, wrapped_computation
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parse_scope import ParseScope
from xlanb.hlo.text.parse_shape import compatible
from xlanb.shape import PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import array

if TYPE_CHECKING:
    from xlanb.hlo.text.parse_instruction import InstructionParser

_NOT_WRAPPED = ("sharding", "control-predecessors")


class Async:
    """Reads the rest of one asynchronous instruction after its operands.

    Fills in `attributes` and `common`. `wrapped` is the opcode in `add-start`, None for
    `async-start`.
    """

    def __init__(
        self,
        parser: InstructionParser,
        scope: ParseScope,
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
            HloParseError: the instruction does not continue a chain, or contradicts its start.
        """
        if self.opcode is not HloOpcode.ASYNC_DONE:
            self._check_shape()
        if self.opcode is HloOpcode.ASYNC_START:
            self._read_start()
            calls: HloComputation | None = self.attributes["calls"]
        else:
            calls = self._read_rest()
        if calls is not None:
            # XLA also gives them to the wrapped instruction.
            self.parser.set_common(calls.root, {k: v for k, v in self.common.items() if k not in _NOT_WRAPPED})

    def _check_shape(self) -> None:
        shape = self.shape
        if not isinstance(shape, TupleShape) or len(shape.shapes) < 2 or not shape.shapes[0].is_tuple:
            self.cursor.fail(
                "AsyncStart and AsyncUpdate expect the shape to be in the form of "
                f"((operand0_shape, ...), output_shape, ...), not {shape}"
            )

    def _read_start(self) -> None:
        attributes, cursor = self.attributes, self.cursor
        if self.wrapped is not None:
            attributes["calls"] = self._wrap(self.wrapped)
        elif not self.nested:
            rows = self.opcode.attribute
            self.parser.read_attributes(self.scope, self.opcode, rows, attributes, self.common)
        if "calls" not in attributes:
            cursor.fail("attribute calls is expected but not seen")
        _set_thread(attributes["calls"], attributes.get("async_execution_thread", ""))

    def _read_rest(self) -> HloComputation | None:
        """Read an async-update or async-done; return the computation of its async-start.

        Attributes must equal those of the async-start, and are not kept. None if no async-start is
        known: the state enters a loop's body from outside.
        """
        cursor, operands, attributes = self.cursor, self.operands, self.attributes
        if not operands:
            cursor.fail("AsyncUpdate and AsyncDone expect an async op as their first operand.")
        if operands[0].opcode is HloOpcode.ASYNC_DONE:
            cursor.fail("AsyncUpdate and AsyncDone cannot have AsyncDone as operand.")
        if self.opcode is HloOpcode.ASYNC_DONE and len(operands) != 1:
            cursor.fail(f"expects 1 operands, but has {len(operands)} operands")
        before = producer(operands[0])
        start = None if before is None else async_start(before)
        expected = None if start is None else wrapped_computation(start)
        if self.wrapped is not None and expected is not None and expected.root.opcode is not self.wrapped:
            cursor.fail(f"Expect async wrapped opcode to be {expected.root.opcode}, but got {self.wrapped}")
        if not self.nested:
            rows = {n: self.opcode.attribute[n] for n in self._names()}
            self.parser.read_attributes(self.scope, self.opcode, rows, attributes, self.common)
        thread, calls = attributes.pop("async_execution_thread", None), attributes.pop("calls", None)
        if start is None or expected is None:
            return None
        if thread is not None and thread != start.attributes.get("async_execution_thread", "main"):
            cursor.fail(f"Expect async_execution_thread to be that of {start.name}, but got {thread}")
        if calls is not None and calls is not expected:
            cursor.fail(f"Expect async_wrapped_computation to be {expected.name}, but got {calls.name}")
        if self.wrapped is not None:
            self._complete(expected, start.shape)
        return expected

    def _names(self) -> list[str]:
        """The names of the attributes of an async-update or async-done."""
        names = ["async_execution_thread"]
        if self.wrapped is None:
            names.append("calls")
        if self.opcode is HloOpcode.ASYNC_UPDATE:
            names.append("output_to_operand_aliasing")
        return names

    def _complete(self, computation: HloComputation, begun: Shape) -> None:
        """Add this link's operands and result to the asynchronous instruction."""
        if self.opcode is HloOpcode.ASYNC_UPDATE:
            operands, result = _parts(self.shape)
        else:
            operands, result = _parts(begun)[0], self.shape
        self._bind(computation, operands, result)

    def _bind(self, computation: HloComputation, operands: Sequence[Shape], result: Shape) -> None:
        """Update the shapes of a wrapped computation to what is now known."""
        root = computation.root
        for i, shape in enumerate(operands):
            if i < len(computation.parameters):
                _reshape(computation.parameters[i], shape)
            else:
                _add_operand(root, self._parameter(computation, i, shape))
        _reshape(root, result)

    def _parameter(self, computation: HloComputation, number: int, shape: Shape) -> HloInstruction:
        name = f"async_param.{number}" if number else "async_param"
        attributes = {"parameter_number": number}
        return self.parser.insert(ParseScope(computation), name, 0, HloOpcode.PARAMETER, shape, (), attributes, {})

    def _wrap(self, wrapped: HloOpcode) -> HloComputation:
        """The computation for `add-start(..)`: parameters and one instruction with the attributes.

        Operands that come with updates have a placeholder shape until then, except for a call or
        fusion.
        """
        parser, attributes = self.parser, self.attributes
        outer = self.opcode.attribute["async_execution_thread"], self.opcode.attribute["output_to_operand_aliasing"]
        if not self.nested:
            parser.read_attributes(
                self.scope, wrapped, {a.name: a for a in outer} | wrapped.attribute, attributes, self.common
            )
        inner = {k: attributes.pop(k) for k in list(attributes) if k in wrapped.attribute}
        parser.require(wrapped, inner)
        inside = ParseScope(HloComputation("async_wrapped", parser.module))
        shapes, result = _parts(self.shape)
        missing = max((wrapped.arity or 0) - len(shapes), 0)
        parameters = [
            self._parameter(inside.computation, i, s) for i, s in enumerate([*shapes, *[_STAND_IN] * missing])
        ]
        if wrapped is not HloOpcode.TUPLE:  # updates may add its elements
            result = parser.refined(wrapped, result, parameters, inner, self.cursor.pos)
        parser.insert(inside, wrapped.text, 0, wrapped, result, parameters, inner, {})
        computation = inside.close(self.cursor)
        called = inner.get({HloOpcode.CALL: "to_apply", HloOpcode.FUSION: "calls"}.get(wrapped, ""))
        if called is not None:
            self._bind(computation, [p.shape for p in called.parameters], called.root.shape)
        parser.finished.append(computation)
        return computation


_STAND_IN = array(PrimitiveType.F32, (1,))


def _parts(state: Shape) -> tuple[Sequence[Shape], Shape]:
    """The operands and the result in `((operands), result, ...)`."""
    operands, result = state.shapes[:2]  # type: ignore[attr-defined]
    return operands.shapes, result


def _reshape(instruction: HloInstruction, shape: Shape) -> None:
    if not compatible(instruction.shape, shape):
        instruction.shape = shape
        instruction._record = None


def _add_operand(root: HloInstruction, new: HloInstruction) -> None:
    root.operands = (*root.operands, new)
    new._users[root] = 1
    root._record = None


def _set_thread(computation: HloComputation, thread: str) -> None:
    """Set the thread of everything that an async-start calls, directly or not."""
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
