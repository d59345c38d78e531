"""Extract some instructions of an entry computation.

Values from elsewhere become parameters, values used elsewhere become results.

a = exponential(x);  b = add(a, y);  ROOT c = negate(b)      kept: b
  =>  a = parameter(0);  y = parameter(1);  ROOT b = add(a, y)
"""

from __future__ import annotations

from collections.abc import Collection

from xlanb.errors import ShapeError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode

_FOR_THE_WHOLE = (
    "input_output_alias",
    "buffer_donor",
    "is_scheduled",
    "frontend_attributes",
    "entry_computation_layout",
)
"""Attributes of a module that refer to its parameters, its results and its order."""


def names_of(module: HloModule) -> list[str]:
    """The instructions that can be removed: all of the entry but parameters, operands first."""
    return [i.name for i in module.entry_computation.post_order() if i.opcode is not HloOpcode.PARAMETER]


def cut(module: HloModule, kept: Collection[str]) -> tuple[HloModule, dict[str, str]]:
    """A copy with only these instructions of the entry, under their names.

    Also returns the name of the original value of each parameter.

    Raises:
        ShapeError: none of them is in the entry.
    """
    copy = released(module)
    entry = copy.entry_computation
    mine = [i for i in entry.post_order() if i.name in kept and i.opcode is not HloOpcode.PARAMETER]
    if not mine:
        raise ShapeError(f"nothing in computation {entry.name} is kept")
    stand_ins: dict[HloInstruction, HloInstruction] = {}
    inside = set(mine)
    for i in mine:
        entry.drop_control_dependencies(i)
        operands = [_stand_in(entry, o, inside, stand_ins) for o in i.operands]
        if any(n is not o for n, o in zip(operands, i.operands, strict=True)):
            entry.set_operands(i, operands)
    _give(entry, [i for i in mine if not any(u in inside for u in i.users)])
    sweep(copy)
    stands_for = {new.name: old.name for old, new in stand_ins.items()}
    return copy, {p.name: stands_for.get(p.name, p.name) for p in entry.parameters}


def released(module: HloModule) -> HloModule:
    """A copy without schedule, aliases, entry layouts and calling convention."""
    copy = module.clone()
    copy.clear_schedule()
    copy.header = {k: v for k, v in copy.header.items() if k not in _FOR_THE_WHOLE}
    copy.entry_layout = None
    copy.calling = None
    return copy


def _stand_in(
    entry: HloComputation,
    operand: HloInstruction,
    inside: Collection[HloInstruction],
    made: dict[HloInstruction, HloInstruction],
) -> HloInstruction:
    if operand in inside or operand.opcode is HloOpcode.PARAMETER:
        return operand
    if operand not in made:
        number = len(entry.parameters)
        made[operand] = entry.add(HloOpcode.PARAMETER, (), operand.shape, parameter_number=number)
    return made[operand]


def _give(entry: HloComputation, results: list[HloInstruction]) -> None:
    """Make these the result: a single one, or a tuple with the elements of tuples flattened."""
    if len(results) == 1:
        entry.set_root(results[0])
        return
    given: dict[HloInstruction, None] = {}
    for r in results:
        given.update(dict.fromkeys(r.operands if r.opcode is HloOpcode.TUPLE else (r,)))
    entry.set_root(entry.add(HloOpcode.TUPLE, given))


def sweep(module: HloModule) -> None:
    """Remove instructions that the result does not depend on, even with effects, and parameters."""
    entry = module.entry_computation
    needed: set[HloInstruction] = set()
    stack = [entry.root]
    while stack:
        i = stack.pop()
        if i not in needed:
            needed.add(i)
            stack += i.operands
    for i in reversed(entry.post_order()):
        if i not in needed:
            entry.remove(i)
    entry.renumber_parameters(0)
    module.remove_unused_computations()
