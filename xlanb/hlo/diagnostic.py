"""Shows an instruction among its neighbours, for errors about the IR."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.errors import XlanbError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.python_lines import place_text, users_frames

NEIGHBOURS = 10
"""The number of instructions shown on either side."""

_WIDTH = 200


def context(instruction: HloInstruction, neighbours: int = NEIGHBOURS) -> str:
    """The instructions before and after one, as printed, with an arrow at it.

    It never fails, however broken the IR is: an instruction that cannot be printed is shown by name
    and opcode.
    """
    computation = instruction.parent
    order = list(printed_order(computation))
    if instruction not in order:
        return f"  in computation {computation.name}\n  --> {line(instruction)}"
    at = order.index(instruction)
    first, last = max(0, at - neighbours), min(len(order), at + neighbours + 1)
    lines = [f"  in computation {computation.name}"]
    lines += [f"      ({first} more)"] if first else []
    lines += [f"  {'-->' if i == at else '   '} {line(order[i])}" for i in range(first, last)]
    lines += [f"      ({len(order) - last} more)"] if last < len(order) else []
    place = origin(instruction)
    lines += [f"  {place}"] if place else []
    return "\n".join(lines)


_FRAMES = 4
"""The number of Python frames shown in an instruction's origin."""


def origin(instruction: HloInstruction) -> str:
    """The user's Python lines that created an instruction; "" if unknown.

    As in `from model.py:3 (layer), called from model.py:9 (loss)`.
    """
    stack = users_frames(instruction.metadata.stack)[:_FRAMES]
    frames = [f"{place_text(f.file, f.line)} ({f.function})" for f in stack]
    if not frames:
        file, number = instruction.metadata.python_line
        frames = [place_text(file, number)] if number else []
    return f"from {', called from '.join(frames)}" if frames else ""


def with_origin(instruction: HloInstruction, width: int | None = None) -> str:
    """The text of an instruction, cut to `width` characters, and its origin on a second line."""
    text, place = str(instruction), origin(instruction)
    text = text if width is None or len(text) <= width else f"{text[:width]} ..."
    return f"{text}\n  {place}" if place else text


def printed_order(computation: HloComputation) -> Sequence[HloInstruction]:
    """The order in which a computation is printed.

    If operands form a cycle or are outside the computation: the order of insertion.
    """
    scheduled = computation.module.schedule.get(computation)
    if scheduled:
        return scheduled
    instructions = computation.instructions
    if any(o not in computation for i in instructions for o in (*i.operands, *i.control_predecessors)):
        return instructions
    order = computation.post_order()
    return order if len(order) == len(instructions) else instructions


def line(instruction: HloInstruction, width: int = _WIDTH) -> str:
    """One instruction as a line of HLO, cut to `width` characters."""
    try:
        text = str(instruction)
        text = f"ROOT {text}" if instruction.is_root else text
    except (XlanbError, AttributeError, KeyError, TypeError, ValueError, IndexError):
        # The IR may be broken, which is why it is shown.
        operands = ", ".join(f"%{o.name}" for o in instruction.operands)
        text = f"%{instruction.name} = {instruction.shape} {instruction.opcode}({operands})"
    return text if len(text) <= width else text[: width - 3] + "..."
