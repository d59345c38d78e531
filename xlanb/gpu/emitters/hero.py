"""The hero of a fusion: the instruction that all results depend on, at the same index only."""

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
    """Return the hero of a root, or None if there is none or several.

    It must be reachable only through elementwise instructions and bitcasts.
    """
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
    """Return the instructions that these depend on, and these."""
    seen: set[HloInstruction] = set()
    stack = list(start)
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack += i.operands
    return seen


def roots_of(root: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return the root's results, array by array."""
    return tuple(root.operands) if root.opcode is Op.TUPLE else (root,)


def index_for(k: GpuKernelFunction, shape: ArrayShape, hero: HloInstruction, multi: list[Ix]) -> Index:
    """Return the index in a shape with equally many elements for the hero's result at `multi`."""
    own = array_of(hero, (0,) if hero.shape.is_tuple else ())
    if shape.dimensions == own.dimensions:
        return Index(shape, multi)
    return Index(shape, flat=flatten(k.f, multi, own))
