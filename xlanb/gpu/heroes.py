"""The hero of a fusion's root: it decides which emitter writes the kernel (ir_emission_utils.cc).

ROOT n = negate(t), t = transpose(p)    the hero of n is t: the kernel goes through shared memory
ROOT a = add(p, r), r = reduce(q)       the hero of a is a: a loop over elements reads the reduce
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Final

from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.bitcasts import is_bitcast
from xlanb.transforms.layout.layout_normalization import is_bitcast_transpose

_MIN_TRANSPOSED: Final = 16
_MIN_TRANSPOSED_2: Final = 8
_MIN_TRANSPOSED_PRODUCT: Final = 64 * 128
_MAX_MINOR_BYTES: Final = 8
_MAX_OPERANDS: Final = 3


def roots_of(fusion: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return a fusion's results: its root, or the elements of its root tuple."""
    root = fusion.fused_computation.root
    return root.operands if root.opcode is O.TUPLE else (root,)


def is_intermediate(i: HloInstruction, operand_limit: int = _MAX_OPERANDS) -> bool:
    """Whether it maps elements one to one: elementwise with few operands, or a bitcast.

    A copy to another layout moves bytes, so it is not.
    """
    if not 0 < len(i.operands) <= operand_limit:
        return False
    if i.opcode is O.COPY:
        return i.shape == i.operands[0].shape
    if is_elementwise(i):
        return True
    if i.opcode is O.BITCAST:
        return True
    if i.opcode is O.RESHAPE:
        return is_bitcast(i.operands[0].array_shape, i.array_shape)
    return i.opcode is O.TRANSPOSE and is_bitcast_transpose(i)


def is_tiled_transpose(i: HloInstruction) -> bool:
    """Whether a transpose is worth tiling in shared memory: the exchanged dimensions are long."""
    if i.opcode is not O.TRANSPOSE:
        return False
    read, permutation = grouped_transpose(i)
    if len(permutation) < 2:
        return False
    sizes = [read[d] for d in permutation]
    if permutation[-1] == len(sizes) - 1:
        minor_bytes = i.array_shape.element_type.byte_size * sizes[-1]
        return minor_bytes <= _MAX_MINOR_BYTES and minor_bytes * min(read[-2], sizes[-2]) >= _MIN_TRANSPOSED
    shorter, product = min(read[-1], sizes[-1]), read[-1] * sizes[-1]
    return shorter >= _MIN_TRANSPOSED or (shorter >= _MIN_TRANSPOSED_2 and product >= _MIN_TRANSPOSED_PRODUCT)


def grouped_transpose(i: HloInstruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the operand's sizes, major to minor, and the permutation of a simplified transpose.

    Drops dimensions of size 1 and merges dimensions that are adjacent before and after.

        f32[16,6,5,5] transpose(f32[5,5,6,16]), dimensions={3,2,0,1}    =>    (25, 6, 16), (2, 1, 0)
    """
    sizes = i.operands[0].array_shape.dimensions
    before = [d for d in reversed(i.operands[0].array_shape.minor_to_major) if sizes[d] != 1]
    after = [d for n in reversed(i.array_shape.minor_to_major) if sizes[d := i.dimensions[n]] != 1]
    follows = dict(pairwise(before))
    groups: list[list[int]] = []
    for d in after:
        if groups and follows.get(groups[-1][-1]) == d:
            groups[-1].append(d)
        else:
            groups.append([d])
    order = sorted(range(len(groups)), key=lambda n: before.index(groups[n][0]))
    place = {n: at for at, n in enumerate(order)}
    return tuple(prod(sizes[d] for d in groups[n]) for n in order), tuple(place[n] for n in range(len(groups)))


def find_hero(root: HloInstruction) -> HloInstruction:
    """Return the hero of a root in its fused computation, the root itself if no other applies."""
    hero = root
    while is_intermediate(hero, 1) and hero.operands[0].opcode is not O.PARAMETER:
        hero = hero.operands[0]
    for is_special in (is_tiled_transpose, _is_concatenate):
        found = _find_above(hero, is_special)
        if found is not None:
            return found
    return hero if hero.opcode is O.REDUCE else root


def _is_concatenate(i: HloInstruction) -> bool:
    return i.opcode is O.CONCATENATE


def _find_above(root: HloInstruction, is_special: Callable[[HloInstruction], bool]) -> HloInstruction | None:
    """Return the only special instruction above `root` through intermediate ones.

    Returns None if there are several, or if others use it.
    """
    hero: HloInstruction | None = None
    seen, queue = {root}, deque([root])
    while queue:
        i = queue.popleft()
        if is_special(i):
            if hero is not None:
                return None
            hero = i
        elif is_intermediate(i):
            new = [o for o in dict.fromkeys(i.operands) if o not in seen and o.opcode is not O.PARAMETER]
            seen.update(new)
            queue.extend(new)
    return hero if hero is not None and _only_intermediates_below(hero) else None


def _only_intermediates_below(hero: HloInstruction) -> bool:
    """Whether all that depends on the hero maps its elements one to one."""
    seen, stack = set(hero.users), list(hero.users)
    while stack:
        i = stack.pop()
        if i.opcode is not O.TUPLE and not is_intermediate(i):
            return False
        new = [u for u in i.users if u not in seen]
        seen.update(new)
        stack.extend(new)
    return True
