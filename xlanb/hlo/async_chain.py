"""Chains of async-start, async-update and async-done: which start an instruction continues.

Tuples, copies, barriers and loops between two links pass the state on.
Source: xla/hlo/ir/hlo_instruction_utils.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation
    from xlanb.hlo.instruction import HloInstruction

_O = HloOpcode
ASYNC_BY_SUFFIX = {"-start": _O.ASYNC_START, "-update": _O.ASYNC_UPDATE, "-done": _O.ASYNC_DONE}
ASYNC_OPCODES = frozenset(ASYNC_BY_SUFFIX.values())
NOT_WRAPPED = frozenset((_O.ALL_GATHER, _O.ALL_REDUCE, _O.COLLECTIVE_PERMUTE, _O.COPY, _O.PARAMETER))
"""Opcodes that have asynchronous versions of their own, so that `copy-update` is not an opcode."""
DONE_OF = {_O.SEND_DONE: _O.SEND, _O.RECV_DONE: _O.RECV}
"""The opcodes wrapped by the async-start that these opcodes complete.

XLA prints `send-start` and `send-done` for their links, which XLA 0.12 does not read.
"""

PRODUCERS = frozenset((_O.ASYNC_START, _O.ASYNC_UPDATE))
INTERMEDIARIES = frozenset((_O.TUPLE, _O.GET_TUPLE_ELEMENT, _O.OPT_BARRIER, _O.COPY, _O.PARAMETER, _O.WHILE))
_HANDED_ON = frozenset(
    (
        "Sharding",
        "LocalToGlobalShape",
        "GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.FuncResultSharding",
    )
)
"""Custom-call targets that annotate their operand and return it."""

_Place = tuple["HloInstruction", tuple[int, ...]]
"""An instruction and the index of an element of its result, outermost last."""


def producer(value: HloInstruction) -> HloInstruction | None:
    """The async-start or async-update whose state `value` is, possibly `value` itself, or None."""
    stack: list[_Place] = [(value, ())]
    seen: set[_Place] = set()
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        if place[0].opcode in PRODUCERS:
            return place[0]
        stack.extend(reversed([p for p in _sources(*place) if _is_there(*p)]))
    return None


def async_start(link: HloInstruction) -> HloInstruction | None:
    """The async-start of the chain of an async instruction; None if the chain has no start."""
    seen: set[HloInstruction] = set()
    current: HloInstruction | None = link
    while current is not None and current.opcode is not _O.ASYNC_START and current not in seen:
        seen.add(current)
        current = producer(current.operands[0]) if current.operands else None
    return current if current is not None and current.opcode is _O.ASYNC_START else None


def wrapped_computation(link: HloInstruction) -> HloComputation | None:
    """The computation that an async instruction runs: that of its async-start."""
    start = async_start(link)
    return None if start is None else start.attributes.get("calls")


def passes_through(instruction: HloInstruction) -> bool:
    """Whether it may occur between two links of a chain."""
    if instruction.opcode is _O.CUSTOM_CALL:
        return instruction.attributes.get("custom_call_target") in _HANDED_ON
    return instruction.opcode in INTERMEDIARIES


def _is_there(instruction: HloInstruction, index: tuple[int, ...]) -> bool:
    shape = instruction.shape
    for k in reversed(index):
        if not shape.is_tuple or k >= len(shape.shapes):  # type: ignore[attr-defined]
            return False
        shape = shape.shapes[k]  # type: ignore[attr-defined]
    return True


def _sources(i: HloInstruction, index: tuple[int, ...]) -> Iterator[_Place]:
    """The possible sources of the element of `i` at `index`, most likely first."""
    opcode, operands = i.opcode, i.operands
    if opcode is _O.GET_TUPLE_ELEMENT:
        yield operands[0], (*index, i.tuple_index)
    elif opcode is _O.TUPLE:
        if not index:
            yield from ((o, ()) for o in operands)
        elif index[-1] < len(operands):
            yield operands[index[-1]], index[:-1]
    elif opcode is _O.PARAMETER:
        loop = _only_loop(i.parent)
        if loop is not None:
            yield loop.operands[0], index
            yield i.parent.root, index
    elif opcode is _O.WHILE:
        yield i.attributes["body"].root, index
        yield operands[0], index
    elif operands and passes_through(i):
        yield operands[0], index


def _only_loop(computation: HloComputation) -> HloInstruction | None:
    """The loop with this body, if there is exactly one."""
    loops = [c for c in computation.module.callers(computation) if c.opcode is _O.WHILE]
    return loops[0] if len(loops) == 1 and loops[0].attributes["body"] is computation else None
