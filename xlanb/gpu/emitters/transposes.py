"""Transposes by tiles in shared memory.

A block reads 32 rows of 32 consecutive elements, and writes 32 columns as rows of consecutive
elements. The hero is a transpose, or a copy to another layout, whose minormost dimension differs
from its operand's. Dimensions that stay adjacent count as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import load, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.lanes import split
from xlanb.gpu.emitters.hero import hero_of, index_for, roots_of
from xlanb.gpu.emitters.kernel import GpuKernelFunction, Lowering
from xlanb.gpu.emitters.loops import store_elements
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass

_SIDE = 32
_ROWS = 8
"""Rows of a tile processed by the threads of a block at once."""
_LEAST = 8
"""The least size of the minormost dimensions of operand and result for which tiling pays off."""
_LEAST_ELEMENTS = 1 << 10


@dataclass(frozen=True)
class Turn:
    """A transpose in memory, in operand dimensions.

    `groups` are dimensions that stay adjacent, from slow to fast in the operand; `order` is the
    order of the groups in the result.
    """

    groups: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def source_fastest(self) -> int:
        """The group that is consecutive in the operand."""
        return len(self.groups) - 1

    @property
    def result_fastest(self) -> int:
        """The group that is consecutive in the result."""
        return self.order[-1]


def turn_of(i: HloInstruction) -> Turn | None:
    """Return how a transpose or copy permutes memory.

    Returns None for other instructions, or if elements stay in order.
    """
    if i.opcode not in (Op.TRANSPOSE, Op.COPY) or i.shape.is_tuple:
        return None
    source, result = array_of(i.operands[0]), array_of(i)
    permutation = i.dimensions if i.opcode is Op.TRANSPOSE else tuple(range(source.rank))
    before = [d for d in reversed(source.minor_to_major) if source.dimensions[d] != 1]
    after = [permutation[d] for d in reversed(result.minor_to_major) if source.dimensions[permutation[d]] != 1]
    if before == after:
        return None
    follows = dict(pairwise(after))
    groups: list[list[int]] = []
    for d in before:
        if groups and follows.get(groups[-1][-1]) == d:
            groups[-1].append(d)
        else:
            groups.append([d])
    first = {g[0]: n for n, g in enumerate(groups)}
    order = tuple(first[d] for d in after if d in first)
    sizes = tuple(math.prod(source.dimensions[d] for d in g) for g in groups)
    return Turn(tuple(map(tuple, groups)), order, sizes)


def _is_hero(i: HloInstruction) -> bool:
    t = turn_of(i)
    if t is None or t.source_fastest == t.result_fastest:
        return False
    small = min(t.sizes[t.source_fastest], t.sizes[t.result_fastest])
    return small >= _LEAST and array_of(i).element_count >= _LEAST_ELEMENTS


def _hero(root: HloInstruction) -> HloInstruction | None:
    found = {hero_of(r, _is_hero) for r in roots_of(root)}
    return found.pop() if len(found) == 1 else None


def fits(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether an instruction is a transpose worth tiling, or a fusion of one."""
    return _is_hero(root) if i is root else _hero(root) is not None


def emit_transpose(lowering: Lowering) -> None:
    """Write and launch the kernel of a transpose, or of a fusion around one."""
    hero = _hero(lowering.root)
    turn = turn_of(hero) if hero is not None else None
    if hero is None or turn is None:
        raise AssertionError("the fusion has no transpose")
    rest = [n for n in range(len(turn.groups)) if n not in (turn.source_fastest, turn.result_fastest)]
    tall, wide = turn.sizes[turn.result_fastest], turn.sizes[turn.source_fastest]
    down, across = -(-tall // _SIDE), -(-wide // _SIDE)
    others = [turn.sizes[n] for n in rest]
    with lowering.kernel(math.prod(others) * down * across, _SIDE * _ROWS) as k:
        f = k.f
        tile, number = f.rem(k.block, down * across), f.div(k.block, down * across)
        top, left = f.mul(f.div(tile, across), _SIDE), f.mul(f.rem(tile, across), _SIDE)
        at = dict(zip(rest, split(f, number, others) if others else [], strict=True))
        t = array_of(hero).element_type
        memory = k.shared_array(t, _SIDE * (_SIDE + 1))
        for n in range(0, _SIDE, _ROWS):
            y, x = f.add(k.warp, n), k.lane
            row, column = f.add(top, y), f.add(left, x)
            with k.below(row, tall, down * _SIDE), k.below(column, wide, across * _SIDE):
                where = _source_index(k, hero, turn, {**at, turn.result_fastest: row, turn.source_fastest: column})
                operand = hero.operands[0]
                value = k.e.element(operand, Index(array_of(operand), where))
                store(t, memory, f.add(f.mul(y, _SIDE + 1), x), value)
        k.barrier()
        for n in range(0, _SIDE, _ROWS):
            y, x = k.lane, f.add(k.warp, n)
            row, column = f.add(top, y), f.add(left, x)
            with k.below(row, tall, down * _SIDE), k.below(column, wide, across * _SIDE):
                where = _source_index(k, hero, turn, {**at, turn.result_fastest: row, turn.source_fastest: column})
                value = load(t, memory, f.add(f.mul(y, _SIDE + 1), x))
                k.e.bindings[hero] = {(): lambda _, v=value: v}  # type: ignore[index]
                multi = [where[d] for d in hero.dimensions] if hero.opcode is Op.TRANSPOSE else where
                for leaf in lowering.leaves:
                    shape = array_of(lowering.instruction, leaf)
                    store_elements(k, [leaf], index_for(k, shape, hero, multi))


def _source_index(k: GpuKernelFunction, hero: HloInstruction, turn: Turn, at: dict[int, Ix]) -> list[Ix]:
    """Return the operand index for these positions in the groups."""
    shape = array_of(hero.operands[0])
    multi: list[Ix] = [0] * shape.rank
    for n, group in enumerate(turn.groups):
        sizes: Sequence[int] = [shape.dimensions[d] for d in group]
        for d, v in zip(group, split(k.f, at[n], sizes), strict=True):
            multi[d] = v
    return multi
