"""The hero of a fusion: the one instruction whose result at an index everything else is computed of at that index."""

from __future__ import annotations

from collections.abc import Callable, Collection

from xlanb.codegen.elemental import array_of
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, flatten
from xlanb.gpu.emitters.kernel import GpuKernelFunction
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape

_SAME_PLACE = frozenset({Op.GET_TUPLE_ELEMENT, Op.BITCAST})


def hero_of(root: HloInstruction, is_hero: Callable[[HloInstruction], bool]) -> HloInstruction | None:
    """The hero of a root, reached from it through elementwise instructions and bitcasts and in no other way; None where there is none, or several."""
    found: set[HloInstruction] = set()
    elsewhere: set[HloInstruction] = set()
    stack, seen = [root], set[HloInstruction]()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if is_hero(i):
            found.add(i)
        elif i.opcode in _SAME_PLACE or i.opcode.is_elementwise:
            stack += i.operands
        else:
            elsewhere.update(i.operands)
    if len(found) != 1:
        return None
    (hero,) = found
    return None if hero in reached(elsewhere) else hero


def reached(start: Collection[HloInstruction]) -> set[HloInstruction]:
    """Instructions that some need, these included."""
    seen: set[HloInstruction] = set()
    stack = list(start)
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack += i.operands
    return seen


def roots_of(root: HloInstruction) -> tuple[HloInstruction, ...]:
    """What a root gives, array by array."""
    return tuple(root.operands) if root.opcode is Op.TUPLE else (root,)


def index_for(k: GpuKernelFunction, shape: ArrayShape, hero: HloInstruction, multi: list[Ix]) -> Index:
    """The index of a result of some shape, of as many elements, where the hero's result is at `multi`."""
    own = array_of(hero, (0,) if hero.shape.is_tuple else ())
    if shape.dimensions == own.dimensions:
        return Index(shape, multi)
    return Index(shape, flat=flatten(k.f, multi, own))
