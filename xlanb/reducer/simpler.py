"""Simplifications of a module: functions that yield steps, largest first.

Each step removes one thing from a copy. It refers to instructions and computations by name, so that
it finds them in the copy. If it does not apply it raises, and the copy is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xlanb.errors import ShapeError
from xlanb.hlo.attributes import NO_METADATA
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.reducer.cutting import sweep
from xlanb.shape import ArrayShape, Literal
from xlanb.transforms.inlining import inline_call

Step = Callable[[HloModule], None]


def strip() -> Iterator[Step]:
    """Drop metadata, shardings, frontend attributes, configurations: all, then each kind."""
    kinds = {
        "metadata": NO_METADATA,
        "sharding": "",
        "frontend_attributes": (),
        "backend_config": "",
        "statistics": "",
        "origin": "",
    }

    def without(names: tuple[str, ...]) -> Step:
        def step(copy: HloModule) -> None:
            for i in list(copy.instructions()):
                given: dict[str, Any] = {n: kinds[n] for n in names if getattr(i, n) != kinds[n]}
                if given:
                    i.parent.update(i, **given)
            if names == tuple(kinds):
                copy.header.clear()
                copy.tables = ""

        return step

    yield without(tuple(kinds))
    for name in kinds:
        yield without((name,))


def inlined(module: HloModule) -> Iterator[Step]:
    """Replace a call, fusion, loop or conditional by its body, one iteration or one branch."""
    for i in module.entry_computation.post_order():
        for n, _ in enumerate(_bodies(i)):
            yield _inline(i.name, n)


def _bodies(i: HloInstruction) -> list[tuple[HloComputation, tuple[HloInstruction, ...]]]:
    """The computations that may replace an instruction, each with its arguments."""
    if i.opcode in (HloOpcode.CALL, HloOpcode.FUSION):
        return [(i.called_computations[0], i.operands)]
    if i.opcode is HloOpcode.WHILE:
        return [(i.attributes["body"], i.operands)]
    if i.opcode is HloOpcode.CONDITIONAL:
        return [(c, (o,)) for c, o in zip(i.called_computations, i.operands[1:], strict=False)]
    return []


def _inline(name: str, which: int) -> Step:
    def step(copy: HloModule) -> None:
        i = _find(copy.entry_computation, name)
        body, arguments = _bodies(i)[which]
        inline_call(i, body, arguments)
        sweep(copy)

    return step


def bypassed(module: HloModule) -> Iterator[Step]:
    """Remove one instruction.

    Its users use an operand of its shape, another available value of its shape, or zeros.
    """
    for c in module.computations:
        order = c.post_order()
        for n in range(len(order) - 1, -1, -1):
            i = order[n]
            if i.opcode is HloOpcode.PARAMETER:
                continue
            for o in dict.fromkeys((*i.operands, *c.parameters)):
                if o is not i and o.shape.without_layout() == i.shape.without_layout():
                    yield _forward(c.name, i.name, o.name)
            if not c.is_entry and isinstance(i.shape, ArrayShape) and i.opcode is not HloOpcode.CONSTANT:
                yield _zero(c.name, i.name)


def _forward(where: str, old: str, new: str) -> Step:
    def step(copy: HloModule) -> None:
        c = _computation(copy, where)
        i = _find(c, old)
        c.drop_control_dependencies(i)
        c.replace_uses(i, _find(c, new))
        _drop(copy, c)

    return step


def _zero(where: str, name: str) -> Step:
    def step(copy: HloModule) -> None:
        c = _computation(copy, where)
        i = _find(c, name)
        shape = i.array_shape
        array = np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions)
        c.drop_control_dependencies(i)
        zeros = c.constant(Literal(ArrayShape(shape.element_type, shape.dimensions, shape.layout), array))
        c.replace_uses(i, zeros)
        _drop(copy, c)

    return step


def merged(module: HloModule) -> Iterator[Step]:
    """Merge two parameters of equal shape."""
    parameters = module.entry_computation.parameters
    for n in range(len(parameters) - 1, 0, -1):
        for m in range(n):
            if parameters[m].shape.without_layout() == parameters[n].shape.without_layout():
                yield _forward(module.entry_computation.name, parameters[n].name, parameters[m].name)
                break


def _drop(copy: HloModule, c: HloComputation) -> None:
    """Remove dead instructions of a computation; keep its parameters if it is called."""
    if c.is_entry:
        sweep(copy)
        return
    for i in reversed(c.post_order()):
        if i.is_dead and i.opcode is not HloOpcode.PARAMETER:
            c.drop_control_dependencies(i)
            c.remove(i)
    copy.remove_unused_computations()


def _find(c: HloComputation, name: str) -> HloInstruction:
    found = c.find(name)
    if found is None:
        raise ShapeError(f"no instruction {name} in {c.name}")
    return found


def _computation(module: HloModule, name: str) -> HloComputation:
    found = next((c for c in module.computations if c.name == name), None)
    if found is None:
        raise ShapeError(f"no computation {name}")
    return found
